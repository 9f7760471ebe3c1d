//! The source inside a tunnel is judged instead of that of the tunnel: in the kernel and on the
//! host.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    time::Duration,
};

use ratelimit_common::{
    ClassSet, DropReason, Instant, Limit, ListEntry, PassReason, Policy, Settings, Unit, Verdict,
    challenge::{Rules, Trigger},
    class::Property,
    layout::NODE_POLICIES,
    node,
    parse::{LinkLayer, Tunnels, tunnel::Tunnel},
};
use ratelimit_core::class_tables::ClassTables;
use ratelimit_tests::{
    Frame, Scene, cpu,
    packet::{
        ENDPOINT_V4, ETHERNET_BYTES, Extension, GENEVE_PORT, IPV4_BYTES, IPV6_BYTES, Ipv4Options,
        SYN, VLAN, VXLAN_PORT, around, tunnels,
    },
    program::Constants,
    scene::{Judge, banned_until, limit},
};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Instant = Instant::from_nanos(1 << 40);
const IPV4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 0x77);

const BANNED: Verdict = Verdict::Drop(DropReason::Banned);
const CONFORMING: Verdict = Verdict::Pass(PassReason::Conforming);
const TRUNCATED: Verdict = Verdict::Drop(DropReason::TunnelTruncated);
const TOO_DEEP: Verdict = Verdict::Drop(DropReason::TunnelDepth);

#[test]
fn a_ban_of_the_source_inside_holds_in_every_tunnel() {
    for judge in &mut judges(&inside_banned(), tunnels()) {
        for (name, frame) in whole() {
            check(judge, &name, &frame, BANNED);
        }
    }
}

#[test]
fn a_ban_of_the_tunnel_is_none_of_the_source_inside() {
    for judge in &mut judges(&outside_banned(), tunnels()) {
        for (name, frame) in whole() {
            check(judge, &name, &frame, CONFORMING);
        }
    }
}

#[test]
fn a_tunnel_that_is_not_configured_is_judged_by_its_own_source() {
    for judge in &mut judges(&outside_banned(), Tunnels::NONE) {
        for (name, frame) in whole() {
            let is_ip = !name.contains("mpls") && !name.contains("pppoe");
            let passed = Verdict::Pass(PassReason::NotIp);
            check(judge, &name, &frame, if is_ip { BANNED } else { passed });
        }
    }
    // Each separately: other tunnels are not unwrapped.
    let one = |tunnel: Tunnel| Tunnels::NONE.with(tunnel, tunnel.port().unwrap_or(0));
    for tunnel in Tunnel::ALL {
        let mut host = inside_banned().in_memory(&constants(one(tunnel)));
        for (name, frame) in whole() {
            let is_named = name.contains(tunnel.label());
            let verdict = Judge::judge(&mut host, &frame, NOW);
            assert_eq!(verdict == BANNED, is_named, "{tunnel:?}: {name}");
        }
    }
}

#[test]
fn a_tunnel_that_is_cut_anywhere_is_dropped_or_judged_by_its_own_source() {
    for judge in &mut judges(&inside_banned(), tunnels()) {
        for (name, front) in around() {
            let known = known_from(&name);
            for inner in [front.clone().ipv4(IPV4), front.clone().ipv6(IPV6)] {
                let end = inner.clone().build().len();
                let frame = inner.udp(9).build();
                // The host decides as the kernel does: there, some lengths and those around each
                // bound are enough.
                let is_kernel = judge.name() == "kernel";
                let is_wanted = |bytes: &usize| {
                    let bounds = [ETHERNET_BYTES, known, end, frame.len()];
                    !is_kernel
                        || bytes.is_multiple_of(7)
                        || bounds.iter().any(|it| bytes.abs_diff(*it) < 2)
                };
                for bytes in (ETHERNET_BYTES..=frame.len()).filter(is_wanted) {
                    let name = format!("{name}, {bytes} of {end} bytes");
                    let verdict = judge.judge(&frame[..bytes], NOW);
                    let expected = match bytes {
                        _ if bytes >= end => [BANNED; 3],
                        _ if bytes >= known => [TRUNCATED; 3],
                        // The number of the next header is at the beginning of an extension header.
                        _ => [CONFORMING, Verdict::Drop(DropReason::Truncated), TRUNCATED],
                    };
                    assert!(
                        expected.contains(&verdict),
                        "{}: {name}: {verdict:?}",
                        judge.name()
                    );
                }
            }
        }
    }
}

/// The bytes of a frame from which on it is known for a tunnel: the headers in front, with that of
/// UDP where a port tells.
fn known_from(name: &str) -> usize {
    let of = |part: &str, bytes| if name.contains(part) { bytes } else { 0 };
    let tags =
        4 * usize::from(name.starts_with("VLAN")) + 4 * usize::from(name.starts_with("VLANs"));
    let network = of("IPv4", IPV4_BYTES) + of("IPv6", IPV6_BYTES) + of("limit", 8);
    ETHERNET_BYTES + tags + network + of("vxlan", 8) + of("geneve", 8)
}

#[test]
fn one_tunnel_is_looked_into() {
    let scene = unknown().with("198.51.100.1", banned_until(u64::MAX));
    let middle = Ipv4Addr::new(198, 51, 100, 1);
    for judge in &mut judges(&scene, tunnels()) {
        for (name, front) in around() {
            let nested = front.clone().ipv4(middle).gre_with(0).ipv4(IPV4);
            check(judge, &name, &nested.udp(9).build(), BANNED);
            let nested = front.ipv4(IPV4).ipv4(middle).udp(9).build();
            check(judge, &name, &nested, CONFORMING);
        }
    }
}

#[test]
fn unreadable_tunnels_are_judged_by_the_source_of_the_tunnel() {
    let outer = || Frame::ethernet().ipv4(ENDPOINT_V4);
    let patched = |frame: Frame, at: usize, byte: u8| {
        let mut bytes = frame.ipv4(IPV4).udp(9).build();
        bytes[ETHERNET_BYTES + IPV4_BYTES + at] = byte;
        bytes
    };
    let part = |offset| Ipv4Options::fragment(offset, true);
    let fragment = |offset| Frame::ethernet().ipv4_with(ENDPOINT_V4, &part(offset));
    let frames = [
        ("later fragment", fragment(1).ipv4(IPV4).udp(9).build()),
        ("PPTP", patched(outer().gre_with(0), 1, 1)),
        ("source route", patched(outer().gre_with(0), 0, 0x40)),
        ("GRE of ARP", patched(outer().gre_with(0), 3, 0x06)),
        ("no VXLAN", patched(outer().vxlan(VXLAN_PORT), 8, 0)),
        (
            "other port",
            outer().vxlan(VXLAN_PORT + 1).ipv4(IPV4).build(),
        ),
        (
            "VXLAN of ARP",
            outer().vxlan(VXLAN_PORT).payload(&[0; 40]).build(),
        ),
        ("GENEVE 1", patched(outer().geneve(GENEVE_PORT, 0), 8, 0x40)),
        ("UDP alone", outer().udp(VXLAN_PORT).build()[..40].to_vec()),
    ];
    for judge in &mut judges(&outside_banned(), tunnels()) {
        for (name, frame) in &frames {
            check(judge, name, frame, BANNED);
        }
    }
    // For the first fragment, the inner source is known.
    for judge in &mut judges(&inside_banned(), tunnels()) {
        let first = fragment(0).ipv4(IPV4).udp(9).build();
        check(judge, "first fragment", &first, BANNED);
    }
}

/// A frame may be padded with anything behind the first fragment, which is not what the packet has
/// there once it is put together.
type Encapsulate = fn(Frame) -> Frame;

#[test]
fn a_first_fragment_that_ends_in_the_headers_of_a_tunnel_is_dropped_whatever_follows_it() {
    let part = Ipv4Options::fragment(0, true);
    let harmless = Ipv4Addr::new(203, 0, 113, 78);
    let inside: [(&str, Encapsulate); 4] = [
        ("ipip", |it| it),
        ("gre", |it| it.gre_with(0x30)),
        ("vxlan", |it| it.vxlan(VXLAN_PORT)),
        ("geneve", |it| it.geneve(GENEVE_PORT, 5)),
    ];
    let mut judges = judges(&unknown(), tunnels());
    for (name, around) in inside {
        let outer = Frame::ethernet().ipv4_with(ENDPOINT_V4, &part);
        let whole = around(outer).ipv4(harmless);
        let end = whole.clone().build().len() - ETHERNET_BYTES;
        let frame = whole.udp(9).payload(&[0; 64]).build();
        for bytes in (IPV4_BYTES + 8..end + 16).step_by(8) {
            // Also where the padding says that it is no tunnel.
            for is_zeroed in [false, true] {
                let mut frame = frame.clone();
                let [high, low] = u16::try_from(bytes).unwrap().to_be_bytes();
                frame[ETHERNET_BYTES + 2..][..2].copy_from_slice(&[high, low]);
                if is_zeroed {
                    frame[ETHERNET_BYTES + bytes..].fill(0);
                }
                let expected = if bytes < end { TRUNCATED } else { CONFORMING };
                for judge in &mut judges {
                    check(
                        judge,
                        &format!("{name}, {bytes} of {end}"),
                        &frame,
                        expected,
                    );
                }
            }
        }
    }
}

#[test]
fn what_a_router_redirects_to_a_cache_is_judged_by_the_source_inside() {
    const WCCP: [u8; 2] = [0x88, 0x3e];
    let redirected = |header: &[u8]| {
        let outer = Frame::ethernet().ipv4(ENDPOINT_V4).gre_with(0);
        let mut frame = outer.ipv4(IPV4).udp(9).build();
        let inside = ETHERNET_BYTES + IPV4_BYTES + 4;
        frame[inside - 2..inside].copy_from_slice(&WCCP);
        frame.splice(inside..inside, header.iter().copied());
        frame
    };
    for judge in &mut judges(&inside_banned(), tunnels()) {
        check(judge, "version 1", &redirected(&[]), BANNED);
        check(judge, "version 2", &redirected(&[0, 7, 0, 0]), BANNED);
        check(
            judge,
            "cut",
            &redirected(&[])[..ETHERNET_BYTES + IPV4_BYTES + 4],
            TRUNCATED,
        );
    }
}

#[test]
fn what_is_no_ip_inside_of_a_link_passes() {
    let mpls = Frame::ethernet().mpls(2).payload(&[0; 60]).build();
    let mut control = Frame::ethernet().pppoe().payload(&[0; 60]).build();
    control[ETHERNET_BYTES + 6..][..2].copy_from_slice(&[0xc0, 0x21]);
    for judge in &mut judges(&inside_banned(), tunnels()) {
        let passed = Verdict::Pass(PassReason::NotIp);
        check(judge, "Ethernet over MPLS", &mpls, passed);
        check(judge, "PPP control", &control, passed);
    }
    // Linux takes the packet inside all the same.
    for (at, byte) in [(1, 9), (0, 0x21), (0, 0)] {
        let mut odd = Frame::ethernet().pppoe().ipv4(IPV4).build();
        odd[ETHERNET_BYTES + at] = byte;
        for judge in &mut judges(&inside_banned(), tunnels()) {
            check(judge, "odd PPPoE", &odd, TRUNCATED);
        }
    }
    // Where both ends leave out the first byte of the protocol.
    let mut short = Frame::ethernet().pppoe().ipv4(IPV4).udp(9).build();
    short.remove(ETHERNET_BYTES + 6);
    for judge in &mut judges(&inside_banned(), tunnels()) {
        check(judge, "short protocol", &short, BANNED);
    }
}

#[test]
fn headers_nested_too_deep_are_dropped() {
    let outer = || Frame::ethernet().ipv4(ENDPOINT_V4);
    let far = |units| {
        let far = Frame::ethernet().ipv6(IPV6);
        let far = far.extension(Extension::Destination(units));
        far.ipv4(IPV4).udp(9).build()
    };
    let tags = |count| {
        let inside = outer().vxlan(VXLAN_PORT);
        let inside = (0..count).fold(inside, |frame, _| frame.vlan(VLAN, 1));
        inside.ipv4(IPV4).udp(9).build()
    };
    for judge in &mut judges(&inside_banned(), tunnels()) {
        let labels = |count| Frame::ethernet().mpls(count).ipv4(IPV4).udp(9).build();
        check(judge, "8 labels", &labels(8), BANNED);
        check(judge, "9 labels", &labels(9), TOO_DEEP);
        let too_many = Verdict::Drop(DropReason::VlanDepth);
        check(judge, "2 tags inside", &tags(2), BANNED);
        check(judge, "3 tags inside", &tags(3), too_many);
        // 14 + 40 + 8 + 8 * units bytes.
        check(judge, "470 bytes", &far(51), BANNED);
        check(judge, "478 bytes", &far(52), TOO_DEEP);
    }
}

#[test]
fn neighbour_discovery_inside_of_a_tunnel_is_judged_as_any_packet() {
    let neighbour = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
    let scene = unknown().with("fe80::7", banned_until(u64::MAX));
    for judge in &mut judges(&scene, tunnels()) {
        let solicitation = |front: Frame| front.ipv6_with(neighbour, 255).icmpv6(135).build();
        let outside = solicitation(Frame::ethernet());
        let passed = Verdict::Pass(PassReason::NeighbourDiscovery);
        check(judge, "outside", &outside, passed);
        for (name, front) in around() {
            check(judge, &name, &solicitation(front), BANNED);
        }
    }
}

#[test]
fn no_source_is_challenged_inside_of_a_tunnel() {
    let scene = Scene {
        settings: Settings::new(0, false).with_challenge(true),
        challenge: Rules::new(Trigger::Always, SECOND, NonZeroU32::new(1000).unwrap(), 1).unwrap(),
        ..unknown()
    };
    for judge in &mut judges(&scene, tunnels()) {
        let outside = Frame::ethernet().ipv4(IPV4).tcp(80, SYN).build();
        check(
            judge,
            "outside",
            &outside,
            Verdict::Drop(DropReason::Challenged),
        );
        for (name, front) in around() {
            let syn = front.clone().ipv4(IPV4).tcp(80, SYN).build();
            check(judge, &name, &syn, CONFORMING);
            let syn = front.ipv6(IPV6).tcp(80, SYN).build();
            check(judge, &name, &syn, CONFORMING);
        }
    }
}

/// SYNs inside of a tunnel are none of those that may come in a second.
#[test]
fn what_comes_inside_of_a_tunnel_turns_no_challenge_on() {
    const OVER: u32 = 300;
    let when = Trigger::Over(NonZeroU32::new(OVER).unwrap());
    let scene = Scene {
        settings: Settings::new(0, false).with_challenge(true),
        challenge: Rules::new(when, SECOND, NonZeroU32::new(1000).unwrap(), 1).unwrap(),
        ..unknown()
    };
    for judge in &mut judges(&scene, tunnels()) {
        let outside = Frame::ethernet().ipv4(IPV4).tcp(80, SYN).build();
        let (name, front) = around().swap_remove(0);
        let inside = front.ipv4(IPV4).tcp(80, SYN).build();
        for _ in 0..OVER {
            check(judge, "outside", &outside, CONFORMING);
            check(judge, &name, &inside, CONFORMING);
        }
        let challenged = Verdict::Drop(DropReason::Challenged);
        check(judge, "outside", &outside, challenged);
    }
}

#[test]
fn classes_are_those_of_the_packet_inside_and_the_vlan_is_that_outside() {
    let class = ClassSet::from_bits(1);
    let mut classes = ClassTables::default();
    classes.add(class, |property, value| match property {
        Property::DestinationPort => value == 4242,
        Property::HopsAndService => value >> 8 == 64,
        Property::Vlan => value == 7,
        _ => true,
    });
    let limits = [limit(100_000, Unit::Packets, SECOND).for_classes(class)];
    let scene = Scene {
        settings: Settings::new(0, false).with_classes().asking_headers(true),
        classes,
        ..Scene::limited(&limits)
    };
    for judge in &mut judges(&scene, tunnels()) {
        for (name, front) in around() {
            // The VLAN is that outside.
            let is_tagged = name.starts_with("VLAN");
            let unlimited = Verdict::Pass(PassReason::Unlimited);
            let expected = if is_tagged { CONFORMING } else { unlimited };
            let packet = front.clone().ipv4(IPV4).udp(4242).build();
            check(judge, &name, &packet, expected);
            let packet = front.clone().ipv6(IPV6).udp(4242).build();
            check(judge, &name, &packet, expected);
            let packet = front.clone().ipv6(IPV6).udp(4243).build();
            check(judge, &name, &packet, unlimited);
            let packet = front.ipv6_with(IPV6, 63).udp(4242).build();
            check(judge, &name, &packet, unlimited);
        }
    }
}

#[test]
fn a_destination_is_that_of_the_packet_inside() {
    let policy = |limits: &[Limit], scope| Policy::new(limits, scope, false).unwrap();
    let of_destination = policy(&[limit(1, Unit::Packets, SECOND)], 7);
    let of_destination = of_destination.in_shares(node::share_shift(2));
    let scene = Scene {
        settings: Settings::new(0, false).with_destinations(),
        policies: vec![
            policy(&[limit(100_000, Unit::Packets, SECOND)], 0),
            of_destination.for_destination().in_slot(NODE_POLICIES + 3),
        ],
        ..Scene::default()
    };
    let entry = ListEntry::default().as_destination(Some(1));
    let scene = scene.with("198.51.100.1", entry);
    cpu::pin(0);
    for judge in &mut judges(&scene, tunnels()) {
        let limited = Verdict::Drop(DropReason::DestinationLimited);
        let first = Frame::ethernet().ipv4(IPV4).udp(9).build();
        check(judge, "first", &first, CONFORMING);
        for (name, front) in around() {
            let to_limited = front.clone().ipv4(IPV4).udp(9).build();
            check(judge, &name, &to_limited, limited);
            let to_other = front.ipv6(IPV6).udp(9).build();
            check(judge, &name, &to_other, CONFORMING);
        }
    }
}

#[test]
fn tunnels_in_ip_are_looked_into_without_a_link_layer() {
    let scene = inside_banned();
    let constants = Constants {
        link_layer: LinkLayer::None,
        ..constants(tunnels())
    };
    for judge in &mut scene.judges(&constants) {
        for (name, front) in around() {
            if name.starts_with("IPv") {
                for frame in inside(&front) {
                    check(judge, &name, &frame[ETHERNET_BYTES..], BANNED);
                }
            }
        }
    }
}

/// Every source has a limit that no test reaches.
fn unknown() -> Scene {
    Scene::limited(&[limit(100_000, Unit::Packets, SECOND)])
}

fn inside_banned() -> Scene {
    let scene = unknown().with("203.0.113.77", banned_until(u64::MAX));
    scene.with("2001:db8:7:7::/64", banned_until(u64::MAX))
}

fn outside_banned() -> Scene {
    let scene = unknown().with("198.51.100.77", banned_until(u64::MAX));
    scene.with("2001:db8:77::/64", banned_until(u64::MAX))
}

/// Packets of both families in every tunnel.
fn whole() -> Vec<(String, Vec<u8>)> {
    let named = |(name, front): (String, Frame)| inside(&front).map(|frame| (name.clone(), frame));
    around().into_iter().flat_map(named).collect()
}

fn inside(front: &Frame) -> [Vec<u8>; 2] {
    [front.clone().ipv4(IPV4), front.clone().ipv6(IPV6)].map(|it| it.udp(9).build())
}

fn constants(tunnels: Tunnels) -> Constants {
    Constants {
        tunnels,
        ..Constants::default()
    }
}

/// Everything that judges, with the scene set up.
fn judges(scene: &Scene, tunnels: Tunnels) -> Vec<Box<dyn Judge>> {
    // Each CPU draws its own share of the total.
    cpu::pin(0);
    scene.judges(&constants(tunnels))
}

fn check(judge: &mut Box<dyn Judge>, name: &str, frame: &[u8], expected: Verdict) {
    let verdict = judge.judge(frame, NOW);
    assert_eq!(verdict, expected, "{}: {name}", judge.name());
}
