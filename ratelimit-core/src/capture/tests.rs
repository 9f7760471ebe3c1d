//! Captures written by hand, byte for byte, and their decoded packets.

use std::io::{self, Read};

use super::*;

mod damage;
mod files;
mod links;

const FRAME: [u8; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00];

/// Time, frame and bytes of a packet.
type Row = (Option<u64>, Vec<u8>, u32);

/// Reads all, and says how it ended.
fn read(file: &[u8]) -> (Vec<Row>, Result<(), String>) {
    let mut rows = Vec::new();
    let answer = Capture::open(file).and_then(|mut capture| {
        capture.read(|packet| {
            rows.push((packet.time_ns, packet.frame.to_vec(), packet.frame_bytes));
            Ok(())
        })
    });
    (rows, answer.map_err(|error| error.to_string()))
}

/// The numbers of a file, in one of the byte orders.
#[derive(Clone, Copy, Debug)]
enum Order {
    Little,
    Big,
}

impl Order {
    const ALL: [Self; 2] = [Self::Little, Self::Big];

    fn u16(self, number: u16) -> [u8; 2] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    fn u32(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    fn u32s(self, numbers: &[u32]) -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| self.u32(*number))
            .collect()
    }

    fn pcap_header(self, magic: u32, link: u32) -> Vec<u8> {
        let version = [self.u16(2), self.u16(4)].concat();
        [
            self.u32s(&[magic]),
            version,
            self.u32s(&[0, 0, 65535, link]),
        ]
        .concat()
    }

    /// A packet of the classic format: seconds, fraction, bytes on the wire, captured bytes.
    fn pcap_packet(self, seconds: u32, parts: u32, wire: u32, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap();
        [&self.u32s(&[seconds, parts, length, wire])[..], data].concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let length = self.u32(u32::try_from(12 + body.len() + padding.len()).unwrap());
        [&self.u32(kind)[..], &length, body, &padding, &length].concat()
    }

    fn section(self) -> Vec<u8> {
        let body = [
            self.u32(0x1a2b_3c4d),
            [self.u16(1), self.u16(0)].concat().try_into().unwrap(),
        ];
        self.block(0x0a0d_0d0a, &[&body.concat()[..], &[0xff; 8]].concat())
    }

    /// An interface with options: code and value.
    fn interface(self, link: u16, snap: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [&self.u16(link)[..], &[0, 0], &self.u32(snap)].concat();
        for (code, value) in options {
            let length = u16::try_from(value.len()).unwrap();
            body.extend([self.u16(*code), self.u16(length)].concat());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    fn enhanced(self, interface: u32, units: u64, wire: u32, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap();
        let high = u32::try_from(units >> 32).unwrap();
        let low = u32::try_from(units & u64::from(u32::MAX)).unwrap();
        let head = self.u32s(&[interface, high, low, length, wire]);
        self.block(6, &[&head[..], data].concat())
    }

    fn simple(self, wire: u32, data: &[u8]) -> Vec<u8> {
        self.block(3, &[&self.u32(wire)[..], data].concat())
    }
}

/// A pipe that gives a byte at a time.
struct Dribble<'a>(&'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = buffer.len().min(1);
        self.0.read(&mut buffer[..bytes])
    }
}
