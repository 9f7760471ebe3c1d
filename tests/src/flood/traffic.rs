//! The packets of a flood, in the order in which they come.

use std::{net::Ipv4Addr, time::Duration};

use fastrand::Rng;
use ratelimit_common::Instant;

use super::Cell;

/// The limit of each source per window.
pub const AMOUNT: u32 = 10;
/// The length of a window.
pub const WINDOW: Duration = Duration::from_secs(1);
/// Sources that keep to their limit.
pub const KNOWN: u32 = 64;
/// The packets of each of them per window.
pub const KNOWN_PACKETS: u32 = 8;

/// The time of the first packet.
const START_NS: u64 = 86_400_000_000_000;

/// The sender of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sender {
    /// A source within its limit.
    Known(u32),
    /// The source that sends more than its limit.
    Limited,
    /// A source that is made up.
    Forged(u32),
}

impl Sender {
    /// Returns the source address of the packet.
    pub fn address(self) -> Ipv4Addr {
        /// Odd, so that no two numbers give one address.
        const SPREAD: u32 = 2_654_435_761;
        Ipv4Addr::from(match self {
            Self::Known(number) => 0x0a00_0000 | (number * 0x1_0101),
            Self::Limited => 0xc000_0201,
            Self::Forged(number) => number.wrapping_mul(SPREAD) | 1 << 31,
        })
    }
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The sender.
    pub sender: Sender,
    /// The arrival time.
    pub at: Instant,
}

/// The packets of the window `number`, in order. The first window has no flood: in it, sources
/// become known.
pub fn window(cell: &Cell, capacity: u32, number: u32, rng: &mut Rng) -> Vec<Packet> {
    let mut moments: Vec<(f64, Sender)> = vec![];
    for known in 0..KNOWN {
        let phase = f64::from(known) / f64::from(KNOWN);
        let of_source =
            (0..KNOWN_PACKETS).map(|packet| (f64::from(packet) + phase) / f64::from(KNOWN_PACKETS));
        moments.extend(of_source.map(|moment| (moment, Sender::Known(known))));
    }
    let limited = (cell.forged_packets(capacity) / cell.ratio).max(2 * AMOUNT);
    moments.extend((0..limited).map(|packet| {
        let moment = (f64::from(packet) + 0.5) / f64::from(limited);
        (moment, Sender::Limited)
    }));
    if let Some(before) = number.checked_sub(1) {
        let sources = cell.share.of(capacity);
        for source in 0..sources {
            let forged = (rng.f64(), Sender::Forged(before * sources + source));
            moments.extend((0..cell.packets_each).map(|_| forged));
        }
    }
    moments.sort_by(|left, right| left.0.total_cmp(&right.0));
    let at = |moment: f64| {
        let since = WINDOW * number + WINDOW.mul_f64(moment);
        let nanos = u64::try_from(since.as_nanos()).expect("seconds");
        Instant::from_nanos(START_NS + nanos)
    };
    let packets = moments.into_iter();
    packets
        .map(|(moment, sender)| Packet {
            sender,
            at: at(moment),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_sender_sends_what_the_cell_says() {
        let cell = Cell::all().find(|cell| cell.packets_each == 3).unwrap();
        let packets = window(&cell, 400, 1, &mut Rng::with_seed(1));
        let count = |wanted: fn(&Sender) -> bool| {
            let senders = packets.iter().map(|packet| packet.sender);
            senders.filter(wanted).count()
        };
        assert_eq!(count(|sender| matches!(sender, Sender::Known(_))), 512);
        assert_eq!(count(|sender| matches!(sender, Sender::Limited)), 300);
        assert_eq!(count(|sender| matches!(sender, Sender::Forged(_))), 300);
        assert!(packets.is_sorted_by_key(|packet| packet.at.as_nanos()));
    }

    #[test]
    fn no_two_senders_have_one_address() {
        let senders = (0..KNOWN).map(Sender::Known).chain([Sender::Limited]);
        let senders = senders.chain((0..100_000).map(Sender::Forged));
        let addresses: BTreeSet<Ipv4Addr> = senders.map(Sender::address).collect();
        assert_eq!(addresses.len(), 100_065);
    }
}
