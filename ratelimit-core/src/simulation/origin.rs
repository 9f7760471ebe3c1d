//! The source of a packet.

use std::net::IpAddr;

use ratelimit_common::{
    Cursor, Flow, Ipv4, Ipv6, challenge,
    parse::{self, LinkLayer, Payload, ipv4, ipv6},
};

use crate::{config::SourceConfig, ip_family::IpAddress, prefix::Prefix};

/// The address of a packet, and the source that it counts as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Origin {
    pub address: IpAddr,
    pub source: IpAddr,
    /// Whether it is a segment that acknowledges something, and neither opens nor ends a
    /// connection.
    pub acknowledges: bool,
}

/// The masks that turn an address into a source.
#[derive(Clone, Debug)]
pub struct Masks {
    ipv4: Ipv4,
    ipv6: Ipv6,
    source: SourceConfig,
}

impl Origin {
    /// `None` for packets whose source address cannot be read, or that have none.
    pub fn of(frame: Cursor<'_>, masks: &Masks) -> Option<Self> {
        let (frame, link_layer) = masks.source.tunnels.judged(frame, LinkLayer::Ethernet)?;
        let mut cursor = frame;
        match parse::payload(&mut cursor, link_layer).ok()? {
            Payload::Ipv4 => {
                let flow = ipv4::flow(&mut cursor)?;
                Some(Self::masked(&flow, (frame, link_layer), masks.ipv4))
            }
            Payload::Ipv6 => {
                let flow = ipv6::flow(&mut cursor, ipv6::walk)?;
                Some(Self::masked(&flow, (frame, link_layer), masks.ipv6))
            }
            Payload::Other => None,
        }
    }

    fn masked<A: IpAddress>(
        flow: &Flow<A>,
        (frame, link_layer): (Cursor<'_>, LinkLayer),
        mask: A,
    ) -> Self {
        let segment = challenge::segment::<A>(frame, link_layer, flow.upper);
        Self {
            address: flow.source.to_std(),
            source: flow.source.source(mask).to_std(),
            acknowledges: segment.is_some_and(|segment| segment.acknowledges()),
        }
    }
}

impl Masks {
    pub fn new(source: &SourceConfig) -> Self {
        Self {
            ipv4: source.mask(),
            ipv6: source.mask(),
            source: source.clone(),
        }
    }

    /// A source in text form.
    pub fn prefix(&self, source: IpAddr) -> Prefix {
        self.source.around(source)
    }
}
