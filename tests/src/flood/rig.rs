//! The path of a flood: the program in the kernel, with one of the stores.

use anyhow::Result;
use fastrand::Rng;
use ratelimit_common::{
    Unit,
    compact::{Region, SLOTS},
    layout::{clock, store},
};

use super::{
    Cell, FloodResult,
    traffic::{self, AMOUNT, Packet, Sender, WINDOW},
};
use crate::{
    Frame, Program, Scene,
    packet::ETHERNET_BYTES,
    pool::Pooled,
    program::{Action, Constants},
    scene::limit,
};

/// The position of the source in an Ethernet frame with IPv4.
const SOURCE: std::ops::Range<usize> = ETHERNET_BYTES + 12..ETHERNET_BYTES + 16;

/// The store for the state of sources.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Store {
    /// LRU hash maps.
    Lru,
    /// Sets of slots, in which eviction forgets nothing.
    Compact,
}

impl Store {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Lru, Self::Compact];

    /// Returns the name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Compact => "compact",
        }
    }

    /// Returns the number in the program.
    const fn number(self) -> u32 {
        match self {
            Self::Lru => store::LRU,
            Self::Compact => store::COMPACT,
        }
    }
}

/// Returns the sets in the region of a limit for a number of sources: 9 slots for 8 of them.
pub(super) const fn sets(capacity: u32) -> u32 {
    (capacity * 9).div_ceil(8 * SLOTS_OF_A_SET)
}

/// Slots of a set of `compact`.
pub(super) const SLOTS_OF_A_SET: u32 = 8;
const _: () = assert!(SLOTS_OF_A_SET as usize == SLOTS);

/// The program, and a frame to send.
pub struct Rig {
    store: Store,
    capacity: u32,
    frame: Vec<u8>,
}

impl Rig {
    /// A rig that remembers `capacity` sources.
    pub fn new(store: Store, capacity: u32) -> Self {
        Self {
            store,
            capacity,
            frame: Frame::ethernet()
                .ipv4(Sender::Limited.address())
                .udp(53)
                .build(),
        }
    }

    /// Sends the flood of `cell` for a number of windows, after one without it.
    pub fn send(&mut self, cell: &Cell, windows: u32, seed: u64) -> Result<FloodResult> {
        let mut program = self.program()?;
        let mut rng = Rng::with_seed(seed);
        let mut outcome = FloodResult {
            windows,
            ..FloodResult::default()
        };
        for number in 0..=windows {
            for packet in traffic::window(cell, self.capacity, number, &mut rng) {
                let passed = self.passes(&mut program, packet)?;
                if number > 0 {
                    outcome.count(packet.sender, passed);
                }
            }
        }
        Ok(outcome)
    }

    fn program(&self) -> Result<Pooled> {
        let constants = Constants {
            clock: clock::MANUAL,
            sources: self.capacity,
            store: self.store.number(),
            sets: sets(self.capacity),
            ..Constants::default()
        };
        let limit = limit(u64::from(AMOUNT), Unit::Packets, WINDOW)
            .in_region(Region::new(0, sets(self.capacity)));
        Pooled::with(&constants, &Scene::limited(&[limit]))
    }

    fn passes(&mut self, program: &mut Program, packet: Packet) -> Result<bool> {
        self.frame[SOURCE].copy_from_slice(&packet.sender.address().octets());
        program.set_clock(packet.at)?;
        Ok(program.run(&self.frame)? == Action::Pass)
    }
}
