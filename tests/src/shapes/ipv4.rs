//! The shapes of IPv4 packets.

use std::net::Ipv4Addr;

use super::{Shape, cut, patched};
use crate::{
    Frame,
    packet::{ACK, ETHERNET_BYTES, IPV4_BYTES, Ipv4Options, QINQ, QINQ_OLD, RST, SYN, VLAN},
};

/// Every shape.
pub const IPV4: &[Shape<Ipv4Addr>] = &[
    Shape::new("udp", |source| {
        ipv4(source).udp(53).payload(&[0; 32]).build()
    }),
    Shape::new("udp without payload", |source| {
        ipv4(source).udp(123).build()
    }),
    Shape::new("tcp syn", |source| ipv4(source).tcp(443, SYN).build()),
    Shape::new("tcp ack", |source| {
        ipv4(source).tcp(443, ACK).payload(&[0; 512]).build()
    }),
    Shape::new("tcp rst", |source| ipv4(source).tcp(22, RST).build()),
    Shape::new("tcp without flags", |source| {
        ipv4(source).tcp(22, 0).build()
    }),
    Shape::new("icmp echo", |source| {
        ipv4(source).icmp(8).payload(&[0; 56]).build()
    }),
    Shape::new("icmp unreachable", |source| ipv4(source).icmp(3).build()),
    Shape::new("icmp redirect", |source| ipv4(source).icmp(5).build()),
    Shape::new("icmp router discovery", |source| {
        ipv4(source).icmp(9).build()
    }),
    Shape::new("igmp", |source| {
        ipv4(source).protocol(2, &[0x16; 8]).build()
    }),
    Shape::new("ip in ip", |source| {
        ipv4(source).ipv4(OTHER).udp(53).build()
    }),
    Shape::new("ipv6 in ip", |source| {
        ipv4(source).ipv6(OTHER.to_ipv6_mapped()).udp(53).build()
    }),
    Shape::new("gre", |source| {
        ipv4(source).gre().ipv4(OTHER).udp(53).build()
    }),
    Shape::new("gre without content", |source| ipv4(source).gre().build()),
    Shape::new("esp", |source| ipv4(source).protocol(50, &[7; 40]).build()),
    Shape::new("ah", |source| {
        ipv4(source).protocol(51, &[17; 24]).udp(53).build()
    }),
    Shape::new("sctp", |source| {
        ipv4(source).protocol(132, &[3; 28]).build()
    }),
    Shape::new("dccp", |source| ipv4(source).protocol(33, &[3; 16]).build()),
    Shape::new("udp-lite", |source| {
        ipv4(source).protocol(136, &[3; 8]).build()
    }),
    Shape::new("ospf", |source| ipv4(source).protocol(89, &[2; 24]).build()),
    Shape::new("vrrp", |source| ipv4(source).protocol(112, &[2; 8]).build()),
    Shape::new("l2tp", |source| {
        ipv4(source).protocol(115, &[2; 12]).build()
    }),
    Shape::new("protocol 0", |source| {
        ipv4(source).protocol(0, &[0; 8]).build()
    }),
    Shape::new("icmpv6 in ipv4", |source| ipv4(source).icmpv6(135).build()),
    Shape::new("unknown protocol", |source| {
        ipv4(source).protocol(255, &[]).build()
    }),
    Shape::new("record route", |source| {
        with_options(source, 8).udp(53).build()
    }),
    Shape::new("timestamps in all options", |source| {
        with_options(source, 40).tcp(80, SYN).build()
    }),
    Shape::new("first fragment", |source| {
        fragment(source, 0, true).udp(53).payload(&[0; 64]).build()
    }),
    Shape::new("middle fragment", |source| {
        fragment(source, 9, true).payload(&[0; 64]).build()
    }),
    Shape::new("last fragment", |source| {
        fragment(source, 185, false).payload(&[0; 9]).build()
    }),
    Shape::new("tiny fragment", |source| {
        fragment(source, 0, true).payload(&[0; 8]).build()
    }),
    Shape::new("tcp syn without its flags", |source| {
        cut(fragment(source, 0, true).tcp(443, SYN), HEADERS + 8)
    }),
    Shape::new("tcp syn without its flags, padded", |source| {
        let frame = fragment(source, 0, true).tcp(443, SYN).pad_to(60);
        patched(frame, ETHERNET_BYTES + 2, &[0, 28])
    }),
    Shape::new("tcp syn in a first fragment", |source| {
        fragment(source, 0, true).tcp(443, SYN).build()
    }),
    Shape::new("fragment past the largest packet", |source| {
        fragment(source, 0x1fff, false).payload(&[0; 64]).build()
    }),
    Shape::new("header alone", |source| ipv4(source).build()),
    Shape::new("udp header cut", |source| {
        cut(ipv4(source).udp(53), HEADERS + 4)
    }),
    Shape::new("tcp header cut", |source| {
        cut(ipv4(source).tcp(80, SYN), HEADERS + 13)
    }),
    Shape::new("options cut", |source| {
        cut(with_options(source, 40), HEADERS)
    }),
    Shape::new("padded to the least frame", |source| {
        patched(ipv4(source).udp(53).pad_to(60), TOTAL_LENGTH, &[0, 28])
    }),
    Shape::new("full frame", |source| {
        ipv4(source).udp(53).pad_to(1514).build()
    }),
    Shape::new("larger than a page", |source| {
        ipv4(source).udp(53).pad_to(5000).build()
    }),
    Shape::new("jumbo frame", |source| {
        ipv4(source).udp(53).pad_to(9014).build()
    }),
    Shape::new("header length of 4", |source| {
        patched(ipv4(source).udp(53), ETHERNET_BYTES, &[0x41])
    }),
    Shape::new("header length past the end", |source| {
        patched(ipv4(source).udp(53), ETHERNET_BYTES, &[0x4f])
    }),
    Shape::new("version 6", |source| {
        patched(ipv4(source).udp(53), ETHERNET_BYTES, &[0x65])
    }),
    Shape::new("total length of 0", |source| {
        patched(ipv4(source).udp(53), TOTAL_LENGTH, &[0, 0])
    }),
    Shape::new("total length past the end", |source| {
        patched(ipv4(source).udp(53), TOTAL_LENGTH, &[0xff, 0xff])
    }),
    Shape::new("wrong checksum", |source| {
        patched(ipv4(source).udp(53), CHECKSUM, &[0xba, 0xad])
    }),
    Shape::new("expiring time to live", |source| {
        patched(ipv4(source).udp(53), TIME_TO_LIVE, &[1])
    }),
    Shape::new("to the whole link", |source| {
        Frame::ethernet().broadcast().ipv4(source).udp(67).build()
    }),
    Shape::new("vlan", |source| tagged(&[VLAN], source).udp(53).build()),
    Shape::new("service vlan", |source| {
        tagged(&[QINQ], source).udp(53).build()
    }),
    Shape::new("old service vlan", |source| {
        tagged(&[QINQ_OLD], source).udp(53).build()
    }),
    Shape::new("priority tag", |source| {
        Frame::ethernet()
            .vlan(VLAN, 7 << 13)
            .ipv4(source)
            .udp(53)
            .build()
    }),
    Shape::new("qinq", |source| {
        tagged(&[QINQ, VLAN], source).udp(53).build()
    }),
    Shape::new("qinq with equal tags", |source| {
        tagged(&[VLAN, VLAN], source).tcp(80, SYN).build()
    }),
    Shape::new("old qinq", |source| {
        tagged(&[QINQ_OLD, VLAN], source).icmp(8).build()
    }),
    Shape::new("qinq inside out", |source| {
        tagged(&[VLAN, QINQ], source).udp(53).build()
    }),
    Shape::new("qinq and options", |source| {
        let options = Ipv4Options::with_options(&[1; 12]);
        tags(&[QINQ, VLAN])
            .ipv4_with(source, &options)
            .udp(53)
            .build()
    }),
    Shape::new("vlan and fragment", |source| {
        let fragment = Ipv4Options::fragment(9, true);
        tags(&[VLAN])
            .ipv4_with(source, &fragment)
            .payload(&[0; 64])
            .build()
    }),
    Shape::new("qinq and gre", |source| {
        tagged(&[QINQ, VLAN], source).gre().ipv4(OTHER).build()
    }),
    Shape::new("qinq and jumbo", |source| {
        tagged(&[QINQ, VLAN], source).udp(53).pad_to(9022).build()
    }),
];

/// A source that no list names.
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

const HEADERS: usize = ETHERNET_BYTES + IPV4_BYTES;
const TOTAL_LENGTH: usize = ETHERNET_BYTES + 2;
const TIME_TO_LIVE: usize = ETHERNET_BYTES + 8;
const CHECKSUM: usize = ETHERNET_BYTES + 10;

fn ipv4(source: Ipv4Addr) -> Frame {
    Frame::ethernet().ipv4(source)
}

fn with_options(source: Ipv4Addr, bytes: usize) -> Frame {
    let options = Ipv4Options::with_options(&vec![1; bytes]);
    Frame::ethernet().ipv4_with(source, &options)
}

fn fragment(source: Ipv4Addr, offset: u16, more: bool) -> Frame {
    Frame::ethernet().ipv4_with(source, &Ipv4Options::fragment(offset, more))
}

fn tagged(types: &[u16], source: Ipv4Addr) -> Frame {
    tags(types).ipv4(source)
}

fn tags(types: &[u16]) -> Frame {
    types
        .iter()
        .fold(Frame::ethernet(), |frame, tag| frame.vlan(*tag, 42))
}
