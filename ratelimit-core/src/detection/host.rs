//! Properties of this host.

use std::{collections::HashSet, net::IpAddr};

use smart_default::SmartDefault;

/// The ports that questions come from, where nothing else is known (`net.ipv4.ip_local_port_range`
/// of Linux; RFC 6335 has them from 49,152 on).
const EPHEMERAL: u16 = 32_768;

/// The addresses and ports at which packets end on this host, and from which it sends requests.
#[derive(Clone, Debug, Eq, PartialEq, SmartDefault)]
pub struct Host {
    /// Addresses of this host. Packets to them are not forwarded: either a socket receives them, or
    /// nothing does.
    addresses: HashSet<IpAddr>,
    /// The first port that questions come from.
    #[default(EPHEMERAL)]
    ephemeral: u16,
    /// Protocols without a receiver at these addresses.
    unreceived: Vec<u8>,
}

impl Host {
    /// A host at whose `addresses` packets end. It asks from ports from `ephemeral` on; `None`
    /// where that is not known.
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>, ephemeral: Option<u16>) -> Self {
        Self {
            addresses: addresses.into_iter().collect(),
            ephemeral: ephemeral.unwrap_or(EPHEMERAL),
            unreceived: Vec::new(),
        }
    }

    /// Returns the host without receivers of these protocols.
    pub fn without(self, unreceived: Vec<u8>) -> Self {
        Self { unreceived, ..self }
    }

    /// Whether packets of `protocol` to `address` have no receiver.
    pub fn ignores(&self, protocol: u8, address: IpAddr) -> bool {
        self.is_at(address) && self.unreceived.contains(&protocol)
    }

    /// Whether what goes to `address` ends here.
    pub fn is_at(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Whether questions come from a port. At lower ones services wait for anybody.
    pub const fn asks_from(&self, port: u16) -> bool {
        port >= self.ephemeral
    }
}
