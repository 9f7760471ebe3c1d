//! Classes as they are written: in JSON with the keys of the configuration, and in messages.

use std::fmt;

use ratelimit_common::parse::transport::has_ports;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Class, ClassError, ClassParts, Match, PortError, Ports, TcpFlags, ports, protocol};

/// `{"protocol": ["udp"], "source_ports": ["53", "8000-8100"]}`
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassText {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_ports: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination_ports: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tcp: Option<TcpFlags>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fragment: Option<bool>,
}

/// Why a text is no class.
#[derive(Debug, thiserror::Error)]
pub enum ClassTextError {
    /// It names a protocol that is not known.
    #[error("there is no protocol `{0}`")]
    Protocol(String),
    /// It names ports that do not exist.
    #[error(transparent)]
    Port(#[from] PortError),
    /// It does not fit together.
    #[error(transparent)]
    Class(#[from] ClassError),
}

impl TryFrom<ClassText> for Class {
    type Error = ClassTextError;

    fn try_from(text: ClassText) -> Result<Self, ClassTextError> {
        let unknown = |word: String| ClassTextError::Protocol(word);
        let protocols = text.protocol.map(|words| {
            let numbers = words
                .into_iter()
                .map(|word| protocol::parse(&word).ok_or_else(|| unknown(word)));
            let numbers: Result<Vec<_>, _> = numbers.collect();
            numbers.map(|numbers| numbers.into_iter().flatten().collect())
        });
        Ok(Self::new(ClassParts {
            protocols: protocols.transpose()?,
            source_ports: text.source_ports.as_deref().map(read_ports).transpose()?,
            destination_ports: text
                .destination_ports
                .as_deref()
                .map(read_ports)
                .transpose()?,
            tcp: text.tcp,
            fragment: text.fragment,
        })?)
    }
}

fn read_ports(words: &[String]) -> Result<Ports, PortError> {
    words.iter().map(|word| ports::parse_range(word)).collect()
}

impl From<Class> for ClassText {
    fn from(class: Class) -> Self {
        let ports = |ports: Ports| ports.texts().collect();
        let parts = class.0;
        Self {
            protocol: parts.protocols.map(|numbers| protocol::spell(&numbers)),
            source_ports: parts.source_ports.map(ports),
            destination_ports: parts.destination_ports.map(ports),
            tcp: parts.tcp,
            fragment: parts.fragment,
        }
    }
}

impl fmt::Display for Class {
    /// `udp from port 53,123 to port 8000-8100`, `fragments of icmp`, `packets to port 80`, `tcp with SYN`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.0;
        let protocols = parts
            .protocols
            .as_ref()
            .filter(|_| !follow_from_ports(parts));
        let protocols = protocols.map(|numbers| protocol::spell(numbers).join("/"));
        match (parts.fragment, protocols) {
            (Some(true), None) => formatter.write_str("fragments")?,
            (Some(true), Some(protocols)) => write!(formatter, "fragments of {protocols}")?,
            (Some(false), None) => formatter.write_str("unfragmented packets")?,
            (Some(false), Some(protocols)) => write!(formatter, "unfragmented {protocols}")?,
            (None, None) => formatter.write_str("packets")?,
            (None, Some(protocols)) => formatter.write_str(&protocols)?,
        }
        match parts.tcp {
            Some(TcpFlags::Syn) => formatter.write_str(" with SYN")?,
            Some(TcpFlags::Invalid) => formatter.write_str(" with invalid flags")?,
            None => {}
        }
        if let Some(ports) = &parts.source_ports {
            write!(formatter, " from port {ports}")?;
        }
        if let Some(ports) = &parts.destination_ports {
            write!(formatter, " to port {ports}")?;
        }
        Ok(())
    }
}

/// Whether its protocols are all that have ports, so that these say as much.
fn follow_from_ports(parts: &ClassParts) -> bool {
    let with_ports = (0..=u8::MAX).filter(|protocol| has_ports(*protocol));
    let protocols = parts.protocols.as_ref();
    parts.has_ports() && protocols.is_some_and(|own| own.iter().copied().eq(with_ports))
}

impl fmt::Display for Match {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => formatter.write_str(name),
            Self::Inline(class) => class.fmt(formatter),
        }
    }
}
