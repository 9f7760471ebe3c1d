//! A sample of all packets, for user space to see what traffic is made of: their fronts, of one packet in so many.
//!
//! A sample tells how many packets it stands for. What finds no room in the ring is not counted as lost: the next sample
//! stands for it too.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One packet of so many is looked at, on average. A power of two.
pub const EVERY: u32 = 32;

/// The bytes of a packet that are kept: an Ethernet header, two VLAN tags, an IPv6 header and a TCP header are 82. A power of
/// two.
pub const FRONT_BYTES: u32 = 128;

/// The front of a packet.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Front {
    /// When the packet came, in nanoseconds since boot.
    pub at_ns: u64,
    /// The packets that it stands for, itself included.
    pub packets: u32,
    /// The bytes of its frame.
    pub frame_bytes: u32,
    /// Not 0 when it is one of a TCP connection with this host whose handshake was completed.
    pub is_connected: u32,
    /// What it begins with, one of [`link_layer`](crate::layout::link_layer).
    pub link_layer: u32,
    /// The first of them. Behind the end of a frame that is shorter stands anything.
    pub bytes: [u8; FRONT_BYTES as usize],
}
const _: () = assert!(size_of::<Front>() == 152);

impl Front {
    /// The bytes of the frame that are there.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        let bytes = self.frame_bytes.min(FRONT_BYTES);
        let bytes = usize::try_from(bytes).unwrap_or_default();
        self.bytes.get(..bytes).unwrap_or_default()
    }
}

/// What one CPU remembers of its samples.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Countdown {
    /// Packets to leave out before the next is looked at.
    skip: u32,
    /// Packets since the last sample.
    packets: u32,
}

impl Countdown {
    /// Counts a packet; answers, when it is to be looked at, how many it stands for.
    #[inline(always)]
    pub fn count(&mut self) -> Option<u32> {
        self.packets = self.packets.saturating_add(1);
        if self.skip > 0 {
            self.skip = self.skip.wrapping_sub(1);
            return None;
        }
        Some(self.packets)
    }

    /// Chooses the next, by a random number: traffic may come in rounds.
    #[inline(always)]
    pub fn choose(&mut self, random: u32) {
        self.skip = random & EVERY.wrapping_mul(2).wrapping_sub(1);
    }

    /// Begins anew: a sample was sent.
    #[inline(always)]
    pub fn sent(&mut self) {
        self.packets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_all_packets_also_for_those_that_found_no_room() {
        let mut countdown = Countdown::default();
        let (mut random, mut stood_for, mut samples) = (1_u32, 0, 0);
        for packet in 0..100_000 {
            if let Some(packets) = countdown.count() {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                countdown.choose(random >> 16);
                if packet % 3 == 0 {
                    countdown.sent();
                    stood_for += packets;
                }
                samples += 1;
            }
        }
        assert_eq!(stood_for + countdown.packets, 100_000);
        assert!((2_900..=3_300).contains(&samples), "{samples}");
    }

    #[test]
    fn a_front_ends_where_its_frame_does() {
        let mut front = Front {
            at_ns: 0,
            packets: 1,
            frame_bytes: 60,
            is_connected: 0,
            link_layer: 0,
            bytes: [7; FRONT_BYTES as usize],
        };
        assert_eq!(front.frame().len(), 60);
        front.frame_bytes = 9_000;
        assert_eq!(front.frame().len(), 128);
    }
}
