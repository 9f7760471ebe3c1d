//! Traffic of the busiest sources.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Sample, content::Content, space_saving::SpaceSaving, window::origins};
use crate::{class::protocol, prefix::Prefix};

/// Sources, each with what it sends.
const SOURCES: usize = 1024;
/// Number of different packets counted for a source, including the most frequent ones.
const DIFFERENT: usize = 8;

/// The most frequent kind of packet of a source, estimated from samples.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Sending {
    /// Protocol, for TCP with the type of segment: `udp`, `tcp-syn`, `icmp`.
    pub class: String,
    /// Destination port; unset if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_port: Option<u16>,
    /// Source port, if it is that of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_port: Option<u16>,
    /// Estimated packets per second of the source, of all kinds.
    pub packets_per_second: u64,
}

impl fmt::Display for Sending {
    /// `udp to 53`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.class)?;
        if let Some(port) = self.from_port {
            write!(formatter, " from {port}")?;
        }
        self.to_port
            .map_or(Ok(()), |port| write!(formatter, " to {port}"))
    }
}

/// Packets that are alike, as far as an operator asks at first.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Alike {
    class: Class,
    side: Option<Side>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Class {
    Named(&'static str),
    Protocol(u8),
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Side {
    To(u16),
    From(u16),
}

/// Counts the packets of a source by content, and by the most informative port.
#[derive(Default)]
struct OfSource(Option<SpaceSaving<Alike, ()>>);

/// Traffic of each of the busiest sources in a window.
pub struct Senders(SpaceSaving<Prefix, OfSource>);

impl Default for Senders {
    fn default() -> Self {
        Self(SpaceSaving::new(SOURCES))
    }
}

impl Senders {
    pub fn add(&mut self, sample: &Sample) {
        let packets = u64::from(sample.packets);
        let (source, _) = origins(sample.source);
        let OfSource(kinds) = self.0.add(source, packets);
        let kinds = kinds.get_or_insert_with(|| SpaceSaving::new(DIFFERENT));
        let class = class(sample.content);
        let side = sample.ports.map(side);
        kinds.add(Alike { class, side }, packets);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the most frequent packets of each source.
    pub fn all(&self) -> impl Iterator<Item = (Prefix, Sending)> {
        self.0.iter().filter_map(|counter| {
            let OfSource(kinds) = &counter.value;
            let most = kinds.iter().flat_map(SpaceSaving::iter);
            let most = most.max_by_key(|it| (it.certain(), it.count))?;
            // Ports of no special kind are many, each with little.
            let is_most = most.certain() * 2 >= counter.certain();
            let side = most.key.side.filter(|_| is_most);
            let sending = Sending {
                class: match most.key.class {
                    Class::Named(name) => name.to_owned(),
                    Class::Protocol(number) => protocol::name(number),
                },
                to_port: side.and_then(|side| match side {
                    Side::To(port) => Some(port),
                    Side::From(_) => None,
                }),
                from_port: side.and_then(|side| match side {
                    Side::From(port) => Some(port),
                    Side::To(_) => None,
                }),
                packets_per_second: counter.certain().max(1),
            };
            Some((counter.key, sending))
        })
    }
}

const fn class(content: Content) -> Class {
    Class::Named(match content {
        Content::Request => "tcp-syn",
        Content::OddFlags => "tcp-invalid",
        Content::Acceptance { .. } => "tcp-syn-ack",
        Content::Reset { .. } => "tcp-rst",
        Content::Acknowledging
        | Content::Connected { .. }
        | Content::Stray { .. }
        | Content::Ending { .. } => "tcp",
        Content::Datagram(_) => "udp",
        Content::EchoRequest | Content::Icmp => "icmp",
        Content::LaterFragment => "later-fragments",
        Content::Protocol(number) => return Class::Protocol(number),
        Content::Other => "other",
    })
}

/// Returns the port that identifies the service: the lower one.
const fn side([from, to]: [u16; 2]) -> Side {
    if from < to && from < 1024 {
        Side::From(from)
    } else {
        Side::To(to)
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::Instant;

    use super::*;
    use crate::detection::content::Datagram;

    #[test]
    fn a_source_is_reported_with_what_most_of_its_packets_are() {
        let all = sent((0..100).map(|number| match number % 10 {
            0 => (7, Content::Request, [40_000 + number, 443]),
            1..=7 => (9, datagram(), [5_000, 9_999]),
            _ => (11, datagram(), [53, 40_000 + number]),
        }));
        assert_eq!(
            all,
            [
                "192.0.2.11/32 udp from 53, 20",
                "192.0.2.7/32 tcp-syn to 443, 10",
                "192.0.2.9/32 udp to 9999, 70"
            ]
        );
    }

    #[test]
    fn ports_that_are_many_are_not_named() {
        let all = sent((0..100).map(|number| (7, datagram(), [5_000, 1_024 + number * 7])));
        assert_eq!(all, ["192.0.2.7/32 udp, 100"]);
    }

    fn sent(packets: impl Iterator<Item = (u8, Content, [u16; 2])>) -> Vec<String> {
        let mut senders = Senders::default();
        for (last, content, ports) in packets {
            senders.add(&Sample {
                at: Instant::from_nanos(0),
                packets: 1,
                source: [192, 0, 2, last].into(),
                target: [198, 51, 100, 1].into(),
                bytes: 60,
                ports: Some(ports),
                content,
            });
        }
        let all = senders.all();
        let all = all.map(|(source, it)| format!("{source}/32 {it}, {}", it.packets_per_second));
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    }

    fn datagram() -> Content {
        Content::Datagram(Datagram {
            source_port: 0,
            destination_port: 0,
            is_first: false,
            has_socket: false,
        })
    }
}
