//! A new configuration applies whole, or not at all.

use std::fs;

use ratelimit_tests::{Lab, require_root, service::Service};

const OLD: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";
const NEW: &str = "[policy.default]\nlimits = [{ packets = 200, per = \"1s\" }]\n[policy.partner]\nsources = [\"192.0.2.0/24\"]\nlimits = [{ packets = 5, per = \"1m\" }]\n[allow]\nsources = [\"198.51.100.1\"]\n";

#[test]
fn a_reload_says_what_it_changed() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, OLD).unwrap();
    service.configure(NEW).unwrap();
    let said = service.rlctl_ok(&["reload"]).unwrap();
    for change in [
        "100 packets per 1s -> 200 packets per 1s",
        "policy partner: added",
        "allow list: +1 -0",
    ] {
        assert!(said.contains(change), "{said}");
    }
    check(&service, "192.0.2.7", "5 packets per 1m");
    check(&service, "8.8.8.8", "200 packets per 1s");
}

#[test]
fn a_reload_says_what_becomes_of_the_state() {
    let to = |limit: &str| format!("[policy.default]\nlimits = [{{ {limit} }}]\n");
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, &to(r#"packets = 600, per = "1s""#)).unwrap();
    for (limit, expected) in [
        (
            r#"packets = 700, per = "1s""#,
            "policy default: 600 packets per 1s -> 700 packets per 1s; what its sources have used is kept",
        ),
        (
            r#"packets = 700, per = "1s", algorithm = "sliding-window""#,
            "policy default: 700 packets per 1s -> 700 packets per 1s (sliding-window); what its sources have used starts anew",
        ),
        (
            r#"packets = 700, per = "1s", algorithm = "token-bucket""#,
            "policy default: 700 packets per 1s (sliding-window) -> 700 packets per 1s (token-bucket, burst 700); what its sources have used starts anew",
        ),
        (
            r#"packets = 700, per = "1s", algorithm = "token-bucket", burst = 900"#,
            "policy default: 700 packets per 1s (token-bucket, burst 700) -> 700 packets per 1s (token-bucket, burst 900); what its sources have used is kept",
        ),
    ] {
        service.configure(&to(limit)).unwrap();
        let said = service.rlctl_ok(&["reload"]).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_hangup_reloads_too() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, OLD).unwrap();
    service.configure(NEW).unwrap();
    service.signal("-HUP").unwrap();
    service.wait_for_log("configuration applied").unwrap();
    check(&service, "192.0.2.7", "5 packets per 1m");
}

#[test]
fn a_file_that_is_wrong_is_refused_by_line_and_the_old_one_stays() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, OLD).unwrap();
    service
        .configure("[policy.default]\nlimits = [{ packets = 0, per = \"1s\" }]\n")
        .unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("config.toml:2:"), "{said:?}");
    check(&service, "8.8.8.8", "100 packets per 1s");
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("config.toml:2:"), "{status}");
    service.configure(OLD).unwrap();
    service.rlctl_ok(&["reload"]).unwrap();
    assert!(
        !service
            .rlctl_ok(&["status"])
            .unwrap()
            .contains("config.toml:2:")
    );
}

#[test]
fn what_needs_a_restart_is_named_and_nothing_is_applied() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, OLD).unwrap();
    service
        .configure(&format!("{NEW}\n[source]\nipv4_prefix = 24\n"))
        .unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains("[source]") && said.stderr.contains("restart"),
        "{said:?}"
    );
    check(&service, "192.0.2.7", "100 packets per 1s");
}

#[test]
fn a_file_that_is_gone_is_named() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, OLD).unwrap();
    fs::remove_file(service.config()).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("config.toml"), "{said:?}");
}

fn check(service: &Service, address: &str, limit: &str) {
    let said = service.rlctl_ok(&["check", address]).unwrap();
    assert!(said.contains(limit), "{address}: {said}");
}
