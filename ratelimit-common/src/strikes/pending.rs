//! Strikes that a CPU keeps back.
//!
//! To count a strike where all CPUs see it takes a lookup in a hash map and an atomic addition, which is more than what else
//! a packet over its limit costs. So a CPU counts those that lead to no ban by itself, in a slot of a small table, and adds
//! them to the [`Strikes`] of their source when they are [`MOST`], or another source needs the slot. None is lost: whoever
//! reads strikes adds what is kept back.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, Strikes};

/// The slots of a CPU and address family.
pub const SLOTS: usize = 256;

/// The most strikes of a source that a CPU keeps back.
pub const MOST: u64 = 256;

/// A slot: strikes of one source.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Pending {
    /// The source, as [`Address::octets`].
    source: [u8; 16],
    /// How many there are; 0 where the slot is free.
    packets: u64,
    /// When the last of them came, in nanoseconds since boot.
    last_ns: u64,
}

impl Pending {
    /// The first strike of a source.
    #[inline(always)]
    pub fn first<A: Address>(source: &A, at_ns: u64) -> Self {
        Self {
            source: source.octets(),
            packets: 1,
            last_ns: at_ns,
        }
    }

    /// Counts a strike; `false` where the slot is another source's, or holds as many as it may.
    #[must_use]
    #[inline(always)]
    pub fn count<A: Address>(&mut self, source: &A, at_ns: u64) -> bool {
        let has_room = self.packets < MOST && self.source == source.octets();
        if has_room {
            self.packets = self.packets.wrapping_add(1);
            self.last_ns = self.last_ns.max(at_ns);
        }
        has_room
    }

    /// Whose strikes they are; `None` where there are none.
    #[must_use]
    #[inline(always)]
    pub fn source<A: Address>(&self) -> Option<A> {
        (self.packets != 0).then(|| A::from_octets(self.source))
    }

    /// How many there are.
    #[must_use]
    #[inline(always)]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// When the last of them came, in nanoseconds since boot.
    #[must_use]
    #[inline(always)]
    pub const fn last_ns(&self) -> u64 {
        self.last_ns
    }
}

/// The slot that a source has among [`SLOTS`].
#[inline(always)]
pub fn slot_of<A: Address>(source: &A) -> usize {
    source.filter_bit() as usize & (SLOTS - 1)
}

impl Strikes {
    /// Those of a source, with what is kept back.
    #[must_use]
    pub fn with(self, pending: &Pending) -> Self {
        Self {
            packets: self.packets.wrapping_add(pending.packets),
            last_ns: self.last_ns.max(pending.last_ns),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4, Ipv6};

    #[test]
    fn a_slot_counts_the_strikes_of_one_source() {
        let [own, other] = [1, 2].map(|host| Ipv4::new([192, 0, 2, host]));
        let mut slot = Pending::first(&own, 7);
        assert!(slot.count(&own, 9));
        assert!(!slot.count(&other, 10));
        assert_eq!(
            (slot.source(), slot.packets, slot.last_ns),
            (Some(own), 2, 9)
        );
    }

    #[test]
    fn a_slot_holds_no_more_than_the_most() {
        let source = Ipv6::new([7; 16]);
        let mut slot = Pending::first(&source, 0);
        assert!((1..MOST).all(|at_ns| slot.count(&source, at_ns)));
        assert!(!slot.count(&source, MOST));
        assert_eq!((slot.packets, slot.last_ns), (MOST, MOST - 1));
    }

    #[test]
    fn a_free_slot_is_of_nobody() {
        assert_eq!(Pending::default().source::<Ipv6>(), None);
        assert!(!Pending::default().count(&Ipv4::default(), 1));
    }

    #[test]
    fn what_is_kept_back_belongs_to_the_strikes() {
        let strikes = Strikes {
            packets: 256,
            last_ns: 50,
            word: 3,
        };
        let own = Ipv4::new([192, 0, 2, 1]);
        let all = strikes.with(&Pending::first(&own, 60));
        let expected = Strikes {
            packets: 257,
            last_ns: 60,
            word: 3,
        };
        assert_eq!(all, expected);
        assert_eq!(strikes.with(&Pending::first(&own, 40)).last_ns, 50);
    }
}
