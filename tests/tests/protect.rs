//! `rlctl protect`: an interface is in a dry run, then protected, and no existing configuration is
//! lost.

use std::{fs, net::Ipv4Addr};

use ratelimit_tests::{
    Frame, Lab,
    lab::INTERFACE,
    require_root,
    service::{Said, Service},
};

/// The interface that is to be protected is not in it.
const TOML: &str = "\
[policy.default]
limits = [{ packets = 3, per = \"1h\" }]
[[interface]]
name = \"absent0\"
";
/// Exit codes of `rlctl`.
const DONE: i32 = 0;
const REFUSED: i32 = 1;
const NO_DAEMON: i32 = 4;

#[test]
fn an_interface_is_observed_then_protected_then_released() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, TOML).unwrap();
    let written = service.path("conf.d/protect-rl0.toml");

    // Nothing is written for an interface that cannot be protected.
    let said = protect(&service, "nosuch0", &[], REFUSED);
    assert!(said.stderr.contains("no such interface"), "{said:?}");
    assert!(!written.exists() && !service.path("conf.d").exists());

    // There is no systemd for a daemon of another file, so the command is named that starts it.
    let said = protect(&service, INTERFACE, &["--observe"], NO_DAEMON);
    let command = format!("ratelimitd --config {}", service.config().display());
    assert!(said.stderr.contains(&command), "{said:?}");
    assert!(written.exists());
    service.start().unwrap();

    let said = protect(&service, INTERFACE, &["--observe"], DONE);
    for part in [
        "rl0: dry run (native mode)",
        "limit of each source: 3 packets per 1h",
        "(unchanged)",
        "enforce:  rlctl protect rl0",
        "stop:     rlctl detach",
    ] {
        assert!(said.stdout.contains(part), "{part}: {said:?}");
    }
    assert_eq!(passed(&lab, 1), 10);

    let said = protect(&service, INTERFACE, &[], DONE);
    for part in ["rl0: protected (native mode)", "wrote ", "previous file: "] {
        assert!(said.stdout.contains(part), "{part}: {said:?}");
    }
    assert_eq!(passed(&lab, 2), 3);
    assert!(
        fs::read_to_string(service.config())
            .unwrap()
            .starts_with(TOML)
    );

    // Its instructions for the end are correct.
    service.rlctl_ok(&["detach"]).unwrap();
    assert_eq!(passed(&lab, 3), 10);
}

fn protect(service: &Service, interface: &str, options: &[&str], code: i32) -> Said {
    let config = service.config().display().to_string();
    let words = ["protect", interface, "--config", &config];
    let said = service.rlctl(&[&words, options].concat()).unwrap();
    assert_eq!(said.code, code, "{said:?}");
    said
}

/// Counts the packets of a new source that arrive, of ten.
fn passed(lab: &Lab, source: u8) -> usize {
    let frame = Frame::ethernet().ipv4(Ipv4Addr::new(198, 51, 100, source));
    lab.passed(&frame.udp(53).build(), 10).unwrap()
}
