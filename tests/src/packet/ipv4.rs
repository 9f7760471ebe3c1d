//! The IPv4 header.

use std::net::Ipv4Addr;

use super::IPV4_BYTES;

/// The fields of an IPv4 header except its addresses.
#[derive(Clone, Debug, Default)]
pub struct Ipv4Options {
    /// Options, padded to words.
    pub options: Vec<u8>,
    /// The offset of the fragment in the packet, in units of 8 bytes.
    pub fragment_offset: u16,
    /// Whether further fragments follow.
    pub more_fragments: bool,
}

impl Ipv4Options {
    const MORE_FRAGMENTS: u16 = 0x2000;

    /// A fragment `offset` units of 8 bytes into its packet.
    pub fn fragment(offset: u16, more: bool) -> Self {
        Self {
            fragment_offset: offset,
            more_fragments: more,
            ..Self::default()
        }
    }

    /// A header with `options`.
    pub fn with_options(options: &[u8]) -> Self {
        Self {
            options: options.to_vec(),
            ..Self::default()
        }
    }

    pub(super) fn header(&self, source: Ipv4Addr) -> Vec<u8> {
        const DESTINATION: [u8; 4] = [198, 51, 100, 1];
        let words = u8::try_from((IPV4_BYTES + self.options.len()).div_ceil(4)).unwrap_or(15);
        let more = if self.more_fragments {
            Self::MORE_FRAGMENTS
        } else {
            0
        };
        let mut header = vec![0x40 | words.min(15), 0, 0, 0, 0, 7];
        header.extend((self.fragment_offset | more).to_be_bytes());
        header.extend([64, 255, 0, 0]);
        header.extend(source.octets());
        header.extend(DESTINATION);
        header.extend(&self.options);
        header.resize(usize::from(words) * 4, 0);
        header
    }
}

/// Fills in the length and the checksum of the packet that starts with this header.
pub(super) fn finish(packet: &mut [u8]) {
    let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[10..12].fill(0);
    let header_bytes = usize::from(packet[0] & 15) * 4;
    let checksum = checksum(&packet[..header_bytes], 0);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// The Internet checksum (RFC 1071) of words, of which `more` is the sum of others.
pub fn checksum(words: &[u8], more: u32) -> u16 {
    let words = words.chunks(2);
    let words =
        words.map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
    let sum = words.sum::<u32>() + more;
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0)
}
