//! The sources that a CPU knows as verified, so that it need not look them up for each packet.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, Family, Instant, address::words};

/// The slots of a CPU for each family. A power of two.
const SLOTS: usize = 256;

/// The lifetime of a cached entry, in nanoseconds. A source that was evicted or removed from the
/// table stays verified for at most this long.
pub const KEPT_NS: u64 = 1_000_000_000;

/// The sources that were found last, each in the slot of its address: its bits and the expiry of
/// the entry.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct VerifiedCache {
    ipv4: [[u64; 2]; SLOTS],
    ipv6: [[u64; 3]; SLOTS],
}

impl Default for VerifiedCache {
    fn default() -> Self {
        Self {
            ipv4: [[0; 2]; SLOTS],
            ipv6: [[0; 3]; SLOTS],
        }
    }
}

impl VerifiedCache {
    /// Whether it is known that a source is verified.
    #[inline(always)]
    pub fn knows<A: Address>(&self, source: &A, now: Instant) -> bool {
        match A::FAMILY {
            Family::Ipv4 => {
                let bits = source.key();
                self.ipv4
                    .get(slot(bits))
                    .is_some_and(|[kept, until_ns]| *kept == bits && now.as_nanos() < *until_ns)
            }
            Family::Ipv6 | Family::Other => {
                let [front, back] = words(*source);
                self.ipv6
                    .get(slot(front ^ back))
                    .is_some_and(|[first, second, until_ns]| {
                        [*first, *second] == [front, back] && now.as_nanos() < *until_ns
                    })
            }
        }
    }

    /// Keeps a source, which is verified until then.
    #[inline(always)]
    pub fn keep<A: Address>(&mut self, source: &A, until: Instant, now: Instant) {
        let until_ns = until.as_nanos().min(now.as_nanos().saturating_add(KEPT_NS));
        match A::FAMILY {
            Family::Ipv4 => {
                let bits = source.key();
                if let Some(slot) = self.ipv4.get_mut(slot(bits)) {
                    *slot = [bits, until_ns];
                }
            }
            Family::Ipv6 | Family::Other => {
                let [front, back] = words(*source);
                if let Some(slot) = self.ipv6.get_mut(slot(front ^ back)) {
                    *slot = [front, back, until_ns];
                }
            }
        }
    }
}

/// Fibonacci hashing (Knuth, TAOCP 3, 6.4).
#[inline(always)]
const fn slot(bits: u64) -> usize {
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize & (SLOTS - 1)
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
        let (v4, v6) = (SOURCE, Ipv6::new(SOURCE.octets()));
        let mut cache = VerifiedCache::default();
        cache.keep(&v4, until, now);
        assert!(cache.knows(&v4, now) && !cache.knows(&v6, now));
        let mut cache = VerifiedCache::default();
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
