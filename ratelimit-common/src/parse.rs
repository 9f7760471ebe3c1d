//! From bytes to a [`Flow`]: Ethernet, VLAN tags, and the network header with its source address.

mod ethernet;
mod ipv4;
pub mod ipv6;

use ethernet::Payload;
pub use ethernet::VLAN_TAGS_MAX;

use crate::{Cursor, DropReason, Family, Flow, Ipv4, Ipv6};

/// What a frame carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Packet {
    /// An IPv4 packet.
    Ipv4(Flow<Ipv4>),
    /// An IPv6 packet.
    Ipv6(Flow<Ipv6>),
    /// Not an IP packet.
    NotIp,
    /// A frame whose source address cannot be read.
    Unreadable(Family, DropReason),
}

/// Reads the headers of the frame at `cursor`.
#[must_use]
#[inline(always)]
pub fn parse(mut cursor: Cursor<'_>) -> Packet {
    match ethernet::payload(&mut cursor) {
        Ok(Payload::Ipv4) => ipv4::flow(&mut cursor).map_or(
            Packet::Unreadable(Family::Ipv4, DropReason::Truncated),
            Packet::Ipv4,
        ),
        Ok(Payload::Ipv6) => ipv6::flow(&mut cursor).map_or(
            Packet::Unreadable(Family::Ipv6, DropReason::Truncated),
            Packet::Ipv6,
        ),
        Ok(Payload::Other) => Packet::NotIp,
        Err(reason) => Packet::Unreadable(Family::Other, reason),
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::flow::Content::{self, NeighbourDiscovery, Ordinary, TooDeep};

    const IPV4: [u8; 2] = [0x08, 0x00];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    const VLAN: [u8; 4] = [0x81, 0x00, 0, 7];
    const SOURCE_V4: [u8; 4] = [192, 0, 2, 1];
    const SOURCE_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const NEIGHBOUR_SOLICITATION: [u8; 1] = [135];

    #[test]
    fn a_source_is_found_behind_up_to_two_tags() {
        for tags in [
            &[][..],
            &[VLAN],
            &[VLAN, [0x88, 0xa8, 0, 7]],
            &[[0x91, 0, 0, 7], VLAN],
        ] {
            assert_eq!(parse(Cursor::new(&frame(tags, IPV4, &ipv4()))), from_ipv4());
            let packet = ipv6(17, 64, &[]);
            assert_eq!(
                parse(Cursor::new(&frame(tags, IPV6, &packet))),
                from_ipv6(Ordinary)
            );
        }
        let frame = frame(&[VLAN; 3], IPV4, &ipv4());
        let expected = Packet::Unreadable(Family::Other, DropReason::VlanDepth);
        assert_eq!(parse(Cursor::new(&frame)), expected);
    }

    #[test]
    fn a_frame_that_is_cut_says_how_far_it_was_read() {
        let frame = frame(&[VLAN], IPV4, &ipv4());
        for (bytes, family) in [
            (0, Family::Other),
            (13, Family::Other),
            (17, Family::Other),
            (37, Family::Ipv4),
        ] {
            let expected = Packet::Unreadable(family, DropReason::Truncated);
            assert_eq!(
                parse(Cursor::new(&frame[..bytes])),
                expected,
                "{bytes} bytes"
            );
        }
        assert_eq!(parse(Cursor::new(&frame[..38])), from_ipv4());
    }

    #[test]
    fn what_is_not_ip_is_called_so() {
        assert_eq!(
            parse(Cursor::new(&frame(&[], [0x08, 0x06], &[]))),
            Packet::NotIp
        );
        assert_eq!(
            parse(Cursor::new(&frame(&[VLAN], [0x88, 0xcc], &[]))),
            Packet::NotIp
        );
    }

    #[test]
    fn neighbour_discovery_comes_from_the_link() {
        for kind in 0..=255 {
            let expected = if (133..=137).contains(&kind) {
                NeighbourDiscovery
            } else {
                Ordinary
            };
            check(58, 255, &[&[kind]], expected);
            check(58, 254, &[&[kind]], Ordinary);
            check(17, 255, &[&[kind]], Ordinary);
        }
        check(58, 255, &[], Ordinary);
    }

    #[test]
    fn extension_headers_are_as_long_as_they_say() {
        for (protocol, header) in [
            (0, &[58, 0, 0, 0, 0, 0, 0, 0][..]),
            (43, &[58, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (51, &[58, 0, 0, 0, 0, 0, 0, 0]),
            (51, &[58, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (60, &[58, 0, 0, 0, 0, 0, 0, 0]),
            (135, &[58, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            check(
                protocol,
                255,
                &[header, &NEIGHBOUR_SOLICITATION],
                NeighbourDiscovery,
            );
            check(protocol, 255, &[header], Ordinary);
        }
    }

    #[test]
    fn no_fragment_is_neighbour_discovery() {
        let whole: &[u8] = &[58, 0, 0, 0, 0, 0, 0, 7];
        let later: &[u8] = &[58, 0, 0, 8, 0, 0, 0, 7];
        check(44, 255, &[whole, &NEIGHBOUR_SOLICITATION], Ordinary);
        check(44, 255, &[later, &NEIGHBOUR_SOLICITATION], Ordinary);
        // What a later fragment holds is no header, however much it looks like many.
        let looks_deep: &[u8] = &[0, 0, 0, 8, 0, 0, 0, 7];
        check(44, 64, &[looks_deep, &[0; 200]], Ordinary);
    }

    #[test]
    fn one_extension_header_too_many_is_too_deep() {
        let header: &[u8] = &[0; 8];
        let last: &[u8] = &[58, 0, 0, 0, 0, 0, 0, 0];
        let mut headers = [header; 9];
        headers[7] = last;
        headers[8] = &NEIGHBOUR_SOLICITATION;
        check(0, 255, &headers, NeighbourDiscovery);
        check(0, 255, &[header; 9], TooDeep);
        check(0, 255, &[header; 7], Ordinary);
    }

    proptest! {
        #[test]
        fn a_source_once_read_does_not_change_with_what_follows(tail in prop::collection::vec(any::<u8>(), 0..300), first: u8, hop_limit: u8) {
            match parse(Cursor::new(&frame(&[], IPV6, &ipv6(first, hop_limit, &[&tail])))) {
                Packet::Ipv6(flow) => prop_assert_eq!(flow.source, Ipv6::new(SOURCE_V6)),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(Cursor::new(&bytes));
        }
    }

    fn check(first: u8, hop_limit: u8, headers: &[&[u8]], expected: Content) {
        let frame = frame(&[], IPV6, &ipv6(first, hop_limit, headers));
        assert_eq!(
            parse(Cursor::new(&frame)),
            from_ipv6(expected),
            "{first}, {hop_limit}: {headers:?}"
        );
    }

    fn frame(tags: &[[u8; 4]], ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&[0xfe; 12], tags.as_flattened(), &ethertype, packet].concat()
    }

    fn ipv4() -> Vec<u8> {
        [&[0x45; 12][..], &SOURCE_V4, &[255; 4]].concat()
    }

    fn ipv6(first: u8, hop_limit: u8, headers: &[&[u8]]) -> Vec<u8> {
        let fixed = [
            &[0x60, 0, 0, 0, 0, 0, first, hop_limit][..],
            &SOURCE_V6,
            &[0xff; 16],
        ];
        [&fixed[..], headers].concat().concat()
    }

    fn from_ipv4() -> Packet {
        Packet::Ipv4(Flow {
            source: Ipv4::new(SOURCE_V4),
            content: Ordinary,
        })
    }

    fn from_ipv6(content: Content) -> Packet {
        Packet::Ipv6(Flow {
            source: Ipv6::new(SOURCE_V6),
            content,
        })
    }
}
