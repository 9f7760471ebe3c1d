//! The description of the API beside what the daemon answers.

use std::{
    env, io,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Command,
    thread,
};

use ratelimit_core::api::openapi;
use ratelimit_tests::{debian, require_command, require_python, require_root, service::Service};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[policy.default]
limits = [
  { packets = 100, per = "1s" },
  { bytes = "1MB", per = "1s", algorithm = "token-bucket", burst = "2MB", match = "udp" },
]
ban = { after = 5000, within = "10s", for = "10m" }
[policy.partner]
sources = ["203.0.113.0/24"]
limits = [{ packets = 7, per = "1m", algorithm = "sliding-window" }]
[detection]
"#;

/// schemathesis leaves the path out from which it has the description.
const DESCRIPTION: &str = "/v1/openapi.json";

/// Answers without an end.
const ENDLESS: [&str; 3] = ["/v1/events", "/v1/capture", "/v1/live"];

/// The default number of generated requests of each kind for `schemathesis`; `RATELIMIT_EXAMPLES`
/// overrides it, a campaign has a hundred.
const EXAMPLES: &str = "3";

/// No answer takes longer.
const PATIENCE: [&str; 2] = ["--max-time", "10"];

/// Includes our errors, and those of the router and its extractors.
#[test]
fn each_error_is_a_problem_with_a_code() {
    require_root!();
    require_command!("curl");
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let api = Api::of(&service);
    let lists = json!({ "prefixes": ["127.0.0.1"], "seconds": null, "reason": null });
    let seven = json!({ "prefixes": 7 });
    let odd = json!({ "prefixes": ["192.0.2.1"], "until": 5 });
    let host_bits = json!({ "prefixes": ["10.0.0.1/24"] });
    for (method, path, body, code, status) in [
        ("post", "/v1/bans", Some(lists), "protected", 409),
        ("post", "/v1/bans", Some(seven), "bad-request", 422),
        ("post", "/v1/bans", Some(odd), "bad-request", 422),
        ("post", "/v1/bans", Some(host_bits), "bad-request", 422),
        ("get", "/v1/bans?until=late", None, "bad-request", 400),
        ("get", "/v1/check/nobody", None, "bad-request", 400),
        ("get", "/v1/check/%ff", None, "bad-request", 400),
        ("post", "/v1/bans", None, "unsupported-media-type", 415),
        ("post", "/v1/confirm", None, "refused", 409),
        ("put", "/v1/bans", None, "method-not-allowed", 405),
        ("get", "/v1/nothing", None, "not-found", 404),
    ] {
        let (answer, ending) = api.send(method, path, body);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let expected = format!("{} application/problem+json", answer["status"]);
        assert_eq!(ending, expected, "{method} {path}: {answer}");
        assert_eq!(answer["status"], status, "{method} {path}: {answer}");
        assert_eq!(answer["code"], code, "{method} {path}: {answer}");
        for key in ["type", "title", "detail"] {
            assert!(answer[key].is_string(), "{method} {path}: {answer}");
        }
    }
}

#[test]
fn schemathesis_finds_no_fault() {
    require_root!();
    require_python!("schemathesis");
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/openapi.json", listener.local_addr().unwrap());
    let socket = service.path("run/control.sock");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (tcp, unix) = (stream.unwrap(), UnixStream::connect(&socket).unwrap());
            thread::spawn(|| join(tcp, unix));
        }
    });
    let examples = env::var("RATELIMIT_EXAMPLES").unwrap_or_else(|_| EXAMPLES.to_owned());
    let mut schemathesis = Command::new(debian::python("schemathesis"));
    schemathesis
        // It keeps what it found beside it.
        .current_dir(service.path(""))
        .args(["run", &url, "--checks", "all", "--request-timeout", "5"])
        // The same requests each time.
        .args(["--generation-deterministic", "--workers", "2"])
        .args(["--max-examples", &examples])
        // The socket identifies the client, and a body that matches a schema may still be refused.
        .args([
            "--exclude-checks",
            "ignored_auth,positive_data_acceptance,negative_data_rejection",
        ])
        .args(ENDLESS.iter().flat_map(|path| ["--exclude-path", path]));
    let output = schemathesis.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // It asked for each operation that ends.
    let tested = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("Tested: "));
    let tested: usize = tested.unwrap_or_default().parse().unwrap_or_default();
    let paths = openapi::document()["paths"].as_object().unwrap().clone();
    let paths = paths
        .into_iter()
        .filter(|(path, _)| path != DESCRIPTION && !ENDLESS.contains(&path.as_str()));
    let operations: usize = paths.map(|(_, it)| it.as_object().unwrap().len()).sum();
    assert_eq!(tested, operations, "{said}");
}

/// Carries bytes both ways.
fn join(tcp: TcpStream, unix: UnixStream) -> io::Result<()> {
    let (mut from, mut to) = (tcp.try_clone()?, unix.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        to.shutdown(Shutdown::Write)
    });
    let (mut from, mut to) = (unix, tcp);
    let _ = io::copy(&mut from, &mut to);
    to.shutdown(Shutdown::Both)
}

struct Api {
    socket: PathBuf,
}

impl Api {
    fn of(service: &Service) -> Self {
        Self {
            socket: service.path("run/control.sock"),
        }
    }

    /// The answer to a request, with its status and media type.
    fn send(&self, method: &str, path: &str, body: Option<Value>) -> (String, String) {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--write-out", "\n%{http_code} %{content_type}"])
            .args(PATIENCE)
            .args(["--request", &method.to_uppercase()])
            .arg("--unix-socket")
            .arg(&self.socket)
            .arg(format!("http://localhost{path}"));
        if let Some(body) = body {
            curl.args(["--json", &body.to_string()]);
        }
        let output = String::from_utf8(curl.output().unwrap().stdout).unwrap();
        let (answer, ending) = output.rsplit_once('\n').unwrap();
        (answer.to_owned(), ending.to_owned())
    }
}
