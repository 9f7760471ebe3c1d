//! The sources of packets: neighbours on the link, invalid addresses, and fragments that hide their
//! content.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_common::{
    ClassSet, DropReason, Instant, Limit, ListEntry, PassReason, Settings, Unit, Verdict,
    algorithm::SlidingLog, layout::store, neighbour_discovery, parse::transport::Kind,
};
use ratelimit_core::class_tables::ClassTables;
use ratelimit_tests::{
    Frame, Scene, cpu,
    packet::{Extension, Ipv4Options, SYN},
    pool::Pooled,
    program::{CONFORMING, Constants, LIMITED, source_masks},
    require_root,
    scene::{Judge, banned_until, limit, of_kind},
};

const START_NS: u64 = 1 << 40;
const SECOND_NS: u64 = 1_000_000_000;
const HOUR: Duration = Duration::from_hours(1);
const INVALID: Verdict = Verdict::Drop(DropReason::InvalidSource);
const DISCOVERED: Verdict = Verdict::Pass(PassReason::NeighbourDiscovery);
const BEYOND: Verdict = Verdict::Drop(DropReason::NeighbourDiscovery);

#[test]
fn neighbours_on_the_link_are_sources_of_their_own() {
    let scene = Scene::limited(&[one_an_hour()]);
    each_judge(&scene, |judge| {
        for neighbour in [
            "fe80::1",
            "fe80::2",
            "fe80::5054:ff:fe12:3456",
            "fe80::5054:ff:fe12:3457",
            "fe80::a1b2:c3d4:e5f6:789a",
            "fe80::a1b2:c3d4:e5f7:789a",
        ] {
            let frame = from_v6(neighbour).udp(53);
            check(judge, &frame, CONFORMING);
            check(judge, &frame, LIMITED);
        }
        check(judge, &from_v6("2001:db8::1").udp(53), CONFORMING);
        check(judge, &from_v6("2001:db8::2").udp(53), LIMITED);
    });
}

#[test]
fn a_group_or_a_broadcast_address_sends_nothing_whatever_the_lists_say() {
    let allowed = ListEntry::new(true, None, None);
    let scene = Scene::limited(&[one_an_hour()])
        .with("0.0.0.0/0", allowed)
        .with("::/0", allowed);
    each_judge(&scene, |judge| {
        for invalid in [
            "224.0.0.1",
            "239.255.255.255",
            "255.0.113.7",
            "255.255.255.255",
        ] {
            check(judge, &from_v4(invalid).udp(53), INVALID);
        }
        let on_link = Frame::ethernet().ipv6_with("ff02::1".parse().unwrap(), 255);
        check(judge, &on_link.icmpv6(135), INVALID);
        check(judge, &from_v6("ffff:2001:db8::").udp(53), INVALID);
        for valid in ["223.255.255.255", "240.0.0.1", "254.0.0.1", "0.0.0.0"] {
            check(
                judge,
                &from_v4(valid).udp(53),
                Verdict::Pass(PassReason::Allowed),
            );
        }
        for valid in ["::", "fec0::1", "fe80::1"] {
            check(
                judge,
                &from_v6(valid).udp(53),
                Verdict::Pass(PassReason::Allowed),
            );
        }
    });
    let observed = Scene {
        settings: Settings::new(0, true),
        ..Scene::default()
    };
    each_judge(&observed, |judge| {
        let verdict = Verdict::Observe(DropReason::InvalidSource);
        check(judge, &from_v4("224.0.0.1").udp(53), verdict);
    });
    let open = Scene {
        settings: Settings::new(0, false).with_pass_all(true),
        pass_all_until: Instant::from_nanos(u64::MAX),
        ..Scene::default()
    };
    each_judge(&open, |judge| {
        let verdict = Verdict::Pass(PassReason::PassAll);
        check(judge, &from_v4("224.0.0.1").udp(53), verdict);
    });
}

#[test]
fn neighbour_discovery_passes_within_its_budget_and_beyond_it_from_allowed_sources() {
    let allowed = ListEntry::new(true, None, None);
    let scene = Scene::limited(&[one_an_hour()])
        .with("fe80::7/128", allowed)
        .with("fe80::8/128", banned_until(u64::MAX));
    each_judge(&scene, |judge| {
        let solicitation = |source: &str| on_link(source).icmpv6(135);
        for number in 0..neighbour_discovery::AMOUNT {
            let source = ["fe80::7", "fe80::8", "fe80::9"][(number % 3) as usize];
            check(judge, &solicitation(source), DISCOVERED);
        }
        check(judge, &solicitation("fe80::9"), BEYOND);
        check(
            judge,
            &solicitation("fe80::8"),
            Verdict::Drop(DropReason::Banned),
        );
        check(
            judge,
            &solicitation("fe80::7"),
            Verdict::Pass(PassReason::Allowed),
        );
        // Anything else has its own limits.
        check(judge, &from_v6("fe80::9").udp(53), CONFORMING);
        let later = START_NS + SECOND_NS * 11 / 10;
        check_at(judge, &solicitation("fe80::9"), later, DISCOVERED);
    });
}

#[test]
fn neighbour_discovery_behind_an_extension_header_is_none() {
    let scene = Scene::limited(&[one_an_hour()]).with("fe80::8/128", banned_until(u64::MAX));
    each_judge(&scene, |judge| {
        for header in Extension::ALL {
            let frame = on_link("fe80::8").extension(header).icmpv6(135);
            check(judge, &frame, Verdict::Drop(DropReason::Banned));
        }
        check(judge, &on_link("fe80::8").icmpv6(135), DISCOVERED);
    });
}

#[test]
fn of_requests_split_before_their_flags_no_more_pass_than_of_others() {
    let mut classes = ClassTables::default();
    let [requests, invalid] = [0, 1].map(|number| ClassSet::one(number).unwrap());
    classes.add(requests, of_kind(Kind::is_syn));
    classes.add(invalid, of_kind(Kind::is_invalid));
    for class in [requests, invalid] {
        let scene = Scene {
            settings: Settings::new(0, false).with_classes(),
            classes: classes.clone(),
            ..Scene::limited(&[one_an_hour().for_classes(class)])
        };
        each_judge(&scene, |judge| {
            for padding in [0, 60] {
                let first = Ipv4Options::fragment(0, true);
                let source = Ipv4Addr::new(203, 0, 113, 7 + padding);
                let frame = Frame::ethernet().ipv4_with(source, &first).tcp(80, SYN);
                let frame = split(frame.build(), 16, 28, padding);
                assert_eq!(passed(judge, &frame), 1, "IPv4 padded to {padding}");
                let first = Extension::Fragment {
                    offset: 0,
                    more: true,
                };
                let source = Ipv6Addr::new(0x2001, 0xdb8, 0, padding.into(), 0, 0, 0, 1);
                let frame = Frame::ethernet().ipv6(source).extension(first).tcp(80, SYN);
                let frame = split(frame.build(), 18, 16, padding);
                assert_eq!(passed(judge, &frame), 1, "IPv6 padded to {padding}");
            }
        });
    }
}

/// The first eight bytes of a segment, with the length at `place`, in a frame that may be padded.
fn split(mut frame: Vec<u8>, place: usize, length: u16, padding: u8) -> Vec<u8> {
    frame[place..place + 2].copy_from_slice(&length.to_be_bytes());
    frame.truncate(frame.len() - 12);
    frame.resize(frame.len().max(padding.into()), 0);
    frame
}

#[test]
fn an_ipv6_source_that_looks_like_one_of_ipv4_has_a_log_of_its_own() {
    require_root!();
    let log = SlidingLog::new(1, HOUR).unwrap();
    let scene = Scene::limited(&[Limit::new(log, Unit::Packets)]);
    let constants = Constants {
        masks: source_masks(32, 128),
        logs: 64,
        ..lru()
    };
    each_of(&scene, &constants, |judge| {
        check(judge, &from_v4("192.0.2.1").udp(53), CONFORMING);
        check(judge, &from_v6("::ffff:192.0.2.1").udp(53), CONFORMING);
        check(judge, &from_v4("192.0.2.1").udp(53), LIMITED);
        check(judge, &from_v6("::ffff:192.0.2.1").udp(53), LIMITED);
    });
}

fn one_an_hour() -> Limit {
    limit(1, Unit::Packets, HOUR)
}

fn from_v4(source: &str) -> Frame {
    Frame::ethernet().ipv4(source.parse().unwrap())
}

fn from_v6(source: &str) -> Frame {
    Frame::ethernet().ipv6(source.parse().unwrap())
}

fn on_link(source: &str) -> Frame {
    Frame::ethernet().ipv6_with(source.parse().unwrap(), 255)
}

fn lru() -> Constants {
    Constants {
        store: store::LRU,
        ..Constants::default()
    }
}

/// Lets the kernel judge, where it can, and the host, with either store.
fn each_judge(scene: &Scene, packets: impl Fn(&mut dyn Judge)) {
    each_of(scene, &lru(), &packets);
    let compact = Constants {
        store: store::COMPACT,
        sets: 1 << 12,
        ..Constants::default()
    };
    each_of(&scene.clone().in_sets(1 << 9), &compact, &packets);
}

fn each_of(scene: &Scene, constants: &Constants, packets: impl Fn(&mut dyn Judge)) {
    packets(&mut scene.in_memory(constants));
    require_root!();
    cpu::pin(0);
    packets(&mut Pooled::with(constants, scene).unwrap());
}

/// Counts the frames that pass, of twenty.
fn passed(judge: &mut dyn Judge, frame: &[u8]) -> usize {
    let now = Instant::from_nanos(START_NS);
    let verdicts = (0..20).map(|_| judge.judge(frame, now));
    verdicts
        .filter(|verdict| matches!(verdict, Verdict::Pass(_)))
        .count()
}

fn check(judge: &mut dyn Judge, frame: &Frame, expected: Verdict) {
    check_at(judge, frame, START_NS, expected);
}

fn check_at(judge: &mut dyn Judge, frame: &Frame, at_ns: u64, expected: Verdict) {
    let frame = frame.clone().build();
    let verdict = judge.judge(&frame, Instant::from_nanos(at_ns));
    assert_eq!(verdict, expected, "{}: {frame:02x?}", judge.name());
}
