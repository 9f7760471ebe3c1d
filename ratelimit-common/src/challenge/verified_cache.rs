//! The sources that a CPU knows as verified, so that it need not look them up for each packet.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, Family, Instant, address::words};

/// How many a CPU keeps, of both families. A power of two.
const SLOTS: usize = 256;

/// How long one is kept. So one that is pushed out of the table, or is no longer in it, is known for so long at most.
pub const KEPT_NS: u64 = 1_000_000_000;

/// The sources that were found last, each in the slot of its address.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct VerifiedCache {
    slots: [Slot; SLOTS],
}

/// A source, and how long it is kept.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Slot {
    key: [u64; 2],
    /// Until when it is kept.
    until_ns: u64,
}

impl Default for VerifiedCache {
    fn default() -> Self {
        Self {
            slots: [Slot::default(); SLOTS],
        }
    }
}

impl VerifiedCache {
    /// Whether it is known that a source is verified.
    #[inline(always)]
    pub fn knows<A: Address>(&self, source: &A, now: Instant) -> bool {
        let key = key(source);
        self.slots
            .get(slot(key))
            .is_some_and(|slot| slot.key == key && now.as_nanos() < slot.until_ns)
    }

    /// Keeps a source, which is verified until then.
    #[inline(always)]
    pub fn keep<A: Address>(&mut self, source: &A, until: Instant, now: Instant) {
        let until_ns = until.as_nanos().min(now.as_nanos().saturating_add(KEPT_NS));
        let key = key(source);
        if let Some(slot) = self.slots.get_mut(slot(key)) {
            *slot = Slot { key, until_ns };
        }
    }
}

/// The front of a key of an IPv4 source. It is one of a group (RFC 4291, 2.7), from which no IPv6 packet comes.
const OF_IPV4: u64 = u64::MAX;

/// What tells a source from all others, of both families.
#[inline(always)]
fn key<A: Address>(source: &A) -> [u64; 2] {
    match A::FAMILY {
        Family::Ipv4 => [OF_IPV4, source.key()],
        Family::Ipv6 | Family::Other => words(*source),
    }
}

/// Fibonacci hashing (Knuth, TAOCP 3, 6.4).
#[inline(always)]
const fn slot([front, back]: [u64; 2]) -> usize {
    ((front ^ back).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize & (SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4, Ipv6};

    const NOW: u64 = 77_000_000_000;
    const SOURCE: Ipv4 = Ipv4::new([192, 0, 2, 1]);

    #[test]
    fn a_source_is_known_while_it_is_verified_and_for_a_second_at_most() {
        for (lasts_ns, is_known_ns) in [(KEPT_NS * 600, KEPT_NS), (2_000, 2_000)] {
            let mut cache = VerifiedCache::default();
            let at = |after_ns| Instant::from_nanos(NOW + after_ns);
            assert!(!cache.knows(&SOURCE, at(0)));
            cache.keep(&SOURCE, at(lasts_ns), at(0));
            assert!(cache.knows(&SOURCE, at(0)) && cache.knows(&SOURCE, at(is_known_ns - 1)));
            assert!(!cache.knows(&SOURCE, at(is_known_ns)));
        }
    }

    #[test]
    fn no_other_source_is_known() {
        let now = Instant::from_nanos(NOW);
        let mut cache = VerifiedCache::default();
        cache.keep(&SOURCE, Instant::from_nanos(2 * NOW), now);
        let known = all().filter(|source| cache.knows(source, now));
        assert!(known.eq([SOURCE]));
    }

    #[test]
    fn addresses_of_both_families_that_have_the_same_bits_are_told_apart() {
        let (now, until) = (Instant::from_nanos(NOW), Instant::from_nanos(2 * NOW));
        let twins = all().map(|v4| (v4, Ipv6::new(v4.octets())));
        let (v4, v6) = twins
            .into_iter()
            .find(|(v4, v6)| slot(key(v4)) == slot(key(v6)))
            .unwrap();
        assert_eq!(words(v4), words(v6));
        let mut cache = VerifiedCache::default();
        cache.keep(&v4, until, now);
        assert!(cache.knows(&v4, now) && !cache.knows(&v6, now));
        cache.keep(&v6, until, now);
        assert!(cache.knows(&v6, now) && !cache.knows(&v4, now));
    }

    fn all() -> impl Iterator<Item = Ipv4> {
        (0..=u16::MAX).map(|number| {
            let [high, low] = number.to_be_bytes();
            Ipv4::new([192, 0, high, low])
        })
    }
}
