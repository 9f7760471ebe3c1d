//! Scenes and times that nobody would configure, but somebody could.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use fastrand::Rng;
use ratelimit_common::{
    Instant, Limit, ListEntry, Policy, Settings, Unit,
    algorithm::{Algorithm, FixedWindow, SlidingWindow, TokenBucket},
    policy::LIMITS_MAX,
};
use ratelimit_daemon::prefix::Prefix;

use crate::{Scene, mutation::choose};

/// Policies of a scene.
const POLICIES: u32 = 8;

const DAY_NS: u64 = 86_400_000_000_000;

/// Sources that share prefixes of many lengths with each other.
#[must_use]
pub fn sources(rng: &mut Rng, count: usize) -> Vec<(Ipv4Addr, Ipv6Addr)> {
    let mut ipv4 = u32::from(Ipv4Addr::new(203, 0, 113, 77));
    let mut ipv6 = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 0x77));
    let mut next = || {
        ipv4 ^= 1 << rng.u8(..32);
        ipv6 ^= 1 << rng.u8(..128);
        (ipv4.into(), ipv6.into())
    };
    (0..count).map(|_| next()).collect()
}

/// A scene around these sources, at about `now`.
pub fn scene(rng: &mut Rng, sources: &[(Ipv4Addr, Ipv6Addr)], now: Instant) -> Scene {
    Scene {
        settings: Settings::new(policy_index(rng), rng.u8(..4) == 0),
        policies: (0..POLICIES).map(|_| policy(rng)).collect(),
        entries: (0..rng.u8(..30))
            .map(|_| (prefix(rng, sources), entry(rng, now)))
            .collect(),
    }
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

/// Policies may share a scope, and then read each other's words.
fn policy(rng: &mut Rng) -> Policy {
    let count = rng.usize(..=LIMITS_MAX);
    let limits: Vec<Limit> = (0..count).filter_map(|_| limit(rng)).collect();
    let scope = rng.u32(..POLICIES);
    Policy::new(&limits, scope, rng.u8(..4) == 0).expect("it has at most as many limits as may be")
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
    let algorithm: Algorithm = match rng.u8(..3) {
        0 => FixedWindow::new(amount, window).ok()?.into(),
        1 => SlidingWindow::new(amount, window).ok()?.into(),
        _ => {
            let burst = rng.u64(1..=2 * amount);
            TokenBucket::new(amount, window, burst).ok()?.into()
        }
    };
    Some(Limit::new(algorithm, unit))
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

fn entry(rng: &mut Rng, now: Instant) -> ListEntry {
    let now = now.as_nanos();
    let until = match rng.u8(..8) {
        0 => Some(u64::MAX),
        1 => Some(now),
        2 => Some(now.saturating_add(rng.u64(..1 << 30))),
        3 => Some(now.saturating_add(1 << 32)),
        _ => None,
    };
    let policy = rng.bool().then(|| policy_index(rng));
    ListEntry::new(rng.u8(..6) == 0, until.map(Instant::from_nanos), policy)
}

/// The index of a policy, or rarely of none.
fn policy_index(rng: &mut Rng) -> u32 {
    match rng.u8(..16) {
        0 => choose(rng, &[POLICIES, 16_383, 16_384, u32::MAX]),
        _ => rng.u32(..POLICIES),
    }
}
