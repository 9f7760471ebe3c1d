//! Which packets belong to two classes.

use ratelimit_common::{
    class::{NO_PORT, PORTS},
    parse::transport::{Kind, has_ports},
};

use super::{
    Class,
    protocol::{self, ICMP, TCP, UDP},
};

impl Class {
    /// Whether every packet of this class belongs to `other` too.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let ports = |own: &dyn Fn(u32) -> bool, others: &dyn Fn(u32) -> bool| {
            (0..PORTS).all(|port| !own(port) || others(port))
        };
        kinds().all(|kind| !self.has_kind(kind) || other.has_kind(kind))
            && ports(&|port| self.has_source_port(port), &|port| {
                other.has_source_port(port)
            })
            && ports(&|port| self.has_destination_port(port), &|port| {
                other.has_destination_port(port)
            })
    }

    /// A packet that belongs to both, in words: `udp from port 53`. `None` when there is none.
    #[must_use]
    pub fn example_in_both(&self, other: &Self) -> Option<String> {
        let source =
            (0..NO_PORT).find(|port| self.has_source_port(*port) && other.has_source_port(*port));
        let destination = (0..NO_PORT)
            .find(|port| self.has_destination_port(*port) && other.has_destination_port(*port));
        let ports = source.zip(destination);
        let without_ports = [self, other]
            .iter()
            .all(|class| class.has_source_port(NO_PORT) && class.has_destination_port(NO_PORT));
        let mut kinds: Vec<Kind> = kinds()
            .filter(|kind| self.has_kind(*kind) && other.has_kind(*kind))
            .filter(|kind| {
                (has_ports(kind.protocol()) && ports.is_some())
                    || (may_lack_ports(*kind) && without_ports)
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
        let names_port =
            |port: Option<u32>, is_said: bool| port.filter(|_| is_said && ports.is_some());
        let is_said =
            |has: fn(&Self, u32) -> bool| [self, other].iter().any(|class| !has(class, NO_PORT));
        let mut words = vec![protocol::name(kind.protocol())];
        words.extend(kind.is_fragment().then(|| "in fragments".to_owned()));
        words.extend(flags(kind).map(str::to_owned));
        let source = names_port(source, is_said(Self::has_source_port));
        words.extend(source.map(|port| format!("from port {port}")));
        let destination = names_port(destination, is_said(Self::has_destination_port));
        words.extend(destination.map(|port| format!("to port {port}")));
        Some(words.join(" "))
    }
}

/// The kinds that packets can be of: flags are those of TCP.
fn kinds() -> impl Iterator<Item = Kind> {
    let all = (0..Kind::COUNT).filter_map(Kind::from_index);
    all.filter(|kind| kind.protocol() == TCP || !(kind.is_syn() || kind.is_invalid()))
}

/// Whether a packet may come without ports: its protocol has none, or a fragment does not carry them.
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

/// Protocols that everybody knows make better examples.
fn rank(kind: Kind) -> usize {
    let known = [TCP, UDP, ICMP];
    let place = known
        .iter()
        .position(|protocol| *protocol == kind.protocol());
    place.unwrap_or(known.len() + usize::from(kind.protocol()))
}
