//! A packet that is asked about.

use std::{fmt, net::IpAddr};

use ratelimit_common::{
    Cursor,
    class::Property,
    parse::{
        LinkLayer,
        transport::{Fragment, has_ports},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Refused;
use crate::{
    challenge::Challenge,
    class::{Catalogue, Class, flags, protocol},
    detection::headers,
    ip_family::IpFamily,
};

/// Properties of a packet. Without any, the packet belongs to no class.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PacketRequest {
    /// Protocol name as in a class, or IANA number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Source port number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Destination port number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Comma-separated TCP flags: `syn,ack`, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// Destination address; by default one without limits of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<IpAddr>,
    /// Interface that receives the packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// The properties of a packet that classes look at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet {
    /// IANA protocol number.
    pub protocol: u8,
    /// Source port; `None` for one that no class names.
    pub source_port: Option<u16>,
    /// Destination port; `None` for one that no class names.
    pub destination_port: Option<u16>,
    /// TCP flags as bits.
    pub flags: u8,
}

impl PacketRequest {
    /// Reads properties and source address of a packet from its frame; `None` if the headers are
    /// incomplete. The interface stays unset.
    pub fn of_frame(frame: Cursor<'_>, link_layer: LinkLayer) -> Option<(IpAddr, Self)> {
        let ([source, target], upper) = headers(frame, link_layer)?;
        let has_ports = has_ports(upper.protocol()) && upper.fragment() != Fragment::Later;
        let ports = upper
            .ports(frame)
            .filter(|_| has_ports)
            .map(|ports| ports.map(u16::from_be_bytes));
        let flags = upper.details(frame).tcp_flags();
        let packet = Self {
            protocol: Some(protocol::name_or_number(upper.protocol())),
            source_port: ports.map(|[from, _]| from),
            destination_port: ports.map(|[_, to]| to),
            flags: flags
                .filter(|_| upper.protocol() == protocol::TCP)
                .map(spell),
            to: Some(target),
            interface: None,
        };
        Some((source, packet))
    }

    /// Returns whether an active challenge applies to the packet. Unset properties match anything.
    pub fn is_challenged(&self, challenge: &Challenge, catalogue: &Catalogue) -> bool {
        let (ports, destinations) = (&challenge.connection_ports, &challenge.destinations);
        let is_at = |port| ports.is_empty() || ports.contains(&port);
        let is_in = |to: IpAddr| {
            destinations.is_empty() || destinations.iter().any(|it| it.covers(to.into()))
        };
        let may_be_of = |class: Class| {
            let said = [
                (Property::SourcePort, self.source_port),
                (Property::DestinationPort, self.destination_port),
            ];
            let has = |(property, port): (_, Option<u16>)| {
                port.is_none_or(|port| class.has(property, port.into()))
            };
            said.into_iter().all(has)
        };
        self.destination_port.is_none_or(is_at)
            && self.to.is_none_or(is_in)
            && (challenge.classes.is_empty() || challenge.classes(catalogue).any(may_be_of))
    }

    /// Returns the packet; `None` if no property is set.
    ///
    /// # Errors
    ///
    /// If no such packet exists.
    pub fn packet(&self, family: IpFamily) -> Result<Option<Packet>, Refused> {
        let is_of_ports = self.source_port.or(self.destination_port).is_some();
        let protocol = match (&self.protocol, &self.flags) {
            (Some(name), _) => number(name, family)?,
            (None, Some(_)) => protocol::TCP,
            (None, None) if is_of_ports => {
                return Err(Refused::because("a port needs a protocol")
                    .hint("add the protocol: tcp or udp"));
            }
            (None, None) => return Ok(None),
        };
        let name = protocol::name(protocol);
        if is_of_ports && !has_ports(protocol) {
            return Err(Refused::because(format!("{name} has no ports")));
        }
        if self.flags.is_some() && protocol != protocol::TCP {
            return Err(Refused::because(format!("{name} has no TCP flags")));
        }
        Ok(Some(Packet {
            protocol,
            source_port: self.source_port,
            destination_port: self.destination_port,
            // Without a word, it is a segment within a connection.
            flags: self.flags.as_deref().map_or(Ok(flags::ACK), read_flags)?,
        }))
    }
}

/// Returns the protocol number. `icmp` is ICMPv6 for IPv6.
fn number(name: &str, family: IpFamily) -> Result<u8, Refused> {
    let numbers = protocol::parse(&name.to_lowercase()).unwrap_or_default();
    let number = match family {
        IpFamily::V4 => numbers.first(),
        IpFamily::V6 => numbers.last(),
    };
    number.copied().ok_or_else(|| {
        let names: Vec<&str> = protocol::names().collect();
        Refused::because(format!("unknown protocol `{name}`")).hint(format!(
            "use an IANA number, or one of {}",
            names.join(", ")
        ))
    })
}

fn read_flags(text: &str) -> Result<u8, Refused> {
    if text == "none" {
        return Ok(0);
    }
    let wrong = match flags::parse(&text.to_lowercase()) {
        Ok(0) => format!("unknown TCP flag `{text}`"),
        Ok(set) => return Ok(set),
        Err(error) => error.to_string(),
    };
    Err(Refused::because(wrong)
        .hint("use comma-separated fin, syn, rst, psh, ack, urg, ece, cwr, or none"))
}

/// Formats TCP flags in the syntax of requests.
fn spell(flags: u8) -> String {
    if flags == 0 {
        return "none".to_owned();
    }
    flags::names(flags).collect::<Vec<_>>().join(",")
}

/// `tcp to 192.0.2.1 port 443 from port 53 with syn,ack on eth0`
impl fmt::Display for PacketRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tcp = self.flags.as_ref().map(|_| "tcp");
        let protocol = self.protocol.as_deref().or(tcp);
        let to = self.to.map(|address| address.to_string());
        let port = self.destination_port.map(|port| format!("port {port}"));
        let to: Vec<String> = to.into_iter().chain(port).collect();
        let words = [
            protocol.map(|name| match name.parse::<u8>() {
                Ok(number) => format!("protocol {number}"),
                Err(_) => name.to_owned(),
            }),
            (!to.is_empty()).then(|| format!("to {}", to.join(" "))),
            self.source_port.map(|port| format!("from port {port}")),
            self.flags.as_ref().map(|flags| format!("with {flags}")),
            self.interface.as_ref().map(|name| format!("on {name}")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        out.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icmp_is_that_of_the_family_and_flags_are_of_tcp() {
        let icmp = PacketRequest {
            protocol: Some("icmp".to_owned()),
            ..PacketRequest::default()
        };
        let number = |family| icmp.packet(family).unwrap().unwrap().protocol;
        assert_eq!([number(IpFamily::V4), number(IpFamily::V6)], [1, 58]);
        let syn = PacketRequest {
            flags: Some("SYN,ack".to_owned()),
            ..PacketRequest::default()
        };
        let packet = syn.packet(IpFamily::V4).unwrap().unwrap();
        assert_eq!((packet.protocol, packet.flags), (6, 0x12));
        let nothing = PacketRequest::default().packet(IpFamily::V4).unwrap();
        assert_eq!(nothing, None);
    }

    #[test]
    fn a_frame_says_what_packet_it_is_and_where_it_comes_from() {
        let ethernet = [0; 12];
        let udp = [
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 203, 0, 113, 7, 192, 0, 2, 1, 0x11, 0x5c, 0,
            53, 0, 8, 0, 0,
        ];
        let frame = [&ethernet[..], &[8, 0], &udp].concat();
        let read = |frame: &[u8]| {
            let (from, packet) = PacketRequest::of_frame(Cursor::new(frame), LinkLayer::Ethernet)?;
            Some(format!("{from} {packet}"))
        };
        let reported = "203.0.113.7 udp to 192.0.2.1 port 53 from port 4444";
        assert_eq!(read(&frame).as_deref(), Some(reported));
        let mut later = frame.clone();
        later[21] = 9;
        let reported = "203.0.113.7 udp to 192.0.2.1";
        assert_eq!(read(&later).as_deref(), Some(reported));
        let mut tcp = frame.clone();
        tcp[23] = 6;
        tcp.extend([0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0]);
        tcp[17] += 12;
        let reported = "203.0.113.7 tcp to 192.0.2.1 port 53 from port 4444 with syn";
        assert_eq!(read(&tcp).as_deref(), Some(reported));
        let mut other = frame.clone();
        other[23] = 253;
        let reported = "203.0.113.7 protocol 253 to 192.0.2.1";
        assert_eq!(read(&other).as_deref(), Some(reported));
        assert_eq!(read(&frame[..30]), None);
    }

    #[test]
    fn an_invalid_packet_is_refused_with_a_hint() {
        let text = |text: &str| Some(text.to_owned());
        for (protocol, destination_port, flags, error) in [
            (None, Some(443), None, "a port needs a protocol"),
            (text("icmp"), Some(443), None, "icmp has no ports"),
            (text("udp"), None, text("syn"), "udp has no TCP flags"),
            (text("tpc"), None, None, "unknown protocol `tpc`"),
            (None, None, text("syn,akc"), "there is no TCP flag `akc`"),
        ] {
            let request = PacketRequest {
                protocol,
                destination_port,
                flags,
                ..PacketRequest::default()
            };
            assert_eq!(request.packet(IpFamily::V4).unwrap_err().error, error);
        }
    }
}
