//! Which classes a packet belongs to.

use crate::{
    Address, ClassSet, Cursor, Settings, Tables,
    charge::outcome::Outcome,
    class::Property,
    parse::{Payload, headers, ipv4, ipv6, network, transport::UpperLayer},
};

/// What classes ask for besides protocol and ports: what none asks for is not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// Other properties [of headers](Property::is_of_headers).
    pub headers: bool,
    /// Where packets go to, too.
    pub destination: bool,
}

impl Wanted {
    /// What they ask for by these settings.
    #[inline(always)]
    pub fn by(settings: Settings) -> Self {
        Self {
            headers: settings.asks_headers(),
            destination: settings.asks_destination(),
        }
    }

    /// What the classes of a challenge ask for: never where packets go to, which it has rules of its own for.
    #[inline(always)]
    pub const fn by_challenge(headers: bool) -> Self {
        Self {
            headers,
            destination: false,
        }
    }
}

/// What classes say of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Classified {
    /// Those that it belongs to.
    pub classes: ClassSet,
    /// What the policy does with them before any limit counts them; [`Outcome::UNCOUNTED`] is nothing.
    pub outcome: Outcome,
}

impl Classified {
    /// No class is asked for.
    pub const NONE: Self = Self {
        classes: ClassSet::NONE,
        outcome: Outcome::UNCOUNTED,
    };
}

/// Classifies the packet in `frame`, a cursor at its front, whose upper layer is `upper`, for the policy at `policy`.
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

/// The classes of the packet in `frame`. What is not `wanted` no class asks for besides protocol and ports, and it is not read.
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
        .difference(excluded(Property::Vlan, headers.vlan))
        .difference(excluded(Property::Addresses, headers.addresses.bits()))
}

/// The classes that a packet does not belong to by where it goes: each octet excludes those whose prefixes have another one at its place.
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
    // Those of IPv4 stand behind the front of a mapped address.
    let first = octets.len().saturating_sub(property.values() as usize >> 8);
    let mut excluded = ClassSet::NONE;
    let own = octets.iter().skip(first);
    for (octet, place) in own.zip((0..property.values()).step_by(1 << 8)) {
        excluded = excluded.union(tables.excluded(property, place | u32::from(*octet)));
    }
    excluded
}
