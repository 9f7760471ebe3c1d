//! Which classes a packet belongs to.

use crate::{
    ClassSet, Cursor, Tables,
    charge::outcome::Outcome,
    class::Property,
    parse::{headers, transport::UpperLayer},
};

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
    asks_headers: bool,
    policy: u32,
    tables: &impl Tables,
) -> Classified {
    let classes = classes(frame, upper, asks_headers, tables);
    let policy = tables.policy(policy);
    Classified {
        classes,
        outcome: policy.map_or(Outcome::UNCOUNTED, |policy| policy.action_on(classes)),
    }
}

/// The classes of the packet in `frame`. Without `asks_headers` no class says anything of other [properties](Property::is_of_headers) than protocol and ports, and these are
/// not read.
#[inline(always)]
pub fn classes(
    frame: Cursor<'_>,
    upper: UpperLayer,
    asks_headers: bool,
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
    if !asks_headers {
        return classes;
    }
    let details = upper.details(frame).index();
    let headers = headers::read(frame, tables.link_layer(), tables.inner(frame));
    classes
        .difference(excluded(Property::Details, details))
        .difference(excluded(Property::Length, headers.numbers.length()))
        .difference(excluded(
            Property::HopsAndService,
            headers.numbers.hops_and_service(),
        ))
        .difference(excluded(Property::Vlan, headers.vlan))
        .difference(excluded(Property::Addresses, headers.addresses.bits()))
}
