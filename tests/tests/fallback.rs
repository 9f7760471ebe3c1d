//! Configurations that parse but cannot be applied: the previous one stays in force, and all
//! reports say so.

use std::net::Ipv4Addr;

use ratelimit_tests::{Lab, packet::datagram, require_root, service::Service};

const RIGHT: &str = "[policy.default]\nlimits = [{ packets = 2, per = \"1h\" }]\n";
/// More than a hundred gigabytes of sliding logs.
const TOO_LARGE: &str = "[source]\nsliding_logs = 16_777_216\n\
     [policy.more]\nsources = [\"198.51.100.0/24\"]\n\
     limits = [{ packets = 1000, per = \"1h\", algorithm = \"sliding-log\" }]\n";
const METRIC: &str = "\nratelimit_config_fallback ";

#[test]
fn a_start_with_a_file_that_the_kernel_has_no_room_for_takes_what_was_in_force_before() {
    require_root!();
    let (lab, mut service) = Service::in_lab(RIGHT).unwrap();
    assert!(metrics(&service).contains(&format!("{METRIC}0")));
    service.rlctl_ok(&["ban", "203.0.113.1"]).unwrap();
    for signal in ["-KILL", "-TERM"] {
        service.stop(signal).unwrap();
        service.configure(&format!("{RIGHT}{TOO_LARGE}")).unwrap();
        service.start().unwrap();
        let status = service.rlctl_ok(&["status"]).unwrap();
        assert!(status.contains("running the last valid one"), "{status}");
        assert!(metrics(&service).contains(&format!("{METRIC}1")));
        assert!(!passes(&lab, [203, 0, 113, 1]));
    }
    assert_eq!(passed_of_four(&lab, [203, 0, 113, 2]), 2);
    service.reload(RIGHT).unwrap();
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(!status.contains("running the last valid one"), "{status}");
    assert!(metrics(&service).contains(&format!("{METRIC}0")));
    assert!(!passes(&lab, [203, 0, 113, 1]));
}

#[test]
fn a_reload_for_which_the_kernel_has_no_room_changes_nothing() {
    require_root!();
    for store in ["lru", "compact"] {
        let lab = Lab::new().unwrap();
        let right = format!("{RIGHT}[source]\nstore = \"{store}\"\n");
        let service = Service::started(&lab, &right).unwrap();
        service.rlctl_ok(&["ban", "203.0.113.1"]).unwrap();
        assert!(passes(&lab, [203, 0, 113, 2]));
        service
            .configure(&format!(
                "{RIGHT}{}",
                TOO_LARGE.replace("[source]\n", &format!("[source]\nstore = \"{store}\"\n"))
            ))
            .unwrap();
        for _ in 0..2 {
            let said = service.rlctl(&["reload"]).unwrap();
            assert_eq!(said.code, 1, "{said:?}");
            assert!(said.stderr.contains("memory"), "{said:?}");
        }
        let status = service.rlctl_ok(&["status"]).unwrap();
        assert!(!status.contains("NOT ATTACHED"), "{status}");
        assert!(!passes(&lab, [203, 0, 113, 1]));
        // One packet was used before.
        assert_eq!(passed_of_four(&lab, [203, 0, 113, 2]), 1, "{store}");
        service.rlctl_ok(&["ban", "203.0.113.3"]).unwrap();
        assert!(!passes(&lab, [203, 0, 113, 3]));
        let log = service.log();
        assert!(!log.contains("could not be made again"), "{log}");
    }
}

fn metrics(service: &Service) -> String {
    service.metrics().unwrap()
}

fn passed_of_four(lab: &Lab, source: [u8; 4]) -> usize {
    (0..4).filter(|_| passes(lab, source)).count()
}

fn passes(lab: &Lab, source: [u8; 4]) -> bool {
    lab.passes(&datagram(Ipv4Addr::from(source))).unwrap()
}
