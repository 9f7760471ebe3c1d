//! The addresses of this host (rtnetlink, `RTM_GETADDR`).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]

use std::net::IpAddr;

use anyhow::Context;
use netlink_packet_route::{
    RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
};

use super::dump;

/// Shows each address of each interface.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn each(mut visit: impl FnMut(AddressMessage)) -> anyhow::Result<()> {
    let all = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    dump(all, |answer| {
        if let RouteNetlinkMessage::NewAddress(message) = answer {
            visit(message);
        }
    })
    .context("asking the kernel for addresses")
}

/// The addresses of this host, each with the index of its interface.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn own() -> anyhow::Result<Vec<(IpAddr, u32)>> {
    let mut found = Vec::new();
    each(|message| {
        found.extend(near(&message.attributes).map(|own| (own, message.header.index)));
    })?;
    Ok(found)
}

/// The own address, not the one at the other end of a point-to-point link.
pub fn near(attributes: &[AddressAttribute]) -> Option<IpAddr> {
    let local = attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| far(attributes))
}

/// The address at the other end of a point-to-point link; elsewhere it is the own one.
pub fn far(attributes: &[AddressAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_an_address() {
        let found = own().unwrap();
        assert!(
            found.contains(&(IpAddr::from([127, 0, 0, 1]), 1)),
            "{found:?}"
        );
    }

    #[test]
    fn of_a_point_to_point_link_the_near_end_is_the_own_address() {
        let [here, there] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let both = [
            AddressAttribute::Address(there),
            AddressAttribute::Local(here),
        ];
        assert_eq!((near(&both), far(&both)), (Some(here), Some(there)));
        assert_eq!(near(&both[..1]), Some(there));
    }
}
