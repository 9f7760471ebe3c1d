//! The lookup cache of a CPU agrees with the lists, until they change, and until a ban or an allow
//! ends.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_common::{
    DropReason, Instant, ListEntry, PassReason, Policy, Settings, Unit, Verdict,
    layout::NODE_POLICIES,
};
use ratelimit_core::prefix::Prefix;
use ratelimit_tests::{
    Frame, Program, Scene, cpu,
    pool::Pooled,
    program::{CONFORMING, Constants},
    require_root,
    scene::{Judge, limit},
};

const BANNED: Verdict = Verdict::Drop(DropReason::Banned);
const ALLOWED: Verdict = Verdict::Pass(PassReason::Allowed);
const SOURCES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6)),
];
/// The destinations of packets of those sources.
const DESTINATIONS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1)),
];
/// A time whose answers are kept.
const START: u64 = 1 << 40;
const SECOND: u64 = 1_000_000_000;

#[test]
fn an_answer_is_cached_until_the_generation_changes() {
    require_root!();
    let mut program = program();
    for source in SOURCES {
        set(&mut program, source, ban());
        assert_eq!(judge(&mut program, source, 0), BANNED);
        set_unnoticed(&mut program, source, ListEntry::default());
        assert_eq!(judge(&mut program, source, 1), BANNED, "it is remembered");
        change_generation(&program, |generation| generation + 2);
        assert_eq!(judge(&mut program, source, 2), CONFORMING);
    }
}

#[test]
fn the_policy_of_a_destination_is_cached_until_the_lists_change() {
    require_root!();
    let mut program = program_with(Settings::new(0, false).with_destinations());
    let one = [limit(1, Unit::Packets, Duration::from_secs(1))];
    let limited = Verdict::Drop(DropReason::DestinationLimited);
    for (index, (source, destination)) in (1..).zip(SOURCES.into_iter().zip(DESTINATIONS)) {
        let policy = Policy::new(&one, index, false).unwrap().for_destination();
        let policy = policy.in_shares(8).in_slot(NODE_POLICIES + index);
        program.set_policy(index, &policy).unwrap();
        let limits = ListEntry::default().as_destination(Some(index));
        set(&mut program, destination, ListEntry::default());
        assert_eq!(judge(&mut program, source, 0), CONFORMING);
        set_unnoticed(&mut program, destination, limits);
        for _ in 0..3 {
            assert_eq!(
                judge(&mut program, source, 0),
                CONFORMING,
                "it is remembered"
            );
        }
        for (entry, verdicts) in [
            (limits, [CONFORMING, limited]),
            (ListEntry::default(), [CONFORMING; 2]),
        ] {
            set(&mut program, destination, entry);
            for verdict in verdicts {
                assert_eq!(judge(&mut program, source, 0), verdict);
            }
        }
        change_generation(&program, |generation| generation + 1);
        set_unnoticed(&mut program, destination, limits);
        assert_eq!(judge(&mut program, source, 0), limited, "the lists change");
        change_generation(&program, |generation| generation + 1);
    }
}

#[test]
fn an_allow_that_is_cached_ends_at_its_end_and_the_ban_beneath_it_holds() {
    const TICK: u64 = 1 << 22;
    require_root!();
    let mut program = program();
    for source in SOURCES {
        set(&mut program, source, ban().with_allow_until(at(TICK)));
        for (nanos, verdict) in [
            (0, ALLOWED),
            (TICK - 1, ALLOWED),
            (TICK, BANNED),
            (SECOND - 1, BANNED),
            (SECOND, CONFORMING),
        ] {
            assert_eq!(judge(&mut program, source, nanos), verdict, "at {nanos} ns");
        }
    }
}

#[test]
fn nothing_is_cached_while_a_list_changes() {
    require_root!();
    let mut program = program();
    for source in SOURCES {
        set(&mut program, source, ban());
        assert_eq!(judge(&mut program, source, 0), BANNED, "and is remembered");
        change_generation(&program, |generation| generation | 1);
        for (entry, verdict) in [(ListEntry::default(), CONFORMING), (ban(), BANNED)] {
            set_unnoticed(&mut program, source, entry);
            assert_eq!(judge(&mut program, source, 0), verdict);
        }
        change_generation(&program, |generation| generation + 1);
    }
}

#[test]
fn an_answer_is_for_all_that_share_the_longest_prefix_near_them() {
    require_root!();
    let mut program = program();
    let sources = [
        ["203.0.113.77", "203.0.4.5", "203.0.255.1"],
        ["2001:db8:1:2:3:4:5:6", "2001:db8:1::7", "2001:db8:1:ffff::"],
    ];
    for ([asked, neighbours @ ..], length) in sources.into_iter().zip([16, 48]) {
        let asked: IpAddr = asked.parse().unwrap();
        let listed = around(asked, length);
        program.set_list_entry(listed, ban()).unwrap();
        assert_eq!(judge(&mut program, asked, 0), BANNED);
        program
            .set_list_entry_unnoticed(listed, ListEntry::default())
            .unwrap();
        for neighbour in neighbours {
            let neighbour = neighbour.parse().unwrap();
            assert_eq!(judge(&mut program, neighbour, 0), BANNED, "{neighbour}");
        }
        // A longer prefix near them invalidates what was cached without it.
        let [longer, ..] = neighbours;
        let longer = around(longer.parse().unwrap(), length + 8);
        program
            .set_list_entry(longer, ListEntry::default())
            .unwrap();
        assert_eq!(judge(&mut program, asked, 0), CONFORMING);
    }
}

#[test]
fn what_is_cached_is_the_longest_match_however_prefixes_lie_in_each_other() {
    require_root!();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..8 {
        let mut program = program();
        let mut listed = Vec::new();
        for _ in 0..rng.usize(1..12) {
            let (address, length) = (near(&mut rng), rng.u8(..=32));
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let is_allowed = rng.bool();
            let entry = if is_allowed {
                ListEntry::new(true, None, None)
            } else {
                ban()
            };
            program
                .set_list_entry(around(v4(address), length), entry)
                .unwrap();
            listed.retain(|(front, others, _)| (*front, *others) != (address & mask, length));
            listed.push((address & mask, length, is_allowed));
        }
        for _ in 0..1_500 {
            let address = near(&mut rng);
            let around = listed.iter().filter(|(front, length, _)| {
                let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
                address & mask == *front
            });
            let expected = match around.max_by_key(|(_, length, _)| length) {
                None => CONFORMING,
                Some((_, _, true)) => Verdict::Pass(PassReason::Allowed),
                Some((_, _, false)) => BANNED,
            };
            let source = v4(address);
            assert_eq!(
                judge(&mut program, source, 0),
                expected,
                "{source} of {listed:x?}"
            );
        }
    }
}

/// Returns one of a few addresses that share many prefixes of every length.
fn near(rng: &mut fastrand::Rng) -> u32 {
    0xcb00_7100 ^ rng.u32(..4) << 22 ^ rng.u32(..4) << 15 ^ rng.u32(..4) << 7 ^ rng.u32(..4)
}

fn v4(address: u32) -> IpAddr {
    Ipv4Addr::from_bits(address).into()
}

fn program() -> Pooled {
    program_with(Settings::new(0, false))
}

fn program_with(settings: Settings) -> Pooled {
    // Each CPU remembers for itself.
    cpu::pin(0);
    let limits = [limit(1_000_000, Unit::Packets, Duration::from_secs(1))];
    let scene = Scene {
        settings,
        ..Scene::limited(&limits)
    };
    Pooled::with(&Constants::default(), &scene).expect("the program loads")
}

/// A ban of a second.
fn ban() -> ListEntry {
    ListEntry::new(false, Some(at(SECOND)), None)
}

/// Lists a source by its address, as the daemon does.
fn set(program: &mut Program, source: IpAddr, entry: ListEntry) {
    let host = around(source, bits(source));
    program.set_list_entry(host, entry).unwrap();
}

/// Changes an entry without invalidating the caches.
fn set_unnoticed(program: &mut Program, source: IpAddr, entry: ListEntry) {
    let host = around(source, bits(source));
    program.set_list_entry_unnoticed(host, entry).unwrap();
}

fn around(address: IpAddr, length: u8) -> Prefix {
    Prefix::around(address, length).unwrap()
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn change_generation(program: &Program, change: impl Fn(u64) -> u64) {
    program
        .ipv4
        .set_generation(change(program.ipv4.generation()));
    program
        .ipv6
        .set_generation(change(program.ipv6.generation()));
}

fn judge(program: &mut Program, source: IpAddr, after_ns: u64) -> Verdict {
    let frame = match source {
        IpAddr::V4(address) => Frame::ethernet().ipv4(address),
        IpAddr::V6(address) => Frame::ethernet().ipv6(address),
    };
    let frame = frame.udp(53).pad_to(80).build();
    Judge::judge(program, &frame, at(after_ns))
}

fn at(after_ns: u64) -> Instant {
    Instant::from_nanos(START + after_ns)
}
