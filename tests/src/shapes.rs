//! The shapes of packets: a name, a frame from a given source, and its parsed fields.
//!
//! The source address of each can be read, so a ban applies to all of them. Frames beyond a bound,
//! without a readable source, are tested separately.

mod ipv4;
mod ipv6;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use ipv4::IPV4;
pub use ipv6::IPV6;
use ratelimit_common::{DropReason, PassReason, Verdict};

/// The rules by which a frame of some shape is judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// By its source.
    Ordinary,
    /// Not at all: it passes from anyone.
    NeighbourDiscovery,
    /// By the lists; without an entry it is dropped.
    TooDeep,
}

/// A shape of packets from sources of the type `S`.
#[derive(Debug)]
pub struct Shape<S> {
    /// The peculiarity.
    pub name: &'static str,
    /// The rules by which it is judged.
    pub class: Class,
    /// A frame of this shape from a source.
    pub frame: fn(S) -> Vec<u8>,
}

impl<S> Shape<S> {
    const fn new(name: &'static str, frame: fn(S) -> Vec<u8>) -> Self {
        Self::of(Class::Ordinary, name, frame)
    }

    const fn of(class: Class, name: &'static str, frame: fn(S) -> Vec<u8>) -> Self {
        Self { name, class, frame }
    }
}

/// A frame of some shape.
#[derive(Clone, Debug)]
pub struct Shaped {
    /// The peculiarity.
    pub name: &'static str,
    /// The rules by which it is judged.
    pub class: Class,
    /// The frame.
    pub frame: Vec<u8>,
}

/// A frame of every shape, from these sources.
pub fn all(ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Vec<Shaped> {
    let of_ipv4 = IPV4.iter().map(|shape| shaped(shape, ipv4));
    let of_ipv6 = IPV6.iter().map(|shape| shaped(shape, ipv6));
    of_ipv4.chain(of_ipv6).collect()
}

fn shaped<S>(shape: &Shape<S>, source: S) -> Shaped {
    Shaped {
        name: shape.name,
        class: shape.class,
        frame: (shape.frame)(source),
    }
}

impl Class {
    /// The verdict on a frame from a banned source.
    pub const fn when_banned(self) -> Verdict {
        match self {
            Self::Ordinary | Self::TooDeep => Verdict::Drop(DropReason::Banned),
            Self::NeighbourDiscovery => Verdict::Pass(PassReason::NeighbourDiscovery),
        }
    }

    /// The verdict on a frame from an allowed source.
    pub const fn when_allowed(self) -> Verdict {
        match self {
            Self::Ordinary | Self::TooDeep => Verdict::Pass(PassReason::Allowed),
            Self::NeighbourDiscovery => Verdict::Pass(PassReason::NeighbourDiscovery),
        }
    }

    /// The verdict on a frame from a source that nothing is known of, where a limit with room
    /// applies.
    pub const fn when_unknown(self) -> Verdict {
        match self {
            Self::Ordinary => Verdict::Pass(PassReason::Conforming),
            Self::NeighbourDiscovery => Verdict::Pass(PassReason::NeighbourDiscovery),
            Self::TooDeep => Verdict::Drop(DropReason::ExtensionDepth),
        }
    }
}

/// `frame` with `bytes` at `at`.
fn patched(frame: crate::Frame, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame.build();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// The first `bytes` bytes of a frame.
fn cut(frame: crate::Frame, bytes: usize) -> Vec<u8> {
    let mut frame = frame.build();
    frame.truncate(bytes);
    frame
}
