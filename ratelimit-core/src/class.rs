//! Classes of packets as people say them: by protocol, ports, TCP flags, fragments.
//!
//! A class says one thing about each property of a packet. How packets are told apart is in
//! [`ratelimit_common::class`].

mod builtin;
mod catalogue;
mod overlap;
mod ports;
pub mod protocol;
mod text;

use std::collections::BTreeSet;

use ratelimit_common::parse::transport::{Kind, has_ports};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    builtin::BUILT_IN,
    catalogue::{Catalogue, Selected, UnknownClass},
    ports::{PortError, Ports, parse_range as parse_ports},
};

/// Packets that are alike. Two classes are equal when they say the same.
#[derive(
    Clone, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(try_from = "text::ClassText", into = "text::ClassText")]
pub struct Class(ClassParts);

/// What is said of the packets of a class. What is `None` may be anything.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClassParts {
    /// Protocols, numbers of IANA's.
    pub protocols: Option<BTreeSet<u8>>,
    /// Ports that they come from.
    pub source_ports: Option<Ports>,
    /// Ports that they go to.
    pub destination_ports: Option<Ports>,
    /// Flags of TCP.
    pub tcp: Option<TcpFlags>,
    /// Whether they are parts of fragmented packets.
    pub fragment: Option<bool>,
}

/// What the flags of a TCP segment say.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum TcpFlags {
    /// SYN without ACK.
    Syn,
    /// Flags that no implementation sends.
    Invalid,
}

/// Which packets a limit counts, as it was written.
#[derive(Clone, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Match {
    /// Those of a class with a name.
    Named(String),
    /// Those of a class that is defined on the spot.
    Inline(Class),
}

/// Why there is no such class.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ClassError {
    /// Nothing is said.
    #[error("the class says nothing: it would have every packet")]
    Everything,
    /// A list without entries.
    #[error("the list of `{0}` is empty: no packet would belong to the class")]
    EmptyList(&'static str),
    /// Ports of a protocol that has none.
    #[error("packets of {0} have no ports: none would belong to the class")]
    NoPorts(String),
    /// TCP flags of another protocol.
    #[error("packets of {0} have no TCP flags: none would belong to the class")]
    NotTcp(String),
}

impl Class {
    /// The class of the packets of which all of `parts` holds.
    ///
    /// # Errors
    ///
    /// When that is every packet or none.
    pub fn new(mut parts: ClassParts) -> Result<Self, ClassError> {
        if parts == ClassParts::default() {
            return Err(ClassError::Everything);
        }
        let is_empty = |ports: &Option<Ports>| ports.as_ref().is_some_and(Ports::is_empty);
        for (key, empty) in [
            (
                "protocol",
                parts.protocols.as_ref().is_some_and(BTreeSet::is_empty),
            ),
            ("source_ports", is_empty(&parts.source_ports)),
            ("destination_ports", is_empty(&parts.destination_ports)),
        ] {
            if empty {
                return Err(ClassError::EmptyList(key));
            }
        }
        let (of_ports, of_tcp) = (parts.has_ports(), parts.tcp.is_some());
        let protocols = parts.protocols.get_or_insert_with(|| {
            let implied = |protocol: &u8| match (of_tcp, of_ports) {
                (true, _) => *protocol == protocol::TCP,
                (false, true) => has_ports(*protocol),
                (false, false) => true,
            };
            (0..=u8::MAX).filter(implied).collect()
        });
        let named = |protocol: &u8| protocol::name(*protocol);
        if let Some(other) = protocols
            .iter()
            .find(|protocol| of_tcp && **protocol != protocol::TCP)
        {
            return Err(ClassError::NotTcp(named(other)));
        }
        if let Some(other) = protocols
            .iter()
            .find(|protocol| of_ports && !has_ports(**protocol))
        {
            return Err(ClassError::NoPorts(named(other)));
        }
        if protocols.len() == usize::from(u8::MAX) + 1 {
            parts.protocols = None;
        }
        Ok(Self(parts))
    }

    /// What is said of its packets. Protocols that follow from ports or flags are said as well.
    #[must_use]
    pub const fn parts(&self) -> &ClassParts {
        &self.0
    }

    /// Whether a packet of this kind may belong to the class.
    #[must_use]
    pub fn has_kind(&self, kind: Kind) -> bool {
        let protocols = self.0.protocols.as_ref();
        let flags = self.0.tcp.is_none_or(|flags| match flags {
            TcpFlags::Syn => kind.is_syn(),
            TcpFlags::Invalid => kind.is_invalid(),
        });
        let fragment = self
            .0
            .fragment
            .is_none_or(|fragment| fragment == kind.is_fragment());
        flags && fragment && protocols.is_none_or(|protocols| protocols.contains(&kind.protocol()))
    }

    /// Whether a packet from this port, or [none](ratelimit_common::class::NO_PORT), may belong to the class.
    #[must_use]
    pub fn has_source_port(&self, port: u32) -> bool {
        accepts(self.0.source_ports.as_ref(), port)
    }

    /// Whether a packet to this port, or [none](ratelimit_common::class::NO_PORT), may belong to the class.
    #[must_use]
    pub fn has_destination_port(&self, port: u32) -> bool {
        accepts(self.0.destination_ports.as_ref(), port)
    }
}

impl ClassParts {
    const fn has_ports(&self) -> bool {
        self.source_ports.is_some() || self.destination_ports.is_some()
    }
}

fn accepts(ports: Option<&Ports>, port: u32) -> bool {
    ports.is_none_or(|ports| u16::try_from(port).is_ok_and(|port| ports.contains(port)))
}

#[cfg(test)]
mod tests;
