//! Classes as they are written: in JSON with the keys of the configuration, and in messages.

use std::{collections::BTreeSet, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Class, ClassError, ClassParts, Field, Fragments, Match, NumberError, Numbers, SourceShape,
    TcpFlags, protocol,
};
use crate::prefix::Prefix;

/// `{"protocol": ["udp"], "source_ports": ["53", "8000-8100"]}`
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassText {
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    protocol: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    source_ports: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    destination_ports: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tcp: Option<TcpFlags>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fragment: Option<Fragments>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    icmp_type: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    icmp_code: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    length: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    ttl: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    dscp: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "words",
        skip_serializing_if = "Option::is_none"
    )]
    vlan: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<SourceShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination: Option<Vec<Prefix>>,
}

/// A number or a text, or a list of them, as the configuration has it too.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Word {
        Number(u32),
        Text(String),
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(Word),
        Many(Vec<Word>),
    }
    let words = match Option::<Words>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(Words::One(word)) => vec![word],
        Some(Words::Many(words)) => words,
    };
    let texts = words.into_iter().map(|word| match word {
        Word::Number(number) => number.to_string(),
        Word::Text(text) => text,
    });
    Ok(Some(texts.collect()))
}

/// The error of an invalid class expression.
#[derive(Debug, thiserror::Error)]
pub enum ClassTextError {
    /// It names a protocol that is not known.
    #[error("there is no protocol `{0}`")]
    Protocol(String),
    /// It names numbers that do not exist.
    #[error(transparent)]
    Number(#[from] NumberError),
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
            source_ports: read(super::SOURCE_PORTS, text.source_ports)?,
            destination_ports: read(super::DESTINATION_PORTS, text.destination_ports)?,
            tcp: text.tcp,
            fragment: text.fragment,
            icmp_type: read(super::ICMP_TYPE, text.icmp_type)?,
            icmp_code: read(super::ICMP_CODE, text.icmp_code)?,
            length: read(super::LENGTH, text.length)?,
            ttl: read(super::TTL, text.ttl)?,
            dscp: read(super::DSCP, text.dscp)?,
            vlan: read(super::VLAN, text.vlan)?,
            source: text.source,
            destination: text.destination.map(BTreeSet::from_iter),
        })?)
    }
}

fn read(field: Field, words: Option<Vec<String>>) -> Result<Option<Numbers>, NumberError> {
    let read = |words: Vec<String>| words.iter().map(|word| field.parse_range(word)).collect();
    words.map(read).transpose()
}

impl From<Class> for ClassText {
    fn from(class: Class) -> Self {
        let texts = |numbers: Option<Numbers>| numbers.map(|numbers| numbers.texts().collect());
        let parts = *class.0;
        Self {
            protocol: parts.protocols.map(|numbers| protocol::spell(&numbers)),
            source_ports: texts(parts.source_ports),
            destination_ports: texts(parts.destination_ports),
            tcp: parts.tcp,
            fragment: parts.fragment,
            icmp_type: texts(parts.icmp_type),
            icmp_code: texts(parts.icmp_code),
            length: texts(parts.length),
            ttl: texts(parts.ttl),
            dscp: texts(parts.dscp),
            vlan: texts(parts.vlan),
            source: parts.source,
            destination: parts.destination.map(Vec::from_iter),
        }
    }
}

impl fmt::Display for Class {
    /// `udp from port 53,123 to port 8000-8100`, `fragments of icmp`, `packets to port 80`,
    /// `tcp with SYN`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.0;
        let protocols = parts.protocols.as_ref().filter(|_| !are_implied(parts));
        let protocols = protocols.map(|numbers| protocol::spell(numbers).join("/"));
        match (parts.fragment, protocols) {
            (Some(Fragments::NONE), Some(protocols)) => {
                write!(formatter, "unfragmented {protocols}")?;
            }
            (Some(fragments), None) => formatter.write_str(fragments.name())?,
            (Some(fragments), Some(protocols)) => {
                write!(formatter, "{} of {protocols}", fragments.name())?;
            }
            (None, None) => formatter.write_str("packets")?,
            (None, Some(protocols)) => formatter.write_str(&protocols)?,
        }
        match parts.tcp {
            Some(TcpFlags::Syn) => formatter.write_str(" with SYN")?,
            Some(TcpFlags::Invalid) => formatter.write_str(" with invalid flags")?,
            Some(flags @ TcpFlags::Masked { .. }) => write!(formatter, " with flags {flags}")?,
            None => {}
        }
        for (words, numbers) in [
            ("of type", &parts.icmp_type),
            ("with code", &parts.icmp_code),
            ("from port", &parts.source_ports),
            ("to port", &parts.destination_ports),
            ("of length", &parts.length),
            ("with TTL", &parts.ttl),
            ("with DSCP", &parts.dscp),
            ("in VLAN", &parts.vlan),
        ] {
            if let Some(numbers) = numbers {
                write!(formatter, " {words} {numbers}")?;
            }
        }
        if let Some(shape) = parts.source {
            write!(formatter, " {}", shape.words())?;
        }
        if let Some(prefixes) = &parts.destination {
            let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
            write!(formatter, " to {}", prefixes.join(","))?;
        }
        Ok(())
    }
}

/// Whether its protocols are all that the rest can be said of, so that it says as much.
fn are_implied(parts: &ClassParts) -> bool {
    let implied = parts.implied_protocols();
    // TCP and ICMP are worth a word.
    let is_of_ports_alone = parts.tcp.is_none() && !implied.is_empty();
    let all = 0..=u8::MAX;
    let follows = all.filter(|protocol| implied.iter().all(|(_, has)| has(*protocol)));
    let protocols = parts.protocols.as_ref();
    is_of_ports_alone
        && parts.icmp_type.is_none()
        && parts.icmp_code.is_none()
        && protocols.is_some_and(|own| own.iter().copied().eq(follows))
}

impl fmt::Display for Match {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => formatter.write_str(name),
            Self::Inline(class) => class.fmt(formatter),
        }
    }
}
