//! Whom a packet is from.

use std::net::IpAddr;

use ratelimit_common::{
    Address, Cursor, Ipv4, Ipv6,
    parse::{self, LinkLayer, Payload, ipv4, ipv6},
};

use crate::{config::Source, datapath::IpAddress, prefix::Prefix};

/// The address of a packet, and the source that it counts as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Origin {
    pub address: IpAddr,
    pub source: IpAddr,
}

/// What makes an address a source.
#[derive(Clone, Copy, Debug)]
pub struct Masks {
    ipv4: Ipv4,
    ipv6: Ipv6,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

impl Origin {
    /// `None` for packets whose source address cannot be read, or that have none.
    pub fn of(mut frame: Cursor<'_>, masks: &Masks) -> Option<Self> {
        match parse::payload(&mut frame, LinkLayer::Ethernet).ok()? {
            Payload::Ipv4 => {
                let flow = ipv4::flow(&mut frame)?;
                Some(Self::masked(flow.source, masks.ipv4))
            }
            Payload::Ipv6 => {
                let flow = ipv6::flow(&mut frame, ipv6::walk)?;
                Some(Self::masked(flow.source, masks.ipv6))
            }
            Payload::Other => None,
        }
    }

    fn masked<A: Address + IpAddress>(address: A, mask: A) -> Self {
        Self {
            address: address.to_std(),
            source: address.masked(mask).to_std(),
        }
    }
}

impl Masks {
    pub fn new(source: &Source) -> Self {
        Self {
            ipv4: IpAddress::source_mask(source),
            ipv6: IpAddress::source_mask(source),
            ipv4_prefix: source.ipv4_prefix,
            ipv6_prefix: source.ipv6_prefix,
        }
    }

    /// A source as it is written.
    pub fn prefix(&self, source: IpAddr) -> Prefix {
        let length = match source {
            IpAddr::V4(_) => self.ipv4_prefix,
            IpAddr::V6(_) => self.ipv6_prefix,
        };
        Prefix::around(source, length).expect("the configuration refuses longer ones")
    }
}
