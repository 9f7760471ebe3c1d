//! The classes that a packet belongs to.

use crate::{
    Address, ClassSet, Cursor, Settings, Tables,
    charge::outcome::Outcome,
    class::Property,
    parse::{Payload, headers, ipv4, ipv6, network, transport::UpperLayer},
};

/// The properties that classes use besides protocol and ports. Others are not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// Other properties [of headers](Property::is_of_headers).
    pub headers: bool,
    /// Includes the destination.
    pub destination: bool,
}

impl Wanted {
    /// Returns the properties that classes use according to the settings.
    #[inline(always)]
    pub fn by(settings: Settings) -> Self {
        Self {
            headers: settings.asks_headers(),
            destination: settings.asks_destination(),
        }
    }

    /// Returns the properties that classes of a challenge use: never the destination, for which it
    /// has its own rules.
    #[inline(always)]
    pub const fn by_challenge(headers: bool) -> Self {
        Self {
            headers,
            destination: false,
        }
    }
}

/// The result of classifying a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Classified {
    /// The classes of the packet.
    pub classes: ClassSet,
    /// The action of the policy before any limit counts the packet; [`Outcome::UNCOUNTED`] for
    /// none.
    pub outcome: Outcome,
}

impl Classified {
    /// Looks for no class.
    pub const NONE: Self = Self {
        classes: ClassSet::NONE,
        outcome: Outcome::UNCOUNTED,
    };
}

/// Classifies the packet in `frame`, a cursor at its front, whose upper layer is `upper`, for the
/// policy at `policy`.
#[inline(always)]
pub fn classify(
    frame: Cursor<'_>,
    upper: UpperLayer,
    wanted: Wanted,
    policy: u32,
    tables: &impl Tables,
) -> Classified {
    let classes = classes(frame, upper, wanted, tables);
    let policy = tables.policy(policy);
    Classified {
        classes,
        outcome: policy.map_or(Outcome::UNCOUNTED, |policy| policy.action_on(classes)),
    }
}

/// Returns the classes of the packet in `frame`. Reads only properties that are `wanted`, besides
/// protocol and ports.
#[inline(always)]
pub fn classes(
    frame: Cursor<'_>,
    upper: UpperLayer,
    wanted: Wanted,
    tables: &impl Tables,
) -> ClassSet {
    let excluded = |property, value| tables.excluded(property, value);
    let transport = upper.transport(frame);
    let classes = ClassSet::EVERY
        .difference(excluded(Property::Kind, transport.kind.index()))
        .difference(excluded(Property::SourcePort, transport.source_port))
        .difference(excluded(
            Property::DestinationPort,
            transport.destination_port,
        ));
    if !wanted.headers {
        return classes;
    }
    let details = upper.details(frame).index();
    let headers = headers::read(frame, tables.link_layer(), tables.inner(frame));
    let destination = if wanted.destination {
        tables.excluded_by_destination(frame)
    } else {
        ClassSet::NONE
    };
    classes
        .difference(destination)
        .difference(excluded(Property::Details, details))
        .difference(excluded(Property::Length, headers.numbers.length()))
        .difference(excluded(
            Property::HopsAndService,
            headers.numbers.hops_and_service(),
        ))
        .difference(excluded(
            Property::Vlan,
            tables.taken_vlan().unwrap_or(headers.vlan),
        ))
        .difference(excluded(Property::Addresses, headers.addresses.bits()))
}

/// The classes that a packet does not belong to by where it goes: each octet excludes those whose
/// prefixes have another one at its place.
#[inline(always)]
pub fn excluded_by_destination(frame: Cursor<'_>, tables: &impl Tables) -> ClassSet {
    let mut cursor = frame;
    match network(&mut cursor, tables.link_layer(), tables.inner(frame)) {
        Ok(Payload::Ipv4) => excluded_by(Property::DestinationV4, ipv4::addresses(cursor), tables),
        Ok(Payload::Ipv6) => excluded_by(Property::DestinationV6, ipv6::addresses(cursor), tables),
        Ok(Payload::Other) | Err(_) => ClassSet::NONE,
    }
}

#[inline(always)]
fn excluded_by<A: Address>(
    property: Property,
    addresses: Option<[A; 2]>,
    tables: &impl Tables,
) -> ClassSet {
    let Some([_, destination]) = addresses else {
        return ClassSet::NONE;
    };
    let octets = destination.octets();
    // The octets of IPv4 follow the prefix of a mapped address.
    let first = octets.len().saturating_sub(property.values() as usize >> 8);
    let mut excluded = ClassSet::NONE;
    let own = octets.iter().skip(first);
    for (octet, place) in own.zip((0..property.values()).step_by(1 << 8)) {
        excluded = excluded.union(tables.excluded(property, place | u32::from(*octet)));
    }
    excluded
}
