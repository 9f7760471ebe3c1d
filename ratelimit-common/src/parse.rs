//! Parses bytes into a [`Flow`](crate::Flow): the link layer, the network header with its source
//! address, and the transport header.
//!
//! Each step returns its own result. An enum of all possible frames would mix the verifier's
//! pointers and plain bytes in one word.

pub mod addresses;
mod connection;
mod ethernet;
pub mod headers;
pub mod ipv4;
pub mod ipv6;
mod link_layer;
pub mod numbers;
pub mod transport;
pub mod tunnel;

pub use connection::{Connection, Wanted};
pub use ethernet::VLAN_TAGS_MAX;
pub use link_layer::{LinkLayer, Payload, payload};
pub use tunnel::{Inner, Tunnels, network};

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::{
        transport::{Fragment, UpperLayer},
        *,
    };
    use crate::{
        Cursor, DropReason, Family, Ipv4, Ipv6,
        flow::Content::{self, NeighbourDiscovery, Ordinary, TooDeep},
    };

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
            assert_eq!(read(&frame(tags, IPV4, &ipv4())), from_ipv4());
            let packet = ipv6(17, 64, &[]);
            assert_eq!(read(&frame(tags, IPV6, &packet)), from_ipv6(Ordinary));
        }
        let frame = frame(&[VLAN; 3], IPV4, &ipv4());
        let expected = Read::Unreadable(Family::Other, DropReason::VlanDepth);
        assert_eq!(read(&frame), expected);
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
            let expected = Read::Unreadable(family, DropReason::Truncated);
            assert_eq!(read(&frame[..bytes]), expected, "{bytes} bytes");
        }
        assert_eq!(read(&frame[..38]), from_ipv4());
    }

    #[test]
    fn a_frame_without_ip_is_reported_as_such() {
        assert_eq!(read(&frame(&[], [0x08, 0x06], &[])), Read::NotIp);
        assert_eq!(read(&frame(&[VLAN], [0x88, 0xcc], &[])), Read::NotIp);
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
            // Neighbour discovery has no extension headers.
            check(protocol, 255, &[header, &NEIGHBOUR_SOLICITATION], Ordinary);
            let frame = frame(&[], IPV6, &ipv6(protocol, 255, &[header]));
            let upper = upper_layer(&frame);
            assert_eq!(
                (upper.protocol(), usize::from(upper.offset())),
                (58, frame.len())
            );
        }
    }

    #[test]
    fn no_fragment_is_neighbour_discovery() {
        let whole: &[u8] = &[58, 0, 0, 0, 0, 0, 0, 7];
        let later: &[u8] = &[58, 0, 0, 8, 0, 0, 0, 7];
        check(44, 255, &[whole, &NEIGHBOUR_SOLICITATION], Ordinary);
        check(44, 255, &[later, &NEIGHBOUR_SOLICITATION], Ordinary);
        // The content of a later fragment is no header, even if it looks like several.
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
        check(0, 255, &headers, Ordinary);
        check(0, 255, &[header; 9], TooDeep);
        check(0, 255, &[header; 7], Ordinary);
    }

    #[test]
    fn headers_behind_the_readable_front_of_a_longer_frame_are_too_deep() {
        let options: &[&[u8]] = &[&[6, 30], &[0; 246], &[0; 20]];
        let whole = frame(&[], IPV6, &ipv6(60, 64, options));
        let upper = whole.len() - 20;
        let end = u32::try_from(whole.len()).unwrap();
        for (readable, frame_bytes, expected) in [
            (56, end, TooDeep),
            (upper, end, TooDeep),
            (upper + 13, end, TooDeep),
            (upper + 14, end, Ordinary),
            // A host drops what ends there, so it is judged by its source.
            (56, 56, Ordinary),
            (upper + 13, 0, Ordinary),
        ] {
            let mut cursor = Cursor::with_frame_bytes(&whole[..readable], frame_bytes);
            payload(&mut cursor, LinkLayer::Ethernet).unwrap();
            let flow = ipv6::flow(&mut cursor, ipv6::walk).unwrap();
            assert_eq!(flow.content, expected, "{readable} of {frame_bytes} bytes");
        }
    }

    #[test]
    fn the_upper_layer_stands_behind_options_and_extension_headers() {
        let ports = [0, 53, 0x1f, 0x90];
        for words in 5..16 {
            let options = usize::from(words - 5) * 4;
            let packet = [
                &[0x40 | words, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0][..],
                &SOURCE_V4,
                &[0; 4],
                &vec![1; options],
                &ports,
            ]
            .concat();
            check_ports(&frame(&[], IPV4, &packet), Fragment::Whole);
        }
        check_ports(
            &frame(&[VLAN], IPV6, &ipv6(17, 64, &[&ports])),
            Fragment::Whole,
        );
        let hop_by_hop = &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        check_ports(
            &frame(&[], IPV6, &ipv6(0, 64, &[hop_by_hop, &ports])),
            Fragment::Whole,
        );
        let first = &[17, 0, 0, 1, 0, 0, 0, 7];
        for (rest, fragment) in [(4, Fragment::First), (3, Fragment::Tiny)] {
            let packet = ipv6(44, 64, &[first, &ports, &vec![0; rest]]);
            check_ports(&frame(&[], IPV6, &packet), fragment);
        }
    }

    #[test]
    fn a_fragment_says_which_part_it_is() {
        for (bits, fragment) in [
            ([0x00, 0x00], Fragment::Whole),
            ([0x40, 0x00], Fragment::Whole),
            ([0x20, 0x00], Fragment::First),
            ([0x3f, 0xff], Fragment::Later),
            ([0x20, 0x01], Fragment::Later),
            ([0x00, 0x01], Fragment::Later),
            ([0x1f, 0xff], Fragment::Later),
        ] {
            let mut packet = ipv4();
            packet[6..8].copy_from_slice(&bits);
            let frame = frame(&[], IPV4, &packet);
            assert_eq!(upper_layer(&frame).fragment(), fragment, "{bits:?}");
        }
        for (bits, fragment) in [
            // An atomic fragment is a complete packet, whatever the reserved bits are.
            ([0, 0], Fragment::Whole),
            ([0, 6], Fragment::Whole),
            ([0, 1], Fragment::First),
            ([0, 8], Fragment::Later),
            ([0xff, 0xf9], Fragment::Later),
        ] {
            let header = [17, 0, bits[0], bits[1], 0, 0, 0, 7];
            let frame = frame(&[], IPV6, &ipv6(44, 64, &[&header, &[0; 14]]));
            assert_eq!(upper_layer(&frame).fragment(), fragment, "{bits:?}");
            assert_eq!(upper_layer(&frame).protocol(), 17);
        }
    }

    #[test]
    fn a_first_fragment_is_as_long_as_its_network_header_says() {
        for bytes in 8_u8..24 {
            let expected = Fragment::first(bytes.into()).of(6);
            for options in [0, 40] {
                let mut packet = ipv4();
                packet[9] = 6;
                packet[0] = 0x45 + options / 4;
                packet[2..4].copy_from_slice(&[0, 20 + options + bytes]);
                packet[6..8].copy_from_slice(&[0x20, 0]);
                let padded = frame(&[], IPV4, &[packet, vec![0; 80]].concat());
                assert_eq!(upper_layer(&padded).fragment(), expected, "{bytes} bytes");
            }
            let hop_by_hop = &[44, 0, 0, 0, 0, 0, 0, 0];
            let header = &[6, 0, 0, 1, 0, 0, 0, 7];
            let mut packet = ipv6(0, 64, &[hop_by_hop, header, &[0; 80]]);
            packet[4..6].copy_from_slice(&[0, 16 + bytes]);
            let padded = frame(&[], IPV6, &packet);
            assert_eq!(upper_layer(&padded).fragment(), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn without_a_link_header_a_frame_is_what_its_version_says() {
        for (packet, family, bytes) in [
            (ipv4(), Payload::Ipv4, 20),
            (ipv6(17, 64, &[]), Payload::Ipv6, 40),
        ] {
            let mut cursor = Cursor::new(&packet);
            assert_eq!(payload(&mut cursor, LinkLayer::None), Ok(family));
            assert_eq!((cursor.offset(), packet.len()), (0, bytes));
        }
        for version in [0, 1, 2, 3, 5, 7, 8, 15] {
            let mut packet = ipv4();
            packet[0] = version << 4 | 5;
            let read = payload(&mut Cursor::new(&packet), LinkLayer::None);
            assert_eq!(read, Ok(Payload::Other), "{version}");
        }
        let read = payload(&mut Cursor::new(&[]), LinkLayer::None);
        assert_eq!(read, Err(DropReason::Truncated));
    }

    proptest! {
        #[test]
        fn a_source_once_read_does_not_change_with_what_follows(
            tail in prop::collection::vec(any::<u8>(), 0..300), first: u8, hop_limit: u8,
        ) {
            match read(&frame(&[], IPV6, &ipv6(first, hop_limit, &[&tail]))) {
                Read::Ipv6(source, _) => prop_assert_eq!(source, Ipv6::new(SOURCE_V6)),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            match read(&bytes) {
                Read::Ipv4(..) | Read::Ipv6(..) => {
                    let _ = upper_layer(&bytes).transport(Cursor::new(&bytes));
                },
                Read::NotIp | Read::Unreadable(..) => {}
            }
        }
    }

    fn check(first: u8, hop_limit: u8, headers: &[&[u8]], expected: Content) {
        let frame = frame(&[], IPV6, &ipv6(first, hop_limit, headers));
        let expected = from_ipv6(expected);
        assert_eq!(read(&frame), expected, "{first}, {hop_limit}: {headers:?}");
    }

    fn check_ports(frame: &[u8], fragment: Fragment) {
        let upper = upper_layer(frame);
        let transport = upper.transport(Cursor::new(frame));
        let ports = (transport.source_port, transport.destination_port);
        assert_eq!((upper.protocol(), upper.fragment()), (17, fragment));
        assert_eq!(ports, (53, 8080), "{frame:?}");
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
        let mut packet = [&fixed[..], headers].concat().concat();
        let bytes = u16::try_from(packet.len() - 40).unwrap();
        packet[4..6].copy_from_slice(&bytes.to_be_bytes());
        packet
    }

    /// The parsed frame.
    #[derive(Debug, Eq, PartialEq)]
    enum Read {
        Ipv4(Ipv4, Content),
        Ipv6(Ipv6, Content),
        NotIp,
        Unreadable(Family, DropReason),
    }

    fn read(frame: &[u8]) -> Read {
        let mut cursor = Cursor::new(frame);
        let truncated = |family| Read::Unreadable(family, DropReason::Truncated);
        match payload(&mut cursor, LinkLayer::Ethernet) {
            Ok(Payload::Ipv4) => ipv4::flow(&mut cursor).map_or(truncated(Family::Ipv4), |flow| {
                Read::Ipv4(flow.source, flow.content)
            }),
            Ok(Payload::Ipv6) => ipv6::flow(&mut cursor, ipv6::walk)
                .map_or(truncated(Family::Ipv6), |flow| {
                    Read::Ipv6(flow.source, flow.content)
                }),
            Ok(Payload::Other) => Read::NotIp,
            Err(reason) => Read::Unreadable(Family::Other, reason),
        }
    }

    fn upper_layer(frame: &[u8]) -> UpperLayer {
        let mut cursor = Cursor::new(frame);
        match payload(&mut cursor, LinkLayer::Ethernet) {
            Ok(Payload::Ipv4) => ipv4::flow(&mut cursor).unwrap().upper,
            Ok(Payload::Ipv6) => ipv6::flow(&mut cursor, ipv6::walk).unwrap().upper,
            _ => panic!("{frame:?} has no upper layer"),
        }
    }

    fn from_ipv4() -> Read {
        Read::Ipv4(Ipv4::new(SOURCE_V4), Ordinary)
    }

    fn from_ipv6(content: Content) -> Read {
        Read::Ipv6(Ipv6::new(SOURCE_V6), content)
    }
}
