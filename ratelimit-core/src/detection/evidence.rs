//! What is known of the packets that may be of one attack on a target.

use std::{hash::RandomState, net::IpAddr};

use super::{Sample, content::Content, distinct::Distinct};
use crate::prefix::Prefix;

/// Several thousand different things.
pub type Crowd = Distinct<64>;

/// The packets of one kind to one target, in a window.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Where they came from.
    pub sources: Crowd,
    /// The ports they went to.
    ports: Crowd,
    /// How many were looked at.
    pub samples: u64,
    packets: u64,
    bytes: u64,
    /// Those for which this host has a socket.
    with_socket: u64,
}

impl Evidence {
    /// Adds a packet from `source`.
    pub fn add(&mut self, source: Prefix, sample: &Sample, key: &RandomState) {
        let packets = u64::from(sample.packets);
        self.sources.add(source, key);
        self.samples += 1;
        self.packets += packets;
        self.bytes += packets * u64::from(sample.bytes);
        if let Content::Datagram(datagram) = sample.content {
            self.ports.add(datagram.destination_port, key);
            self.with_socket += if datagram.has_socket { packets } else { 0 };
        }
    }

    /// The bytes of a frame on average.
    pub fn mean_bytes(&self) -> u64 {
        self.bytes / self.packets.max(1)
    }

    /// Whether this host has sockets for most of them.
    pub fn has_sockets(&self) -> bool {
        self.with_socket * 2 > self.packets
    }

    /// How many ports they went to, at least.
    pub fn ports(&self) -> u64 {
        self.ports.count()
    }

    /// Whether nearly each came from a source of its own.
    pub fn has_source_each(&self) -> bool {
        self.sources.is_nearly_all_of(self.samples)
    }

    /// Whether nearly each went to a port of its own, or they went to thousands.
    pub fn has_port_each(&self) -> bool {
        self.ports.is_nearly_all_of(self.samples)
    }
}

/// What else came to a target in the window, and what came from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around {
    /// All packets to it.
    pub received: u64,
    /// Segments to it that go on with connections.
    pub acknowledging: u64,
    /// Segments to it that reset connections which nobody knows of.
    pub resets: u64,
    /// Segments to it that ask for connections or accept them.
    pub opening: u64,
    /// First fragments to it.
    pub first_fragments: u64,
    /// Later fragments to it.
    pub later_fragments: u64,
    /// UDP from it.
    pub sent_datagrams: u64,
    /// Questions from it that the packets may answer.
    pub asked: u64,
}

/// What is counted of a host.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Tally {
    /// All packets to it.
    Received,
    /// Segments to it that go on with connections.
    Acknowledging,
    /// First fragments to it.
    FirstFragments,
    /// Later fragments to it.
    LaterFragments,
    /// UDP from it.
    SentDatagrams,
}

/// A question that a host asks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Question {
    /// For a connection.
    Connection,
    /// For an echo.
    Echo,
    /// To a port of UDP.
    Datagram(u16),
}

/// A server that a host has asked: the host, the server and its port.
pub type Conversation = (IpAddr, IpAddr, u16);
