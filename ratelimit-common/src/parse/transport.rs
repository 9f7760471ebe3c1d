//! The transport header, as far as classes ask for it, and a connection is known by. It is read
//! only when some limit has a class, or a source may be banned.

use zerocopy::{FromBytes, Immutable, Unaligned};

use crate::Cursor;

/// The value of the port of a packet that has none.
pub const NO_PORT: u32 = 65_536;

const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

pub(crate) const FIN: u8 = 1 << 0;
pub(crate) const SYN: u8 = 1 << 1;
pub(crate) const RST: u8 = 1 << 2;
const PSH: u8 = 1 << 3;
pub(crate) const ACK: u8 = 1 << 4;
const URG: u8 = 1 << 5;
/// The flags without those of congestion notification (RFC 3168), which may come with any of them.
const FLAGS: u8 = FIN | SYN | RST | PSH | ACK | URG;

/// The end of the flags in a TCP header, as an offset in bytes.
pub(super) const FLAGS_END: u16 = 14;
/// Bytes of a header of UDP or ICMP. A part that others follow ends at a multiple of as many.
const SHORT_HEADER: u16 = 8;
const PORTS_BYTES: u16 = 4;

/// The upper layer of a packet: the offset of its header, its protocol, and its fragment.
///
/// It is a single word, for which the program has room on its stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UpperLayer(u32);

/// The largest offset of an upper layer, for the verifier. It allows for two VLAN tags and the
/// maximum number of extension headers, each of maximum length.
pub const OFFSET_MAX: u16 = 0x7fff;

/// The part of its packet that a frame carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Fragment {
    /// All of it.
    Whole = 0,
    /// The first part, with the transport header.
    First = 1,
    /// A later fragment, without a header.
    Later = 2,
    /// A first part that ends before the flags of a TCP header (RFC 1858, 3), or before the end of
    /// that of UDP, ICMP, SCTP or DCCP.
    Tiny = 3,
    /// A first part with a complete header of UDP or ICMP, which is [tiny](Self::Tiny) for
    /// protocols with a longer one. The protocol is compared elsewhere: each comparison costs the
    /// verifier a path through everything that follows.
    Short = 5,
}

impl Fragment {
    /// The first fragment of a packet, with this many bytes of the upper layer according to the
    /// network header. Behind them a frame may have arbitrary padding.
    #[inline(always)]
    pub const fn first(upper_bytes: u16) -> Self {
        if upper_bytes >= FLAGS_END {
            Self::First
        } else if upper_bytes >= SHORT_HEADER {
            Self::Short
        } else {
            Self::Tiny
        }
    }

    /// Returns the fragment for a packet of this protocol: never [`Short`](Self::Short).
    #[inline(always)]
    pub const fn of(self, protocol: u8) -> Self {
        match (self, protocol) {
            (Self::Short | Self::Tiny, TCP | SCTP | DCCP)
            | (Self::Tiny, UDP | UDP_LITE | ICMP | ICMPV6) => Self::Tiny,
            (Self::Short | Self::Tiny, _) => Self::First,
            (part, _) => part,
        }
    }

    /// Returns the variant with this number.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Whole,
            1 => Self::First,
            2 => Self::Later,
            5 => Self::Short,
            _ => Self::Tiny,
        }
    }
}

/// The parsed transport header.
///
/// Ports are not an `Option`, because LLVM would pack that into a word with adjacent data, which
/// the verifier cannot follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transport {
    /// The kind of packet.
    pub kind: Kind,
    /// The port it comes from; [`NO_PORT`] where the protocol has none, or it is cut off.
    pub source_port: u32,
    /// The destination port; [`NO_PORT`] if the protocol has none, or it is cut off.
    pub destination_port: u32,
}

/// The kind of packet: its protocol, and some flags.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Kind(u32);

impl Kind {
    /// The number of kinds: each has an [`index`](Self::index) below.
    pub const COUNT: u32 = 1 << 12;

    const SYN: u32 = 1 << 8;
    const INVALID: u32 = 1 << 9;
    const FRAGMENT_SHIFT: u32 = 10;

    /// The kind with this index; `None` from [`COUNT`](Self::COUNT) on.
    pub const fn from_index(index: u32) -> Option<Self> {
        if index < Self::COUNT {
            Some(Self(index))
        } else {
            None
        }
    }

    /// The place of the kind in an array.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The protocol, a number of IANA's.
    pub const fn protocol(self) -> u8 {
        let [protocol, ..] = self.0.to_le_bytes();
        protocol
    }

    /// A TCP segment with SYN and without ACK, which asks for a connection (RFC 9293, 3.5). A
    /// segment with the flags in a later fragment counts as one.
    pub const fn is_syn(self) -> bool {
        self.0 & Self::SYN != 0
    }

    /// A TCP segment with flags that no implementation sends: none at all, SYN with FIN or RST, FIN
    /// with RST, or neither ACK nor a lone SYN or RST (RFC 9293, 3.5 and 3.10). No implementation
    /// sends flags in a later fragment either.
    pub const fn is_invalid(self) -> bool {
        self.0 & Self::INVALID != 0
    }

    /// A part of a fragmented packet, be it the first.
    pub const fn is_fragment(self) -> bool {
        !matches!(self.fragment(), Fragment::Whole)
    }

    /// The part of its packet that it carries.
    pub const fn fragment(self) -> Fragment {
        Fragment::from_number(self.0 >> Self::FRAGMENT_SHIFT)
    }

    /// `fragment` is [of](Fragment::of) the protocol.
    #[inline(always)]
    const fn new(protocol: u8, fragment: Fragment) -> Self {
        Self(protocol as u32 | (fragment as u32) << Self::FRAGMENT_SHIFT)
    }

    #[inline(always)]
    const fn with(self, flag: u32, set: bool) -> Self {
        if set { Self(self.0 | flag) } else { self }
    }
}

/// Details of the upper layer: the flags of TCP, or the type and the code of ICMP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Details(u32);

impl Details {
    /// The number of them: each has an [`index`](Self::index) below.
    pub const COUNT: u32 = Self::NONE.0 + 1;

    /// Another protocol, a later fragment, or a header that is cut off.
    pub const NONE: Self = Self(Self::HIDDEN.0 + 1);

    /// The flags of TCP that come in a later fragment. They may be any.
    pub const HIDDEN: Self = Self(Self::FLAGS + (1 << 8));

    /// Types and codes of ICMP lie in front of it.
    const FLAGS: u32 = 1 << 16;

    /// A message of ICMP or ICMP for IPv6; which of them, its protocol says.
    #[inline(always)]
    pub const fn icmp(kind: u8, code: u8) -> Self {
        Self(u16::from_be_bytes([kind, code]) as u32)
    }

    /// A segment of TCP with these flags.
    #[inline(always)]
    pub const fn tcp(flags: u8) -> Self {
        Self(Self::FLAGS | flags as u32)
    }

    /// Returns the index of the ports in an array.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The details with this index; [`NONE`](Self::NONE) from [`COUNT`](Self::COUNT) on.
    pub const fn from_index(index: u32) -> Self {
        if index < Self::COUNT {
            Self(index)
        } else {
            Self::NONE
        }
    }

    /// The type and the code, where they are those of ICMP.
    pub const fn icmp_type_and_code(self) -> Option<[u8; 2]> {
        if self.0 < Self::FLAGS {
            let [.., kind, code] = self.0.to_be_bytes();
            Some([kind, code])
        } else {
            None
        }
    }

    /// The flags, where they are known.
    pub const fn tcp_flags(self) -> Option<u8> {
        let [.., above, flags] = self.0.to_be_bytes();
        if self.0 >= Self::FLAGS && above == 0 {
            Some(flags)
        } else {
            None
        }
    }
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct PortsHeader {
    source: [u8; 2],
    destination: [u8; 2],
}

/// A TCP header behind its ports, up to its flags.
#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct TcpHeader {
    sequence: [u8; 4],
    acknowledgement: [u8; 4],
    offset: u8,
    flags: u8,
}

/// The front of a segment of TCP, up to its flags.
#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct SegmentFront {
    ports: PortsHeader,
    header: TcpHeader,
}

impl SegmentFront {
    /// Returns the TCP flags.
    #[inline(always)]
    pub const fn flags(&self) -> u8 {
        self.header.flags
    }

    /// The port that it goes to.
    #[inline(always)]
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes(self.ports.destination)
    }
}

const PROTOCOL_SHIFT: u32 = 16;
const FRAGMENT_SHIFT: u32 = 24;

impl UpperLayer {
    /// Creates the upper layer from an IANA protocol number and the offset of its header in the
    /// frame.
    #[inline(always)]
    pub const fn new(protocol: u8, fragment: Fragment, offset: u16) -> Self {
        let protocol = (protocol as u32) << PROTOCOL_SHIFT;
        Self(offset as u32 | protocol | (fragment as u32) << FRAGMENT_SHIFT)
    }

    /// Returns the protocol.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "those bits are it")]
    pub const fn protocol(self) -> u8 {
        (self.0 >> PROTOCOL_SHIFT) as u8
    }

    /// The part of its packet that the frame carries.
    #[inline(always)]
    pub const fn fragment(self) -> Fragment {
        self.part().of(self.protocol())
    }

    /// Returns the fragment, if the protocol does not matter.
    #[inline(always)]
    pub const fn part(self) -> Fragment {
        Fragment::from_number(self.0 >> FRAGMENT_SHIFT)
    }

    /// Bytes from the front of the frame to its header.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "those bits are it")]
    pub const fn offset(self) -> u16 {
        self.0 as u16
    }

    /// Replaces the fragment.
    #[inline(always)]
    #[must_use]
    pub const fn with_fragment(self, fragment: Fragment) -> Self {
        Self::new(self.protocol(), fragment, self.offset())
    }

    /// All of it.
    #[inline(always)]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// Creates the layer from its bits.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Whether it is UDP.
    #[inline(always)]
    pub const fn is_udp(self) -> bool {
        self.protocol() == UDP
    }

    /// Whether it is all of a segment of TCP.
    #[inline(always)]
    pub const fn is_segment(self) -> bool {
        self.0 >> PROTOCOL_SHIFT == TCP as u32
    }

    /// Whether it is the first part of a segment of TCP, and others follow.
    #[inline(always)]
    pub const fn begins_segment(self) -> bool {
        // Only first parts have odd numbers.
        const FIRST: u32 = (Fragment::First as u32) << 8;
        self.0 >> PROTOCOL_SHIFT & (FIRST | 0xff) == FIRST | TCP as u32
    }

    /// Whether it is all of a datagram of UDP.
    #[inline(always)]
    pub const fn is_datagram(self) -> bool {
        self.0 >> PROTOCOL_SHIFT == UDP as u32
    }

    /// The ports in `frame`, a cursor at its front: the one it comes from, and the one it goes to.
    /// The protocol is one that has ports. `None` where they are cut off.
    #[inline(always)]
    pub fn ports(&self, frame: Cursor<'_>) -> Option<[[u8; 2]; 2]> {
        let mut cursor = frame;
        cursor.skip(self.offset() & OFFSET_MAX);
        let header: &PortsHeader = cursor.take()?;
        Some([header.source, header.destination])
    }

    /// The segment of TCP in `frame`, a cursor at its front. The protocol is that. `None` where its
    /// front is cut off.
    #[inline(always)]
    pub fn segment_front<'a>(&self, frame: Cursor<'a>) -> Option<&'a SegmentFront> {
        let mut cursor = frame;
        cursor.skip(self.offset() & OFFSET_MAX);
        cursor.take()
    }

    /// The details in the header in `frame`, a cursor at its beginning.
    #[inline(always)]
    pub fn details(&self, frame: Cursor<'_>) -> Details {
        if self.fragment() == Fragment::Later {
            return Details::NONE;
        }
        let mut cursor = frame;
        cursor.skip(self.offset() & OFFSET_MAX);
        match self.protocol() {
            ICMP | ICMPV6 => cursor
                .take()
                .map_or(Details::NONE, |[kind, code]: &[u8; 2]| {
                    Details::icmp(*kind, *code)
                }),
            TCP => {
                cursor.skip(PORTS_BYTES);
                match cursor.take::<TcpHeader>() {
                    Some(header) if self.fragment() != Fragment::Tiny => Details::tcp(header.flags),
                    None if self.fragment() == Fragment::Whole => Details::NONE,
                    _ => Details::HIDDEN,
                }
            }
            _ => Details::NONE,
        }
    }

    /// Reads the transport header in `frame`, a cursor at its beginning. Fields that are cut off
    /// are unknown, and the packet still has a kind.
    #[inline(always)]
    pub fn transport(&self, frame: Cursor<'_>) -> Transport {
        let kind = Kind::new(self.protocol(), self.fragment());
        let without_ports = Transport {
            kind,
            source_port: NO_PORT,
            destination_port: NO_PORT,
        };
        if !has_ports(self.protocol()) || self.fragment() == Fragment::Later {
            return without_ports;
        }
        let mut cursor = frame;
        cursor.skip(self.offset() & OFFSET_MAX);
        let ports = cursor.take::<PortsHeader>();
        let kind = match cursor.take::<TcpHeader>() {
            _ if self.protocol() != TCP => kind,
            Some(header) if self.fragment() != Fragment::Tiny => kind
                .with(Kind::SYN, header.flags & (SYN | ACK) == SYN)
                .with(Kind::INVALID, is_invalid(header.flags)),
            None if self.fragment() == Fragment::Whole => kind,
            // Flags that are not in this part may be any, also where it is the frame that ends
            // before them.
            _ => Kind::new(TCP, Fragment::Tiny)
                .with(Kind::SYN, true)
                .with(Kind::INVALID, true),
        };
        let Some(header) = ports else {
            return Transport {
                kind,
                ..without_ports
            };
        };
        Transport {
            kind,
            source_port: u16::from_be_bytes(header.source).into(),
            destination_port: u16::from_be_bytes(header.destination).into(),
        }
    }
}

/// Whether a header of this protocol begins with a source and a destination port.
#[inline(always)]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

#[inline(always)]
const fn is_invalid(flags: u8) -> bool {
    let flags = flags & FLAGS;
    if flags & ACK == 0 {
        return flags != SYN && flags != RST;
    }
    (flags & (SYN | FIN | RST)).count_ones() > 1
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;

    #[test]
    fn an_upper_layer_is_what_it_was_made_of() {
        use Fragment::{First, Later, Short, Tiny, Whole};
        for (protocol, offset) in [(TCP, 34), (UDP, 0), (u8::MAX, u16::MAX), (0, 0x7fff)] {
            for fragment in [Whole, First, Later, Tiny, Short] {
                let upper = UpperLayer::new(protocol, fragment, offset);
                for upper in [
                    upper,
                    UpperLayer::from_bits(upper.to_bits()),
                    UpperLayer::new(protocol, Whole, offset).with_fragment(fragment),
                ] {
                    let is = (upper.protocol(), upper.part(), upper.offset());
                    assert_eq!(is, (protocol, fragment, offset));
                    assert_eq!(upper.is_udp(), protocol == UDP);
                    assert_eq!(upper.is_segment(), protocol == TCP && fragment == Whole);
                    let begins = protocol == TCP && matches!(fragment, First | Tiny | Short);
                    assert_eq!(upper.begins_segment(), begins);
                    assert_eq!(upper.is_datagram(), protocol == UDP && fragment == Whole);
                }
            }
        }
    }

    #[test]
    fn ports_stand_in_front_of_the_protocols_that_have_them() {
        let header = [0, 53, 0x1f, 0x90, 0, 0, 0, 0];
        for protocol in [TCP, UDP, DCCP, SCTP, UDP_LITE] {
            let transport = transport(protocol, Fragment::Whole, &header);
            assert_eq!(ports(&transport), (53, 8080));
            assert_eq!(transport.kind, Kind(protocol.into()));
        }
        for protocol in [0, 1, 47, 50, 58, 255] {
            let transport = transport(protocol, Fragment::Whole, &header);
            assert_eq!(ports(&transport), (NO_PORT, NO_PORT));
            assert_eq!(transport.kind.protocol(), protocol);
        }
        for length in 0..4 {
            let transport = transport(UDP, Fragment::Whole, &header[..length]);
            assert_eq!(ports(&transport), (NO_PORT, NO_PORT));
        }
    }

    #[test]
    fn a_later_fragment_has_no_header() {
        let syn = tcp(SYN);
        let first = transport(TCP, Fragment::First, &syn);
        assert!(ports(&first) == (0, 0) && first.kind.is_fragment() && first.kind.is_syn());
        let later = transport(TCP, Fragment::Later, &syn);
        assert!(
            ports(&later) == (NO_PORT, NO_PORT) && later.kind.is_fragment() && !later.kind.is_syn()
        );
    }

    #[test]
    fn a_first_fragment_without_flags_asks_for_a_connection_and_is_invalid() {
        for (protocol, least) in [
            (TCP, 14),
            (UDP, 8),
            (UDP_LITE, 8),
            (ICMP, 8),
            (ICMPV6, 8),
            (SCTP, 12),
            (DCCP, 12),
            (47, 0),
            (50, 0),
        ] {
            for bytes in 0..=20 {
                // A part that others follow ends at a multiple of 8 bytes: it does not matter where
                // a header of 12 ends.
                let least = if least == 12 { 14 } else { least };
                let is_tiny = Fragment::first(bytes).of(protocol) == Fragment::Tiny;
                assert_eq!(is_tiny, bytes < least, "{protocol}: {bytes} bytes");
            }
        }
        // Padding follows the ports.
        for padded in [&tcp(0), &tcp(ACK), &tcp(SYN)] {
            for bytes in [0, 4, 8, 13, 20] {
                let kind = transport(TCP, Fragment::Tiny, &padded[..bytes]).kind;
                assert!(kind.is_syn() && kind.is_invalid() && kind.is_fragment());
            }
            // The same where the frame ends before them, whatever the network header says.
            for bytes in [0, 4, 8, 13] {
                let upper = UpperLayer::new(TCP, Fragment::First, 0);
                let cut = Cursor::new(&padded[..bytes]);
                let kind = upper.transport(cut).kind;
                assert!(kind.is_syn() && kind.is_invalid(), "{bytes} bytes");
                assert_eq!(kind.fragment(), Fragment::Tiny);
                assert_eq!(upper.details(cut), Details::HIDDEN);
            }
            let kind = transport(TCP, Fragment::Short, &padded[..20]).kind;
            assert!(kind.is_syn() && kind.fragment() == Fragment::Tiny);
            let kind = transport(UDP, Fragment::Short, padded).kind;
            assert_eq!(kind.fragment(), Fragment::First);
            let kind = transport(UDP, Fragment::Tiny, padded).kind;
            assert!(!kind.is_syn() && !kind.is_invalid() && kind.is_fragment());
        }
        for fragment in [
            Fragment::Whole,
            Fragment::First,
            Fragment::Later,
            Fragment::Tiny,
        ] {
            assert_eq!(Fragment::from_number(fragment as u32), fragment);
        }
    }

    #[test]
    fn a_segment_asks_for_a_connection_with_syn_and_without_ack() {
        for flags in 0..=u8::MAX {
            let header = tcp(flags);
            let kind = transport(TCP, Fragment::Whole, &header).kind;
            assert_eq!(kind.is_syn(), flags & 0x12 == 0x02, "{flags:#010b}");
            let kind = transport(UDP, Fragment::Whole, &header).kind;
            assert!(!kind.is_syn() && !kind.is_invalid());
        }
        let cut = &tcp(SYN)[..13];
        let transport = transport(TCP, Fragment::Whole, cut);
        assert!(ports(&transport) == (0, 0) && !transport.kind.is_syn());
    }

    #[test]
    fn flags_that_nobody_sends_are_invalid() {
        let valid = [
            SYN,
            SYN | ACK,
            ACK,
            PSH | ACK,
            FIN | ACK,
            FIN | PSH | ACK,
            RST,
            RST | ACK,
            RST | PSH | ACK,
            URG | ACK,
            URG | PSH | ACK,
            URG | FIN | ACK,
            URG | PSH | FIN | ACK,
            URG | SYN | ACK,
            URG | RST | ACK,
            SYN | PSH | ACK,
            SYN | PSH | URG | ACK,
            RST | PSH | URG | ACK,
        ];
        for flags in 0..64 {
            for congestion in [0, 0x40, 0x80, 0xc0] {
                let header = tcp(flags | congestion);
                let kind = transport(TCP, Fragment::Whole, &header).kind;
                assert_eq!(kind.is_invalid(), !valid.contains(&flags), "{flags:#08b}");
            }
        }
    }

    fn ports(transport: &Transport) -> (u32, u32) {
        (transport.source_port, transport.destination_port)
    }

    fn transport(protocol: u8, fragment: Fragment, bytes: &[u8]) -> Transport {
        UpperLayer::new(protocol, fragment, 0).transport(Cursor::new(bytes))
    }

    fn tcp(flags: u8) -> Vec<u8> {
        let mut header = vec![0; 20];
        header[13] = flags;
        header
    }
}
