//! Scenes and times that are unlikely but possible in a configuration.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    time::Duration,
};

use fastrand::Rng;
use ratelimit_common::{
    BanBudget, BanBudgets, BanRule, ClassSet, Instant, Ipv4, Ipv6, Limit, ListEntry, Policy,
    Settings, Unit,
    aggregate::{Aggregate, Aggregates, LEVELS_MAX},
    algorithm::{Algorithm, FixedWindow, SlidingLog, SlidingWindow, TokenBucket},
    challenge::{Rules, Targets, Trigger},
    class::Property,
    layout::POLICIES_MAX,
    limit::LIMITS_MAX,
    list::{PolicyAction, Slots},
    new_sources::Budget,
    parse::transport::{Details, Kind, NO_PORT},
    settings::OverBudget,
    strikes::WITHIN_MIN,
};
use ratelimit_core::{class_tables::ClassTables, ip_family::IpAddress as _, prefix::Prefix};

use crate::{Scene, mutation::choose, program::TOTALS, scene::of_kind};

/// The destination of the packets of tests.
const DESTINATION: (Ipv4Addr, Ipv6Addr) = (
    Ipv4Addr::new(198, 51, 100, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1),
);

/// Policies of a scene.
const POLICIES: u16 = 8;

const DAY_NS: u64 = 86_400_000_000_000;

/// Sources that share prefixes of many lengths with each other.
pub fn sources(rng: &mut Rng, count: usize) -> Vec<(Ipv4Addr, Ipv6Addr)> {
    let mut ipv4 = u32::from(Ipv4Addr::new(203, 0, 113, 77));
    let mut ipv6 = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 0x77));
    let mut next = || {
        ipv4 ^= 1 << rng.u8(..32);
        ipv6 ^= 1 << rng.u8(..128);
        (ipv4.into(), ipv6.into())
    };
    let of_kind = |index, (ipv4, ipv6): (Ipv4Addr, Ipv6Addr)| match index % 6 {
        // Two neighbours on the link, and a group.
        0 | 1 => (
            ipv4,
            Ipv6Addr::from(0xfe80 << 112 | u128::from(ipv6) & u128::from(u64::MAX)),
        ),
        2 => (
            Ipv4Addr::from(u32::from(ipv4) | 0xe000_0000),
            Ipv6Addr::from(u128::from(ipv6) | 0xff << 120),
        ),
        // Packets with the same source and destination, and invalid sources.
        3 if index % 4 == 3 => DESTINATION,
        3 => (
            Ipv4Addr::from(u32::from(ipv4) & 0x00ff_ffff | 0x7f00_0000),
            Ipv6Addr::from(u128::from(ipv6) & u128::from(u32::MAX) | 0xffff_0000_0000),
        ),
        _ => (ipv4, ipv6),
    };
    (0..count).map(|index| of_kind(index, next())).collect()
}

/// A scene around these sources, at about `now`.
pub fn scene(rng: &mut Rng, sources: &[(Ipv4Addr, Ipv6Addr)], now: Instant) -> Scene {
    let destinations = (0..rng.u8(..5)).map(|_| (prefix(rng, &[DESTINATION]), entry(rng, now)));
    let destinations: Vec<(Prefix, ListEntry)> = destinations.collect();
    Scene {
        settings: settings(rng),
        pass_all_until: later(rng, now),
        classes: classes(rng),
        aggregates: [aggregates(rng, 32), aggregates(rng, 128)],
        ban_budgets: BanBudgets {
            established: BanBudget::per_minute(at_least_one(rng.u32(..12))),
            forgeable: BanBudget::per_minute(at_least_one(rng.u32(..12))),
        },
        new_sources: new_sources(rng),
        challenge: challenge(rng),
        policies: (0..POLICIES).map(|_| policy(rng)).collect(),
        entries: (0..rng.u8(..30))
            .map(|_| (prefix(rng, sources), entry(rng, now)))
            .chain(destinations)
            .collect(),
    }
}

/// A time to begin at: any, or one at which a counter of some width wraps.
pub fn start(rng: &mut Rng) -> Instant {
    let wraps_at = choose(rng, &[0, 1 << 31, 1 << 32, 1 << 52, 1 << 56, 1 << 63]);
    Instant::from_nanos(match rng.u8(..8) {
        0..4 => rng.u64(..) >> rng.u8(..32),
        4 => wraps_at,
        5 => wraps_at + 1,
        6 => wraps_at.wrapping_sub(1),
        // The boundary is within the duration of a round.
        _ => wraps_at.wrapping_sub(rng.u64(..10_000_000_000)),
    })
}

/// A time after `now`, or just before it: the clocks of two CPUs may differ.
pub fn later(rng: &mut Rng, now: Instant) -> Instant {
    let now = now.as_nanos();
    Instant::from_nanos(match rng.u8(..16) {
        0..4 => now.wrapping_add(rng.u64(..1_000)),
        4..10 => now.wrapping_add(rng.u64(..10_000_000)),
        10..13 => now.wrapping_add(rng.u64(..2_000_000_000)),
        13 => now.wrapping_add(rng.u64(..DAY_NS)),
        14 => now.saturating_sub(rng.u64(..10_000)),
        _ => now.wrapping_add(rng.u64(..) >> rng.u8(..64)),
    })
}

fn settings(rng: &mut Rng) -> Settings {
    let mut settings = Settings::new(policy_index(rng), rng.u8(..4) == 0);
    if rng.bool() {
        let asking = settings.with_classes().asking_headers(rng.bool());
        settings = asking.asking_destination(rng.bool());
    }
    // Without wider limits a packet takes the short way, where denials are cached.
    let has_layers = rng.u8(..3) > 0;
    if has_layers && rng.bool() {
        settings = settings.with_aggregates();
    }
    if has_layers && rng.u8(..4) > 0 {
        settings = settings.with_further();
    }
    if rng.u8(..4) > 0 {
        settings = settings.with_policy_bans();
    }
    if has_layers && rng.bool() {
        settings = settings.with_node(policy_index(rng));
    }
    if rng.bool() {
        let over_budget = choose(
            rng,
            &[OverBudget::Pass, OverBudget::Drop, OverBudget::Aggregate],
        );
        settings = settings.with_new_sources(over_budget);
    }
    if has_layers && rng.bool() {
        settings = settings.with_destinations();
    }
    settings
        .with_challenge(rng.bool())
        .with_pass_all(rng.u8(..8) == 0)
}

/// Fewer than the sources that come, and some that no packet of a round sees a second window of.
fn new_sources(rng: &mut Rng) -> Budget {
    let per = Duration::from_millis(rng.u64(66..100_000));
    Budget::new(at_least_one(rng.u32(..12)), per, 1).expect("they are few")
}

/// Few enough that the budgets are spent.
fn challenge(rng: &mut Rng) -> Rules {
    let when = if rng.bool() {
        Trigger::Over(at_least_one(rng.u32(..12)))
    } else {
        Trigger::Always
    };
    let lasts = Duration::from_millis(rng.u64(1..100_000));
    let rules = Rules::new(when, lasts, at_least_one(rng.u32(..12)), 1).expect("they are few");
    // By what was drawn already: the scenes of a seed stay as they were.
    let queries = match lasts.as_millis() % 3 {
        0 => Trigger::Never,
        1 => Trigger::Always,
        // Enough that a CPU draws more than one at once.
        _ if lasts.as_millis().is_multiple_of(2) => Trigger::Over(at_least_one(300)),
        _ => when,
    };
    let other = if lasts.as_millis() % 4 < 2 { 123 } else { 0 };
    let rules = rules.asking_queries(queries, [other, 53, 0, 0, 0, 0, 0, 0], 1);
    let rules = rules.expect("they are few");
    // Some of the classes of the scene, and some that no packet is excluded from.
    let rules = match lasts.as_millis() % 5 {
        class @ 0..3 => rules.of_classes(
            ClassSet::from_bits(1 << class),
            lasts.as_millis().is_multiple_of(7),
        ),
        _ => rules,
    };
    let rules = rules.of_targets(targets(lasts.as_millis() % 11));
    rules.preferring_verified(lasts.as_millis().is_multiple_of(2))
}

/// The destinations of the packets, others, both, or all, at any port.
fn targets(number: u128) -> Targets {
    let (ipv4, ipv6) = DESTINATION;
    let others = (
        Ipv4Addr::new(198, 51, 101, 1),
        Ipv6Addr::from(u128::from(ipv6) ^ 1 << 100),
    );
    let named = match number {
        0..2 => vec![(ipv4, ipv6)],
        2..5 => vec![others],
        5 => vec![others, (ipv4, ipv6)],
        _ => vec![],
    };
    named
        .into_iter()
        .fold(Targets::default(), |targets, (ipv4, ipv6)| {
            let targets = targets.with(Ipv4::from(ipv4), Ipv4::mask(24));
            let targets = targets.and_then(|it| it.with(Ipv6::from(ipv6), Ipv6::mask(64)));
            targets.expect("they are few")
        })
}

fn aggregates(rng: &mut Rng, bits: u8) -> Aggregates {
    let count = rng.usize(..=LEVELS_MAX);
    let levels: Vec<Aggregate> = (0..count)
        .map(|_| Aggregate {
            prefix: rng.u8(..=bits),
            policy: rng.u16(..=POLICIES),
        })
        .collect();
    Aggregates::new(&levels).expect("there are not too many")
}

/// Classes of a few kinds and ports each. Shapes come from and go to the ports that are named here.
fn classes(rng: &mut Rng) -> ClassTables {
    let mut tables = ClassTables::default();
    for number in 0..rng.usize(..4) {
        let class = ClassSet::one(number).expect("there are more");
        let protocol = choose(rng, &[1, 6, 6, 17, 17, 58]);
        let [any_protocol, syn, fragment] = [0; 3].map(|_| rng.u8(..3) == 0);
        let is_kind = |kind: Kind| {
            (any_protocol || kind.protocol() == protocol)
                && (!syn || kind.is_syn() || kind.is_invalid())
                && (!fragment || kind.is_fragment())
        };
        let [from, to] = [0; 2].map(|_| port(rng));
        let (least, most) = (rng.u32(..40), rng.u32(40..2_000));
        let asked = choose(rng, &Property::ALL);
        tables.add(class, |property, value| match property {
            Property::Kind => of_kind(is_kind)(property, value),
            Property::SourcePort => from(value),
            Property::DestinationPort => to(value),
            _ if property != asked => true,
            Property::HopsAndService => value >> 8 >= least,
            Property::Details => value & 0xff >= least || value == Details::NONE.index(),
            Property::Length => value < most,
            Property::Vlan => value >= least,
            Property::Addresses => value != 0,
            Property::DestinationV4 | Property::DestinationV6 => value & 0xff >= least % 3,
        });
    }
    tables
}

/// Any port, or some.
fn port(rng: &mut Rng) -> impl Fn(u32) -> bool + use<> {
    let wanted = choose(
        rng,
        &[None, None, Some(53), Some(80), Some(443), Some(NO_PORT)],
    );
    move |port| wanted.is_none_or(|wanted| port == wanted)
}

/// Policies may share a scope, and then read each other's words.
fn policy(rng: &mut Rng) -> Policy {
    let count = match rng.u8(..3) {
        0 => 1,
        _ => rng.usize(..=LIMITS_MAX),
    };
    let limits: Vec<Limit> = (0..count).filter_map(|_| limit(rng)).collect();
    let scope = u32::from(rng.u16(..POLICIES));
    let policy = Policy::new(&limits, scope, rng.u8(..4) == 0);
    let policy = policy
        .expect("it has at most as many limits as may be")
        .in_shares(rng.u8(..6));
    let policy = if rng.bool() {
        policy.for_destination().in_slot(rng.u32(..TOTALS))
    } else {
        policy
    };
    let policy = if rng.u8(..6) == 0 {
        policy.for_prefixes()
    } else {
        policy
    };
    // A class that a scene lacks has every packet.
    let policy = if rng.u8(..6) == 0 {
        let class = ClassSet::one(rng.usize(..3)).expect("there are more");
        if rng.bool() {
            policy.with_actions(class, ClassSet::NONE)
        } else {
            policy.with_actions(ClassSet::NONE, class)
        }
    } else {
        policy
    };
    let policy = if policy.is_of_destination() || rng.u8(..4) == 0 {
        policy.with_further(policy_index(rng))
    } else {
        policy
    };
    if rng.bool() {
        policy.with_ban(ban_rule(rng))
    } else {
        policy
    }
}

/// A rule that bans soon.
fn ban_rule(rng: &mut Rng) -> BanRule {
    let within = Duration::from_millis(rng.u64(66..100_000)).max(WITHIN_MIN);
    let length = Duration::from_nanos(1 << rng.u8(..40));
    let after = at_least_one(rng.u32(..8));
    let rule = BanRule::new(after, within, length).expect("it can be had");
    if rng.u8(..4) == 0 {
        rule
    } else {
        rule.including_forgeable()
    }
}

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(number)
}

/// A limit, if it can be had.
fn limit(rng: &mut Rng) -> Option<Limit> {
    let window = Duration::from_millis(match rng.u8(..4) {
        0 => 10,
        1 => rng.u64(10..1_000),
        2 => rng.u64(1_000..60_000),
        _ => rng.u64(60_000..31 * 86_400_000),
    });
    let (amount, unit) = match rng.u8(..8) {
        0..4 => (rng.u64(1..50), Unit::Packets),
        4..7 => (rng.u64(1..30_000), Unit::Bytes),
        _ => (1 << rng.u8(..40), Unit::Bytes),
    };
    let algorithm: Algorithm = match rng.u8(..4) {
        0 => FixedWindow::new(amount, window).ok()?.into(),
        1 => SlidingWindow::new(amount, window).ok()?.into(),
        2 => SlidingLog::new(amount, window).ok()?.into(),
        _ => {
            let burst = rng.u64(1..=2 * amount);
            let bucket = match unit {
                Unit::Packets => TokenBucket::new(amount, window, burst),
                Unit::Bytes => TokenBucket::of_bytes(amount, window, burst),
            };
            bucket.ok()?.into()
        }
    };
    let limit = Limit::new(algorithm, unit);
    Some(match rng.u8(..3) {
        0 => limit.for_classes(ClassSet::from_bits(rng.u32(..) & rng.u32(..))),
        _ => limit,
    })
}

fn prefix(rng: &mut Rng, sources: &[(Ipv4Addr, Ipv6Addr)]) -> Prefix {
    let (ipv4, ipv6) = choose(rng, sources);
    let (address, length) = if rng.bool() {
        let length = choose(rng, &[0, 1, 8, 12, 15, 16, 17, 20, 24, 31, 32, 32]);
        (IpAddr::V4(ipv4), length)
    } else {
        let length = choose(rng, &[0, 1, 20, 31, 32, 33, 48, 64, 65, 96, 127, 128, 128]);
        (IpAddr::V6(ipv6), length)
    };
    Prefix::around(address, length).expect("the length is one of the family")
}

/// The slots that packets are counted in.
pub const SLOTS: u16 = 16;

fn entry(rng: &mut Rng, now: Instant) -> ListEntry {
    let now = now.as_nanos();
    let end = |rng: &mut Rng| match rng.u8(..8) {
        0 => Some(u64::MAX),
        1 => Some(now),
        2 => Some(now.saturating_add(rng.u64(..1 << 30))),
        3 => Some(now.saturating_add(1 << 32)),
        _ => None,
    };
    let until = end(rng).map(Instant::from_nanos);
    let allowed_until = end(rng).filter(|_| rng.u8(..3) == 0).unwrap_or_default();
    let policy = rng.bool().then(|| policy_index(rng));
    let entry = ListEntry::new(false, until, policy);
    let entry = entry.with_allow_until(Instant::from_nanos(allowed_until));
    let [allow, ban, of_policy] = [(); 3].map(|()| rng.u16(..SLOTS));
    let entry = entry.counted_in(Slots::new(allow, ban, of_policy));
    let destination = rng.bool().then(|| policy_index(rng));
    let entry = entry.as_destination(destination.filter(|index| *index <= POLICIES_MAX));
    // By what was drawn already: the scenes of a seed stay as they were.
    let entry = entry.with_action(match (allow, ban) {
        (0, 0..4) => Some(PolicyAction::Drop),
        (0, 4..8) => Some(PolicyAction::Observe),
        (0, _) => Some(PolicyAction::Limit),
        _ => None,
    });
    if rng.u8(..6) == 0 {
        entry.protected()
    } else {
        entry
    }
}

/// The index of a policy, or rarely of none.
fn policy_index(rng: &mut Rng) -> u32 {
    match rng.u8(..16) {
        0 => choose(rng, &[POLICIES.into(), 16_383, 16_384, u32::MAX]),
        _ => rng.u16(..POLICIES).into(),
    }
}
