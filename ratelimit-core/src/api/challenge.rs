//! How the API reports the challenge of sources.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{challenge, quantity};

/// The configuration and state of the challenge.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ChallengeStatus {
    /// When TCP clients are challenged: `over 5000 syn/s`, `always` or `never`.
    pub when: String,
    /// Challenged destinations and ports: `198.51.100.0/24, port 443`; unset is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Challenged classes: `classes web, mail`; unset is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
    /// How a SYN is answered: `rst` or `syncookie`.
    #[serde(default)]
    pub method: String,
    /// Seconds for which a source stays verified.
    pub lasts_seconds: f64,
    /// Maximum number of answers per second, for all sources together.
    pub answers_per_second: u32,
    /// Whether the challenge is active now.
    pub is_on: bool,
    /// When the challenge became active; unset if it is always active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether verified sources have precedence in the node limits while the challenge is active.
    #[serde(default)]
    pub prefers_verified: bool,
    /// Verified sources, counted in the last ten seconds.
    #[serde(default)]
    pub verified: u64,
    /// SYNs and queries left unanswered because an answer budget, total or per source, was
    /// exhausted; counted since the maps were created.
    #[serde(default)]
    pub unanswered_packets: u64,
    /// End of the pause that follows when no challenged client answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// The challenge of DNS clients; unset if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsChallengeStatus>,
}

/// The challenge of DNS clients.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DnsChallengeStatus {
    /// When DNS clients are challenged: `over 5000 packets/s` or `always`.
    pub when: String,
    /// Ports that serve DNS.
    pub ports: Vec<u16>,
    /// Whether the challenge is active now.
    pub is_on: bool,
    /// When the challenge became active; unset if it is always active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// The challenge as it applies to a source.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SourceChallenge {
    /// When the verification of the source expires; unset if it is not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_until: Option<Timestamp>,
    /// Whether the source proved its address with an ACK. A RST alone is weaker: a live host also
    /// resets connections it did not open.
    #[serde(default)]
    pub is_acknowledged: bool,
    /// Whether unverified TCP clients are challenged now, for the given packet or for any
    /// destination.
    pub is_on: bool,
    /// Challenged destinations and ports; unset is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Challenged classes; unset is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
    /// When the challenge became active; unset if it is always active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether verified sources have precedence in the node limits while the challenge is active.
    #[serde(default)]
    pub prefers_verified: bool,
    /// The challenge of DNS clients; unset if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsChallengeStatus>,
}

impl ChallengeStatus {
    /// Returns whether TCP clients are never challenged.
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
    /// `DNS clients: challenged over 5000 packets/s at port 53`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = challenge::to_ports(&self.ports);
        let challenged = challenged(&self.when);
        write!(formatter, "DNS clients: {challenged} at {ports}")
    }
}

impl fmt::Display for ChallengeStatus {
    /// `TCP clients: challenged over 5000 syn/s by rst; verified for 10m; up to 1000000 answers/s`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasts = Duration::try_from_secs_f64(self.lasts_seconds).unwrap_or_default();
        let narrowed = challenge::narrowed(self.classes.as_deref(), self.to.as_deref());
        let challenged = challenged(&self.when);
        write!(formatter, "TCP clients: {challenged}")?;
        if !self.is_never() {
            write!(formatter, "{narrowed} by {}", self.method)?;
        }
        write!(
            formatter,
            "; verified for {}; up to {} answers/s",
            quantity::duration(lasts),
            self.answers_per_second
        )?;
        if self.prefers_verified {
            formatter.write_str("; verified sources have precedence in node limits")?;
        }
        Ok(())
    }
}
