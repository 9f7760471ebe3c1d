//! The dashboard in a real browser, driven by `WebDriver`: <https://www.w3.org/TR/webdriver2/>.

use std::{
    env, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{
    Frame, Lab, lab::Sender, packet::SYN, require_command, require_root, service::Service,
};
use serde_json::{Value, json};

const POLICY: &str = "[policy.default]\nlimits = [{ packets = 3, per = \"1m\" }]\n";
const NETWORK: &str = "[metrics]\nlisten = \"127.0.0.1:9798\"\ndashboard = true\n[history]\nwatch = [\"198.51.100.9\", \"policy:default\"]\n";
const NOISY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const PATIENCE: Duration = Duration::from_mins(1);

/// With `RATELIMIT_SCREENSHOTS`, a directory, it keeps what the browser shows.
#[test]
fn a_browser_draws_what_happens_without_an_error() {
    require_root!();
    require_command!("curl");
    require_command!("chromium");
    require_command!("chromedriver");
    let lab = Lab::new().unwrap();
    let challenge = "[challenge.tcp]\nwhen = \"always\"\n";
    let service = Service::started(&lab, &format!("{POLICY}{NETWORK}{challenge}")).unwrap();
    service
        .rlctl_ok(&[
            "ban",
            "203.0.113.0/24",
            "--for",
            "1h",
            "--reason",
            "a wrong password",
        ])
        .unwrap();
    let browser = Browser::start(&service);
    browser.open("http://127.0.0.1:9798/");
    browser.wait_for("document.querySelector('#interfaces').innerText.includes('attached')");
    send(&lab, 40);
    // It updates by itself.
    browser.wait_for("document.querySelector('#top').innerText.includes('198.51.100.9')");
    browser.wait_for("document.querySelector('#reasons').innerText.includes('limited')");
    browser.wait_for("document.querySelectorAll('#packets polyline').length === 3");
    browser.wait_for("document.querySelector('#reasons').innerText.includes('challenged')");
    browser.wait_for("document.querySelector('#challenge').innerText === 'on'");
    for rate in ["challenged", "verified"] {
        browser.wait_for(&format!(
            "/^[0-9.]+.*\\/s$/.test(document.querySelector('#now-{rate}').innerText)"
        ));
    }
    browser.wait_for("/5[89]m/.test(document.querySelector('#bans').innerText)");
    // A source that is chosen, and a filter.
    browser.run("document.querySelector('#top button').click()");
    browser.wait_for("document.querySelector('#verdict').innerText.includes('drop (limited)')");
    browser.wait_for(
        "document.querySelector('#quota').innerText.includes('left of 3 packets per 1m 0')",
    );
    browser.run("const it = document.querySelector('#filter'); it.value = 'Password'; it.dispatchEvent(new Event('input'))");
    browser.wait_for("document.querySelectorAll('#bans tr').length === 1");
    browser.run("const it = document.querySelector('#filter'); it.value = 'crowdsec'; it.dispatchEvent(new Event('input'))");
    browser.wait_for("document.querySelectorAll('#bans tr').length === 0");
    // What came is remembered, and drawn for the range and in the way that is chosen.
    browser.run("const it = document.querySelector('#range'); it.value = '3600'; it.dispatchEvent(new Event('change'))");
    browser.wait_for("document.querySelector('#history').innerText.includes('drop 3')");
    browser.wait_for("document.querySelectorAll('#history polyline').length >= 3");
    browser.run("const it = document.querySelector('#what'); it.value = 'reasons'; it.dispatchEvent(new Event('change'))");
    browser.wait_for("document.querySelector('#history').innerText.includes('limited 3')");
    browser.run("const it = document.querySelector('#what'); it.value = 'policies'; it.dispatchEvent(new Event('change'))");
    browser.wait_for("document.querySelector('#history').innerText.includes('default 4')");
    browser.run("const it = document.querySelector('#what'); it.value = 'levels'; it.dispatchEvent(new Event('change'))");
    browser.wait_for(
        "document.querySelector('#history').innerText.includes('198.51.100.9, left of 3 packets per 1m: at least 0')",
    );
    // All that is watched is drawn, or what is chosen of it.
    let drawn = |watched: &str| {
        format!("document.querySelector('#history').innerText.includes('{watched}, left of')")
    };
    browser.wait_for(&drawn("policy:default"));
    browser.run("const it = document.querySelector('#whose'); it.value = 'policy:default'; it.dispatchEvent(new Event('change'))");
    browser.wait_for(&format!("!{}", drawn("198.51.100.9")));
    browser.wait_for(&drawn("policy:default"));
    browser.run("const it = document.querySelector('#what'); it.value = 'policies'; it.dispatchEvent(new Event('change'))");
    browser.run("const it = document.querySelector('#range'); it.value = '2592000'; it.dispatchEvent(new Event('change'))");
    browser.wait_for("document.querySelector('#history').innerText.includes('a point each 1h')");
    // Each table has a bar, those whose oldest entries give way too.
    for map in ["SOURCES_V4", "STRIKES_V6", "LOGS", "DEMANDS", "LISTS_V4"] {
        let bar = format!(
            "[...document.querySelectorAll('#maps meter')].some(it => it.ariaLabel === '{map}')"
        );
        browser.wait_for(&bar);
    }
    // The ban is seen, and its end.
    service.rlctl_ok(&["ban", "192.0.2.77"]).unwrap();
    browser.wait_for(
        "document.querySelector('#events').innerText.includes('ban-added prefix 192.0.2.77')",
    );
    // Nothing is wider than a phone.
    browser.ask("window/rect", &json!({ "width": 390, "height": 800 }));
    browser.wait_for("document.documentElement.scrollWidth <= window.innerWidth");
    if let Some(directory) = env::var_os("RATELIMIT_SCREENSHOTS") {
        browser.keep_pictures(Path::new(&directory));
    }
    assert_eq!(
        browser.ask("se/log", &json!({ "type": "browser" })),
        json!([])
    );
}

#[test]
fn the_network_sees_it_only_where_the_configuration_says_so() {
    require_root!();
    require_command!("curl");
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, POLICY).unwrap();
    let status = |words: &[&str]| {
        let mut curl = service.inside(Path::new("curl"));
        curl.args([
            "--silent",
            "--max-time",
            "10",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
        ]);
        String::from_utf8(curl.args(words).output().unwrap().stdout).unwrap()
    };
    let pages = ["/", "/dashboard.js", "/v1/live"].map(|it| format!("http://127.0.0.1:9798{it}"));
    for page in &pages {
        assert_eq!(status(&[page]), "404", "{page}");
    }
    // Who may command the daemon sees it.
    let socket = service.path("run/control.sock").display().to_string();
    let over_socket = |words: &[&str]| status(&[&["--unix-socket", &socket], words].concat());
    let page = "http://localhost:9800/";
    assert_eq!(over_socket(&[page]), "200");
    // A page of somebody else, open in the same browser, commands nothing.
    let detach = ["--request", "POST", "http://localhost:9800/v1/detach"];
    let foreign = ["--header", "origin: http://evil.example"];
    assert_eq!(over_socket(&[&foreign[..], &detach[..]].concat()), "403");
    let led_here = "http://evil.example:9800/v1/bans";
    assert_eq!(over_socket(&[led_here]), "403");
    service.configure(&format!("{POLICY}{NETWORK}")).unwrap();
    let said = service.rlctl_ok(&["reload"]).unwrap();
    assert!(said.contains("dashboard: off -> on"), "{said}");
    assert_eq!(status(&[&pages[0]]), "200");
    // It reads, and does nothing else; and no page of somebody else gets at it by a name of its own.
    assert_eq!(status(&["--request", "POST", &pages[0]]), "405");
    assert_eq!(status(&["http://127.0.0.1:9798/v1/bans"]), "404");
    assert_eq!(
        status(&["--header", "host: evil.example", &pages[0]]),
        "403"
    );
}

fn send(lab: &Lab, packets: usize) {
    let sender = Sender::new(&lab.far).unwrap();
    let frame = Frame::ethernet().ipv4(NOISY).udp(53).pad_to(60).build();
    for _ in 0..packets {
        sender.send(&frame).unwrap();
    }
    let question = Frame::ethernet().ipv4(NOISY).tcp(80, SYN).pad_to(60);
    sender.send(&question.build()).unwrap();
}

/// A browser in the namespace of a service, and the program that drives it.
struct Browser<'s> {
    service: &'s Service,
    driver: Child,
    session: String,
}

impl<'s> Browser<'s> {
    fn start(service: &'s Service) -> Self {
        let driver = service
            .inside(Path::new("chromedriver"))
            .arg("--port=9515")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            service,
            driver,
            session: String::new(),
        };
        // Nothing is trusted to be there but what the page itself brings.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--window-size=1280,1400",
        ];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        } } });
        let deadline = Instant::now() + PATIENCE;
        while browser.session.is_empty() {
            assert!(Instant::now() < deadline, "chromedriver does not answer");
            thread::sleep(Duration::from_millis(200));
            let answer = browser.request("/session", Some(&capabilities));
            if let Some(id) = answer["value"]["sessionId"].as_str() {
                id.clone_into(&mut browser.session);
            }
        }
        browser
    }

    fn open(&self, url: &str) {
        self.ask("url", &json!({ "url": url }));
    }

    fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn wait_for(&self, condition: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.run(&format!("return {condition}")) != json!(true) {
            let text = || self.run("return document.body.innerText");
            assert!(Instant::now() < deadline, "{condition}: {}", text());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Has the session do something, and answers the value.
    fn ask(&self, what: &str, body: &Value) -> Value {
        let answer = self.request(&format!("/session/{}/{what}", self.session), Some(body));
        assert!(answer["value"].get("error").is_none(), "{what}: {answer}");
        answer["value"].clone()
    }

    fn request(&self, path: &str, body: Option<&Value>) -> Value {
        let mut curl = self.service.inside(Path::new("curl"));
        curl.args(["--silent", "--max-time", "60"]);
        if let Some(body) = body {
            curl.args(["--json", &body.to_string()]);
        }
        let output = curl.arg(format!("http://127.0.0.1:9515{path}")).output();
        serde_json::from_slice(&output.unwrap().stdout).unwrap_or_default()
    }

    /// The page in a light and a dark room, and on a phone.
    fn keep_pictures(&self, directory: &Path) {
        for (name, width, height, scheme) in [
            ("light", 1280, 1400, "light"),
            ("dark", 1280, 1400, "dark"),
            ("phone", 390, 1400, "light"),
        ] {
            self.ask("window/rect", &json!({ "width": width, "height": height }));
            let media = json!({ "cmd": "Emulation.setEmulatedMedia", "params": {
                "features": [{ "name": "prefers-color-scheme", "value": scheme }],
            } });
            self.ask("goog/cdp/execute", &media);
            thread::sleep(Duration::from_secs(2));
            let picture = self.request(&format!("/session/{}/screenshot", self.session), None);
            let picture = picture["value"].as_str().unwrap().to_owned();
            let file: PathBuf = directory.join(format!("dashboard-{name}.png"));
            let decoded = Command::new("base64")
                .arg("--decode")
                .stdin(Stdio::piped())
                .stdout(fs::File::create(file).unwrap())
                .spawn();
            let mut decoded = decoded.unwrap();
            std::io::Write::write_all(&mut decoded.stdin.take().unwrap(), picture.as_bytes())
                .unwrap();
            assert!(decoded.wait().unwrap().success());
        }
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // Its browser ends with the session.
        if !self.session.is_empty() {
            let mut curl = self.service.inside(Path::new("curl"));
            let url = format!("http://127.0.0.1:9515/session/{}", self.session);
            let _ = curl
                .args(["--silent", "--request", "DELETE", &url])
                .output();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
