//! Limits of destinations: in the kernel, on the host, and by the daemon on a real interface.

use std::{net::Ipv4Addr, num::NonZeroU32, time::Duration};

use ratelimit_common::{
    ClassSet, DropReason, Instant, Limit, ListEntry, PassReason, Policy, Settings, Unit, Verdict,
    layout::NODE_POLICIES, new_sources::Budget, node, settings::OverBudget,
};
use ratelimit_core::api::StatsRow;
use ratelimit_tests::{
    Frame, Lab, Scene, cpu,
    packet::datagram,
    pool::Pooled,
    program::{CONFORMING, Constants, LIMITED},
    require_root,
    scene::{Judge, limit},
    service::Service,
};

const DESTINATION_LIMITED: Verdict = Verdict::Drop(DropReason::DestinationLimited);
const SOURCE_TO_DESTINATION: Verdict = Verdict::Drop(DropReason::SourceToDestinationLimited);
const NODE_LIMITED: Verdict = Verdict::Drop(DropReason::NodeLimited);

/// Has limits, alone or as one of its /24.
const VICTIM: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// Has none.
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

#[test]
fn an_address_receives_its_limit_of_all_sources_together() {
    let scene = scene(&[packets(5)], &[]);
    each_judge(&scene, |judge| {
        for last in 0..5 {
            check(judge, &frame(source(last), VICTIM), CONFORMING);
        }
        for last in 0..8 {
            check(judge, &frame(source(last), VICTIM), DESTINATION_LIMITED);
            check(judge, &frame(source(last), OTHER), CONFORMING);
        }
    });
}

#[test]
fn each_source_may_send_its_limit_to_a_destination() {
    let scene = scene(&[packets(5)], &[packets(2)]);
    each_judge(&scene, |judge| {
        let send = |judge: &mut dyn Judge, last, verdict| {
            check(judge, &frame(source(last), VICTIM), verdict);
        };
        for verdict in [CONFORMING, CONFORMING, SOURCE_TO_DESTINATION] {
            send(judge, 1, verdict);
        }
        for verdict in [CONFORMING, CONFORMING, SOURCE_TO_DESTINATION] {
            send(judge, 2, verdict);
        }
        for verdict in [CONFORMING, DESTINATION_LIMITED, DESTINATION_LIMITED] {
            send(judge, 3, verdict);
        }
        check(judge, &frame(source(1), OTHER), CONFORMING);
    });
}

/// Where neither the limits of the destination nor those of the node count a packet, or this CPU
/// has drawn of them what it costs.
#[test]
fn what_each_source_may_send_there_holds_whatever_wider_limits_say() {
    let of_a_class = packets(5).for_classes(ClassSet::one(3).unwrap());
    for limits in [&[][..], &[of_a_class], &[of_a_class, of_a_class]] {
        for has_node in [false, true] {
            let mut scene = scene(limits, &[packets(2)]);
            if has_node {
                let node = u32::try_from(scene.policies.len()).unwrap();
                scene.settings = scene.settings.with_node(node);
                let policy = policy(&[packets(1 << 20)], 1);
                scene.policies.push(policy.in_shares(node::share_shift(2)));
            }
            each_judge(&scene, |judge| {
                for verdict in [CONFORMING, CONFORMING, SOURCE_TO_DESTINATION] {
                    check(judge, &frame(source(1), VICTIM), verdict);
                }
                check(judge, &frame(source(1), OTHER), CONFORMING);
                check(judge, &frame(source(2), VICTIM), CONFORMING);
            });
        }
    }
}

#[test]
fn the_narrowest_prefix_around_a_destination_counts() {
    let scene = scene(&[packets(3)], &[]);
    let entry = ListEntry::default().as_destination(Some(3));
    let mut scene = scene.with("198.51.100.9", entry);
    let wider = of_destination(&[packets(1)], 9).in_slot(NODE_POLICIES + 9);
    scene.policies.push(wider);
    each_judge(&scene, |judge| {
        let narrow = Ipv4Addr::new(198, 51, 100, 9);
        check(judge, &frame(source(1), narrow), CONFORMING);
        check(judge, &frame(source(1), narrow), DESTINATION_LIMITED);
        for host in 1..4 {
            let host = Ipv4Addr::new(198, 51, 100, host);
            check(judge, &frame(source(1), host), CONFORMING);
        }
        check(judge, &frame(source(1), VICTIM), DESTINATION_LIMITED);
    });
}

#[test]
fn a_packet_that_another_limit_refuses_costs_a_destination_nothing() {
    let mut scene = scene(&[packets(2)], &[]);
    scene.policies[0] = policy(&[packets(1)], 0);
    each_judge(&scene, |judge| {
        check(judge, &frame(source(1), VICTIM), CONFORMING);
        for _ in 0..5 {
            check(judge, &frame(source(1), VICTIM), LIMITED);
        }
        check(judge, &frame(source(2), VICTIM), CONFORMING);
        check(judge, &frame(source(3), VICTIM), DESTINATION_LIMITED);
        // A packet that the destination refuses is not charged to its source either.
        check(judge, &frame(source(3), OTHER), CONFORMING);
    });
}

#[test]
fn sources_over_the_budget_for_new_ones_cost_a_destination_nothing() {
    const DROPPED: Verdict = Verdict::Drop(DropReason::NewSources);
    const SHARED: Verdict = Verdict::Pass(PassReason::NewSources);
    for (over_budget, first) in [(OverBudget::Drop, DROPPED), (OverBudget::Aggregate, SHARED)] {
        let mut scene = scene(&[packets(3)], &[]);
        scene.policies[0] = policy(&[packets(2)], 0);
        scene.settings = scene.settings.with_new_sources(over_budget);
        let (one, second) = (NonZeroU32::new(1).unwrap(), Duration::from_secs(1));
        scene.new_sources = Budget::new(one, second, 1).unwrap();
        each_judge(&scene, |judge| {
            check(judge, &frame(source(1), OTHER), CONFORMING);
            for (last, verdict) in (2..).zip([first, first, DROPPED, DROPPED, DROPPED]) {
                check(judge, &frame(source(last), VICTIM), verdict);
            }
            check(judge, &frame(source(1), VICTIM), CONFORMING);
        });
    }
}

#[test]
fn destination_and_node_each_count_their_packets() {
    let mut scene = scene(&[packets(2)], &[]);
    let node = u32::try_from(scene.policies.len()).unwrap();
    scene.settings = scene.settings.with_node(node);
    let policy = policy(&[packets(3)], 1).in_shares(node::share_shift(1));
    scene.policies.push(policy);
    each_judge(&scene, |judge| {
        for verdict in [CONFORMING, CONFORMING, DESTINATION_LIMITED] {
            check(judge, &frame(source(1), VICTIM), verdict);
        }
        for verdict in [CONFORMING, NODE_LIMITED] {
            check(judge, &frame(source(1), OTHER), verdict);
        }
    });
}

#[test]
fn a_dry_run_of_a_destination_drops_nothing_and_counts_what_it_would() {
    let mut scene = scene(&[packets(2)], &[packets(1)]);
    for index in [1, 2] {
        let old = scene.policies[index];
        let limits: Vec<Limit> = old.limits().copied().collect();
        let dry = Policy::new(&limits, old.scope(), true).unwrap();
        let dry = dry.for_destination().in_shares(8).in_slot(old.slot());
        scene.policies[index] = match old.further() {
            Some(further) => dry.with_further(further),
            None => dry,
        };
    }
    each_judge(&scene, |judge| {
        check(judge, &frame(source(1), VICTIM), CONFORMING);
        let observed = Verdict::Observe(DropReason::SourceToDestinationLimited);
        check(judge, &frame(source(1), VICTIM), observed);
        check(
            judge,
            &frame(source(2), VICTIM),
            Verdict::Observe(DropReason::DestinationLimited),
        );
    });
}

#[test]
fn allowed_sources_and_pass_all_meet_no_limit_of_a_destination() {
    let allowed = ListEntry::new(true, None, None);
    let scene = scene(&[packets(1)], &[]).with("203.0.113.9", allowed);
    each_judge(&scene, |judge| {
        check(judge, &frame(source(1), VICTIM), CONFORMING);
        check(judge, &frame(source(1), VICTIM), DESTINATION_LIMITED);
        let verdict = Verdict::Pass(PassReason::Allowed);
        check(judge, &frame(source(9), VICTIM), verdict);
    });
}

#[test]
fn fragments_tags_and_extension_headers_hide_no_destination() {
    use ratelimit_tests::packet::{Extension, Ipv4Options};
    let entry = ListEntry::default().as_destination(Some(1));
    let scene = scene(&[packets(3)], &[]).with("2001:db8:ffff::1", entry);
    let later = Ipv4Options::fragment(8, false);
    let tagged = Frame::ethernet().vlan(0x8100, 7).ipv4(source(1)).udp(53);
    let later = Frame::ethernet()
        .ipv4_with(source(2), &later)
        .payload(&[0; 32]);
    let extended = Frame::ethernet()
        .ipv6("2001:db8:7::1".parse().unwrap())
        .extension(Extension::HopByHop(1))
        .udp(53);
    each_judge(&scene, |judge| {
        for frame in [&tagged, &later, &extended] {
            check(judge, &frame.clone().build(), CONFORMING);
        }
        for frame in [&tagged, &later, &extended] {
            check(judge, &frame.clone().build(), DESTINATION_LIMITED);
        }
    });
}

const TOML: &str = r#"
[policy.default]
limits = [{ packets = 30, per = "1h" }]
[destination."198.51.100.7/32"]
limits = [{ packets = 50, per = "1h" }]
source_limits = [{ packets = 8, per = "1h" }]
"#;

#[test]
fn of_two_addresses_one_is_limited_also_over_reload_and_kill() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    for last in 0..5 {
        send(&lab, source(last), VICTIM, 10);
        send(&lab, source(last), OTHER, 10);
    }
    let first = counted_of(&service, 100);
    assert_eq!(
        first,
        Counted {
            passed: 90,
            of_source: 10,
            of_destination: 0
        }
    );
    let said = service
        .rlctl(&["check", "203.0.113.1", "--to", "198.51.100.7"])
        .unwrap();
    assert_eq!(said.code, 3, "{said:?}");
    for part in [
        "source-to-destination-limited",
        "limit of 203.0.113.1 to 198.51.100.7: 8 packets per 1h: 8 used",
        "limit of all traffic to 198.51.100.7 (incl. per-CPU reserve): 50 packets per 1h: 40 used",
    ] {
        assert!(said.stdout.contains(part), "{part} in {said:?}");
    }
    let said = service
        .rlctl(&["check", "203.0.113.1", "--to", "192.0.2.7"])
        .unwrap();
    assert_eq!(said.code, 0, "{said:?}");

    // Other amounts keep what was used.
    let more = TOML.replace("packets = 8", "packets = 9");
    service.configure(&more).unwrap();
    let said = service.rlctl_ok(&["reload", "--dry-run"]).unwrap();
    assert!(
        said.contains("destination 198.51.100.7, per source"),
        "{said}"
    );
    service.rlctl_ok(&["reload"]).unwrap();
    for last in 0..5 {
        send(&lab, source(last), VICTIM, 2);
    }
    let second = counted_of(&service, 110);
    assert_eq!(
        second,
        Counted {
            passed: 95,
            of_source: 15,
            of_destination: 0
        }
    );

    service.stop("-KILL").unwrap();
    send(&lab, source(5), VICTIM, 6);
    service.start().unwrap();
    send(&lab, source(6), VICTIM, 2);
    let third = counted_of(&service, 118);
    assert_eq!(
        third,
        Counted {
            passed: 100,
            of_source: 15,
            of_destination: 3
        }
    );

    // Without its limits, the address receives what the sources may send; limits of another kind
    // reset the usage.
    service.reload("[policy.default]\nlimits = []\n").unwrap();
    send(&lab, source(6), VICTIM, 20);
    let fourth = counted_of(&service, 138);
    assert_eq!((fourth.passed, fourth.of_destination), (120, 3));
    let other = "[policy.default]\n\
                 limits = []\n\
                 [destination.\"198.51.100.0/24\"]\n\
                 limits = [{ packets = 4, per = \"2h\" }]\n";
    service.reload(other).unwrap();
    send(&lab, source(6), VICTIM, 6);
    let fifth = counted_of(&service, 144);
    assert_eq!((fifth.passed, fifth.of_destination), (124, 5));
}

/// Meanwhile another address has limits, which take no room of theirs, and the daemon is killed.
#[test]
fn limits_of_an_address_that_come_back_find_what_it_received() {
    require_root!();
    for (store, algorithm) in [("lru", "fixed-window"), ("compact", "token-bucket")] {
        let base = format!("[policy.default]\nlimits = []\n[source]\nstore = \"{store}\"\n");
        let limits = |address: Ipv4Addr| {
            format!(
                "[destination.\"{address}/32\"]\n\
                 limits = [{{ packets = 5, per = \"1h\", algorithm = \"{algorithm}\" }}]\n"
            )
        };
        let first = format!("{base}{}", limits(VICTIM));
        let (lab, mut service) = Service::in_lab(&first).unwrap();
        send(&lab, source(1), VICTIM, 4);
        assert_eq!(counted_of(&service, 4).passed, 4);
        let second = format!("{base}{}", limits(OTHER));
        service.reload(&second).unwrap();
        send(&lab, source(1), OTHER, 2);
        service.stop("-KILL").unwrap();
        service.start().unwrap();
        service
            .reload(&format!("{second}{}", limits(VICTIM)))
            .unwrap();
        send(&lab, source(2), VICTIM, 6);
        let third = counted_of(&service, 12);
        assert_eq!(third.passed, 7, "{store}, {algorithm}");
        send(&lab, source(2), OTHER, 6);
        let fourth = counted_of(&service, 18);
        assert_eq!(fourth.passed, 10, "{store}, {algorithm}");
    }
}

/// Packets so far, by what became of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counted {
    passed: u64,
    of_source: u64,
    of_destination: u64,
}

fn counted(service: &Service) -> Counted {
    let mut counted = Counted::default();
    for row in service.json::<Vec<StatsRow>>(&["stats"]).unwrap() {
        let packets = row.packets;
        match row.reason.as_str() {
            "conforming" | "unlimited" => counted.passed += packets,
            "source-to-destination-limited" => counted.of_source += packets,
            "destination-limited" => counted.of_destination += packets,
            // The kernel says hello to its neighbours.
            "neighbour-discovery" | "not-ip" => {}
            other => panic!("{other}"),
        }
    }
    counted
}

/// Waits until `packets` are counted.
fn counted_of(service: &Service, packets: u64) -> Counted {
    service.wait_for("all packets", || {
        let counted = counted(service);
        (counted.passed + counted.of_source + counted.of_destination == packets).then_some(counted)
    })
}

fn send(lab: &Lab, source: Ipv4Addr, destination: Ipv4Addr, packets: u64) {
    lab.send(&frame(source, destination), packets).unwrap();
}

/// 198.51.100.0/24 has these limits, and each source has room for many packets.
fn scene(limits: &[Limit], of_each_source: &[Limit]) -> Scene {
    let destination = of_destination(limits, 7).in_slot(NODE_POLICIES + 3);
    let further = policy(of_each_source, 8).for_destination();
    let scene = Scene {
        settings: Settings::new(0, false).with_destinations(),
        policies: vec![
            policy(&[packets(1 << 26)], 0),
            if of_each_source.is_empty() {
                destination
            } else {
                destination.with_further(2)
            },
            further,
        ],
        ..Scene::default()
    };
    scene.with(
        "198.51.100.0/24",
        ListEntry::default().as_destination(Some(1)),
    )
}

fn of_destination(limits: &[Limit], scope: u32) -> Policy {
    let policy = policy(limits, scope).in_shares(node::share_shift(2));
    policy.for_destination()
}

fn policy(limits: &[Limit], scope: u32) -> Policy {
    Policy::new(limits, scope, false).expect("a policy has at most 8 limits")
}

fn packets(amount: u64) -> Limit {
    limit(amount, Unit::Packets, Duration::from_secs(1))
}

fn frame(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut frame = datagram(source);
    frame[30..34].copy_from_slice(&destination.octets());
    frame
}

/// An address of 203.0.113.0/24.
fn source(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, last)
}

/// Lets the kernel judge, where it can, and the host.
fn each_judge(scene: &Scene, packets: impl Fn(&mut dyn Judge)) {
    let constants = Constants::default();
    packets(&mut scene.in_memory(&constants));
    require_root!();
    cpu::pin(0);
    packets(&mut Pooled::with(&constants, scene).unwrap());
}

fn check(judge: &mut dyn Judge, frame: &[u8], expected: Verdict) {
    let verdict = judge.judge(frame, Instant::from_nanos(1 << 40));
    assert_eq!(verdict, expected, "{}", judge.name());
}
