//! A store with a stream and stored parts, and the ways to it: each message takes its own time, may
//! be lost, and may come twice.
//!
//! This is worse than Redis, whose streams keep their order.

use core::ops::Range;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use ratelimit_cluster::{Arrival, Millis};

use super::random::Random;

/// The quality of message delivery.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The percentage of messages that are lost on the way to a reader.
    pub loss: u64,
    /// The percentage of messages that arrive twice.
    pub twice: u64,
    /// The longest time on the way.
    pub delay: Millis,
}

/// A message on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    at: Millis,
    number: u64,
    to: usize,
    stored: Option<Millis>,
    bytes: Rc<[u8]>,
}

impl Delivery {
    /// The index of the receiving node.
    pub fn to(&self) -> usize {
        self.to
    }

    /// The message, and how it comes.
    pub fn message(&self) -> (Arrival, &[u8]) {
        (
            self.stored
                .map_or(Arrival::Stored, |stored| Arrival::Stream { stored }),
            &self.bytes,
        )
    }
}

type Parts = BTreeMap<(String, u16), Rc<[u8]>>;

/// The store.
#[derive(Default)]
pub struct Store {
    on_the_way: BinaryHeap<Reverse<Delivery>>,
    number: u64,
    /// The time in the last id of the stream.
    pub last: Millis,
    parts: Parts,
    /// The content of the replica, which takes over.
    replica: Parts,
    /// The lead of the store's clock, in milliseconds.
    pub ahead: i64,
    /// Messages and bytes that were written.
    pub written: (u64, u64),
}

impl Store {
    /// Appends a message to the stream and sends it to these readers.
    pub fn publish(
        &mut self,
        now: Millis,
        bytes: &[u8],
        readers: Range<usize>,
        network: Network,
        random: &mut Random,
    ) {
        // The ids of a stream never go back, whatever the clock does.
        self.last = self.last.max(now.saturating_add_signed(self.ahead));
        let stored = self.last;
        let bytes: Rc<[u8]> = bytes.into();
        self.written.0 += 1;
        self.written.1 += bytes.len() as u64;
        for to in readers {
            if random.percent(network.loss) {
                continue;
            }
            for _ in 0..=u64::from(random.percent(network.twice)) {
                let at = now + random.below(network.delay + 1);
                self.send(Delivery {
                    at,
                    number: 0,
                    to,
                    stored: Some(stored),
                    bytes: bytes.clone(),
                });
            }
        }
    }

    /// Stores a part; the replica has it some time later.
    pub fn store(&mut self, node: &str, part: u16, bytes: &[u8]) {
        self.parts.insert((node.to_owned(), part), bytes.into());
    }

    /// Sends the stored parts of a node to one that asked for them.
    pub fn fetch(&mut self, now: Millis, node: &str, to: usize) {
        let parts: Vec<_> = self
            .parts
            .iter()
            .filter(|((of, _), _)| of == node)
            .map(|(_, bytes)| bytes.clone())
            .collect();
        for bytes in parts {
            self.send(Delivery {
                at: now,
                number: 0,
                to,
                stored: None,
                bytes,
            });
        }
    }

    /// The replica has got everything.
    pub fn replicate(&mut self) {
        self.replica.clone_from(&self.parts);
    }

    /// The replica takes over: entries that it did not receive or that were not read yet are lost.
    pub fn fail_over(&mut self) {
        self.parts.clone_from(&self.replica);
        self.on_the_way.clear();
    }

    /// Deletes everything.
    pub fn flush(&mut self) {
        self.parts.clear();
        self.replica.clear();
        self.last = 0;
        self.on_the_way.clear();
    }

    /// The next message that has come.
    pub fn next(&mut self, now: Millis) -> Option<Delivery> {
        if self.on_the_way.peek()?.0.at > now {
            return None;
        }
        self.on_the_way.pop().map(|Reverse(delivery)| delivery)
    }

    /// Sends a message once more, later: its reader is away.
    pub fn again(&mut self, delivery: Delivery, at: Millis) {
        self.send(Delivery { at, ..delivery });
    }

    fn send(&mut self, mut delivery: Delivery) {
        self.number += 1;
        delivery.number = self.number;
        self.on_the_way.push(Reverse(delivery));
    }
}
