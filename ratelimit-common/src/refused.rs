//! Which sources limits have refused, how often, and when last: for people, no decision depends on it.
//!
//! To count that in a hash map costs more than what else a packet over its limit does. So each CPU has a part of an array to
//! itself, of sets of [`WAYS`] sources. It counts there with no atomic operation, and a source costs one line of the cache, of
//! IPv6 two. In a set that is full the source that was refused the longest ago gives way to another, with its count.

use zerocopy::FromBytes;

use crate::{Address, Instant};

/// The sources of a set.
pub const WAYS: usize = 3;

/// The sets of all CPUs together, of each family, within the bounds of a CPU.
pub const SETS: u32 = 1 << 16;

const SETS_OF_CPU_MIN: u32 = 1 << 12;
const SETS_OF_CPU_MAX: u32 = 1 << 15;

/// The sets that each of so many CPUs has: a power of two.
#[must_use]
pub const fn sets_of_cpu(cpus: u32) -> u32 {
    match SETS.checked_div(cpus) {
        None | Some(SETS_OF_CPU_MAX..) => SETS_OF_CPU_MAX,
        Some(0..=SETS_OF_CPU_MIN) => SETS_OF_CPU_MIN,
        Some(sets) => 1 << sets.ilog2(),
    }
}

/// The place of a source among the `sets` sets of the CPU with this number; `sets` is a power of two.
#[must_use]
#[inline(always)]
pub fn set_of<A: Address>(source: &A, cpu: u32, sets: u32) -> u32 {
    let own = source.filter_bit() & sets.wrapping_sub(1);
    cpu.wrapping_mul(sets).wrapping_add(own)
}

/// A source, and how often a CPU refused it. Packed, so that a set of IPv4 fits into a line of the cache.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, PartialEq)]
#[repr(C, packed(4))]
pub struct Refused<A> {
    packets: u64,
    last_ns: u64,
    source: A,
}
const _: () = assert!(size_of::<[Refused<crate::Ipv4>; WAYS]>() <= 64);

impl<A: Address> Refused<A> {
    /// The source; `None` where the place is free.
    #[must_use]
    pub fn source(&self) -> Option<A> {
        (self.packets != 0).then_some(self.source)
    }

    /// How often, and when last.
    #[must_use]
    pub const fn refusals(&self) -> Refusals {
        Refusals {
            packets: self.packets,
            last_ns: self.last_ns,
        }
    }

    /// The first place of a source. Without a branch for each place: which one it is cannot be foretold, and the processor goes on
    /// meanwhile.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "at most WAYS")]
    fn find<'a>(set: &'a mut [Self; WAYS], source: &A) -> Option<&'a mut Self> {
        let [first, second, third] = set.each_ref().map(|known| {
            let own = known.source;
            // 1 where something differs.
            own.difference(source).wrapping_neg().wrapping_shr(63)
        });
        let second = first & second;
        let place = first.wrapping_add(second).wrapping_add(second & third);
        set.get_mut(place as usize)
    }

    /// Counts a packet of `source` that was refused `now`, in the set that it has.
    #[inline(always)]
    pub fn count(set: &mut [Self; WAYS], source: &A, now: Instant) {
        if let Some(known) = Self::find(set, source) {
            known.packets = known.packets.wrapping_add(1);
            // A change of the clock lets time step back.
            known.last_ns = { known.last_ns }.max(now.as_nanos());
            return;
        }
        // What is free was written at boot.
        let [first, second, third] = set;
        let oldest = if first.last_ns <= second.last_ns && first.last_ns <= third.last_ns {
            first
        } else if second.last_ns <= third.last_ns {
            second
        } else {
            third
        };
        *oldest = Self {
            packets: 1,
            last_ns: now.as_nanos(),
            source: *source,
        };
    }
}

/// How often a source was refused, and when last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Refusals {
    /// Packets over a limit of its policy, dropped or observed.
    pub packets: u64,
    /// When the last of them came, in nanoseconds since boot.
    pub last_ns: u64,
}

impl Refusals {
    /// Those of two CPUs.
    #[must_use]
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
    fn a_source_is_counted_apart_and_its_last_packet_told() {
        let mut set = [Refused::default(); WAYS];
        for (host, now) in [(1, 5), (2, 6), (1, 9), (1, 7)] {
            Refused::count(&mut set, &ipv4(host), Instant::from_nanos(now));
        }
        let refusals = |packets, last_ns| Refusals { packets, last_ns };
        let expected = [(ipv4(1), refusals(3, 9)), (ipv4(2), refusals(1, 6))];
        assert_eq!(told(&set), expected);
    }

    #[test]
    fn of_a_full_set_the_source_that_was_refused_the_longest_ago_gives_way() {
        for oldest in 1..=3 {
            let mut set = [Refused::default(); WAYS];
            let others = (1..=3).filter(|host| *host != oldest);
            let hosts = [1, 2, 3].into_iter().chain(others).chain([4]);
            for (now, host) in (1..).zip(hosts) {
                Refused::count(&mut set, &ipv4(host), Instant::from_nanos(now));
            }
            let left: Vec<_> = told(&set).into_iter().map(|(source, _)| source).collect();
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
    fn each_cpu_has_a_power_of_two_of_sets_to_itself() {
        let sets = [0, 1, 2, 3, 8, 9, 16, 256].map(sets_of_cpu);
        let expected = [15, 15, 15, 14, 13, 12, 12, 12].map(|bits| 1 << bits);
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

    fn told(set: &[Refused<Ipv4>; WAYS]) -> Vec<(Ipv4, Refusals)> {
        let told = |known: &Refused<Ipv4>| Some((known.source()?, known.refusals()));
        set.iter().filter_map(told).collect()
    }

    fn ipv4(host: u8) -> Ipv4 {
        Ipv4::new([192, 0, 2, host])
    }
}
