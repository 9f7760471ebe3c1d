//! `rlctl limit set --destination`: runtime limits of what an address receives. With real packets.

use std::net::Ipv4Addr;

use ratelimit_core::api::StatsRow;
use ratelimit_tests::{
    Frame, Lab, require_root,
    service::{Said, Service},
};

const VICTIM: &str = "198.51.100.7";
const CONFIGURED: &str = "[destination.\"198.51.100.7/32\"]\n\
                          limits = [{ packets = 5, per = \"1h\" }]\n\
                          source_limits = [{ packets = 4, per = \"1h\" }]\n";

#[test]
fn a_destination_has_limits_at_run_time_which_outlive_a_kill_and_end() {
    require_root!();
    let lab = Lab::new().unwrap();
    let open = "[policy.default]\nlimits = []\n";
    let mut service = Service::started(&lab, open).unwrap();
    assert_eq!(sent(&lab, &service, 1, 9), [9, 0, 0]);
    let set = [
        "limit",
        "set",
        "--destination",
        VICTIM,
        "--limit",
        "packets=5,per=1h",
    ];
    let said = service.rlctl_ok(&set).unwrap();
    let expected = "limited the destination 198.51.100.7 to 5 packets per 1h";
    assert!(said.contains(expected), "{said}");
    assert_eq!(sent(&lab, &service, 1, 9), [5, 4, 0]);
    let top = service.rlctl_ok(&["top", "--destinations"]).unwrap();
    let row = top.lines().find(|line| line.starts_with(VICTIM));
    let row: Vec<_> = row.expect(&top).split_whitespace().collect();
    assert!(row.ends_with(&["5", "0", "100"]), "{top}");
    let said = service.rlctl_ok(&["list", "limits"]).unwrap();
    let listed = said.lines().find(|line| line.contains(VICTIM));
    assert!(listed.is_some_and(|line| line.contains("root")), "{said}");
    // The words keep their meaning with another amount, so the usage counts.
    let more = set.map(|part| {
        if part.starts_with("packets") {
            "packets=7,per=1h"
        } else {
            part
        }
    });
    service.rlctl_ok(&more).unwrap();
    assert_eq!(sent(&lab, &service, 2, 4), [2, 2, 0]);
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert_eq!(sent(&lab, &service, 3, 2), [0, 2, 0]);
    let check = service
        .rlctl(&["check", "203.0.113.9", "--to", VICTIM])
        .unwrap();
    assert!(check.stdout.contains("destination-limited"), "{check:?}");
    let rm = ["limit", "rm", "--destination", VICTIM];
    service.rlctl_ok(&rm).unwrap();
    assert_eq!(sent(&lab, &service, 3, 2), [2, 0, 0]);
    let again = service.rlctl(&rm).unwrap();
    let expected = "no runtime limits of the destination 198.51.100.7";
    assert!(
        again.code != 0 && again.stderr.contains(expected),
        "{again:?}"
    );
    // Those with an end give way to nothing by themselves.
    service
        .rlctl_ok(&[&more[..], &["--for", "1s"]].concat())
        .unwrap();
    service.wait_until("its end", || {
        !(service
            .rlctl_ok(&["list", "limits"])
            .unwrap()
            .contains(VICTIM))
    });
    assert_eq!(sent(&lab, &service, 3, 2), [2, 0, 0]);
}

/// They replace the configured `limits`, and `source_limits` apply as well, also after a reload.
#[test]
fn runtime_limits_stand_in_place_of_those_of_the_configuration() {
    require_root!();
    let lab = Lab::new().unwrap();
    let text = format!("[policy.default]\nlimits = []\n{CONFIGURED}");
    let service = Service::started(&lab, &text).unwrap();
    let set = [
        "limit",
        "set",
        "--destination",
        VICTIM,
        "--limit",
        "packets=6,per=1h",
    ];
    service.rlctl_ok(&set).unwrap();
    assert_eq!(sent(&lab, &service, 1, 5), [4, 0, 1]);
    service
        .reload(&text.replace("packets = 5", "packets = 50"))
        .unwrap();
    assert_eq!(sent(&lab, &service, 2, 4), [2, 2, 0]);
    // A dry run drops nothing of it.
    service
        .rlctl_ok(&[&set[..], &["--observe"]].concat())
        .unwrap();
    assert_eq!(sent(&lab, &service, 3, 3), [0, 3, 0]);
    assert!(service.rlctl_ok(&["stats"]).unwrap().contains("observe"));
    // The limits of each source there still do.
    let limits = service.rlctl_ok(&["list", "limits"]).unwrap();
    let of_each = limits.lines().find(|line| line.contains("of each source"));
    assert!(
        of_each.is_some_and(|line| line.contains("enforce")),
        "{limits}"
    );
    service
        .rlctl_ok(&["limit", "rm", "--destination", VICTIM])
        .unwrap();
    assert_eq!(sent(&lab, &service, 4, 3), [3, 0, 0]);
}

#[test]
fn what_a_destination_cannot_have_is_refused() {
    require_root!();
    let (lab, service) = Service::in_lab("[policy.default]\nlimits = []\n").unwrap();
    for (more, expected) in [
        (
            &["--limit", "packets=5,per=1s,algorithm=sliding-log"][..],
            "cannot use sliding-log",
        ),
        (
            &["--limit", "packets=5,per=1s", "--prefix", "192.0.2.1"],
            "cannot be used with",
        ),
        (&["--limit", "packets=5,per=1s", "--cluster"], "[cluster]"),
    ] {
        let set = ["limit", "set", "--destination", VICTIM];
        let Said { code, stderr, .. } = service.rlctl(&[&set[..], more].concat()).unwrap();
        assert!(
            code != 0 && stderr.contains(expected),
            "{expected} in {stderr}"
        );
    }
    assert_eq!(sent(&lab, &service, 1, 9), [9, 0, 0]);
}

/// Sends packets of a source to the destination, and says how many passed, and were refused by its
/// limits and by those of a source there.
fn sent(lab: &Lab, service: &Service, source: u8, packets: u64) -> [u64; 3] {
    let before = counted(service);
    let source = Ipv4Addr::new(203, 0, 113, source);
    let frame = Frame::ethernet().ipv4(source).udp(53).pad_to(60);
    let frame = frame.build_to(VICTIM.parse().unwrap());
    lab.send(&frame, packets).unwrap();
    service.wait_for("all packets", || {
        let now = counted(service);
        let more: [u64; 3] = std::array::from_fn(|index| now[index] - before[index]);
        (more.iter().sum::<u64>() == packets).then_some(more)
    })
}

fn counted(service: &Service) -> [u64; 3] {
    let mut counted = [0; 3];
    for row in service.json::<Vec<StatsRow>>(&["stats"]).unwrap() {
        let place = match row.reason.as_str() {
            "conforming" | "unlimited" => 0,
            "destination-limited" => 1,
            "source-to-destination-limited" => 2,
            _ => continue,
        };
        counted[place] += row.packets;
    }
    counted
}
