//! Refused starts: the message says what to do, and nothing stays attached.

use std::{fs, os::unix::net::UnixStream, path::Path};

use aya::programs::xdp::XdpMode;
use ratelimit_tests::{
    Lab, Program, exchange::exchange, lab::INTERFACE, program::Constants, require_root,
    service::Service,
};

const TOML: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";

#[test]
fn a_foreign_program_is_named_and_left_alone() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut theirs = Program::load(&Constants::default()).unwrap();
    lab.near
        .enter(|| {
            theirs
                .xdp_mut()
                .attach(INTERFACE, XdpMode::Driver)
                .map(drop)
        })
        .unwrap();
    let service = Service::started(&lab, TOML).unwrap();
    let said = service.log();
    for part in [
        "already runs the native XDP program with id ",
        "bpftool link detach id",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(service.rlctl(&["status"]).unwrap().code, 6);
    assert!(has_program(&lab));
}

#[test]
fn a_second_daemon() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let said = service.refusal().unwrap();
    assert!(said.contains("another ratelimitd is running"), "{said}");
    service.rlctl_ok(&["status"]).unwrap();
}

#[test]
fn a_directory_for_pins_that_is_no_bpffs() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    let elsewhere = format!("pins = \"{}\"", service.path("pins").display());
    let text = fs::read_to_string(service.config()).unwrap();
    let pins = format!("pins = \"{}\"", service.pins().display());
    fs::write(service.config(), text.replace(&pins, &elsewhere)).unwrap();
    let said = service.refusal().unwrap();
    assert!(said.contains("mount -t bpf bpf"), "{said}");
}

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

#[test]
fn a_body_that_is_no_request() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    for (body, part) in [
        (
            "{\"prefixes\":[\"10.0.0.1/24\"]}",
            "did you mean 10.0.0.0/24 or 10.0.0.1?",
        ),
        ("{\"prefixes\":[]}", "no prefix given"),
        (
            "{\"prefixes\":[\"192.0.2.1\"],\"until\":5}",
            "unknown field `until`",
        ),
        ("nonsense", "expected"),
    ] {
        let said = raw_request(&service, body);
        assert!(
            said.starts_with("HTTP/1.1 4") && said.contains(part),
            "{body}: {said}"
        );
    }
}

#[test]
fn a_client_that_hangs_holds_nobody_up() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(TOML).unwrap();
    let hanging: Vec<UnixStream> = (0..32)
        .map(|_| UnixStream::connect(service.path("run/control.sock")).unwrap())
        .collect();
    service.rlctl_ok(&["status"]).unwrap();
    service.stop("-TERM").unwrap();
    drop(hanging);
}

fn has_program(lab: &Lab) -> bool {
    lab.near
        .ip(&["-details", "link", "show", INTERFACE])
        .unwrap()
        .contains("prog/xdp")
}

fn raw_request(service: &Service, body: &str) -> String {
    let socket = service.path("run/control.sock");
    exchange(&socket, "POST", "/v1/bans", body).unwrap()
}
