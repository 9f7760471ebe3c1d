//! Interfaces with jumbo frames, and those that may get them.

use ratelimit_common::layout;
use ratelimit_tests::{Lab, attached::Attached, lab::INTERFACE, require_root, service::Service};

#[test]
fn an_interface_with_jumbo_frames_runs_in_its_driver() {
    require_root!();
    let lab = Lab::jumbo().unwrap();
    let service = Service::started(&lab, &toml("")).unwrap();
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("native"), "{status}");
}

#[test]
fn the_mtu_can_be_raised_where_the_file_says_so() {
    require_root!();
    let lab = Lab::new().unwrap();
    let _service = Service::started(&lab, &toml("jumbo = true")).unwrap();
    raise_mtu(&lab).unwrap();
}

#[test]
fn the_kernel_refuses_to_raise_it_where_the_file_does_not() {
    require_root!();
    let (lab, service) = Service::in_lab(&toml("")).unwrap();
    assert!(raise_mtu(&lab).is_err());
    assert!(!takes_jumbo_frames(&service));
}

#[test]
fn the_program_for_jumbo_frames_stays_when_the_file_no_longer_asks_for_it() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(&toml("jumbo = true")).unwrap();
    service.stop("-TERM").unwrap();
    service.configure(&toml("")).unwrap();
    service.start().unwrap();
    assert!(takes_jumbo_frames(&service));
}

/// The kernel gives frames of several buffers only to a program that says it takes them.
fn takes_jumbo_frames(service: &Service) -> bool {
    let program = Attached::of(service).unwrap();
    program.name().unwrap() == layout::PROGRAM_FRAGS
}

/// On the far side: of a veth pair the program bounds what the peer may send.
fn raise_mtu(lab: &Lab) -> anyhow::Result<String> {
    lab.far.ip(&["link", "set", INTERFACE, "mtu", "9000"])
}

fn toml(jumbo: &str) -> String {
    let policy = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";
    format!("{policy}[[interface]]\nname = \"{INTERFACE}\"\nmode = \"native\"\n{jumbo}\n")
}
