//! Lists in the kernel: what is on one is dropped, from the import to the restart.

use std::fs;

use ratelimit_tests::{Lab, require_root, service::Service};

const CONFIG: &str = "[policy.default]\nlimits = []\n";

#[test]
fn an_imported_list_is_in_the_kernel_until_it_is_taken_away() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::started(&lab, CONFIG).unwrap();
    let file = service.path("drop.txt");
    fs::write(&file, "192.0.2.1\n198.51.100.0/24 ; SBL1\n2001:db8::/32\n").unwrap();
    let file = file.to_str().unwrap().to_owned();
    let said = service
        .rlctl_ok(&["import", &file, "--list", "bad"])
        .unwrap();
    assert_eq!(said, "list:bad: +3 -0 =0\n");
    for address in ["192.0.2.1", "198.51.100.7", "2001:db8::7"] {
        assert!(is_banned(&service, address), "{address}");
    }
    fs::write(&file, "192.0.2.2\n2001:db8::/32\n").unwrap();
    service
        .rlctl_ok(&["import", &file, "--list", "bad"])
        .unwrap();
    assert!(is_banned(&service, "192.0.2.2") && is_banned(&service, "2001:db8::7"));
    assert!(!is_banned(&service, "192.0.2.1") && !is_banned(&service, "198.51.100.7"));
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert!(is_banned(&service, "192.0.2.2") && is_banned(&service, "2001:db8::7"));
    service.rlctl_ok(&["lists", "rm", "bad"]).unwrap();
    assert!(!is_banned(&service, "192.0.2.2"));
}

#[test]
fn a_list_in_a_file_is_enforced_and_its_errors_are_counted() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, CONFIG).unwrap();
    let file = service.path("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let toml = format!(
        "{CONFIG}[list.drop]\nfile = \"{}\"\nevery = \"1s\"\n",
        file.display()
    );
    service.configure(&toml).unwrap();
    service.start().unwrap();
    assert!(is_banned(&service, "192.0.2.1"));
    fs::write(&file, "192.0.2.2\n").unwrap();
    service.wait_for_log("removed=1").unwrap();
    assert!(is_banned(&service, "192.0.2.2") && !is_banned(&service, "192.0.2.1"));
    fs::write(&file, "").unwrap();
    service.wait_for_log("a list was not taken").unwrap();
    assert!(is_banned(&service, "192.0.2.2"));
    let metrics = service.get("/metrics", "*/*").unwrap();
    assert!(
        metrics.contains("ratelimit_list_entries{list=\"drop\"} 1\n"),
        "{metrics}"
    );
    assert!(
        !metrics.contains("ratelimit_list_errors_total{list=\"drop\"} 0\n"),
        "{metrics}"
    );
}

/// As the kernel's tables say.
fn is_banned(service: &Service, address: &str) -> bool {
    let said = service.rlctl(&["check", address]).unwrap();
    said.code == 3
}
