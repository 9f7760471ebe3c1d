//! Classes of packets in the configuration: by protocol, ports, TCP flags, fragments.
//!
//! A class constrains each property of a packet at most once. [`ratelimit_common::class`] matches
//! packets.

pub(crate) mod builtin;
mod catalogue;
mod destination;
pub mod flags;
mod fragment;
mod numbers;
mod overlap;
pub mod protocol;
mod source_shape;
mod text;

use std::collections::BTreeSet;

use ratelimit_common::{
    class::{NO_VLAN, Property},
    parse::transport::{Details, Kind, NO_PORT, has_ports},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ip_family::IpFamily, prefix::Prefix};

pub use self::{
    builtin::BUILT_IN,
    catalogue::{Action, Catalogue, Selected, UnknownClass},
    flags::{FlagsError, TcpFlags},
    fragment::Fragments,
    numbers::{Field, NumberError, Numbers},
    source_shape::SourceShape,
};

/// A class of packets. Classes are equal if they have the same conditions.
#[derive(
    Clone, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(try_from = "text::ClassText", into = "text::ClassText")]
pub struct Class(Box<ClassParts>);

/// The properties of the packets in a class. `None` matches anything.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClassParts {
    /// Protocols, numbers of IANA's.
    pub protocols: Option<BTreeSet<u8>>,
    /// Ports that they come from.
    pub source_ports: Option<Numbers>,
    /// Ports that they go to.
    pub destination_ports: Option<Numbers>,
    /// Flags of TCP.
    pub tcp: Option<TcpFlags>,
    /// The parts of fragmented packets that belong to the class, if it is restricted to some.
    pub fragment: Option<Fragments>,
    /// Types of ICMP.
    pub icmp_type: Option<Numbers>,
    /// Codes of ICMP.
    pub icmp_code: Option<Numbers>,
    /// Bytes of the IP packet, with its header.
    pub length: Option<Numbers>,
    /// Time to live, or hop limit.
    pub ttl: Option<Numbers>,
    /// Differentiated services (RFC 2474).
    pub dscp: Option<Numbers>,
    /// The outermost VLAN.
    pub vlan: Option<Numbers>,
    /// Irregularity of the source address.
    pub source: Option<SourceShape>,
    /// Prefixes that they go to.
    pub destination: Option<BTreeSet<Prefix>>,
}

/// A key that takes numbers, and its value.
type NumbersOf = (Field, fn(&ClassParts) -> &Option<Numbers>);

const fn field(key: &'static str, what: &'static str, last: u16) -> Field {
    Field { key, what, last }
}

/// The keys that take numbers.
pub(crate) const SOURCE_PORTS: Field = field("source_ports", "port", u16::MAX);
pub(crate) const DESTINATION_PORTS: Field = field("destination_ports", "port", u16::MAX);
pub(crate) const ICMP_TYPE: Field = field("icmp_type", "type of ICMP", u8::MAX as u16);
pub(crate) const ICMP_CODE: Field = field("icmp_code", "code of ICMP", u8::MAX as u16);
pub(crate) const LENGTH: Field = field("length", "length of a packet", u16::MAX);
pub(crate) const TTL: Field = field("ttl", "time to live", u8::MAX as u16);
pub(crate) const DSCP: Field = field("dscp", "DSCP", 63);
pub(crate) const VLAN: Field = field("vlan", "VLAN", 4095);

const NUMBERS: [NumbersOf; 8] = [
    (SOURCE_PORTS, |parts| &parts.source_ports),
    (DESTINATION_PORTS, |parts| &parts.destination_ports),
    (ICMP_TYPE, |parts| &parts.icmp_type),
    (ICMP_CODE, |parts| &parts.icmp_code),
    (LENGTH, |parts| &parts.length),
    (TTL, |parts| &parts.ttl),
    (DSCP, |parts| &parts.dscp),
    (VLAN, |parts| &parts.vlan),
];

/// The packets that a limit counts, as configured.
#[derive(Clone, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Match {
    /// Packets of a class with a name.
    Named(String),
    /// Packets of an inline class.
    Inline(Class),
}

/// The error of an invalid class.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ClassError {
    /// No condition.
    #[error("the class has no conditions: every packet would match")]
    Everything,
    /// A list without entries.
    #[error("the list of `{0}` is empty: no packet would belong to the class")]
    EmptyList(&'static str),
    /// A list of all that there is.
    #[error("`{0}` includes every value, so it has no effect")]
    FullList(&'static str),
    /// Ports of a protocol that has none.
    #[error("{0} has no ports: none would belong to the class")]
    NoPorts(String),
    /// TCP flags of another protocol.
    #[error("{0} has no TCP flags: none would belong to the class")]
    NotTcp(String),
    /// ICMP types of another protocol.
    #[error("packets of {0} have no types of ICMP: none would belong to the class")]
    NotIcmp(String),
    /// A property that later fragments do not have.
    #[error("later fragments have no `{0}`: none would belong to the class")]
    NotInLaterFragments(&'static str),
    /// A prefix that another one has.
    #[error("`destination` names {narrow}, which is a part of {wide}")]
    Within {
        /// The narrower prefix.
        narrow: Prefix,
        /// The other one.
        wide: Prefix,
    },
    /// Lengths that are shorter than the headers.
    #[error("such packets have at least {least} bytes: none would belong to the class")]
    TooShort {
        /// Bytes of all headers.
        least: u16,
    },
}

impl Class {
    /// The class of the packets of which all of `parts` holds.
    ///
    /// # Errors
    ///
    /// When that is every packet or none.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::class::{Class, ClassError, ClassParts};
    ///
    /// let udp = ClassParts { protocols: Some([17].into()), ..ClassParts::default() };
    /// assert!(Class::new(udp).is_ok());
    /// assert_eq!(Class::new(ClassParts::default()), Err(ClassError::Everything));
    /// ```
    pub fn new(mut parts: ClassParts) -> Result<Self, ClassError> {
        if parts == ClassParts::default() {
            return Err(ClassError::Everything);
        }
        if parts.protocols.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(ClassError::EmptyList("protocol"));
        }
        for (field, numbers) in NUMBERS {
            match numbers(&parts) {
                Some(numbers) if numbers.is_empty() => {
                    return Err(ClassError::EmptyList(field.key));
                }
                // Ports say that there are some.
                Some(numbers) if numbers.has_all(field.last) && field.what != "port" => {
                    return Err(ClassError::FullList(field.key));
                }
                _ => {}
            }
        }
        parts.check_destination()?;
        parts.check_fragment()?;
        let implied = parts.implied_protocols();
        let protocols = parts.protocols.get_or_insert_with(|| {
            let all = 0..=u8::MAX;
            all.filter(|protocol| implied.iter().all(|(_, has)| has(*protocol)))
                .collect()
        });
        // Empty if there is a condition about ICMP, and one about something that ICMP does not
        // have.
        let icmp = protocols.is_empty().then_some(protocol::ICMP);
        for (error, has) in implied {
            let mut own = protocols.iter().copied().chain(icmp);
            if let Some(other) = own.find(|protocol| !has(*protocol)) {
                return Err(error(protocol::name(other)));
            }
        }
        let least = parts.least_bytes();
        let length = parts.length.as_ref();
        if length.is_some_and(|length| length.last() < Some(least)) {
            return Err(ClassError::TooShort { least });
        }
        let protocols = &mut parts.protocols;
        if protocols.as_ref().map(BTreeSet::len) == Some(usize::from(u8::MAX) + 1) {
            *protocols = None;
        }
        Ok(Self(Box::new(parts)))
    }

    /// The conditions, including protocols that follow from ports or flags.
    pub const fn parts(&self) -> &ClassParts {
        &self.0
    }

    /// Whether it asks for more than protocol and ports: for properties [of
    /// headers](Property::is_of_headers).
    pub fn asks_headers(&self) -> bool {
        let mut properties = Property::ALL.into_iter();
        properties.any(|property| property.is_of_headers() && self.says(property))
    }

    /// Whether there is a condition about a property.
    pub const fn says(&self, property: Property) -> bool {
        let parts = &self.0;
        match property {
            Property::Kind => {
                parts.protocols.is_some() || parts.tcp.is_some() || parts.fragment.is_some()
            }
            Property::SourcePort => parts.source_ports.is_some(),
            Property::DestinationPort => parts.destination_ports.is_some(),
            Property::Details => {
                matches!(parts.tcp, Some(TcpFlags::Masked { .. }))
                    || parts.icmp_type.is_some()
                    || parts.icmp_code.is_some()
            }
            Property::Length => parts.length.is_some(),
            Property::HopsAndService => parts.ttl.is_some() || parts.dscp.is_some(),
            Property::Vlan => parts.vlan.is_some(),
            Property::Addresses => parts.source.is_some(),
            Property::DestinationV4 | Property::DestinationV6 => parts.destination.is_some(),
        }
    }

    /// Whether a segment that asks for a TCP connection, all in one packet, may belong to the
    /// class.
    pub fn may_be_syn(&self) -> bool {
        /// The shortest: an IPv4 header and one of TCP.
        const SYN_BYTES: u32 = 40;
        let is_syn = |property: Property, value| match property {
            Property::Kind => Kind::from_index(value).is_some_and(|kind| {
                let is_tcp = kind.protocol() == protocol::TCP;
                is_tcp && kind.is_syn() && !kind.is_invalid() && !kind.is_fragment()
            }),
            Property::Details => {
                let details = Details::from_index(value);
                details != Details::HIDDEN && TcpFlags::LONE_SYN.may_have(details)
            }
            Property::Length => value >= SYN_BYTES,
            Property::SourcePort | Property::DestinationPort => value != NO_PORT,
            Property::HopsAndService
            | Property::Vlan
            | Property::Addresses
            | Property::DestinationV4
            | Property::DestinationV6 => true,
        };
        Property::ALL.into_iter().all(|property| {
            let mut values = 0..property.values();
            // A class for destinations of one family has no value for the other.
            property.is_of_destination()
                || values.any(|value| is_syn(property, value) && self.has(property, value))
        })
    }

    /// Whether a packet of which `property` is `value` may belong to the class.
    pub fn has(&self, property: Property, value: u32) -> bool {
        let parts = &self.0;
        let accepts = |numbers: &Option<Numbers>, value: u32| {
            let accepts =
                |numbers: &Numbers| u16::try_from(value).is_ok_and(|it| numbers.contains(it));
            numbers.as_ref().is_none_or(accepts)
        };
        match property {
            Property::Kind => Kind::from_index(value).is_some_and(|kind| self.has_kind(kind)),
            Property::SourcePort => accepts(&parts.source_ports, value),
            Property::DestinationPort => accepts(&parts.destination_ports, value),
            Property::Details => self.has_details(Details::from_index(value)),
            Property::Length => accepts(&parts.length, value),
            Property::HopsAndService => {
                accepts(&parts.ttl, value >> 8) && accepts(&parts.dscp, (value & 0xff) >> 2)
            }
            Property::Vlan => {
                parts.vlan.is_none() || value < NO_VLAN && accepts(&parts.vlan, value)
            }
            Property::Addresses => parts.source.is_none_or(|shape| shape.has(value)),
            Property::DestinationV4 => self.has_octet(IpFamily::V4, value),
            Property::DestinationV6 => self.has_octet(IpFamily::V6, value),
        }
    }

    /// Splits the class into parts, each of which can be matched by the values of its properties
    /// independently. Several are needed only for destinations.
    pub fn by_destination(&self) -> Vec<Self> {
        let Some(prefixes) = &self.0.destination else {
            return vec![self.clone()];
        };
        let parts = destination::parts(prefixes).into_iter();
        let of = |prefixes: Vec<Prefix>| {
            let destination = Some(prefixes.into_iter().collect());
            let rest = (*self.0).clone();
            Self(Box::new(ClassParts {
                destination,
                ..rest
            }))
        };
        parts.map(of).collect()
    }

    /// Whether it asks where packets go to.
    pub const fn asks_destination(&self) -> bool {
        self.0.destination.is_some()
    }

    fn has_octet(&self, family: IpFamily, value: u32) -> bool {
        let destination = self.0.destination.as_ref();
        destination.is_none_or(|prefixes| {
            let mut prefixes = prefixes.iter();
            prefixes.any(|prefix| destination::has(*prefix, family, value))
        })
    }

    fn has_kind(&self, kind: Kind) -> bool {
        let parts = &self.0;
        let protocols = parts.protocols.as_ref();
        parts.tcp.is_none_or(|flags| flags.may_be_of(kind))
            && parts
                .fragment
                .is_none_or(|fragments| fragments.have(kind.fragment()))
            && protocols.is_none_or(|protocols| protocols.contains(&kind.protocol()))
    }

    fn has_details(&self, details: Details) -> bool {
        let parts = &self.0;
        if parts.icmp_type.is_none() && parts.icmp_code.is_none() {
            return parts.tcp.is_none_or(|flags| flags.may_have(details));
        }
        let said = [&parts.icmp_type, &parts.icmp_code];
        details.icmp_type_and_code().is_some_and(|bytes| {
            let mut pairs = said.into_iter().zip(bytes);
            pairs.all(|(said, byte)| said.as_ref().is_none_or(|said| said.contains(byte.into())))
        })
    }
}

/// The error for a protocol, and the test whether a protocol is refused.
type Implied = (fn(String) -> ClassError, fn(u8) -> bool);

impl ClassParts {
    /// Returns the protocols that other conditions require.
    fn implied_protocols(&self) -> Vec<Implied> {
        let of_ports = self.source_ports.is_some() || self.destination_ports.is_some();
        let of_icmp = self.icmp_type.is_some() || self.icmp_code.is_some();
        let all: [(bool, Implied); 3] = [
            (
                self.tcp.is_some(),
                (ClassError::NotTcp, |number| number == protocol::TCP),
            ),
            (of_icmp, (ClassError::NotIcmp, protocol::is_icmp)),
            (of_ports, (ClassError::NoPorts, has_ports)),
        ];
        let said = all.into_iter().filter(|(is_said, _)| *is_said);
        said.map(|(_, implied)| implied).collect()
    }

    /// Bytes of the shortest packet of which all the rest may hold: with an IPv4 header, and that
    /// of its transport, where there is one.
    fn least_bytes(&self) -> u16 {
        const IPV4: u16 = 20;
        const IPV6: u16 = 40;
        /// Fragments other than the last have a length that is a multiple of this many bytes.
        const FRAGMENT: u16 = 8;
        let protocols = self.protocols.iter().flatten();
        let transport = protocols
            .map(|number| protocol::header_bytes(*number))
            .min();
        let transport = transport.unwrap_or_default();
        let says_transport = !self.implied_protocols().is_empty();
        let mut goes_to = self.destination.iter().flatten();
        let is_ipv6 = self.destination.is_some()
            && goes_to.all(|prefix| IpFamily::of(prefix.address()) == IpFamily::V6);
        let header = if is_ipv6 { IPV6 } else { IPV4 };
        header
            + match self.fragment {
                Some(Fragments::NONE) => transport,
                Some(Fragments::First | Fragments::Tiny) => FRAGMENT,
                None | Some(Fragments::ANY) if says_transport => transport.min(FRAGMENT),
                None | Some(Fragments::ANY | Fragments::Later) => 0,
            }
    }

    /// Checks that the destinations neither overlap nor cover everything.
    fn check_destination(&self) -> Result<(), ClassError> {
        const KEY: &str = "destination";
        let Some(prefixes) = &self.destination else {
            return Ok(());
        };
        if prefixes.is_empty() {
            return Err(ClassError::EmptyList(KEY));
        }
        if prefixes.iter().filter(|prefix| prefix.is_empty()).count() == IpFamily::ALL.len() {
            return Err(ClassError::FullList(KEY));
        }
        for narrow in prefixes {
            let mut others = prefixes.iter().filter(|wide| *wide != narrow);
            if let Some(wide) = others.find(|wide| wide.covers(*narrow)) {
                let (narrow, wide) = (*narrow, *wide);
                return Err(ClassError::Within { narrow, wide });
            }
        }
        Ok(())
    }

    /// A later fragment has no header of the transport.
    fn check_fragment(&self) -> Result<(), ClassError> {
        if self.fragment != Some(Fragments::Later) {
            return Ok(());
        }
        let of_header = NUMBERS.into_iter().take(4);
        let mut keys = of_header.filter_map(|(field, said)| said(self).as_ref().map(|_| field.key));
        let key = keys.next().or(self.tcp.map(|_| "tcp"));
        key.map_or(Ok(()), |key| Err(ClassError::NotInLaterFragments(key)))
    }
}

#[cfg(test)]
mod tests;
