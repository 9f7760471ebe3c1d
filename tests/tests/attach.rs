//! The mode of attachment, and its mention in every answer.

use ratelimit_tests::{Lab, lab::INTERFACE, require_root, service::Service};

const POLICY: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";

/// What the kernel says of a driver without XDP (`dev_xdp_attach`).
const NO_DRIVER: &str = "Underlying driver does not support XDP in native mode";

#[test]
fn a_driver_that_cannot_is_said_in_the_log_the_status_and_a_metric() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(&toml("auto", "lo")).unwrap();
    service
        .wait_for_log("falling back to generic mode")
        .unwrap();
    assert_mode(&service, "lo", "generic");
    // A reload adopts the link, and knows why it is as it is.
    for _ in 0..2 {
        let said = service.rlctl_ok(&["status"]).unwrap();
        assert!(said.contains(NO_DRIVER), "{said}");
        service.rlctl_ok(&["reload"]).unwrap();
    }
    // The next daemon adopts it too, without knowing why.
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    let said = service.rlctl_ok(&["status"]).unwrap();
    assert!(said.contains("to try native mode again"), "{said}");
    for verb in ["detach", "reload"] {
        service.rlctl_ok(&[verb]).unwrap();
    }
    let said = service.rlctl_ok(&["status"]).unwrap();
    assert!(said.contains(NO_DRIVER), "{said}");
}

#[test]
fn a_driver_that_refuses_is_quoted_and_left_without_a_program() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mtu = |bytes| {
        let words = ["link", "set", "dev", INTERFACE, "mtu", bytes];
        lab.far.ip(&words).unwrap();
    };
    mtu("9000");
    let service = Service::started(&lab, &toml("native", INTERFACE)).unwrap();
    // `veth_xdp_set`.
    let text = "veth: Peer MTU is too large to set XDP";
    let said = service.rlctl(&["status"]).unwrap();
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.stdout.contains(text), "{said:?}");
    let doctor = service.rlctl(&["doctor", INTERFACE]).unwrap();
    assert!(doctor.stdout.contains("xdp-program: none"), "{doctor:?}");
    assert!(doctor.stdout.contains(text), "{doctor:?}");
    service.wait_for_log(text).unwrap();
    mtu("1500");
    service.wait_until("the program in native mode", || {
        service.rlctl(&["status"]).unwrap().code == 0
    });
    assert_mode(&service, INTERFACE, "native");
}

#[test]
fn a_mode_that_fails_leaves_the_interface_in_the_one_before() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(&toml("generic", "lo")).unwrap();
    service.rlctl_ok(&["ban", "--force", "127.0.0.9"]).unwrap();
    service.stop("-TERM").unwrap();
    service.configure(&toml("native", "lo")).unwrap();
    service.start().unwrap();
    let said = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        said.contains("lo stays in generic mode because the configured one failed"),
        "{said}"
    );
    assert!(said.contains("attaching to lo in native mode"), "{said}");
    assert!(only_the_banned_is_dropped(&service));
    service.stop("-TERM").unwrap();
    // The restored link is adopted like any other.
    service.configure(&toml("generic", "lo")).unwrap();
    service.start().unwrap();
    assert!(
        service.log().contains("adopted the pinned link"),
        "{}",
        service.log()
    );
    assert!(only_the_banned_is_dropped(&service));
}

#[test]
fn several_interfaces_share_the_lists_and_are_counted_apart() {
    require_root!();
    let lab = Lab::new().unwrap();
    let second = "[[interface]]\nname = \"lo\"\nmode = \"generic\"\n";
    let service = Service::started(&lab, &format!("{}{second}", toml("auto", INTERFACE))).unwrap();
    assert_mode(&service, INTERFACE, "native");
    assert_mode(&service, "lo", "generic");
    service.rlctl_ok(&["ban", "--force", "127.0.0.9"]).unwrap();
    assert!(only_the_banned_is_dropped(&service));
    let stats = service.rlctl_ok(&["--json", "stats"]).unwrap();
    assert!(stats.contains("\"lo\""), "{stats}");
}

/// A datagram from an address of the loopback network that is not banned, and one that is: only the
/// first arrives.
const PING: &str = "
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(('127.0.0.1', 9))
receiver.settimeout(1)
def arrives(source):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((source, 0))
    sender.sendto(b'x', ('127.0.0.1', 9))
    try:
        return receiver.recvfrom(9)[1][0] == source
    except TimeoutError:
        return False
assert arrives('127.0.0.8')
assert not arrives('127.0.0.9')
";

fn only_the_banned_is_dropped(service: &Service) -> bool {
    let mut ping = service.inside("python3".as_ref());
    ping.args(["-c", PING]).status().unwrap().success()
}

fn assert_mode(service: &Service, interface: &str, mode: &str) {
    let metrics = service.metrics().unwrap();
    let sample =
        format!("ratelimit_interface_attached{{interface=\"{interface}\",mode=\"{mode}\"}} 1");
    assert!(metrics.contains(&sample), "{metrics}");
    let status = service.rlctl_ok(&["status"]).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with(interface))
        .unwrap_or_default();
    assert!(line.contains(mode), "{status}");
}

fn toml(mode: &str, interface: &str) -> String {
    format!("{POLICY}[[interface]]\nname = \"{interface}\"\nmode = \"{mode}\"\n")
}
