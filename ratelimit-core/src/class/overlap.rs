//! The packets that belong to two classes.

use ratelimit_common::{
    class::{NO_VLAN, Property},
    parse::transport::{Details, Kind, NO_PORT, has_ports},
};

use strum::VariantArray as _;

use super::{
    Class, SourceShape,
    destination::{self, Common},
    protocol::{self, ICMP, TCP, UDP},
};

impl Class {
    /// Whether every packet of this class belongs to `other` too.
    pub fn is_within(&self, other: &Self) -> bool {
        let asked = Property::ALL.into_iter().filter(|it| other.says(*it));
        let mut asked = asked.filter(|it| !it.is_of_destination());
        destination::is_within(self, other)
            && asked.all(|property| {
                values(property)
                    .all(|value| !self.has(property, value) || other.has(property, value))
            })
    }

    /// A packet that belongs to both, in words: `udp from port 53`. `None` when there is none.
    pub fn example_in_both(&self, other: &Self) -> Option<String> {
        let both = [self, other];
        let is_said = |property| both.iter().any(|class| class.says(property));
        let common = |property: Property| {
            let mut values = values(property).filter(move |value| match property {
                Property::SourcePort | Property::DestinationPort => *value != NO_PORT,
                Property::Vlan => *value != NO_VLAN,
                Property::Kind
                | Property::Details
                | Property::Length
                | Property::HopsAndService
                | Property::Addresses
                | Property::DestinationV4
                | Property::DestinationV6 => true,
            });
            values.find(|value| both.iter().all(|class| class.has(property, *value)))
        };
        let mut words = vec![];
        for property in Property::ALL {
            if property.is_of_headers() && !property.is_of_destination() && is_said(property) {
                words.push(text(property, common(property)?));
            }
        }
        match destination::in_both(self, other) {
            Common::Any => {}
            Common::Prefix(prefix) => words.push(format!("to {prefix}")),
            Common::None => return None,
        }
        let source = common(Property::SourcePort);
        let destination = common(Property::DestinationPort);
        let ports = source.zip(destination);
        let says_no_port = !is_said(Property::SourcePort) && !is_said(Property::DestinationPort);
        let mut kinds: Vec<Kind> = kinds()
            .filter(|kind| {
                both.iter()
                    .all(|class| class.has(Property::Kind, kind.index()))
            })
            .filter(|kind| {
                (has_ports(kind.protocol()) && ports.is_some())
                    || (may_lack_ports(*kind) && says_no_port)
            })
            .collect();
        kinds.sort_by_key(|kind| {
            (
                kind.is_fragment(),
                kind.is_syn(),
                kind.is_invalid(),
                rank(*kind),
            )
        });
        let kind = *kinds.first()?;
        let mut front = vec![protocol::name(kind.protocol())];
        front.extend(kind.is_fragment().then(|| "in fragments".to_owned()));
        front.extend(flags(kind).map(str::to_owned));
        for (property, port, way) in [
            (Property::SourcePort, source, "from"),
            (Property::DestinationPort, destination, "to"),
        ] {
            let port = port.filter(|_| is_said(property) && ports.is_some());
            front.extend(port.map(|port| format!("{way} port {port}")));
        }
        front.append(&mut words);
        Some(front.join(" "))
    }
}

/// The values that packets can have: flags are those of TCP.
fn values(property: Property) -> impl Iterator<Item = u32> {
    let is_kind = move |value: &u32| {
        property != Property::Kind || Kind::from_index(*value).is_some_and(is_possible)
    };
    (0..property.values()).filter(is_kind)
}

fn kinds() -> impl Iterator<Item = Kind> {
    values(Property::Kind).filter_map(Kind::from_index)
}

const fn is_possible(kind: Kind) -> bool {
    kind.protocol() == TCP || !(kind.is_syn() || kind.is_invalid())
}

/// Describes a packet with this value of a property.
fn text(property: Property, value: u32) -> String {
    match property {
        Property::Details => {
            let details = Details::from_index(value);
            match (details.icmp_type_and_code(), details.tcp_flags()) {
                (Some([kind, code]), _) => format!("of type {kind} and code {code}"),
                (None, Some(flags)) => format!("with flags {flags:#04x}"),
                (None, None) => "without flags".to_owned(),
            }
        }
        Property::Length => format!("of length {value}"),
        Property::HopsAndService => {
            format!("with TTL {} and DSCP {}", value >> 8, (value & 0xff) >> 2)
        }
        Property::Vlan => format!("in VLAN {value}"),
        Property::Addresses => {
            let shape = SourceShape::VARIANTS.iter().find(|shape| shape.has(value));
            shape.map_or_else(String::new, |shape| shape.words().to_owned())
        }
        Property::Kind
        | Property::SourcePort
        | Property::DestinationPort
        | Property::DestinationV4
        | Property::DestinationV6 => value.to_string(),
    }
}

/// Whether a packet may come without ports: its protocol has none, or a fragment does not carry
/// them.
fn may_lack_ports(kind: Kind) -> bool {
    let has_header = kind.is_syn() || kind.is_invalid();
    !has_header && (kind.is_fragment() || !has_ports(kind.protocol()))
}

fn flags(kind: Kind) -> Option<&'static str> {
    match (kind.is_syn(), kind.is_invalid()) {
        (true, true) => Some("with SYN and FIN"),
        (true, false) => Some("with SYN"),
        (false, true) => Some("without any flag"),
        (false, false) => None,
    }
}

/// Well-known protocols make better examples.
fn rank(kind: Kind) -> usize {
    let known = [TCP, UDP, ICMP];
    let place = known
        .iter()
        .position(|protocol| *protocol == kind.protocol());
    place.unwrap_or(known.len() + usize::from(kind.protocol()))
}
