//! Whom a packet is from.

use std::net::IpAddr;

use ratelimit_common::{
    Address, Cursor, Ipv4, Ipv6,
    parse::{self, LinkLayer, Payload, ipv4, ipv6},
};

use crate::{config::Source, ip_family::IpAddress, prefix::Prefix};

/// The address of a packet, and the source that it counts as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Origin {
    pub address: IpAddr,
    pub source: IpAddr,
}

/// What makes an address a source.
#[derive(Clone, Debug)]
pub struct Masks {
    ipv4: Ipv4,
    ipv6: Ipv6,
    source: Source,
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
            source: address.source(mask).to_std(),
        }
    }
}

impl Masks {
    pub fn new(source: &Source) -> Self {
        Self {
            ipv4: source.mask(),
            ipv6: source.mask(),
            source: source.clone(),
        }
    }

    /// A source as it is written.
    pub fn prefix(&self, source: IpAddr) -> Prefix {
        self.source.around(source)
    }
}
