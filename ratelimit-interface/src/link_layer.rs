//! The link-layer header of an interface by its type (`ARPHRD_*` of `linux/if_arp.h`).
//!
//! The kernel passes packets from the link-layer header on. Without one that is the network header:
//! virtual devices reset it so since Linux 5.14. `tests/tests/link_layer.rs` shows it for tun in
//! both modes.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]

use anyhow::bail;
use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};
use ratelimit_common::parse::LinkLayer;

/// Returns the header that frames of `link` begin with.
///
/// # Errors
///
/// If the program cannot read it: it would interpret other bytes as addresses.
pub fn of(link: &LinkMessage) -> anyhow::Result<LinkLayer> {
    match link.header.link_layer_type {
        LinkLayerType::Ether | LinkLayerType::Loopback => Ok(LinkLayer::Ethernet),
        LinkLayerType::None
        | LinkLayerType::Rawip
        | LinkLayerType::Ppp
        | LinkLayerType::Tunnel
        | LinkLayerType::Tunnel6
        | LinkLayerType::Sit
        | LinkLayerType::Ip6gre => Ok(LinkLayer::None),
        LinkLayerType::Ipgre if has_remote(link) => Ok(LinkLayer::None),
        // There the kernel keeps the outer header in front, for `ipgre_header_parse` (`__ipgre_rcv`
        // in net/ipv4/ip_gre.c).
        LinkLayerType::Ipgre => bail!(
            "packets of a GRE interface without one remote address begin with their outer header: \
             put the interface below it in its place, or give it a remote address"
        ),
        LinkLayerType::Infiniband => bail!(
            "frames of InfiniBand (INFINIBAND, IPoIB) begin with a header of their own, which is \
             not read: limit at an interface with Ethernet frames that the packets cross, or on \
             this one by nftables"
        ),
        other => {
            bail!("its link layer {other} is not supported: only Ethernet and raw IP are")
        }
    }
}

/// Whether a tunnel has a fixed remote address, which is stored as the broadcast address.
fn has_remote(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::Broadcast(address) => {
            address.iter().any(|byte| *byte != 0)
                && address.first().is_some_and(|byte| byte >> 4 != 14)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: [u8; 4] = [192, 0, 2, 1];

    #[test]
    fn an_interface_has_an_ethernet_header_or_none() {
        use LinkLayerType::{Ether, Ip6gre, Loopback, None, Ppp, Rawip, Sit, Tunnel, Tunnel6};
        for ethernet in [Ether, Loopback] {
            assert_eq!(of(&link(ethernet, &[])).unwrap(), LinkLayer::Ethernet);
        }
        for none in [None, Rawip, Ppp, Tunnel, Tunnel6, Sit, Ip6gre] {
            assert_eq!(of(&link(none, &HOST)).unwrap(), LinkLayer::None, "{none}");
        }
    }

    #[test]
    fn a_gre_interface_with_many_ends_is_refused() {
        use LinkLayerType::Ipgre;
        assert_eq!(of(&link(Ipgre, &HOST)).unwrap(), LinkLayer::None);
        for nobody in [[0; 4], [239, 0, 0, 1]] {
            assert!(of(&link(Ipgre, &nobody)).is_err(), "{nobody:?}");
        }
    }

    #[test]
    fn a_link_layer_that_is_not_read_is_named() {
        let error = of(&link(LinkLayerType::Infiniband, &[])).unwrap_err();
        for part in ["InfiniBand", "Ethernet frames", "nftables"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = of(&link(LinkLayerType::Can, &[])).unwrap_err();
        assert!(error.to_string().contains("CAN"), "{error}");
    }

    fn link(layer: LinkLayerType, broadcast: &[u8]) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.header.link_layer_type = layer;
        link.attributes
            .push(LinkAttribute::Broadcast(broadcast.to_vec()));
        link
    }
}
