//! A ban is a ban, and an allow is an allow, whatever follows the source address: in the kernel and
//! on the host.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_common::{DropReason, Instant, ListEntry, PassReason, Unit, Verdict};
use ratelimit_tests::{
    Frame, Scene,
    packet::{QINQ, VLAN},
    program::Constants,
    scene::{Judge, banned_until, limit},
    shapes::{self, Class, Shaped},
};

#[test]
fn there_are_shapes_enough() {
    let shapes = shapes::all(IPV4, IPV6);
    let mut names: Vec<_> = shapes.iter().map(|shape| shape.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(
        names.len(),
        shapes.len(),
        "every shape has a name of its own"
    );
    assert!(names.len() >= 60, "{} shapes", names.len());
}

#[test]
fn every_shape_from_a_banned_source_is_dropped() {
    for (ipv4, ipv6) in PREFIXES {
        let scene = unknown()
            .with(ipv4, banned_until(u64::MAX))
            .with(ipv6, banned_until(u64::MAX));
        check(&scene, Class::when_banned);
    }
}

#[test]
fn every_shape_from_an_allowed_source_passes_even_when_it_is_banned() {
    let allowed = ListEntry::new(true, Some(Instant::from_nanos(u64::MAX)), None);
    for (ipv4, ipv6) in PREFIXES {
        check(
            &unknown().with(ipv4, allowed).with(ipv6, allowed),
            Class::when_allowed,
        );
    }
}

#[test]
fn every_shape_passes_when_its_ban_has_ended() {
    for until in [1, NOW.as_nanos()] {
        let scene = unknown().with(PREFIXES[0].0, banned_until(until));
        check(
            &scene.with(PREFIXES[0].1, banned_until(until)),
            Class::when_unknown,
        );
    }
}

#[test]
fn every_shape_from_an_unknown_source_is_judged_by_its_limits() {
    check(&unknown(), Class::when_unknown);
}

#[test]
fn a_ban_of_one_source_is_none_of_its_neighbours() {
    let scene = unknown().with("203.0.113.78", banned_until(u64::MAX));
    let scene = scene.with("203.0.112.0/24", banned_until(u64::MAX));
    let scene = scene.with("2001:db8:7:7::78", banned_until(u64::MAX));
    let scene = scene.with("2001:db8:7:8::/64", banned_until(u64::MAX));
    check(&scene, Class::when_unknown);
}

#[test]
fn a_shape_that_is_cut_anywhere_behind_its_source_is_still_banned() {
    const NETWORK_HEADER_END: usize = 14 + 8 + 40;
    let scene = unknown().with("203.0.113.77", banned_until(u64::MAX));
    let scene = scene.with("2001:db8:7:7::77", banned_until(u64::MAX));
    for judge in &mut scene.judges(&Constants::default()) {
        for Shaped { name, class, frame } in shapes_for(&**judge) {
            for bytes in NETWORK_HEADER_END..frame.len().min(200) {
                let verdict = judge.judge(&frame[..bytes], NOW);
                let expected = [Class::Ordinary.when_banned(), class.when_banned()];
                assert!(
                    expected.contains(&verdict),
                    "{name}, {bytes} bytes: {verdict:?}"
                );
            }
        }
    }
}

#[test]
fn frames_past_a_bound_are_dropped_and_counted() {
    let tags = |count| (0..count).fold(Frame::ethernet(), |frame, _| frame.vlan(VLAN, 1));
    let allowed = ListEntry::new(true, None, None);
    let scene = unknown().with("203.0.113.77", allowed);
    for judge in &mut scene.judges(&Constants::default()) {
        let mut check = |frame: &[u8], reason| {
            assert_eq!(
                judge.judge(frame, NOW),
                Verdict::Drop(reason),
                "{}",
                judge.name()
            );
        };
        check(&tags(3).ipv4(IPV4).udp(53).build(), DropReason::VlanDepth);
        check(
            &tags(2).vlan(QINQ, 1).ipv6(IPV6).udp(53).build(),
            DropReason::VlanDepth,
        );
        check(&tags(100).ipv4(IPV4).udp(53).build(), DropReason::VlanDepth);
        check(&tags(2).build()[..16], DropReason::Truncated);
        check(&tags(0).ipv4(IPV4).build()[..33], DropReason::Truncated);
        check(&tags(0).ipv6(IPV6).build()[..53], DropReason::Truncated);
        check(&tags(2).ipv6(IPV6).build()[..61], DropReason::Truncated);
    }
}

#[test]
fn frames_without_ip_pass() {
    for judge in &mut unknown().judges(&Constants::default()) {
        // ARP, LLDP, LACP, PPPoE, a length instead of a type.
        for ethertype in [0x0806u16, 0x88cc, 0x8809, 0x8864, 60] {
            let mut frame = vec![0; 60];
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            assert_eq!(judge.judge(&frame, NOW), Verdict::Pass(PassReason::NotIp));
            assert_eq!(
                judge.judge(&frame[..14], NOW),
                Verdict::Pass(PassReason::NotIp)
            );
        }
    }
}

const IPV4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 0x77);
const NOW: Instant = Instant::from_nanos(86_400_000_000_000);

/// Prefixes around the sources, from exact to wide.
const PREFIXES: [(&str, &str); 6] = [
    ("203.0.113.77", "2001:db8:7:7::77"),
    ("203.0.113.0/24", "2001:db8:7:7::/64"),
    ("203.0.112.0/20", "2001:db8:7::/48"),
    ("203.0.0.0/16", "2001:db8::/32"),
    ("203.0.0.0/8", "2001::/20"),
    ("0.0.0.0/0", "::/0"),
];

/// Every source has limits that no test reaches, in packets and bytes.
fn unknown() -> Scene {
    let second = Duration::from_secs(1);
    let packets = limit(100_000, Unit::Packets, second);
    Scene::limited(&[packets, limit(100_000_000, Unit::Bytes, second)])
}

/// The shapes of which a judge takes frames.
fn shapes_for(judge: &dyn Judge) -> Vec<Shaped> {
    let shapes = shapes::all(IPV4, IPV6).into_iter();
    shapes
        .filter(|shape| judge.takes(shape.frame.len()))
        .collect()
}

fn check(scene: &Scene, expected: fn(Class) -> Verdict) {
    for judge in &mut scene.judges(&Constants::default()) {
        for Shaped { name, class, frame } in shapes_for(&**judge) {
            let verdict = judge.judge(&frame, NOW);
            assert_eq!(verdict, expected(class), "{}: {name}", judge.name());
        }
    }
}
