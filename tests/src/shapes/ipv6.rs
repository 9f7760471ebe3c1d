//! The shapes of IPv6 packets.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{
    Class::{NeighbourDiscovery, TooDeep},
    Shape, cut, patched,
};
use crate::{
    Frame,
    packet::{
        ACK, ETHERNET_BYTES, Extension,
        Extension::{Authentication, Destination, HopByHop, Mobility, Routing},
        IPV6_BYTES, QINQ, QINQ_OLD, SYN, VLAN,
    },
};

/// Every shape.
pub const IPV6: &[Shape<Ipv6Addr>] = &[
    Shape::new("ipv6 udp", |source| {
        ipv6(source).udp(53).payload(&[0; 32]).build()
    }),
    Shape::new("ipv6 tcp syn", |source| ipv6(source).tcp(443, SYN).build()),
    Shape::new("ipv6 tcp ack", |source| {
        ipv6(source).tcp(443, ACK).payload(&[0; 512]).build()
    }),
    Shape::new("icmpv6 echo", |source| ipv6(source).icmpv6(128).build()),
    Shape::new("icmpv6 packet too big", |source| {
        ipv6(source).icmpv6(2).build()
    }),
    Shape::new("multicast listener report", |source| {
        on_link(source).icmpv6(143).build()
    }),
    Shape::new("router solicitation from afar", |source| {
        ipv6(source).icmpv6(133).build()
    }),
    Shape::new("router advertisement from afar", |source| {
        ipv6(source).icmpv6(134).build()
    }),
    Shape::new("neighbour solicitation from afar", |source| {
        ipv6(source).icmpv6(135).build()
    }),
    Shape::new("neighbour advertisement from afar", |source| {
        ipv6(source).icmpv6(136).build()
    }),
    Shape::new("redirect from afar", |source| {
        ipv6(source).icmpv6(137).build()
    }),
    Shape::new("neighbour advertisement over one router", |source| {
        Frame::ethernet().ipv6_with(source, 254).icmpv6(136).build()
    }),
    Shape::new("multicast listener query from afar", |source| {
        ipv6(source).icmpv6(130).build()
    }),
    Shape::new("multicast listener report behind its option", |source| {
        Frame::ethernet()
            .ipv6_with(source, 1)
            .extension(HopByHop(0))
            .icmpv6(143)
            .build()
    }),
    Shape::new("neighbour solicitation in a fragment", |source| {
        on_link(source)
            .extension(fragment(0, false))
            .icmpv6(135)
            .build()
    }),
    Shape::new("neighbour solicitation without its type", |source| {
        cut(on_link(source).icmpv6(135), HEADERS)
    }),
    Shape::of(NeighbourDiscovery, "router solicitation", |source| {
        on_link(source).icmpv6(133).build()
    }),
    Shape::of(NeighbourDiscovery, "router advertisement", |source| {
        on_link(source).icmpv6(134).build()
    }),
    Shape::of(NeighbourDiscovery, "neighbour solicitation", |source| {
        on_link(source).icmpv6(135).build()
    }),
    Shape::of(NeighbourDiscovery, "neighbour advertisement", |source| {
        on_link(source).icmpv6(136).build()
    }),
    Shape::of(NeighbourDiscovery, "redirect", |source| {
        on_link(source).icmpv6(137).build()
    }),
    Shape::of(
        NeighbourDiscovery,
        "neighbour solicitation on a vlan",
        |source| tags(&[VLAN]).ipv6_with(source, 255).icmpv6(135).build(),
    ),
    Shape::new("neighbour solicitation behind options", |source| {
        on_link(source).extension(HopByHop(0)).icmpv6(135).build()
    }),
    Shape::new("neighbour solicitation behind routing", |source| {
        on_link(source).extension(Routing(0)).icmpv6(135).build()
    }),
    Shape::new("neighbour solicitation behind authentication", |source| {
        on_link(source)
            .extension(Authentication(4))
            .icmpv6(135)
            .build()
    }),
    Shape::new("neighbour solicitation behind mobility", |source| {
        on_link(source).extension(Mobility(0)).icmpv6(135).build()
    }),
    Shape::new("hop-by-hop options", |source| {
        ipv6(source).extension(HopByHop(0)).udp(53).build()
    }),
    Shape::new("routing header", |source| {
        ipv6(source).extension(Routing(2)).tcp(80, SYN).build()
    }),
    Shape::new("destination options", |source| {
        ipv6(source).extension(Destination(1)).udp(53).build()
    }),
    Shape::new("authentication header", |source| {
        ipv6(source).extension(Authentication(4)).udp(53).build()
    }),
    Shape::new("authentication header of odd length", |source| {
        ipv6(source).extension(Authentication(3)).udp(53).build()
    }),
    Shape::new("mobility header", |source| {
        ipv6(source).extension(Mobility(0)).udp(53).build()
    }),
    Shape::new("ipv6 first fragment", |source| {
        ipv6(source)
            .extension(fragment(0, true))
            .udp(53)
            .payload(&[0; 64])
            .build()
    }),
    Shape::new("ipv6 tcp syn without its flags, padded", |source| {
        let frame = ipv6(source).extension(fragment(0, true)).tcp(443, SYN);
        patched(frame, PAYLOAD_LENGTH, &[0, 16])
    }),
    Shape::new("ipv6 tcp syn in a first fragment", |source| {
        ipv6(source)
            .extension(fragment(0, true))
            .tcp(443, SYN)
            .build()
    }),
    Shape::new("ipv6 middle fragment", |source| {
        ipv6(source)
            .extension(fragment(9, true))
            .payload(&[0; 64])
            .build()
    }),
    Shape::new("ipv6 last fragment", |source| {
        ipv6(source)
            .extension(fragment(185, false))
            .payload(&[0; 9])
            .build()
    }),
    Shape::new("ipv6 atomic fragment", |source| {
        ipv6(source).extension(fragment(0, false)).udp(53).build()
    }),
    Shape::new("later fragment that looks like many headers", |source| {
        ipv6(source)
            .extension(fragment(1, true))
            .payload(&[0; 256])
            .build()
    }),
    Shape::new("all extension headers", |source| {
        Extension::ALL
            .into_iter()
            .fold(ipv6(source), Frame::extension)
            .udp(53)
            .build()
    }),
    Shape::new(
        "as many extension headers as are looked through",
        |source| nested(source, 8),
    ),
    Shape::of(TooDeep, "one extension header too many", |source| {
        nested(source, 9)
    }),
    Shape::of(TooDeep, "a hundred extension headers", |source| {
        nested(source, 100)
    }),
    Shape::of(
        TooDeep,
        "neighbour solicitation behind too many headers",
        |source| {
            let headers = [HopByHop(0); 9];
            headers
                .into_iter()
                .fold(on_link(source), Frame::extension)
                .icmpv6(135)
                .build()
        },
    ),
    Shape::new("longest extension header", |source| {
        ipv6(source).extension(HopByHop(255)).udp(53).build()
    }),
    Shape::new("extension header past the end", |source| {
        patched(
            ipv6(source).extension(HopByHop(0)).udp(53),
            HEADERS + 1,
            &[255],
        )
    }),
    Shape::new("extension header cut", |source| {
        cut(ipv6(source).extension(Destination(3)), HEADERS + 3)
    }),
    Shape::new("no next header", |source| {
        ipv6(source).payload(&[0; 8]).build()
    }),
    Shape::new("ipv6 header alone", |source| ipv6(source).build()),
    Shape::new("ipv6 in ipv6", |source| {
        ipv6(source).ipv6(OTHER).udp(53).build()
    }),
    Shape::new("ipv4 in ipv6", |source| {
        ipv6(source)
            .ipv4(Ipv4Addr::new(198, 18, 0, 1))
            .udp(53)
            .build()
    }),
    Shape::new("gre in ipv6", |source| {
        ipv6(source).gre().ipv6(OTHER).udp(53).build()
    }),
    Shape::new("esp in ipv6", |source| {
        ipv6(source).protocol(50, &[7; 40]).build()
    }),
    Shape::new("sctp in ipv6", |source| {
        ipv6(source).protocol(132, &[3; 28]).build()
    }),
    Shape::new("icmp in ipv6", |source| ipv6(source).icmp(8).build()),
    Shape::new("host identity protocol", |source| {
        ipv6(source).protocol(139, &[59, 4, 0, 0]).build()
    }),
    Shape::new("shim6", |source| {
        ipv6(source)
            .protocol(140, &[59, 0, 0, 0, 0, 0, 0, 0])
            .build()
    }),
    Shape::new("unknown protocol in ipv6", |source| {
        ipv6(source).protocol(253, &[1; 8]).build()
    }),
    Shape::new("ipv6 with version 4", |source| {
        patched(ipv6(source).udp(53), ETHERNET_BYTES, &[0x45])
    }),
    Shape::new("ipv6 jumbogram", |source| {
        patched(ipv6(source).udp(53), PAYLOAD_LENGTH, &[0, 0])
    }),
    Shape::new("ipv6 full frame", |source| {
        ipv6(source).udp(53).pad_to(1514).build()
    }),
    Shape::new("ipv6 jumbo frame", |source| {
        ipv6(source).tcp(80, ACK).pad_to(9014).build()
    }),
    Shape::new("ipv6 vlan", |source| {
        tags(&[VLAN]).ipv6(source).udp(53).build()
    }),
    Shape::new("ipv6 qinq", |source| {
        tags(&[QINQ, VLAN]).ipv6(source).tcp(80, SYN).build()
    }),
    Shape::new("ipv6 old qinq", |source| {
        tags(&[QINQ_OLD, QINQ]).ipv6(source).udp(53).build()
    }),
    Shape::new("ipv6 qinq and extension headers", |source| {
        let frame = tags(&[QINQ, VLAN]).ipv6(source);
        Extension::ALL
            .into_iter()
            .fold(frame, Frame::extension)
            .udp(53)
            .build()
    }),
    Shape::new("ipv6 qinq and jumbo", |source| {
        tags(&[QINQ, VLAN])
            .ipv6(source)
            .udp(53)
            .pad_to(9022)
            .build()
    }),
];

/// A source that no list names.
const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xeeee, 0, 0, 0, 0, 1);

const HEADERS: usize = ETHERNET_BYTES + IPV6_BYTES;
const PAYLOAD_LENGTH: usize = ETHERNET_BYTES + 4;

fn ipv6(source: Ipv6Addr) -> Frame {
    Frame::ethernet().ipv6(source)
}

/// A packet that no router has forwarded.
fn on_link(source: Ipv6Addr) -> Frame {
    Frame::ethernet().ipv6_with(source, 255)
}

fn nested(source: Ipv6Addr, headers: usize) -> Vec<u8> {
    (0..headers)
        .fold(ipv6(source), |frame, _| frame.extension(Destination(0)))
        .udp(53)
        .build()
}

const fn fragment(offset: u16, more: bool) -> Extension {
    Extension::Fragment { offset, more }
}

fn tags(types: &[u16]) -> Frame {
    types
        .iter()
        .fold(Frame::ethernet(), |frame, tag| frame.vlan(*tag, 42))
}
