//! What to write against attacks: limits of what their targets receive, by class.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::IpAddr,
};

use ratelimit_common::limit::LIMITS_MAX;

use super::{Kind, Subject};
use crate::class::protocol::{ICMP, ICMPV6, TCP, UDP};

/// What is left of a class: enough to see that the attack goes on.
const LEFT: &str = "packets = 1, per = \"1s\"";

/// A configuration that drops most of these attacks, and what it drops beside them, in TOML.
pub fn against(attacks: impl IntoIterator<Item = (Kind, Subject)>) -> String {
    let mut targets: BTreeMap<IpAddr, Target> = BTreeMap::new();
    let mut text = String::new();
    for (kind, subject) in attacks {
        match subject {
            Subject::Target {
                address,
                source_port,
            } => targets.entry(address).or_default().add(kind, source_port),
            Subject::Source(prefix) => {
                let _ = writeln!(text, "# {}: rlctl ban {prefix} --for 1h\n", kind.label());
            }
        }
    }
    for (address, target) in targets {
        target.write(address, &mut text);
    }
    text
}

/// What is written for a target.
#[derive(Default)]
struct Target {
    comments: Vec<String>,
    matches: Vec<String>,
    /// The ports that reflections come from.
    source_ports: BTreeSet<u16>,
}

impl Target {
    fn add(&mut self, kind: Kind, source_port: Option<u16>) {
        let comment = format!("# {}: {}", kind.label(), what_else(kind));
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

    fn write(&self, address: IpAddr, text: &mut String) {
        for comment in &self.comments {
            let _ = writeln!(text, "{comment}");
        }
        let _ = writeln!(text, "[destination.\"{address}\"]\nlimits = [");
        let ports: Vec<String> = self.source_ports.iter().map(u16::to_string).collect();
        let answers = format!(
            "{{ protocol = \"udp\", source_ports = [{}] }}",
            ports.join(", ")
        );
        let answers = (!ports.is_empty()).then_some(&answers);
        for class in answers.into_iter().chain(&self.matches).take(LIMITS_MAX) {
            let _ = writeln!(text, "  {{ {LEFT}, match = {class} }},");
        }
        text.push_str("]\n\n");
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

/// What of the target these classes have beside.
const fn what_else(kind: Kind) -> &'static str {
    match kind {
        Kind::SynFlood => "no new connections to it; see also [challenge.tcp], which lets them in",
        Kind::TcpFlags => "no new connections to it that want both flags of ECN",
        Kind::AckFlood => "no connections of it: take this out if it has any",
        Kind::SynAckReflection => "no new connections from it",
        Kind::RstFlood => "no resets: connections that others end so stay open until they time out",
        Kind::Reflection => "no answers that it asks of this port, no fragments, no ICMP errors",
        Kind::UdpFlood => "no UDP: name `destination_ports` in the class if only some are flooded",
        Kind::IcmpFlood => "no ICMP, also what says that packets are too large",
        Kind::FragmentFlood => "no fragmented packets",
        Kind::ProtocolFlood => "no tunnels: take out the numbers of those that it has",
        Kind::HeavyHitter | Kind::Spread => "",
    }
}
