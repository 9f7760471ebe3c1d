//! The dashboard in a real browser, driven by `WebDriver`: <https://www.w3.org/TR/webdriver2/>.

use std::{
    env,
    fs::{self, Permissions},
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use ratelimit_tests::{
    Frame, Lab, cluster, lab::Sender, packet::SYN, packet::datagram, redis::Redis, require_command,
    require_package, require_root, service::Service, wait_for, wait_until, waiting,
};
use serde_json::{Value, json};

const POLICY: &str = "[policy.default]\nlimits = [{ packets = 3, per = \"1h\" }]\n";
const NETWORK: &str = "[metrics]\n\
                       listen = \"127.0.0.1:9798\"\n\
                       dashboard = true\n\
                       [history]\n\
                       watch = [\"198.51.100.9\", \"policy:default\"]\n";
const NOISY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The keys of `WebDriver` are characters of their own.
const ENTER: &str = "\u{e007}";
/// The contrast ratio of text and background: <https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio>.
const CONTRAST: &str = "
const light = (colour) => {
  const [r, g, b] = colour.match(/[0-9.]+/g).map((it) => it / 255).map((it) => it <= 0.04045 ? it \
      / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (what) => {
  const text = light(getComputedStyle(document.querySelector(what)).color);
  const ground = light(getComputedStyle(document.querySelector('section')).backgroundColor);
  return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
};";

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
    browser.wait_for("document.querySelector('#reason-bytes').innerText.includes('limited')");
    browser.wait_for("document.querySelectorAll('#packets polyline').length === 3");
    // Charts show their period.
    for seconds in [60, 300, 900] {
        browser.choose("live-range", &seconds.to_string());
        browser.wait_for(&format!("{} === {seconds}", shown_seconds("#packets")));
    }
    // There is no token here.
    browser.wait_for("document.querySelector('#act').hidden");
    browser.wait_for("document.querySelectorAll('#bans button').length === 0");
    browser.wait_for("document.querySelector('#reasons').innerText.includes('challenged')");
    browser.wait_for("document.querySelector('#challenge').innerText === 'on'");
    for rate in ["challenged", "verified"] {
        browser.wait_for(&format!(
            "/^[0-9.]+.*\\/s$/.test(document.querySelector('#now-{rate}').innerText)"
        ));
    }
    browser.wait_for("/5[0-9]m/.test(document.querySelector('#bans').innerText)");
    // A source that is chosen, and a filter.
    browser.run("document.querySelector('#top button').click()");
    browser.wait_for("document.querySelector('#verdict').innerText.includes('drop (limited)')");
    browser.wait_for(
        "document.querySelector('#quota').innerText.includes('3 packets per 1h: 0 of 3 left')",
    );
    browser.choose("quota-range", "60");
    browser.wait_for(&format!("{} === 60", shown_seconds("#quota")));
    point_at(&browser);
    find_bans(&browser);
    look_back(&browser);
    // Each table has a bar, those whose oldest entries give way too.
    for map in ["SOURCES_V4", "STRIKES_V6", "LOGS", "DEMANDS", "LISTS_V4"] {
        let bar = format!(
            "[...document.querySelectorAll('#maps meter')].some(it => it.ariaLabel === '{map}')"
        );
        browser.wait_for(&bar);
    }
    // The ban is seen, and its end.
    service.rlctl_ok(&["ban", "192.0.2.77"]).unwrap();
    browser
        .wait_for("document.querySelector('#events').innerText.includes('banned 192.0.2.77 by ')");
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

/// Axes have labels and a unit, and the pointer shows the values at its time.
fn point_at(browser: &Browser<'_>) {
    browser.wait_for("document.querySelector('#packets .scale').innerText === 'packets/s'");
    browser.wait_for(
        "/^[1-9].*\\n.+\\n0$/.test(document.querySelector('#packets .labels').innerText)",
    );
    let point = |name: &str| {
        format!(
            "const area = document.querySelector('#packets .area').getBoundingClientRect(); \
             document.querySelector('#packets .area').dispatchEvent(new PointerEvent('{name}', \
             {{ bubbles: true, clientX: area.right - 1, clientY: area.top + 5 }}))"
        )
    };
    browser.run(&point("pointermove"));
    let values = "document.querySelector('#packets .values')?.innerText ?? ''";
    browser.wait_for(&format!(
        "/^[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}, packets\\/s\\npassed: [0-9]/.test({values})"
    ));
    // It stays while the chart moves on.
    thread::sleep(Duration::from_secs(2));
    browser.wait_for(&format!("({values}) !== ''"));
    let away = "document.querySelector('#packets').dispatchEvent(new PointerEvent('pointerleave'))";
    browser.run(away);
    browser.wait_for(&format!("({values}) === ''"));
}

fn find_bans(browser: &Browser<'_>) {
    // Among more bans than are sent, and by an address that one covers.
    let bans = |third: u8| (1..=250).map(move |last| format!("192.0.{third}.{last}"));
    let many: Vec<String> = bans(4).chain(bans(5)).chain(bans(6)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    browser
        .service
        .rlctl_ok(&[&["ban"], &many[..]].concat())
        .unwrap();
    for (text, said) in [
        ("", "751 total, latest 100 shown"),
        ("Password", "1 found"),
        ("203.0.113.77", "1 found"),
        ("crowdsec", "0 found"),
        ("192.0.4", "250 found, latest 100 shown"),
    ] {
        browser.run(&format!(
            "const it = document.querySelector('#filter'); it.value = '{text}'; \
             it.dispatchEvent(new Event('input'))"
        ));
        browser.wait_for(&format!(
            "document.querySelector('#bans-note').innerText === '{said}'"
        ));
    }
    browser.wait_for("document.querySelectorAll('#bans tr').length === 100");
}

fn look_back(browser: &Browser<'_>) {
    // Past traffic is kept, and drawn for the selected range and mode.
    for (range, step) in [(60, "1s"), (300, "1s"), (900, "2s"), (3600, "5s")] {
        browser.choose("range", &range.to_string());
        browser.wait_for(&format!(
            "document.querySelector('#history-note').innerText.includes('resolution {step},')"
        ));
    }
    browser.wait_for("document.querySelector('#history').innerText.includes('dropped: 3')");
    browser.wait_for("document.querySelectorAll('#history polyline').length >= 3");
    browser.choose("what", "reason-bytes");
    browser
        .wait_for("document.querySelector('#history').innerText.includes('limited: 2220 bytes')");
    browser.choose("what", "reasons");
    browser.wait_for("document.querySelector('#history').innerText.includes('limited: 3')");
    browser.choose("what", "policies");
    browser.wait_for("document.querySelector('#history').innerText.includes('default: 4')");
    browser.choose("what", "levels");
    browser.wait_for(
        "document.querySelector('#history').innerText.includes('198.51.100.9, 3 packets per 1h: 0 \
         of 3 left, minimum 0')",
    );
    // All that is watched is drawn, or what is chosen of it.
    let drawn = |watched: &str| {
        format!("document.querySelector('#history').innerText.includes('{watched}, 3 packets')")
    };
    browser.wait_for(&drawn("policy:default"));
    browser.choose("whose", "policy:default");
    browser.wait_for(&format!("!{}", drawn("198.51.100.9")));
    browser.wait_for(&drawn("policy:default"));
    browser.choose("what", "policies");
    browser.choose("range", "2592000");
    browser
        .wait_for("document.querySelector('#history-note').innerText.includes('resolution 1h,')");
}

/// The user has no mouse, prefers a dark page, and has a cluster under attack.
#[test]
fn a_keyboard_bans_with_a_token_and_the_page_shows_cluster_and_attack() {
    require_root!();
    require_command!("curl");
    require_command!("chromium");
    require_command!("chromedriver");
    require_package!("redis-server");
    let lab = Lab::new().unwrap();
    let redis = Redis::started().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let token = token_file(directory.path());
    let toml = format!(
        "[policy.default]\nlimits = [{{ packets = 9, per = \"1m\", match = \"udp\" }}]\n\
         [detection.syn_flood]\nanswer = \"observe\"\n\
         [metrics]\ndashboard = true\ntoken_file = \"{}\"\n",
        token.display()
    );
    let service = Service::started(&lab, &cluster::configuration(&redis, "edge-1", 1, &toml));
    let service = service.unwrap();
    let browser = Browser::start(&service);
    browser.open("http://127.0.0.1:9798/");
    browser.wait_for("!document.querySelector('#cluster').hidden");
    browser.wait_for(
        "/^edge-1 at .*: connected$/.test(document.querySelector('#cluster-note').innerText)",
    );
    browser.wait_for("document.querySelector('#nodes').innerText.includes('edge-1')");
    browser.wait_for("!document.querySelector('#act').hidden");

    // A prefix is not an address: the page says so, and the stream continues.
    for wrong in ["foo", "203.0.113.0/24", "2001:db8::1::2", "203.0.113.256"] {
        browser.run("document.querySelector('#address').value = ''");
        browser.tab_to("document.activeElement.id === 'address'");
        browser.press(wrong);
        browser.press(ENTER);
        browser.wait_for(&format!(
            "document.querySelector('#verdict').innerText.startsWith('“{wrong}” is not an address')"
        ));
        browser.wait_for("document.querySelector('#link').innerText === 'live'");
    }
    browser.run("document.querySelector('#address').value = ''");
    browser.tab_to("document.activeElement.id === 'address'");
    browser.press(&NOISY.to_string());
    browser.press(ENTER);
    browser.wait_for(
        "document.querySelector('#verdict').innerText.startsWith('198.51.100.9: pass (')",
    );
    browser.tab_to("document.activeElement.id === 'token'");
    browser.press("another-token-than-the-right-one");
    browser.tab_to("document.activeElement.id === 'ban'");
    browser.press(ENTER);
    browser.answer("Ban 198.51.100.9 for 10m?");
    browser.wait_for("document.querySelector('#done').innerText.startsWith('the token is wrong')");
    browser.run("document.querySelector('#token').value = ''");
    browser.tab_to("document.activeElement.id === 'token'");
    browser.press(TOKEN);
    browser.press(ENTER);
    browser.answer("Ban 198.51.100.9 for 10m?");
    browser.wait_for("document.querySelector('#done').innerText === 'banned 198.51.100.9'");
    browser.wait_for("document.querySelector('#verdict').innerText.includes('drop (banned')");
    let bans = service.rlctl_ok(&["list", "bans"]).unwrap();
    assert!(bans.contains("dashboard"), "{bans}");
    browser.wait_for("document.querySelectorAll('#bans button').length === 1");
    browser.tab_to("document.activeElement.innerText === 'unban'");
    browser.press(ENTER);
    browser.answer("Remove the bans of 198.51.100.9?");
    browser.wait_for("document.querySelector('#done').innerText === 'unbanned 198.51.100.9'");
    browser.wait_for("document.querySelectorAll('#bans tr').length === 0");

    let sender = Sender::new(&lab.far).unwrap();
    for packet in 0..50_000_u32 {
        let source = Ipv4Addr::from(0x6000_0000 | ((packet * 65_537) & 0x0fff_ffff));
        let frame = Frame::ethernet().ipv4(source).tcp(443, SYN).pad_to(60);
        sender.send(&frame.build()).unwrap();
    }
    browser
        .wait_for("/syn-flood to [0-9.]+, /.test(document.querySelector('#timeline').innerText)");
    browser.wait_for("document.querySelectorAll('#timeline rect').length >= 1");

    for (scheme, ground) in [("dark", "rgb(13, 17, 23)"), ("light", "rgb(255, 255, 255)")] {
        browser.prefer(scheme);
        browser.wait_for(&format!(
            "getComputedStyle(document.body).backgroundColor === '{ground}'"
        ));
        // Text has the contrast that WCAG 2.2 requires (1.4.3).
        for text in ["h2", "th", ".scale", "#now-pass", "#chosen-title", ".s0"] {
            let contrast = browser.run(&format!("{CONTRAST} return contrast('{text}')"));
            assert!(
                contrast.as_f64().unwrap() >= 4.5,
                "{scheme} {text}: {contrast}"
            );
        }
    }
    // The browser reports only the refusal as an error.
    let log = browser.ask("se/log", &json!({ "type": "browser" }));
    let errors: Vec<&str> = log
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["message"].as_str())
        .collect();
    assert!(
        matches!(errors[..], [one] if one.contains("401")),
        "{errors:?}"
    );
}

#[test]
fn a_token_lets_one_ban_and_unban_and_nothing_else() {
    require_root!();
    require_command!("curl");
    let lab = Lab::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = token_file(directory.path());
    let without = "[metrics]\ndashboard = true\n";
    let with = format!("{without}token_file = \"{}\"\n", file.display());
    let service = Service::started(&lab, &format!("{POLICY}{without}")).unwrap();
    let ask = |method: &str, path: &str, headers: &[&str], body: Option<&str>| {
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
        curl.args(["--request", method, &format!("http://127.0.0.1:9798{path}")]);
        curl.args(headers.iter().flat_map(|it| ["--header", it]));
        curl.args(body.iter().flat_map(|it| ["--json", it]));
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    let right = format!("authorization: Bearer {TOKEN}");
    let ban = r#"{"prefixes":["203.0.113.7"],"seconds":60,"reason":null}"#;
    let post = |headers: &[&str]| ask("POST", "/v1/bans", headers, Some(ban));
    assert_eq!(post(&[&right]), "404", "no token is configured");
    let said = service.reload(&format!("{POLICY}{with}")).unwrap();
    assert!(said.contains("dashboard's token: none -> "), "{said}");

    assert_eq!(post(&[]), "401");
    for wrong in [
        "authorization: Bearer",
        "authorization: Bearer 0123456789abcdef0123456789abcdeF",
        "authorization: Bearer 0123456789abcdef0123456789abcde",
        "authorization: Basic 0123456789abcdef0123456789abcdef",
    ] {
        assert_eq!(post(&[wrong]), "401", "{wrong}");
    }
    // A page of another origin, whatever it knows.
    assert_eq!(post(&[&right, "origin: http://evil.example"]), "403");
    assert_eq!(post(&[&right, "host: evil.example"]), "403");
    let bans = || service.rlctl_ok(&["list", "bans"]).unwrap();
    assert!(!bans().contains("203.0.113.7"));
    assert_eq!(post(&[&right]), "200");
    assert!(bans().contains("203.0.113.7"));
    // Protected addresses are as safe as with rlctl.
    let own = r#"{"prefixes":["127.0.0.1"],"seconds":null,"reason":null}"#;
    assert_eq!(ask("POST", "/v1/bans", &[&right], Some(own)), "409");
    let lift = r#"{"prefixes":["203.0.113.7"]}"#;
    assert_eq!(ask("DELETE", "/v1/bans", &[], Some(lift)), "401");
    assert_eq!(ask("DELETE", "/v1/bans", &[&right], Some(lift)), "200");
    assert!(!bans().contains("203.0.113.7"));
    assert_eq!(ask("GET", "/v1/bans", &[&right], None), "405");
    for command in [
        "detach",
        "reload",
        "pass-all",
        "allows",
        "limits",
        "apply",
        "import",
        "bans/matching",
    ] {
        let path = format!("/v1/{command}");
        assert_eq!(
            ask("POST", &path, &[&right], Some("{}")),
            "404",
            "{command}"
        );
    }
    // Another token needs no reload, and without one nothing is permitted.
    fs::write(&file, "fedcba9876543210fedcba9876543210\n").unwrap();
    assert_eq!(post(&[&right]), "401");
    assert_eq!(
        post(&["authorization: Bearer fedcba9876543210fedcba9876543210"]),
        "200"
    );
    fs::write(&file, "short\n").unwrap();
    assert_eq!(post(&["authorization: Bearer short"]), "503");
    fs::remove_file(&file).unwrap();
    assert_eq!(post(&[&right]), "503");
    let log = service.log();
    assert!(log.contains("cannot read the token"), "{log}");
    for secret in [TOKEN, "fedcba9876543210"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn the_page_is_small_and_brings_all_that_it_needs() {
    require_root!();
    require_command!("curl");
    let (_lab, service) = Service::in_lab(&format!("{POLICY}{NETWORK}")).unwrap();
    let get = |path: &str| {
        let mut curl = service.inside(Path::new("curl"));
        let url = format!("http://127.0.0.1:9798{path}");
        curl.args(["--silent", "--max-time", "10", "--dump-header", "-", &url]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    let page = get("/");
    let named = page
        .split(['"'])
        .filter(|it| it.starts_with("dashboard.") || it.starts_with("history."));
    let named: Vec<String> = named.map(|it| format!("/{it}")).collect();
    assert_eq!(named.len(), 4, "{named:?}");
    let files: Vec<String> = named.iter().map(|it| get(it)).chain([page]).collect();
    for file in &files {
        let (head, body) = file.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let policy = "content-security-policy: default-src 'self';";
        assert!(head.contains(policy), "{head}");
        let others = body.replace("http://www.w3.org/2000/svg", "");
        assert!(!others.contains("//www") && !others.contains("https:"));
    }
    let bytes: usize = files.iter().map(String::len).sum();
    println!("{bytes} bytes");
    assert!(bytes < 150_000, "{bytes}");
}

/// Creates a token file that the daemon's unprivileged user can read.
fn token_file(directory: &Path) -> PathBuf {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    let file = directory.join("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    file
}

/// The seconds of the time that a chart shows.
fn shown_seconds(chart: &str) -> String {
    let times = format!(
        "[...document.querySelectorAll('{chart} time')].map(it => Date.parse(it.dateTime))"
    );
    format!("(times => (times[2] - times[0]) / 1000)({times})")
}

#[test]
fn the_network_sees_it_only_where_the_configuration_says_so() {
    require_root!();
    require_command!("curl");
    let (_lab, service) = Service::in_lab(POLICY).unwrap();
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
    // A user who can command the daemon sees it.
    let socket = service.path("run/control.sock").display().to_string();
    let over_socket = |words: &[&str]| status(&[&["--unix-socket", &socket], words].concat());
    let page = "http://localhost:9800/";
    assert_eq!(over_socket(&[page]), "200");
    // A page of another origin in the same browser cannot run commands.
    let detach = ["--request", "POST", "http://localhost:9800/v1/detach"];
    let foreign = ["--header", "origin: http://evil.example"];
    assert_eq!(over_socket(&[&foreign[..], &detach[..]].concat()), "403");
    let led_here = "http://evil.example:9800/v1/bans";
    assert_eq!(over_socket(&[led_here]), "403");
    let said = service.reload(&format!("{POLICY}{NETWORK}")).unwrap();
    assert!(said.contains("dashboard: off -> on"), "{said}");
    assert_eq!(status(&[&pages[0]]), "200");
    // It is read-only, and a page of another origin cannot reach it by DNS rebinding.
    assert_eq!(status(&["--request", "POST", &pages[0]]), "405");
    assert_eq!(status(&["http://127.0.0.1:9798/v1/bans"]), "404");
    assert_eq!(
        status(&["--header", "host: evil.example", &pages[0]]),
        "403"
    );
}

fn send(lab: &Lab, packets: u64) {
    let frame = datagram(NOISY);
    lab.send(&frame, packets).unwrap();
    let question = Frame::ethernet().ipv4(NOISY).tcp(80, SYN).pad_to(60);
    lab.send(&question.build(), 1).unwrap();
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
        browser.session = wait_for("chromedriver", || {
            let answer = browser.request("/session", Some(&capabilities));
            Some(answer["value"]["sessionId"].as_str()?.to_owned())
        });
        browser
    }

    fn open(&self, url: &str) {
        self.ask("url", &json!({ "url": url }));
    }

    fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn wait_for(&self, condition: &str) {
        let is_so = || self.run(&format!("return {condition}")) == json!(true);
        let text = || self.run("return document.body.innerText");
        waiting::until(is_so, || format!("{condition}: {}", text()));
    }

    /// Chooses one of the options.
    fn choose(&self, id: &str, value: &str) {
        self.run(&format!(
            "const it = document.querySelector('#{id}'); it.value = '{value}'; \
             it.dispatchEvent(new Event('change'))"
        ));
    }

    /// Types keys, wherever the focus is.
    fn press(&self, keys: &str) {
        let keys = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
        });
        let keys: Vec<Value> = keys.collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": keys });
        self.ask("actions", &json!({ "actions": [keyboard] }));
    }

    /// Presses the tabulator until the focus is where it is wanted, and seen everywhere on the way.
    fn tab_to(&self, place: &str) {
        let outline = "getComputedStyle(document.activeElement).outlineStyle";
        let script = format!(
            "const it = document.activeElement; return {place} ? 'there' : it === document.body || \
             {outline} !== 'none' ? 'seen' : 'hidden'"
        );
        for _ in 0..60 {
            match self.run(&script).as_str() {
                Some("there") => return,
                Some("seen") => self.press("\u{e004}"),
                other => panic!("the focus is not seen: {other:?}"),
            }
        }
        panic!("no key leads to {place}");
    }

    /// Says yes to a question.
    fn answer(&self, question: &str) {
        let text = format!("/session/{}/alert/text", self.session);
        wait_until(question, || {
            self.request(&text, None)["value"] == json!(question)
        });
        self.ask("alert/accept", &json!({}));
    }

    fn prefer(&self, scheme: &str) {
        let media = json!({ "cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{ "name": "prefers-color-scheme", "value": scheme }],
        } });
        self.ask("goog/cdp/execute", &media);
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
            self.prefer(scheme);
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
        // The browser ends with the session.
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
