//! The challenge of sources, as it is reported.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{challenge, quantity};

/// When sources have to prove themselves, and whether they have to at this moment.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ChallengeStatus {
    /// When those have to that ask for TCP connections: `over 5000 syn/s`, `always` or `never`.
    pub when: String,
    /// To which destinations and ports: `198.51.100.0/24, port 443`; `None` where to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Of which classes SYNs are challenged: `classes web, mail`; `None` where of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
    /// What a SYN is answered: `rst` or `syncookie`.
    #[serde(default)]
    pub way: String,
    /// Seconds for which a source stays verified.
    pub lasts_seconds: f64,
    /// Answers in a second, to all sources together.
    pub answers: u32,
    /// Whether they have to at this moment.
    pub is_on: bool,
    /// Since when, where it is not always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether verified sources draw first from the limits of the node, while it is on.
    #[serde(default)]
    pub prefers_verified: bool,
    /// Sources that are verified and proved themselves here, as they were counted up to ten seconds ago.
    #[serde(default)]
    pub verified_here: u64,
    /// The same on the word of other nodes of the cluster.
    #[serde(default)]
    pub verified_by_peers: u64,
    /// SYNs and queries without an answer since the maps were made: the answers to all sources or to one were spent.
    #[serde(default)]
    pub unanswered_packets: u64,
    /// Until when nobody is challenged, as nobody who was proved itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_until: Option<Timestamp>,
    /// The same for who asks a DNS server; `None` where nobody has to for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsChallengeStatus>,
}

/// When sources that ask a DNS server have to prove themselves, and whether they have to at this moment.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DnsChallengeStatus {
    /// When they have to: `over 5000 packets/s` or `always`.
    pub when: String,
    /// The ports that serve DNS.
    pub ports: Vec<u16>,
    /// Whether they have to at this moment.
    pub is_on: bool,
    /// Since when, where it is not always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// What the challenge is to a source.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, which the API names"
)]
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SourceChallenge {
    /// Until when the source is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_until: Option<Timestamp>,
    /// Whether that is on the word of another node of the cluster.
    #[serde(default)]
    pub verified_by_peer: bool,
    /// Whether it is by an acknowledgement. By a RST alone its address may still be forged: a live host resets what it did not ask for.
    #[serde(default)]
    pub is_acknowledged: bool,
    /// Whether sources that are not verified are challenged at this moment, when they ask for TCP connections: to what was asked about, or to
    /// any destination.
    pub is_on: bool,
    /// To which destinations and ports they are; `None` where to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Of which classes SYNs are; `None` where of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
    /// Since when, where it is not always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether verified sources draw first from the limits of the node, while it is on.
    #[serde(default)]
    pub prefers_verified: bool,
    /// The same for who asks a DNS server; `None` where nobody is challenged for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsChallengeStatus>,
}

impl ChallengeStatus {
    /// Whether nobody is challenged who asks for a TCP connection.
    pub fn is_never(&self) -> bool {
        self.when == challenge::NEVER
    }
}

/// `challenged over 5000 syn/s`, `always challenged` or `never challenged`.
fn challenged(when: &str) -> String {
    match when {
        challenge::ALWAYS | challenge::NEVER => format!("{when} challenged"),
        over => format!("challenged {over}"),
    }
}

impl fmt::Display for DnsChallengeStatus {
    /// `DNS sources are challenged over 5000 packets/s at port 53`, `DNS sources are always challenged at port 53`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = challenge::to_ports(&self.ports);
        let challenged = challenged(&self.when);
        write!(formatter, "DNS sources are {challenged} at {ports}")
    }
}

impl fmt::Display for ChallengeStatus {
    /// `TCP sources are challenged over 5000 syn/s by rst; verified for 10m; at most 1000000 answers a second`, or that they never are
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasts = Duration::try_from_secs_f64(self.lasts_seconds).unwrap_or_default();
        let narrowed = challenge::narrowed(self.classes.as_deref(), self.to.as_deref());
        let challenged = challenged(&self.when);
        write!(formatter, "TCP sources are {challenged}")?;
        if !self.is_never() {
            write!(formatter, "{narrowed} by {}", self.way)?;
        }
        write!(
            formatter,
            "; verified for {}; at most {} answers a second",
            quantity::duration(lasts),
            self.answers
        )?;
        if self.prefers_verified {
            formatter.write_str("; verified sources draw first from the limits of the node")?;
        }
        Ok(())
    }
}
