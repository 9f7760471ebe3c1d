//! The longest match is the answer: the kernel and the host agree with the definition, on random
//! prefixes of all lengths.
//!
//! Every policy has a scope of its own, so the state that a packet leaves behind tells which entry
//! was found.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use fastrand::Rng;
use ratelimit_common::{Cursor, DropReason, Instant, ListEntry, PassReason, Policy, Unit, Verdict};
use ratelimit_core::{
    ip_family::{IpAddress, IpFamily},
    memory_tables::MemoryTables,
    prefix::Prefix,
};
use ratelimit_tests::{
    Frame, Program,
    program::{Action, CONFORMING, Constants, source_masks},
    require_root,
    scene::{Scene, limit},
};

const NOW: Instant = Instant::from_nanos(1 << 40);
const POLICIES: u32 = 64;
/// Lists, and packets to each.
const LISTS: u32 = 60;
const PACKETS: u32 = 300;

#[test]
fn kernel_and_host_find_the_longest_of_random_prefixes() {
    require_root!();
    let mut rng = Rng::with_seed(4);
    let constants = Constants {
        masks: source_masks(32, 128),
        ..Constants::default()
    };
    let mut kernel = Program::load(&constants).unwrap();
    kernel.set_clock(NOW).unwrap();
    let mut lengths = BTreeSet::new();
    for list in 0..LISTS {
        kernel.clear().unwrap();
        let entries = entries(&mut rng);
        let scene = scene(&entries);
        scene.set_up(&mut kernel).unwrap();
        let host = scene.in_memory(&constants);
        let mut charged = BTreeSet::new();
        for _ in 0..PACKETS {
            let address = near(&mut rng, &entries);
            if is_nobodys(address) {
                // Dropped before any list is asked.
                continue;
            }
            let frame = match address {
                IpAddr::V4(address) => Frame::ethernet().ipv4(address),
                IpAddr::V6(address) => Frame::ethernet().ipv6(address),
            };
            let frame = frame.udp(53).build();
            let found = longest_match(&entries, address);
            let verdict = verdict(found.map(|(_, entry)| entry));
            let place = format!("list {list}, {address}, longest match {found:?}");
            assert_eq!(
                host.judge(Cursor::new(&frame), NOW),
                verdict,
                "host: {place}"
            );
            assert_eq!(
                kernel.run(&frame).unwrap(),
                Action::from(verdict),
                "kernel: {place}"
            );
            if verdict == CONFORMING {
                let policy = found.and_then(|(_, entry)| entry.policy());
                charged.insert((address, policy.unwrap_or_default()));
            }
            lengths.extend(found.map(|(prefix, _)| (IpFamily::of(address), prefix.len())));
        }
        assert_eq!(charged_in_kernel(&kernel), charged, "kernel, list {list}");
        assert_eq!(charged_on_host(&host), charged, "host, list {list}");
    }
    // A comparison says nothing about lengths that never were the answer.
    assert_eq!(lengths.len(), 33 + 129);
}

/// The definition.
fn longest_match(
    entries: &BTreeMap<Prefix, ListEntry>,
    address: IpAddr,
) -> Option<(Prefix, ListEntry)> {
    let around = entries
        .iter()
        .filter(|(prefix, _)| prefix.covers(address.into()));
    let (prefix, entry) = around.max_by_key(|(prefix, _)| prefix.len())?;
    Some((*prefix, *entry))
}

fn verdict(entry: Option<ListEntry>) -> Verdict {
    let entry = entry.unwrap_or_default();
    if entry.is_allowed(NOW) {
        Verdict::Pass(PassReason::Allowed)
    } else if entry.is_banned(NOW) {
        Verdict::Drop(DropReason::Banned)
    } else {
        CONFORMING
    }
}

/// Prefixes that lie within each other, beside each other, and apart.
fn entries(rng: &mut Rng) -> BTreeMap<Prefix, ListEntry> {
    let mut entries = BTreeMap::new();
    for _ in 0..rng.usize(1..150) {
        let beside = if entries.is_empty() || rng.u8(..4) == 0 {
            any_address(rng)
        } else {
            near(rng, &entries)
        };
        let length = rng.u8(..=if beside.is_ipv4() { 32 } else { 128 });
        let prefix = Prefix::around(beside, length).unwrap();
        let until = [None, Some(NOW), Some(Instant::from_nanos(u64::MAX))][rng.usize(..3)];
        let policy = rng.bool().then(|| rng.u32(1..POLICIES));
        let entry = ListEntry::new(rng.u8(..6) == 0, until, policy);
        let entry = match rng.u8(..6) {
            0 => entry.with_allow_until(NOW),
            1 => entry.with_allow_until(Instant::from_nanos(NOW.as_nanos() + 1)),
            _ => entry,
        };
        entries.insert(prefix, entry);
    }
    entries
}

fn scene(entries: &BTreeMap<Prefix, ListEntry>) -> Scene {
    let wide = limit(1_000_000, Unit::Packets, Duration::from_secs(1));
    let policies = (0..POLICIES).map(|scope| Policy::new(&[wide], scope, false).unwrap());
    Scene {
        policies: policies.collect(),
        entries: entries
            .iter()
            .map(|(prefix, entry)| (*prefix, *entry))
            .collect(),
        ..Scene::default()
    }
}

/// An address in a prefix, or just beside one.
fn near(rng: &mut Rng, entries: &BTreeMap<Prefix, ListEntry>) -> IpAddr {
    let (prefix, _) = entries.iter().nth(rng.usize(..entries.len())).unwrap();
    let is_beside = rng.u8(..4) == 0;
    match prefix.address() {
        IpAddr::V4(first) => {
            let behind = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            let flipped = u32::from(is_beside) << rng.u8(..32);
            Ipv4Addr::from_bits((first.to_bits() | (rng.u32(..) & behind)) ^ flipped).into()
        }
        IpAddr::V6(first) => {
            let behind = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            let flipped = u128::from(is_beside) << rng.u8(..128);
            Ipv6Addr::from_bits((first.to_bits() | (rng.u128(..) & behind)) ^ flipped).into()
        }
    }
}

/// Whether no sender can have the address.
fn is_nobodys(address: IpAddr) -> bool {
    address.is_multicast() || matches!(address, IpAddr::V4(it) if it.octets()[0] == 255)
}

fn any_address(rng: &mut Rng) -> IpAddr {
    if rng.bool() {
        Ipv4Addr::from_bits(rng.u32(..)).into()
    } else {
        Ipv6Addr::from_bits(rng.u128(..)).into()
    }
}

fn charged_in_kernel(kernel: &Program) -> BTreeSet<(IpAddr, u32)> {
    let ipv4 = kernel.ipv4.records().unwrap().into_iter();
    let ipv6 = kernel.ipv6.records().unwrap().into_iter();
    let ipv4 = ipv4.map(|(key, _)| (key.address().to_std(), key.scope()));
    ipv4.chain(ipv6.map(|(key, _)| (key.address().to_std(), key.scope())))
        .collect()
}

fn charged_on_host(host: &MemoryTables) -> BTreeSet<(IpAddr, u32)> {
    let ipv4 = host.ipv4.records().into_iter();
    let ipv6 = host.ipv6.records().into_iter();
    let ipv4 = ipv4.map(|(key, _)| (key.address().to_std(), key.scope()));
    ipv4.chain(ipv6.map(|(key, _)| (key.address().to_std(), key.scope())))
        .collect()
}
