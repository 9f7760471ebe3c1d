//! A DNS query in a datagram, parsed as far as necessary for an answer.

use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

use super::segment::goes_to_group;
use crate::{
    Cursor,
    parse::{
        LinkLayer, Payload, ipv4, ipv6, payload,
        transport::{UDP, UpperLayer},
    },
};

/// The header of a datagram (RFC 768).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
pub(super) struct Udp {
    pub ports: [[u8; 2]; 2],
    pub bytes: [u8; 2],
    pub checksum: [u8; 2],
}

/// The header of a message (RFC 1035, 4.1.1).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub identification: [u8; 2],
    pub flags: [u8; 2],
    /// The numbers of questions, answers, authorities and additional records.
    pub counts: [[u8; 2]; 4],
}

/// The port of DNS (RFC 1035, 4.2.1).
pub const DNS_PORT: u16 = 53;

pub(super) const UDP_BYTES: u16 = 8;
pub(super) const HEADER_BYTES: u16 = 12;

/// The words of an IPv4 header without options, and the bits of fragments (RFC 791, 3.1).
const WORDS_WITHOUT_OPTIONS: u8 = 5;
const PART_OF_PACKET: u16 = 0x3fff;

/// The first byte of multicast and broadcast addresses: from this on for IPv4 (RFC 1112), and
/// exactly this for IPv6 (RFC 4291, 2.7).
const FIRST_OF_GROUPS_V4: u8 = 224;
const GROUP_V6: u8 = 0xff;

/// The bits of a response, and of the operation: 0 is a query.
const IS_ANSWER_AND_OPERATION: u8 = 0xf8;

/// The longest name (RFC 1035, 2.3.4), its longest label, and the most labels, including that of
/// the root.
const NAME_BYTES_MAX: u16 = 255;
const LABEL_BYTES_MAX: u8 = 63;
const LABELS_MAX: u32 = 128;

/// Bytes of the type and the class of a question.
const TYPE_AND_CLASS_BYTES: u16 = 4;
/// The most bytes of an answer: the header and the question.
pub(super) const QUESTION_BYTES_MAX: u16 = HEADER_BYTES + NAME_BYTES_MAX + TYPE_AND_CLASS_BYTES;

/// The root, and the type of the record with the sender's extensions (RFC 6891, 6.1.2).
const EXTENSIONS: [u8; EXTENSIONS_BYTES as usize] = [0, 0, 41];
const EXTENSIONS_BYTES: u16 = 3;

/// The destination port of a complete datagram, otherwise `None`.
#[inline(always)]
pub fn port(frame: Cursor<'_>, upper: UpperLayer) -> Option<u16> {
    if !upper.is_datagram() {
        return None;
    }
    let [_, port] = upper.ports(frame)?;
    Some(u16::from_be_bytes(port))
}

/// Returns the bytes of the header and the question of the query in `frame`, a cursor at its
/// beginning. `None` for anything but a query with one question, and no records other than that of
/// extensions. Also `None` for IPv4 options, IPv6 extension headers, and packets to a group. A
/// function computes the [bytes of the name](name_bytes); it is a subprogram in the kernel.
#[inline(always)]
pub fn question_bytes(
    frame: Cursor<'_>,
    link_layer: LinkLayer,
    name_bytes: impl FnOnce(Cursor<'_>) -> Option<u16>,
) -> Option<u16> {
    if goes_to_group(frame, link_layer) {
        return None;
    }
    let mut cursor = frame;
    match payload(&mut cursor, link_layer) {
        Ok(Payload::Ipv4) => {
            let header = *cursor.take::<[u8; ipv4::HEADER_BYTES as usize]>()?;
            let part = u16::from_be_bytes([header[6], header[7]]) & PART_OF_PACKET;
            let is_group = header[16] >= FIRST_OF_GROUPS_V4;
            let is_plain = header[0] & 0xf == WORDS_WITHOUT_OPTIONS && header[9] == UDP;
            if !is_plain || part != 0 || is_group {
                return None;
            }
        }
        Ok(Payload::Ipv6) => {
            let header = cursor.take::<[u8; ipv6::HEADER_BYTES as usize]>()?;
            if header[6] != UDP || header[24] == GROUP_V6 {
                return None;
            }
        }
        Ok(Payload::Other) | Err(_) => return None,
    }
    let udp: &Udp = cursor.take()?;
    let bytes = u16::from_be_bytes(udp.bytes);
    let start = cursor.offset();
    let header: &Header = cursor.take()?;
    let [one, none, nothing, [high, records]] = header.counts;
    if header.flags[0] & IS_ANSWER_AND_OPERATION != 0
        || one != [0, 1]
        || none != [0, 0]
        || nothing != [0, 0]
        || high != 0
        || records > 1
    {
        return None;
    }
    cursor.skip(name_bytes(cursor)? & NAME_BYTES_MAX);
    cursor.take::<[u8; TYPE_AND_CLASS_BYTES as usize]>()?;
    let question_bytes = cursor.offset().wrapping_sub(start);
    let mut end = question_bytes.wrapping_add(UDP_BYTES);
    if records == 1 {
        if *cursor.take::<[u8; EXTENSIONS_BYTES as usize]>()? != EXTENSIONS {
            return None;
        }
        end = end.wrapping_add(EXTENSIONS_BYTES);
    }
    (end <= bytes).then_some(question_bytes)
}

/// Returns the bytes of the name at `cursor`. `None` if it is invalid. A compressed name (RFC 1035,
/// 4.1.4) has nothing to refer to in a question.
#[inline(always)]
pub fn name_bytes(mut cursor: Cursor<'_>) -> Option<u16> {
    let start = cursor.offset();
    for _ in 0..LABELS_MAX {
        let [bytes] = *cursor.take::<[u8; 1]>()?;
        if bytes == 0 {
            let name_bytes = cursor.offset().wrapping_sub(start);
            return (name_bytes <= NAME_BYTES_MAX).then_some(name_bytes);
        }
        if bytes > LABEL_BYTES_MAX {
            return None;
        }
        cursor.skip(bytes.into());
    }
    None
}

#[cfg(test)]
mod tests;
