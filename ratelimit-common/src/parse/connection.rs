//! The ends of a TCP connection or of a UDP datagram, by which its socket is found.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    Inner, LinkLayer,
    ipv6::Walk,
    network,
    transport::{Fragment, UpperLayer},
};
use crate::{Address, Cursor};

/// The ends as in a packet, in network order; laid out like `bpf_sock_tuple` of linux/bpf.h.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(C)]
pub struct Connection<A> {
    /// The source and the destination.
    pub addresses: [A; 2],
    /// The ports of the source and the destination.
    pub ports: [[u8; 2]; 2],
}
const _: () = assert!(size_of::<Connection<crate::Ipv4>>() == 12);
const _: () = assert!(size_of::<Connection<crate::Ipv6>>() == 36);

/// Packets whose ends are looked up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Wanted {
    /// Complete TCP segments.
    Segment = 0,
    /// UDP datagrams, and their first fragments.
    Datagram = 1,
}

impl Wanted {
    /// Decodes the number.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Segment,
            _ => Self::Datagram,
        }
    }
}

impl<A: Address> Connection<A> {
    /// The connection of the packet in `frame`, a cursor at its beginning. `None` if it is of
    /// another family or not `wanted`, or its ports are cut off. For a tunnel that is unwrapped, it
    /// is that of the inner packet. `walk` skips extension headers, possibly as a subprogram, and
    /// `within` keeps the upper layer where the frame can be read.
    #[inline(always)]
    pub fn of<'a>(
        frame: Cursor<'a>,
        link_layer: LinkLayer,
        inner: Inner,
        wanted: Wanted,
        walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
        within: impl FnOnce(UpperLayer) -> UpperLayer,
    ) -> Option<Self> {
        let mut cursor = frame;
        if network(&mut cursor, link_layer, inner) != Ok(A::PAYLOAD) {
            return None;
        }
        let addresses = A::addresses(cursor)?;
        let flow = A::flow(&mut cursor, walk)?;
        Self::of_upper(addresses, within(flow.upper), frame, wanted)
    }

    #[inline(always)]
    fn of_upper(
        addresses: [A; 2],
        upper: UpperLayer,
        frame: Cursor<'_>,
        wanted: Wanted,
    ) -> Option<Self> {
        let is_wanted = match wanted {
            Wanted::Segment => upper.is_segment(),
            Wanted::Datagram => upper.is_udp() && upper.part() != Fragment::Later,
        };
        if !is_wanted {
            return None;
        }
        let ports = upper.ports(frame)?;
        Some(Self { addresses, ports })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::{Ipv4, Ipv6, parse::ipv6};

    const TCP: u8 = 6;
    const FRAGMENT: u8 = 44;
    const PORTS: [u8; 4] = [0xc0, 0x01, 0, 80];

    #[test]
    fn a_segment_has_two_ends() {
        let connection = of_ipv4(TCP, [0, 0], &PORTS).unwrap();
        let addresses = [[192, 0, 2, 1], [198, 51, 100, 7]].map(Ipv4::new);
        assert_eq!(connection.addresses, addresses);
        assert_eq!(connection.ports, [[0xc0, 0x01], [0, 80]]);
        assert_eq!(connection.as_bytes()[8..], PORTS);
        let connection = of_ipv6(TCP, &PORTS).unwrap();
        assert_eq!(
            of_ipv6(0, &[&[TCP, 0, 0, 0, 0, 0, 0, 0], &PORTS[..]].concat()),
            Some(connection)
        );
        let fragment = |more| [&[TCP, 0, 0, more, 0, 0, 0, 7], &PORTS[..]].concat();
        assert_eq!(of_ipv6(FRAGMENT, &fragment(0)), Some(connection));
        assert_eq!(of_ipv6(FRAGMENT, &fragment(1)), None);
        assert_eq!(connection.addresses, [[1; 16], [2; 16]].map(Ipv6::new));
        assert_eq!(connection.ports, [[0xc0, 0x01], [0, 80]]);
    }

    #[test]
    fn what_is_no_whole_segment_is_of_no_connection() {
        assert_eq!(of_ipv4(17, [0, 0], &PORTS), None);
        assert_eq!(of_ipv4(TCP, [0x20, 0], &PORTS), None);
        assert_eq!(of_ipv4(TCP, [0, 1], &PORTS), None);
        assert_eq!(of_ipv4(TCP, [0, 0], &PORTS[..3]), None);
        assert_eq!(of_ipv6(17, &PORTS), None);
        assert_eq!(of_ipv6(TCP, &PORTS[..3]), None);
    }

    #[test]
    fn a_datagram_has_two_ends_and_its_first_fragment_too() {
        let datagram = |fragment| ends_of_ipv4(17, fragment, &PORTS, Wanted::Datagram);
        let ports = |connection: Connection<Ipv4>| connection.ports;
        assert_eq!(datagram([0, 0]).map(ports), Some([[0xc0, 0x01], [0, 80]]));
        assert_eq!(datagram([0x20, 0]).map(ports), datagram([0, 0]).map(ports));
        assert_eq!(datagram([0, 1]), None);
        assert_eq!(ends_of_ipv4(TCP, [0, 0], &PORTS, Wanted::Datagram), None);
    }

    fn of_ipv4(protocol: u8, fragment: [u8; 2], ports: &[u8]) -> Option<Connection<Ipv4>> {
        ends_of_ipv4(protocol, fragment, ports, Wanted::Segment)
    }

    fn ends_of_ipv4(
        protocol: u8,
        fragment: [u8; 2],
        ports: &[u8],
        wanted: Wanted,
    ) -> Option<Connection<Ipv4>> {
        let [flags, offset] = fragment;
        let header = [0x45, 0, 0, 0, 0, 0, flags, offset, 64, protocol, 0, 0];
        let ends = [192, 0, 2, 1, 198, 51, 100, 7];
        let frame = frame([0x08, 0], &[&header, &ends, ports]);
        Connection::of(
            Cursor::new(&frame),
            LinkLayer::Ethernet,
            Inner::NONE,
            wanted,
            ipv6::walk,
            |upper| upper,
        )
    }

    fn of_ipv6(protocol: u8, ports: &[u8]) -> Option<Connection<Ipv6>> {
        let header = [0x60, 0, 0, 0, 0, 0, protocol, 64];
        let frame = frame([0x86, 0xdd], &[&header, &[1; 16], &[2; 16], ports]);
        Connection::of(
            Cursor::new(&frame),
            LinkLayer::Ethernet,
            Inner::NONE,
            Wanted::Segment,
            ipv6::walk,
            |upper| upper,
        )
    }

    /// A frame with a VLAN tag.
    fn frame(ethertype: [u8; 2], packet: &[&[u8]]) -> Vec<u8> {
        [
            &[0xfe; 12][..],
            &[0x81, 0, 0, 7],
            &ethertype,
            &packet.concat(),
        ]
        .concat()
    }
}
