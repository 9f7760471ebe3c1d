//! A sample of all packets, for user space to see what traffic consists of: the first bytes of one
//! in a number of packets.
//!
//! A sample contains the number of packets it represents. A sample that does not fit into the ring
//! is not lost: the next one represents its packets too.

use core::num::NonZeroU64;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The average sampling interval at a high rate. A power of two.
pub const EVERY: u32 = 32;

/// At a low rate, each packet is sampled: up to this many per epoch.
pub const IN_EPOCH: u64 = 16;

/// The length of an epoch, over which the packet rate is measured, as a power of two in
/// nanoseconds: 8 ms, in which bursts even out.
const EPOCH_SHIFT: u32 = 23;

/// After this many samples, an epoch ends early: the rate has increased.
const LOOKS_MAX: u32 = 256;

/// The bytes of a packet that are kept: an Ethernet header, two VLAN tags, an IPv6 header and a TCP
/// header are 82. A power of two.
pub const FRONT_BYTES: u32 = 128;

/// The front of a packet.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Front {
    /// The arrival time of the packet, in nanoseconds since boot.
    pub at_ns: u64,
    /// The number of packets that it represents, including itself.
    pub packets: u32,
    /// The bytes of its frame; of the packet inside of a tunnel where that is judged, with which
    /// the front begins then.
    pub frame_bytes: u32,
    /// The socket that this host has for it: a [number](Socket::number).
    pub socket: u32,
    /// The first header of the frame, one of [`link_layer`](crate::layout::link_layer).
    pub link_layer: u32,
    /// The first bytes of the frame. Beyond the end of a short frame, they are undefined.
    pub bytes: [u8; FRONT_BYTES as usize],
}
const _: () = assert!(size_of::<Front>() == 152);

impl Front {
    /// The bytes of the frame that are there.
    pub fn frame(&self) -> &[u8] {
        front(&self.bytes, self.frame_bytes)
    }
}

/// The part of these bytes that belongs to a frame of this length.
pub(crate) fn front(bytes: &[u8], frame_bytes: u32) -> &[u8] {
    let length = usize::try_from(frame_bytes.min(FRONT_BYTES));
    bytes.get(..length.unwrap_or_default()).unwrap_or_default()
}

/// The socket that a host has for a packet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u32)]
pub enum Socket {
    /// None, or one of TCP that waits for anybody.
    #[default]
    None = 0,
    /// A TCP connection that is being established, or has ended.
    Connecting = 1,
    /// A TCP connection whose handshake was completed.
    Connected = 2,
    /// A UDP socket.
    Datagram = 3,
}

impl Socket {
    /// Returns the variant with this number.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Connecting,
            2 => Self::Connected,
            3 => Self::Datagram,
            _ => Self::None,
        }
    }

    /// Returns the number of the variant.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// The sampling state of one CPU.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Countdown {
    /// The start of the epoch, in nanoseconds since boot.
    began_ns: u64,
    /// Packets of the epoch up to the one that was looked at last.
    seen: u32,
    looks: u32,
    /// The packets to leave out that were chosen, and those of them that are left.
    chosen: u32,
    skip: u32,
    /// The most packets to leave out; one less than a power of two.
    skip_max: u32,
    /// Packets since the last sample.
    packets: u32,
}

impl Countdown {
    /// Counts a packet. If it is to be sampled, returns the number of packets it represents.
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
    pub fn choose(&mut self, now_ns: u64, random: u32) {
        self.seen = self.seen.saturating_add(self.chosen).saturating_add(1);
        self.looks = self.looks.wrapping_add(1);
        let elapsed_ns = now_ns.saturating_sub(self.began_ns);
        if elapsed_ns >> EPOCH_SHIFT > 0 || self.looks >= LOOKS_MAX {
            self.skip_max = skip_max(self.seen, elapsed_ns);
            (self.began_ns, self.seen, self.looks) = (now_ns, 0, 0);
        }
        self.chosen = random & self.skip_max;
        self.skip = self.chosen;
    }

    /// Resets the counts: a sample was sent.
    #[inline(always)]
    pub fn sent(&mut self) {
        self.packets = 0;
    }
}

/// The most packets to leave out, so that [`IN_EPOCH`] are looked at, or up to twice as many; but
/// no more than one of [`EVERY`] has to be.
#[inline(always)]
fn skip_max(packets: u32, elapsed_ns: u64) -> u32 {
    let elapsed_ns = NonZeroU64::MIN.saturating_add(elapsed_ns);
    let in_epoch = u64::from(packets).wrapping_shl(EPOCH_SHIFT) / elapsed_ns;
    let most = EVERY.wrapping_mul(2).wrapping_sub(1);
    let many = u32::try_from(in_epoch / IN_EPOCH).unwrap_or(most).min(most);
    // All bits up to the highest one.
    let many = many | many >> 1;
    let many = many | many >> 2;
    many | many >> 4
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
                countdown.choose(1, random >> 16);
                if packet % 3 == 0 {
                    countdown.sent();
                    stood_for += packets;
                }
                samples += 1;
            }
        }
        assert_eq!(stood_for + countdown.packets, 100_000);
        assert!((2_900..=3_600).contains(&samples), "{samples}");
    }

    #[test]
    fn slow_packets_are_all_looked_at_and_fast_ones_within_a_bound() {
        // Packets per second, the length of bursts, and the number of samples.
        for (rate, burst, looked) in [
            (100, 1, 100..=100),
            (1_500, 1, 1_500..=1_500),
            (1_500, 30, 1_400..=1_500),
            (5_000, 10, 1_500..=3_500),
            (50_000, 64, 1_500..=4_500),
            (1_000_000, 64, 29_000..=33_000),
        ] {
            let (mut countdown, mut random, mut samples) = (Countdown::default(), 1_u32, 0);
            for packet in 0..rate {
                if countdown.count().is_some() {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let at = packet / burst * burst * 1_000_000_000 / rate;
                    countdown.choose((1 << 40) + at, random >> 16);
                    countdown.sent();
                    samples += 1;
                }
            }
            assert!(looked.contains(&samples), "{rate}: {samples}");
        }
    }

    #[test]
    fn a_front_ends_where_its_frame_does() {
        let mut front = Front {
            at_ns: 0,
            packets: 1,
            frame_bytes: 60,
            socket: 0,
            link_layer: 0,
            bytes: [7; FRONT_BYTES as usize],
        };
        assert_eq!(front.frame().len(), 60);
        front.frame_bytes = 9_000;
        assert_eq!(front.frame().len(), 128);
    }
}
