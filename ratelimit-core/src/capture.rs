//! Captures of traffic: pcap and pcapng, read as a stream, packet by packet.
//!
//! `pcap-parser` does the parsing: it is maintained, streams with a bounded buffer, and is fuzzed.
//! This module derives times, lengths, and frames as a network card would see them.

mod error;
mod format;
mod interface;
mod link;
mod reader;
mod section;
mod whole;

#[cfg(test)]
mod tests;

pub use self::link::Link;
pub use self::{error::CaptureError, format::Format, reader::Capture};

/// A packet of a capture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// Nanoseconds since the Unix epoch; `None` where the capture does not say (Simple Packet
    /// Blocks).
    pub time_ns: Option<u64>,
    /// An Ethernet frame, or as much of its front as was captured.
    pub frame: &'a [u8],
    /// Bytes of the whole frame on the wire.
    pub frame_bytes: u32,
}

impl Packet<'_> {
    /// Whether the capture has only its front.
    pub fn is_cut(&self) -> bool {
        u32::try_from(self.frame.len()).is_ok_and(|bytes| bytes < self.frame_bytes)
    }
}
