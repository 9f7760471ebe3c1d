//! Refused starts: the message says what to do, and nothing stays attached.

use std::path::Path;

use ratelimit_tests::{Lab, exchange::exchange, require_root, service::Service};

const TOML: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";

#[test]
fn a_process_without_capabilities() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    let output = service
        .inside(Path::new("setpriv"))
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(ratelimit_tests::service::binary("ratelimitd"))
        .arg("--config")
        .arg(service.config())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("missing CAP_BPF and CAP_NET_ADMIN"),
        "{said}"
    );
}

#[test]
fn a_request_over_64_kib() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let body = format!(
        "{{\"prefixes\":[\"192.0.2.1\"],\"reason\":\"{}\"}}",
        "x".repeat(70_000)
    );
    let said = raw_request(&service, &body);
    assert!(
        said.starts_with("HTTP/1.1 413") && said.contains("exceeds 65536 bytes"),
        "{said}"
    );
    assert!(
        service
            .rlctl_ok(&["--json", "list", "bans"])
            .unwrap()
            .trim()
            == "[]"
    );
}

fn raw_request(service: &Service, body: &str) -> String {
    let socket = service.path("run/control.sock");
    exchange(&socket, "POST", "/v1/bans", body).unwrap()
}
