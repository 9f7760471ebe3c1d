//! Countermeasures against attacks: limits of what their targets receive, by class.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::IpAddr,
};

use ratelimit_common::limit::LIMITS_MAX;

use super::{Kind, Subject};
use crate::{
    class::protocol::{ICMP, ICMPV6, TCP, UDP},
    limit::LimitSpec,
    prefix::Prefix,
};

/// The remaining amount of a class, enough to see when the attack ends.
const LEFT: &str = "packets = 1, per = \"1s\"";

/// A countermeasure against attacks.
#[derive(Clone, Debug, PartialEq)]
pub enum Countermeasure {
    /// Limits of packets to an address.
    Limit {
        /// The address that is attacked.
        destination: IpAddr,
        /// Purpose of the limits, and other traffic that they drop.
        comments: Vec<String>,
        /// The classes that the limits count, as TOML has them.
        classes: Vec<String>,
    },
    /// A ban of a source.
    Ban {
        /// The source.
        source: Prefix,
        /// The attack.
        kind: Kind,
    },
}

impl Countermeasure {
    /// The limits, which admit next to nothing of their classes.
    pub fn limits(&self) -> Vec<LimitSpec> {
        let Self::Limit { classes, .. } = self else {
            return Vec::new();
        };
        let limit = |class: &String| {
            let text = format!("limit = {{ {LEFT}, match = {class} }}");
            let mut table: BTreeMap<String, LimitSpec> = toml::from_str(&text).ok()?;
            table.remove("limit")
        };
        classes.iter().filter_map(limit).collect()
    }

    /// The command that does it for a time, such as `1h`.
    pub fn command(&self, time: &str) -> String {
        match self {
            Self::Limit {
                destination,
                classes,
                ..
            } => {
                let left = LEFT.replace([' ', '"'], "");
                let limits = classes.iter().map(|class| {
                    let class = class.trim_matches('"');
                    format!(" --limit '{left},match={class}'")
                });
                let limits: String = limits.collect();
                format!("rlctl limit set --destination {destination} --for {time}{limits}")
            }
            Self::Ban { source, .. } => format!("rlctl ban {source} --for {time}"),
        }
    }

    /// Writes the configuration that is equivalent to the command.
    fn write(&self, text: &mut String) {
        match self {
            Self::Limit {
                destination,
                comments,
                classes,
            } => {
                for comment in comments {
                    let _ = writeln!(text, "# {comment}");
                }
                let _ = writeln!(text, "# at once: {}", self.command(TIME));
                let _ = writeln!(text, "[destination.\"{destination}\"]\nlimits = [");
                for class in classes {
                    let _ = writeln!(text, "  {{ {LEFT}, match = {class} }},");
                }
                text.push_str("]\n\n");
            }
            Self::Ban { kind, .. } => {
                let _ = writeln!(text, "# {}: {}\n", kind.label(), self.command(TIME));
            }
        }
    }
}

/// The duration of a proposed countermeasure.
const TIME: &str = "1h";

/// Returns the countermeasures that drop most of these attacks.
pub fn against(attacks: impl IntoIterator<Item = (Kind, Subject)>) -> Vec<Countermeasure> {
    let mut targets: BTreeMap<IpAddr, Target> = BTreeMap::new();
    let mut all = Vec::new();
    for (kind, subject) in attacks {
        match subject {
            Subject::Target {
                address,
                source_port,
            } => targets.entry(address).or_default().add(kind, source_port),
            Subject::Source(source) => all.push(Countermeasure::Ban { source, kind }),
        }
    }
    let limits = targets.into_iter();
    all.extend(limits.map(|(address, target)| target.limits(address)));
    all
}

/// Formats the countermeasures as TOML. Side effects and commands become comments.
pub fn toml(all: &[Countermeasure]) -> String {
    let mut text = String::new();
    for it in all {
        it.write(&mut text);
    }
    text
}

/// Output for one target.
#[derive(Default)]
struct Target {
    comments: Vec<String>,
    matches: Vec<String>,
    /// The ports that reflections come from.
    source_ports: BTreeSet<u16>,
}

impl Target {
    fn add(&mut self, kind: Kind, source_port: Option<u16>) {
        let comment = format!("{}: {}", kind.label(), what_else(kind));
        self.source_ports.extend(source_port);
        let classes = classes(kind);
        for (all, new) in [
            (&mut self.comments, vec![comment]),
            (&mut self.matches, classes),
        ] {
            for new in new {
                if !all.contains(&new) {
                    all.push(new);
                }
            }
        }
    }

    fn limits(self, destination: IpAddr) -> Countermeasure {
        let ports: Vec<String> = self.source_ports.iter().map(u16::to_string).collect();
        let answers = format!(
            "{{ protocol = \"udp\", source_ports = [{}] }}",
            ports.join(", ")
        );
        let answers = (!ports.is_empty()).then_some(answers);
        let classes = answers.into_iter().chain(self.matches).take(LIMITS_MAX);
        Countermeasure::Limit {
            destination,
            comments: self.comments,
            classes: classes.collect(),
        }
    }
}

/// The classes that have the packets of an attack, beside answers from its port.
fn classes(kind: Kind) -> Vec<String> {
    let named = |names: &[&str]| names.iter().map(|name| format!("\"{name}\"")).collect();
    match kind {
        Kind::SynFlood => named(&["tcp-syn"]),
        Kind::TcpFlags => vec![
            "\"tcp-invalid\"".to_owned(),
            "{ tcp = \"syn,ece,cwr / syn,ack,ece,cwr\" }".to_owned(),
        ],
        Kind::AckFlood => vec!["{ tcp = \"ack / syn,rst,ack\" }".to_owned()],
        Kind::SynAckReflection => named(&["tcp-syn-ack"]),
        Kind::RstFlood => named(&["tcp-rst"]),
        Kind::UdpFlood => named(&["udp"]),
        Kind::IcmpFlood => named(&["icmp"]),
        Kind::Reflection => vec![
            "\"later-fragments\"".to_owned(),
            // Errors of reflectors that cannot be reached come with it.
            "{ protocol = \"icmp\", icmp_type = [3, 5, 11] }".to_owned(),
        ],
        Kind::FragmentFlood => named(&["later-fragments"]),
        Kind::ProtocolFlood => {
            let others = (0..=u8::MAX).filter(|it| ![TCP, UDP, ICMP, ICMPV6].contains(it));
            let others: Vec<String> = others.map(|number| number.to_string()).collect();
            vec![format!("{{ protocol = [{}] }}", others.join(", "))]
        }
        Kind::HeavyHitter | Kind::Spread => Vec::new(),
    }
}

/// Returns the legitimate traffic to the target in the same classes.
const fn what_else(kind: Kind) -> &'static str {
    match kind {
        Kind::SynFlood => {
            "also blocks: new TCP connections to it; [challenge.tcp] would let them in"
        }
        Kind::TcpFlags => "also blocks: new TCP connections with both ECN flags",
        Kind::AckFlood => "also blocks: its existing TCP connections; remove this if it has any",
        Kind::SynAckReflection => "also blocks: new TCP connections from it",
        Kind::RstFlood => {
            "also blocks: resets, so closed connections stay open until they time out"
        }
        Kind::Reflection => "also blocks: responses from this port, fragments, ICMP errors",
        Kind::UdpFlood => {
            "also blocks: all UDP; add `destination_ports` if only some ports are flooded"
        }
        Kind::IcmpFlood => "also blocks: all ICMP, including path MTU discovery",
        Kind::FragmentFlood => "also blocks: fragmented packets",
        Kind::ProtocolFlood => "also blocks: tunnels; remove the protocol numbers that it uses",
        Kind::HeavyHitter | Kind::Spread => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_every_kind_are_limits_and_have_a_command() {
        for kind in Kind::ALL {
            let subject = if matches!(kind, Kind::HeavyHitter | Kind::Spread) {
                "from 203.0.113.0/24"
            } else {
                "from port 161 to 192.0.2.1"
            };
            let all = against([(*kind, subject.parse().unwrap())]);
            let [one] = &all[..] else { panic!("{all:?}") };
            if let Countermeasure::Limit { classes, .. } = one {
                assert_eq!(one.limits().len(), classes.len(), "{kind:?}");
                assert!(!classes.is_empty(), "{kind:?}");
            }
            assert!(toml(&all).contains(&one.command("1h")));
        }
    }

    #[test]
    fn a_command_has_what_the_configuration_would_have() {
        let subject = "from port 37810 to 192.0.2.1".parse().unwrap();
        let all = against([(Kind::Reflection, subject)]);
        assert_eq!(
            all[0].command("1h"),
            "rlctl limit set --destination 192.0.2.1 --for 1h \
             --limit 'packets=1,per=1s,match={ protocol = \"udp\", source_ports = [37810] }' \
             --limit 'packets=1,per=1s,match=later-fragments' \
             --limit 'packets=1,per=1s,match={ protocol = \"icmp\", icmp_type = [3, 5, 11] }'"
        );
    }
}
