//! Events: changes, and a sample of the drops.

mod cursor;

use std::{net::IpAddr, sync::Arc};

use clap::ValueEnum;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::cursor::{Cursor, CursorNow, NoCursor};
use super::{Allow, AttackView, Ban, LimitTarget, Origin, PacketRequest};
use crate::{limit::LimitSpec, prefix::Prefix};

/// An event. As a line of JSON:
/// `{"number":7,"at":"...","event":"ban-added","prefix":"192.0.2.1/32",...}`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Event {
    /// Sequence number, from 1, also across restarts of the daemon. Sampled drops have their own
    /// sequence, which starts at 1 with each run.
    pub number: u64,
    /// Position to continue from after this event. `lost` events have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// When the event happened.
    pub at: Timestamp,
    /// Type and details of the event.
    #[serde(flatten)]
    pub what: What,
}

/// Author of limits set by detection.
pub const DETECTION: &str = "detection";

/// Type and details of an event.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// A packet was dropped, or would have been in a dry run. A sample: at most 100 per second and
    /// CPU.
    Drop(Dropped),
    /// A ban was added or changed.
    BanAdded(Ban),
    /// A ban expired.
    BanEnded(Ban),
    /// A ban was removed before it expired.
    BanRemoved {
        /// The removed ban.
        #[serde(flatten)]
        ban: Ban,
        /// The user who removed it; unset if it was not a user.
        #[serde(rename = "removed_by")]
        by: Option<Arc<str>>,
    },
    /// More bans changed at once than are reported individually.
    Bans {
        /// How the bans changed.
        change: BanChange,
        /// Number of bans.
        count: usize,
        /// Origin of the bans.
        origin: Origin,
        /// The user who made the change; unset if it was not a user.
        by: Option<Arc<str>>,
    },
    /// A list was loaded or removed.
    ListReplaced {
        /// Name of the list.
        list: Arc<str>,
        /// Number of entries; 0 if the list was removed.
        entries: usize,
        /// Number of prefixes that changed.
        different: usize,
        /// Whether the list is new.
        #[serde(default)]
        is_new: bool,
        /// The user who made the change; unset if it was not a user.
        by: Option<Arc<str>>,
    },
    /// A prefix was added to the allow list at runtime.
    AllowAdded(Allow),
    /// An entry of the allow list expired.
    AllowEnded(Allow),
    /// An entry of the allow list was removed before it expired.
    AllowRemoved {
        /// The removed entry.
        #[serde(flatten)]
        allow: Allow,
        /// The user who removed it.
        #[serde(rename = "removed_by")]
        by: Option<Arc<str>>,
    },
    /// Limits were set at runtime.
    LimitsSet {
        /// The sources or the destination of the limits.
        #[serde(flatten)]
        target: LimitTarget,
        /// The new limits.
        limits: Vec<LimitSpec>,
        /// Whether packets over the limits are counted and passed.
        observe: bool,
        /// When the limits expire; unset if they are permanent.
        #[serde(default)]
        until: Option<Timestamp>,
        /// Free text given with the limits.
        #[serde(default)]
        reason: Option<Arc<str>>,
        /// The user who set them.
        by: Arc<str>,
    },
    /// Runtime limits expired; the configured ones apply again.
    LimitsEnded {
        /// The sources or the destination of the limits.
        #[serde(flatten)]
        target: LimitTarget,
        /// Whether the usage counters of the sources were reset.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        starts_anew: bool,
    },
    /// Runtime limits were removed; the configured ones apply again.
    LimitsRemoved {
        /// The sources or the destination of the limits.
        #[serde(flatten)]
        target: LimitTarget,
        /// The user who removed them.
        by: Option<Arc<str>>,
    },
    /// An attack was detected.
    AttackBegan(AttackView),
    /// An attack ended.
    AttackEnded(AttackView),
    /// The configuration was reloaded.
    Reloaded {
        /// Changed settings, one per line.
        changes: Vec<String>,
    },
    /// A reload failed; the previous configuration stays active.
    ReloadRefused {
        /// The error of the reload.
        error: String,
    },
    /// A trial of a configuration began.
    TrialBegan {
        /// File that the configuration was read from.
        file: String,
        /// When the previous configuration is restored, unless the trial is confirmed.
        until: Timestamp,
        /// Changed settings, one per line.
        changes: Vec<String>,
        /// The user who started the trial.
        by: Arc<str>,
    },
    /// A trial was confirmed and its configuration is kept.
    TrialConfirmed {
        /// File that the configuration was read from.
        file: String,
        /// The user who confirmed it.
        by: Arc<str>,
    },
    /// A trial ended and the previous configuration was restored.
    TrialRolledBack {
        /// File that the configuration on trial was read from.
        file: String,
        /// The user who rolled it back; unset if the trial timed out.
        by: Option<Arc<str>>,
    },
    /// The program was detached from interfaces.
    Detached {
        /// Names of the interfaces.
        interfaces: Vec<String>,
        /// The user who detached it.
        by: Arc<str>,
    },
    /// An interface is protected.
    InterfaceAttached {
        /// Name of the interface.
        interface: String,
        /// Mode of attachment: `native`, `generic` or `tcx`.
        mode: String,
        /// Additional information about the attachment.
        #[serde(default)]
        remark: Option<String>,
    },
    /// An interface is not protected any more, or not yet.
    InterfaceLost {
        /// Configured name of the interface.
        interface: String,
        /// The reason it is not protected.
        why: String,
    },
    /// Usage counters of sources, destinations and the node were reset.
    UsageReset {
        /// The reason it was not taken over.
        why: String,
    },
    /// A failure began that does not affect enforcement.
    TroubleBegan {
        /// The failing part: `metrics`, `state`, `configuration`, `pins`.
        what: String,
        /// The error and its consequences.
        error: String,
    },
    /// A failure ended.
    TroubleEnded {
        /// The part that recovered.
        what: String,
    },
    /// `pass-all` was turned on.
    PassAllOn {
        /// When it ends; unset if it lasts until it is turned off.
        until: Option<Timestamp>,
        /// The user who turned it on.
        by: Arc<str>,
    },
    /// `pass-all` was turned off or expired.
    PassAllOff {
        /// The user who ended it; unset if it expired.
        by: Option<Arc<str>>,
    },
    /// The challenge became active because traffic exceeded its threshold.
    ChallengeBegan {
        /// The threshold, as configured.
        when: String,
        /// Whether this is the challenge of DNS clients instead of TCP clients.
        #[serde(default)]
        is_of_dns: bool,
    },
    /// The challenge pauses because no challenged client answered.
    #[serde(alias = "challenge-suspended")]
    ChallengePaused {
        /// When the challenge may resume.
        until: Timestamp,
    },
    /// The challenge became inactive.
    ChallengeEnded {
        /// Whether this is the challenge of DNS clients instead of TCP clients.
        #[serde(default)]
        is_of_dns: bool,
    },
    /// Events were lost because the reader was too slow.
    Lost {
        /// Number of lost events.
        count: u64,
    },
}

/// How bans changed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BanChange {
    /// Added or changed.
    Added,
    /// Reached their expiry.
    Ended,
    /// Removed before they expired.
    Removed,
}

/// A dropped packet.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Dropped {
    /// Its source: the address if it was banned, the source prefix if it was limited.
    pub source: IpAddr,
    /// The source address; unset if the captured header does not contain it.
    #[serde(default)]
    pub from: Option<IpAddr>,
    /// Properties of the packet found in the captured header; the interface is a separate field.
    #[serde(default)]
    pub packet: PacketRequest,
    /// Reason of the drop, named as in the metrics.
    pub reason: String,
    /// Whether the packet passed because of a dry run.
    pub observed: bool,
    /// The policy with the limit that refused the packet.
    pub policy: Option<String>,
    /// The limit that refused the packet.
    pub limit: Option<LimitSpec>,
    /// The interface that received the packet.
    pub interface: String,
}

impl Dropped {
    /// Returns whether both drops are equal except for the source port.
    pub fn is_like(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.packet.source_port = self.packet.source_port;
        *self == other
    }
}

/// A group of event types.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Bans that were added, expired or were removed
    Bans,
    /// Attacks that began or ended
    Attacks,
    /// All changes: bans, attacks, allows, limits, reloads
    Changes,
    /// The sample of dropped packets
    Drops,
}

/// Selects events.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct EventRequest {
    /// Keeps the connection open and sends new events.
    pub follow: bool,
    /// Number of stored events to return, the latest ones; unset is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Events of this kind; unset is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<EventKind>,
    /// Events about prefixes that overlap with this one; unset is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Prefix>,
    /// Events at or after this time; unset is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Stored events after this cursor; unset is all. A plain number is the sequence number of a
    /// change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
}

impl EventRequest {
    /// Returns whether the event matches kind, prefix and time. `lost` events always match.
    pub fn has(&self, event: &Event) -> bool {
        let is_of_kind = match self.only {
            None => true,
            Some(EventKind::Drops) => event.what.is_drop(),
            Some(EventKind::Changes) => !event.what.is_drop(),
            Some(EventKind::Bans) => event.what.is_ban(),
            Some(EventKind::Attacks) => event.what.is_attack(),
        };
        let is_about = |wanted: Prefix| {
            let prefix = event.what.prefix();
            prefix.is_some_and(|prefix| wanted.covers(prefix) || prefix.covers(wanted))
        };
        let is_late = self.since.is_none_or(|since| event.at >= since);
        matches!(event.what, What::Lost { .. })
            || is_of_kind && is_late && self.source.is_none_or(is_about)
    }
}

impl What {
    /// Returns whether bans changed.
    pub const fn is_ban(&self) -> bool {
        matches!(
            self,
            Self::BanAdded(_) | Self::BanEnded(_) | Self::BanRemoved { .. } | Self::Bans { .. }
        )
    }

    /// Returns whether an attack began or ended.
    pub const fn is_attack(&self) -> bool {
        matches!(self, Self::AttackBegan(_) | Self::AttackEnded(_))
    }

    /// Returns whether a trial of a configuration began or ended.
    pub const fn is_trial(&self) -> bool {
        matches!(
            self,
            Self::TrialBegan { .. } | Self::TrialConfirmed { .. } | Self::TrialRolledBack { .. }
        )
    }

    /// Returns the prefix that the event is about, if it is a single one.
    pub fn prefix(&self) -> Option<Prefix> {
        match self {
            Self::Drop(dropped) => Some(dropped.source.into()),
            Self::BanAdded(ban) | Self::BanEnded(ban) | Self::BanRemoved { ban, .. } => {
                Some(ban.prefix)
            }
            Self::AllowAdded(allow)
            | Self::AllowEnded(allow)
            | Self::AllowRemoved { allow, .. } => Some(allow.prefix),
            Self::LimitsSet { target, .. }
            | Self::LimitsEnded { target, .. }
            | Self::LimitsRemoved { target, .. } => target.prefix.or(target.destination),
            Self::Bans { .. }
            | Self::ListReplaced { .. }
            | Self::AttackBegan(_)
            | Self::AttackEnded(_)
            | Self::Reloaded { .. }
            | Self::ReloadRefused { .. }
            | Self::TrialBegan { .. }
            | Self::TrialConfirmed { .. }
            | Self::TrialRolledBack { .. }
            | Self::Detached { .. }
            | Self::InterfaceAttached { .. }
            | Self::InterfaceLost { .. }
            | Self::UsageReset { .. }
            | Self::TroubleBegan { .. }
            | Self::TroubleEnded { .. }
            | Self::PassAllOn { .. }
            | Self::PassAllOff { .. }
            | Self::ChallengeBegan { .. }
            | Self::ChallengePaused { .. }
            | Self::ChallengeEnded { .. }
            | Self::Lost { .. } => None,
        }
    }

    /// Returns whether traffic triggers the event. Outsiders can cause any number of these, so they
    /// are stored apart from changes by operators.
    pub fn is_of_traffic(&self) -> bool {
        match self {
            Self::Drop(_)
            | Self::AttackBegan(_)
            | Self::AttackEnded(_)
            | Self::ChallengeBegan { .. }
            | Self::ChallengePaused { .. }
            | Self::ChallengeEnded { .. } => true,
            Self::BanAdded(ban) | Self::BanEnded(ban) | Self::BanRemoved { ban, by: None } => {
                ban.origin.is_unrequested()
            }
            Self::Bans { origin, .. } => origin.is_unrequested(),
            Self::LimitsSet { by, .. } | Self::LimitsRemoved { by: Some(by), .. } => {
                by.split(' ').next() == Some(DETECTION)
            }
            Self::BanRemoved { .. }
            | Self::LimitsRemoved { .. }
            | Self::ListReplaced { .. }
            | Self::AllowAdded(_)
            | Self::AllowEnded(_)
            | Self::AllowRemoved { .. }
            | Self::LimitsEnded { .. }
            | Self::Reloaded { .. }
            | Self::ReloadRefused { .. }
            | Self::TrialBegan { .. }
            | Self::TrialConfirmed { .. }
            | Self::TrialRolledBack { .. }
            | Self::Detached { .. }
            | Self::InterfaceAttached { .. }
            | Self::InterfaceLost { .. }
            | Self::UsageReset { .. }
            | Self::TroubleBegan { .. }
            | Self::TroubleEnded { .. }
            | Self::PassAllOn { .. }
            | Self::PassAllOff { .. }
            | Self::Lost { .. } => false,
        }
    }

    /// Returns whether the event is a sampled packet.
    pub const fn is_drop(&self) -> bool {
        matches!(self, Self::Drop(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DROP: &str = r#"{"number":7,"at":"2026-03-02T14:32:07Z","event":"drop","source":"192.0.2.1","from":"192.0.2.1","packet":{"protocol":"udp","destination_port":53},"reason":"limited","observed":false,"policy":"default","limit":{"packets":9,"per":"1s","algorithm":"fixed-window"},"interface":"eth0"}"#;
    const REMOVED: &str = r#"{"number":8,"at":"2026-03-02T14:32:07Z","event":"ban-removed","prefix":"203.0.113.0/24","until":null,"since":"2026-03-02T14:32:07Z","reason":null,"by":"root","origin":"manual","removed_by":"root"}"#;
    const LOST: &str = r#"{"number":0,"at":"2026-03-02T14:32:07Z","event":"lost","count":12}"#;

    #[test]
    fn an_event_reads_back_as_written() {
        for text in [DROP, REMOVED, LOST] {
            assert_eq!(serde_json::to_string(&event(text)).unwrap(), text);
        }
    }

    #[test]
    fn a_pause_of_the_challenge_is_read_by_its_name_from_before_1_0() {
        let text = r#"{"number":7,"at":"2026-03-02T14:32:07Z","event":"challenge-suspended","until":"2026-03-02T15:32:07Z"}"#;
        let old = event(text);
        assert!(matches!(old.what, What::ChallengePaused { .. }));
        let new = text.replace("challenge-suspended", "challenge-paused");
        assert_eq!(serde_json::to_string(&old).unwrap(), new);
    }

    #[test]
    fn a_filter_has_its_kind_and_its_prefix_and_what_was_lost() {
        check(None, None, [true, true]);
        check(Some(EventKind::Drops), None, [true, false]);
        check(Some(EventKind::Bans), None, [false, true]);
        check(Some(EventKind::Changes), None, [false, true]);
        check(None, Some("192.0.2.0/24"), [true, false]);
        check(None, Some("192.0.2.1"), [true, false]);
        check(None, Some("203.0.113.7"), [false, true]);
        check(None, Some("203.0.0.0/16"), [false, true]);
        check(Some(EventKind::Drops), Some("203.0.113.7"), [false, false]);
    }

    /// Whether a filter has the drop, and the ban that was removed.
    fn check(only: Option<EventKind>, source: Option<&str>, expected: [bool; 2]) {
        let source = source.map(|source| source.parse().unwrap());
        let at = event(DROP).at;
        for (since, is_late) in [
            (None, true),
            (Some(at), true),
            (Some(at + jiff::SignedDuration::from_secs(1)), false),
        ] {
            let request = EventRequest {
                only,
                source,
                since,
                ..EventRequest::default()
            };
            let has = [DROP, REMOVED].map(|text| request.has(&event(text)));
            assert_eq!(has, expected.map(|it| it && is_late), "{request:?}");
            assert!(request.has(&event(LOST)));
        }
    }

    fn event(text: &str) -> Event {
        serde_json::from_str(text).unwrap()
    }
}
