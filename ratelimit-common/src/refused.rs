//! The sources that limits have refused, for display: how often, and when last. It also caches the
//! state of their limit, so that the next packet can be refused without reading it.
//!
//! Counting in a hash map would cost more than all other processing of a packet over its limit. So
//! each CPU has its own part of an array of sets of [`WAYS`] sources. It counts there without
//! atomic operations, and a source costs one cache line, or two for IPv6. In a full set, the source
//! that was refused the longest ago is evicted with its count.
//!
//! Each count comes with the word of state by which the limit refused. No step decreases a word. So
//! if that word has no room for a packet, the current word has none either, by the current limit,
//! and the packet is refused. If it has room, because the window is over, the limit was raised or
//! the packet is smaller, the table is consulted.
//!
//! In a flood of forged addresses, almost no source was refused before, and each lookup would cost
//! a cache line for nothing. So each CPU has a [`Filter`] in front: a clear bit means that none of
//! its sources is known. A failed lookup clears the bit, even if another source with that bit was
//! refused. The table refuses that source's next packet, which sets the bit again.

use zerocopy::FromBytes;

use crate::{Address, Instant, Ipv6, source_filter};

/// The sources for which a CPU may have a word. If the bit of a source is clear, its words are not
/// looked up.
pub type Filter = source_filter::Filter<256>;

/// The sources of a set.
pub const WAYS: usize = 2;

/// The sets of all CPUs together, of each family, within the bounds of a CPU.
pub const SETS: u32 = 1 << 17;

/// The useful lifetime of a word after the last refusal, 18 minutes: far less than the time after
/// which words wrap.
const RECENT_NS: u64 = 1 << 40;

const SETS_OF_CPU_MIN: u32 = 1 << 12;
const SETS_OF_CPU_MAX: u32 = 1 << 16;

/// The sets of each of `cpus` CPUs: a power of two.
pub const fn sets_of_cpu(cpus: u32) -> u32 {
    match SETS.checked_div(cpus) {
        None | Some(SETS_OF_CPU_MAX..) => SETS_OF_CPU_MAX,
        Some(0..=SETS_OF_CPU_MIN) => SETS_OF_CPU_MIN,
        Some(sets) => 1 << sets.ilog2(),
    }
}

/// The place of a source among the `sets` sets of the CPU with this number; `sets` is a power of
/// two.
#[inline(always)]
pub fn set_of<A: Address>(source: &A, cpu: u32, sets: u32) -> u32 {
    let own = (u64::from(source.spread()).wrapping_mul(sets.into()) >> 32) as u32;
    cpu.wrapping_mul(sets).wrapping_add(own)
}

/// The address, among IPv6 sources, for counting refusals by limits that many sources share: those
/// of a prefix or a destination. No packet comes from it, and it is no overflow bucket. It contains
/// the scope of the limits and the first 64 bits of the address, or zeros for all addresses. `None`
/// if the address is longer.
#[inline(always)]
pub fn shared<A: Address>(scope: u32, address: Option<&A>) -> Option<Ipv6> {
    let key = address.map_or(0, |address| address.key());
    let is_whole = address.is_none_or(|address| A::from_key(key).difference(address) == 0);
    let front = 0xff00_0000_0000_0000 | u64::from(A::FAMILY as u8) << 32 | u64::from(scope);
    is_whole.then(|| Ipv6::of_halves(front, key))
}

/// Whether an address is a key of shared limits, not of a source.
pub fn is_shared(address: &Ipv6) -> bool {
    let [first, second, ..] = address.octets();
    first == 0xff && second == 0
}

/// A source, and how often a CPU refused it. A set of IPv4 is a line of the cache.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, PartialEq)]
#[repr(C)]
pub struct Refused<A> {
    packets: u64,
    last_ns: u64,
    /// The word of the only limit of a policy when it refused, and the scope of that policy; 0 if
    /// unknown.
    word: u64,
    scope: u32,
    source: A,
}
const _: () = assert!(size_of::<[Refused<crate::Ipv4>; WAYS]>() == 64);

impl<A: Address> Refused<A> {
    /// The source; `None` where the place is free.
    pub fn source(&self) -> Option<A> {
        (self.packets != 0).then_some(self.source)
    }

    /// The number of refusals and the time of the last.
    pub const fn refusals(&self) -> Refusals {
        Refusals {
            packets: self.packets,
            last_ns: self.last_ns,
        }
    }

    /// The index of a source; [`WAYS`] if it is missing. Without a branch for each index: they
    /// cannot be predicted, and the processor continues in parallel.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "at most WAYS")]
    fn find(set: &[Self; WAYS], source: &A) -> usize {
        // 1 where something differs.
        let [first, second] = set.each_ref().map(|known| {
            known
                .source
                .difference(source)
                .wrapping_neg()
                .wrapping_shr(63)
        });
        first.wrapping_add(first & second) as usize
    }

    /// Returns the place of a source in its set, or else the least recently used place.
    #[inline(always)]
    fn place<'a>(set: &'a mut [Self; WAYS], source: &A) -> Option<&'a mut Self> {
        let mut place = Self::find(set, source);
        if place >= WAYS {
            let [first, second] = &mut *set;
            // An unused one has the time of boot.
            place = usize::from(second.last_ns < first.last_ns);
            let other = if place == 0 { first } else { second };
            // The time stays: it is not later. If all fields were written at once, the compiler
            // would call a loop over bytes.
            other.packets = 0;
            other.word = 0;
            other.scope = 0;
            other.source = *source;
        }
        set.get_mut(place)
    }

    /// Counts a packet of `source` that was refused `now`.
    #[inline(always)]
    pub fn count(set: &mut [Self; WAYS], source: &A, now: Instant) {
        if let Some(known) = Self::place(set, source) {
            known.add(now);
        }
    }

    /// Keeps the word by which the only limit of the policy of this scope refused a packet of a
    /// source, which is counted next.
    #[inline(always)]
    fn keep_word(set: &mut [Self; WAYS], source: &A, scope: u32, word: u64) {
        if let Some(known) = Self::place(set, source) {
            known.word = word;
            known.scope = scope;
        }
    }

    /// Returns a source with a stored word. `None` if there is none for this scope, or the last
    /// refusal is too old: then the word could mean another time.
    #[inline(always)]
    fn with_word<'a>(
        set: &'a mut [Self; WAYS],
        source: &A,
        scope: u32,
        now: Instant,
    ) -> Option<&'a mut Self> {
        let place = Self::find(set, source);
        let known = set.get_mut(place)?;
        let is_recent = now.as_nanos().wrapping_sub(known.last_ns) < RECENT_NS;
        (known.scope == scope && is_recent).then_some(known)
    }

    #[inline(always)]
    fn add(&mut self, now: Instant) {
        self.packets = self.packets.wrapping_add(1);
        self.last_ns = now.as_nanos();
    }
}

/// Whether the stored word of the only limit of the policy of this scope refuses the source again,
/// which counts the refusal. The set of the source is looked up only if the filter contains the
/// source.
#[inline(always)]
pub fn is_refused_again<'a, A: Address>(
    filter: &mut Filter,
    set: impl FnOnce() -> Option<&'a mut [Refused<A>; WAYS]>,
    source: &A,
    scope: u32,
    now: Instant,
    refuses: impl FnOnce(&mut u64) -> bool,
) -> bool {
    let bit = source.filter_bit();
    if !filter.contains(bit) {
        return false;
    }
    let Some(set) = set() else {
        return false;
    };
    let Some(known) = Refused::with_word(set, source, scope, now) else {
        filter.remove(bit);
        return false;
    };
    let is_refused = refuses(&mut known.word);
    if is_refused {
        known.add(now);
    }
    is_refused
}

/// Keeps the word by which the only limit of the policy of this scope refused a packet of a source,
/// which is counted next.
#[inline(always)]
pub fn keep_word<A: Address>(
    filter: &mut Filter,
    set: &mut [Refused<A>; WAYS],
    source: &A,
    scope: u32,
    word: u64,
) {
    filter.insert(source.filter_bit());
    Refused::keep_word(set, source, scope, word);
}

/// Whether a stored word may refuse a packet at `now`. In a sixteenth of the time the table is used
/// anyway. Otherwise the source would look unused there, and be the first to be evicted.
#[inline(always)]
pub const fn may_refuse(now: Instant) -> bool {
    now.as_nanos() & 0xf000 != 0
}

/// Words are looked up for this long after one was stored, 1.07 s. While nothing is refused, they
/// cost a packet one comparison.
const ASKED_NS: u64 = 1 << 30;

/// The time until which words are looked up if one is stored at `now`, in nanoseconds. `None` if
/// that is barely later than the recorded time: each packet reads it, so it is written rarely.
#[inline(always)]
pub const fn noted(asked_until_ns: u64, now: Instant) -> Option<u64> {
    let until_ns = now.as_nanos().wrapping_add(ASKED_NS);
    if until_ns.saturating_sub(asked_until_ns) < ASKED_NS / 4 {
        None
    } else {
        Some(until_ns)
    }
}

/// The refusals of a source: their number and the time of the last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Refusals {
    /// Packets over a limit of its policy, dropped or observed.
    pub packets: u64,
    /// The time of the last refusal, in nanoseconds since boot.
    pub last_ns: u64,
}

impl Refusals {
    /// Adds the counts of another CPU.
    pub fn and(self, others: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(others.packets),
            last_ns: self.last_ns.max(others.last_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::{Ipv4, Ipv6};

    #[test]
    fn a_source_is_counted_apart_with_the_time_of_its_last_packet() {
        let mut set = [Refused::default(); WAYS];
        for (host, now) in [(1, 5), (2, 6), (1, 7), (1, 9)] {
            Refused::count(&mut set, &ipv4(host), Instant::from_nanos(now));
        }
        let refusals = |packets, last_ns| Refusals { packets, last_ns };
        let expected = [(ipv4(1), refusals(3, 9)), (ipv4(2), refusals(1, 6))];
        assert_eq!(reported(&set), expected);
    }

    #[test]
    fn words_are_asked_for_within_a_second_after_one_was_kept() {
        // At these times words may refuse.
        let [kept, soon] =
            [5 << 32, (5 << 32) + ASKED_NS - 1].map(|ns| Instant::from_nanos(ns | 0x1000));
        let until = kept.as_nanos() + ASKED_NS;
        assert_eq!(noted(0, kept), Some(until));
        assert_eq!(noted(until, kept), None);
        assert_eq!(noted(until, soon), Some(soon.as_nanos() + ASKED_NS));
        assert!(may_refuse(kept) && !may_refuse(Instant::from_nanos(5 << 32)));
    }

    #[test]
    fn of_a_full_set_the_source_that_was_refused_the_longest_ago_is_evicted() {
        for oldest in 1..=2 {
            let mut set = [Refused::default(); WAYS];
            let others = (1..=2).filter(|host| *host != oldest);
            let hosts = [1, 2].into_iter().chain(others).chain([3]);
            for (now, host) in (1..).zip(hosts) {
                Refused::count(&mut set, &ipv4(host), Instant::from_nanos(now));
            }
            let left: Vec<_> = reported(&set)
                .into_iter()
                .map(|(source, _)| source)
                .collect();
            assert_eq!(left.len(), WAYS);
            assert!(!left.contains(&ipv4(oldest)), "{oldest}: {left:?}");
        }
    }

    #[test]
    fn a_free_place_is_of_nobody_and_the_address_of_zeros_is_counted() {
        let mut set = [Refused::default(); WAYS];
        assert!(set.iter().all(|known| known.source().is_none()));
        for now in 1..=3 {
            Refused::count(&mut set, &Ipv6::default(), Instant::from_nanos(now));
        }
        assert_eq!(set[0].source(), Some(Ipv6::default()));
        assert_eq!(set[0].refusals().packets, 3);
    }

    #[test]
    fn a_word_is_of_a_source_and_a_scope_and_goes_with_its_place() {
        let mut set = [Refused::default(); WAYS];
        let now = Instant::from_nanos(9);
        let word = |set: &mut _, host, scope| {
            Refused::with_word(set, &ipv4(host), scope, now).map(|known| known.word)
        };
        assert_eq!(word(&mut set, 1, 7), None);
        for now in [1, 2] {
            Refused::keep_word(&mut set, &ipv4(1), 7, 99);
            Refused::count(&mut set, &ipv4(1), Instant::from_nanos(now));
        }
        assert_eq!(
            [7, 8].map(|scope| word(&mut set, 1, scope)),
            [Some(99), None]
        );
        assert_eq!(word(&mut set, 2, 7), None);
        Refused::keep_word(&mut set, &ipv4(1), 8, 98);
        assert_eq!(
            [7, 8].map(|scope| word(&mut set, 1, scope)),
            [None, Some(98)]
        );
        assert_eq!(set[0].refusals().packets, 2);
        for (now, host) in [(3, 2), (4, 3), (5, 1)] {
            Refused::count(&mut set, &ipv4(host), Instant::from_nanos(now));
        }
        let without = Some(0);
        assert_eq!(word(&mut set, 1, 0), without, "its place was another's");
    }

    #[test]
    fn a_word_is_of_no_use_long_after_the_last_refusal_nor_before_it() {
        let mut set = [Refused::default(); WAYS];
        let last = 1 << 50;
        Refused::keep_word(&mut set, &ipv4(1), 7, 99);
        Refused::count(&mut set, &ipv4(1), Instant::from_nanos(last));
        for (now, expected) in [
            (last, Some(99)),
            (last + RECENT_NS - 1, Some(99)),
            (last + RECENT_NS, None),
            (last - 1, None),
        ] {
            let known = Refused::with_word(&mut set, &ipv4(1), 7, Instant::from_nanos(now));
            assert_eq!(known.map(|known| known.word), expected, "at {now} ns");
        }
    }

    #[test]
    fn a_place_that_is_taken_with_a_word_is_of_nobody_until_it_is_counted() {
        let mut set = [Refused::default(); WAYS];
        Refused::count(&mut set, &ipv4(1), Instant::from_nanos(1));
        Refused::count(&mut set, &ipv4(2), Instant::from_nanos(2));
        Refused::keep_word(&mut set, &ipv4(3), 7, 99);
        let left: Vec<_> = reported(&set)
            .into_iter()
            .map(|(source, _)| source)
            .collect();
        assert_eq!(left, [ipv4(2)]);
        Refused::count(&mut set, &ipv4(3), Instant::from_nanos(3));
        assert_eq!(
            set.map(|known| known.source()),
            [Some(ipv4(3)), Some(ipv4(2))]
        );
    }

    /// A flood asks for no set, whatever is refused beside it.
    #[test]
    fn the_set_of_a_source_is_asked_for_where_one_of_its_bit_was_refused() {
        let mut set = [Refused::default(); WAYS];
        let mut filter = Filter::default();
        let now = Instant::from_nanos(9);
        let refused = |filter: &mut _, set: &mut _, host| {
            let mut is_asked = false;
            let ask = || {
                is_asked = true;
                Some(set)
            };
            let is_refused = is_refused_again(filter, ask, &ipv4(host), 7, now, |word| *word == 99);
            (is_refused, is_asked)
        };
        assert_eq!(refused(&mut filter, &mut set, 1), (false, false));
        keep_word(&mut filter, &mut set, &ipv4(1), 7, 99);
        Refused::count(&mut set, &ipv4(1), now);
        assert_eq!(refused(&mut filter, &mut set, 1), (true, true));
        assert_eq!(refused(&mut filter, &mut set, 2), (false, false));
        // As if one with the same bit was refused.
        filter.insert(ipv4(2).filter_bit());
        assert_eq!(refused(&mut filter, &mut set, 2), (false, true));
        assert_eq!(refused(&mut filter, &mut set, 2), (false, false));
        assert_eq!(refused(&mut filter, &mut set, 1), (true, true));
        let counted = set.iter().find(|known| known.source() == Some(ipv4(1)));
        assert_eq!(
            counted.unwrap().refusals().packets,
            3,
            "one was counted before"
        );
    }

    #[test]
    fn what_many_share_has_a_place_that_no_source_has_and_no_other_scope() {
        let places = [
            shared(7, Some(&ipv4(0))),
            shared(8, Some(&ipv4(0))),
            shared(7, Some(&Ipv4::new([192, 0, 3, 0]))),
            shared::<Ipv4>(7, None),
            shared::<Ipv6>(7, None),
            shared(7, Some(&ipv6(2, 0))),
            shared(7, Some(&ipv6(3, 0))),
        ];
        for (index, place) in places.iter().enumerate() {
            let place = place.unwrap();
            assert!(is_shared(&place) && place.is_invalid_source(), "{place:?}");
            assert!(!place.is_overflow_bucket());
            assert!(!places[..index].contains(&Some(place)), "{place:?}");
        }
        assert_eq!(shared(7, Some(&ipv6(2, 1))), None, "all 128 bits");
        assert!(!is_shared(&ipv6(2, 1)) && !is_shared(&ipv6(2, 1).overflow_bucket()));
    }

    #[test]
    fn each_cpu_has_a_power_of_two_of_sets_to_itself() {
        let sets = [0, 1, 2, 3, 8, 9, 16, 256].map(sets_of_cpu);
        let expected = [16, 16, 16, 15, 14, 13, 13, 12].map(|bits| 1 << bits);
        assert_eq!(sets, expected);
        for cpu in 0..4 {
            assert_eq!(set_of(&ipv4(1), cpu, 4096) / 4096, cpu);
        }
    }

    #[test]
    fn what_cpus_counted_belongs_together() {
        let [one, other] =
            [(1, 50), (2, 40)].map(|(packets, last_ns)| Refusals { packets, last_ns });
        let both = Refusals {
            packets: 3,
            last_ns: 50,
        };
        assert_eq!((one.and(other), other.and(one)), (both, both));
    }

    fn reported(set: &[Refused<Ipv4>; WAYS]) -> Vec<(Ipv4, Refusals)> {
        let reported = |known: &Refused<Ipv4>| Some((known.source()?, known.refusals()));
        set.iter().filter_map(reported).collect()
    }

    fn ipv4(host: u8) -> Ipv4 {
        Ipv4::new([192, 0, 2, host])
    }

    fn ipv6(network: u8, host: u8) -> Ipv6 {
        let mut octets = [0; 16];
        [octets[0], octets[1], octets[7], octets[15]] = [0x20, 0x01, network, host];
        Ipv6::new(octets)
    }
}
