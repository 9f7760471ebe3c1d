//! Header fields below the transport header that only classes use. They are parsed separately.

use super::{
    Inner, LinkLayer, Payload, addresses::Addresses, ethernet, ipv4, ipv6, network,
    numbers::Numbers,
};
use crate::{Cursor, class::NO_VLAN};

/// The fields of the link and network headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Headers {
    /// The outermost VLAN, or [`NO_VLAN`].
    pub vlan: u32,
    /// Numbers in the network header.
    pub numbers: Numbers,
    /// Properties of its addresses.
    pub addresses: Addresses,
}

/// Reads the headers of the IP packet in `frame`, a cursor at its beginning. Missing fields count
/// as 0. For a tunnel that is unwrapped, the VLAN is the outer one, and everything else is of the
/// inner packet.
#[inline(always)]
pub fn read(frame: Cursor<'_>, link_layer: LinkLayer, inner: Inner) -> Headers {
    let vlan = match link_layer {
        LinkLayer::Ethernet => ethernet::vlan(frame),
        LinkLayer::None => NO_VLAN,
    };
    let mut cursor = frame;
    let (numbers, addresses) = match network(&mut cursor, link_layer, inner) {
        Ok(Payload::Ipv4) => (
            ipv4::numbers(cursor),
            ipv4::addresses(cursor).map(Addresses::of),
        ),
        Ok(Payload::Ipv6) => (
            ipv6::numbers(cursor),
            ipv6::addresses(cursor).map(Addresses::of),
        ),
        Ok(Payload::Other) | Err(_) => (Numbers::default(), None),
    };
    Headers {
        vlan,
        numbers,
        addresses: addresses.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn headers_say_what_classes_ask_for() {
        let ipv4 = [0x45, 0xb8, 0x05, 0x78, 0, 0, 0, 0, 61, 17, 0, 0];
        let ipv4 = [&ipv4[..], &[0; 8]].concat();
        let ipv6 = [&[0x6b, 0x80, 0, 0, 0x05, 0x50, 17, 61][..], &[0; 32]].concat();
        for (ethertype, packet) in [([0x08, 0x00], &ipv4), ([0x86, 0xdd], &ipv6)] {
            for (tag, vlan) in [(&[][..], NO_VLAN), (&[0x81, 0x00, 0x60, 0x07], 7)] {
                let frame: Vec<u8> = [&[0; 12], tag, &ethertype, packet].concat();
                let headers = read(Cursor::new(&frame), LinkLayer::Ethernet, Inner::NONE);
                assert_eq!(headers.vlan, vlan);
                assert_eq!(headers.numbers, Numbers::new(1400, 61, 0xb8));
                let cut = read(
                    Cursor::new(&frame[..frame.len() - 1]),
                    LinkLayer::Ethernet,
                    Inner::NONE,
                );
                assert_eq!(cut.numbers, Numbers::default());
            }
            let headers = read(Cursor::new(packet), LinkLayer::None, Inner::NONE);
            assert_eq!(headers.vlan, NO_VLAN);
            assert_eq!(headers.numbers.length(), 1400);
            assert_eq!(headers.numbers.hops_and_service(), 61 << 8 | 0xb8);
        }
    }
}
