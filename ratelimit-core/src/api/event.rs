//! What happened: changes, and a sample of the drops.

mod cursor;

use std::{net::IpAddr, sync::Arc};

use clap::ValueEnum;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::cursor::{Cursor, CursorNow, NoCursor};
use super::{Allow, AttackView, Ban, LimitTarget, Origin, PacketRequest};
use crate::{limit::LimitSpec, prefix::Prefix};

/// One thing that happened; a line of JSON: `{"number":7,"at":"...","event":"ban-added","prefix":"192.0.2.1/32",...}`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Event {
    /// Counts changes from 1 on, also over restarts of the daemon. The sampled drops have a count of their own, which begins with 1 at
    /// each start.
    pub number: u64,
    /// Where a follower continues behind the event. Lost events have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// The author of limits that detection sets.
pub const DETECTION: &str = "detection";

/// What can happen.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// A packet was dropped, or would have been in a dry run: a sample, at most 100 a second of each CPU.
    Drop(Dropped),
    /// A ban is in force that was not, or not like this.
    BanAdded(Ban),
    /// The time of a ban is over.
    BanEnded(Ban),
    /// A ban was taken away before its time.
    BanRemoved {
        /// The ban that it was.
        #[serde(flatten)]
        ban: Ban,
        /// The user who did it; `None` when it was no user.
        by: Option<Arc<str>>,
    },
    /// More bans changed at once than are reported one by one.
    Bans {
        /// What became of them.
        change: BanChange,
        /// How many.
        count: usize,
        /// Where they come from.
        origin: Origin,
        /// The user who did it; `None` when it was no user.
        by: Option<Arc<str>>,
    },
    /// A list was replaced, or taken away.
    ListReplaced {
        /// Its name.
        list: Arc<str>,
        /// The entries that it has; 0 when it is gone.
        entries: usize,
        /// Of how many prefixes it says something else than before.
        different: usize,
        /// Whether there was no list of this name before.
        #[serde(default)]
        is_new: bool,
        /// The user who did it; `None` when it was no user.
        by: Option<Arc<str>>,
    },
    /// A prefix was put on the allow list at runtime.
    AllowAdded(Allow),
    /// The time of an allow is over.
    AllowEnded(Allow),
    /// A prefix was taken off the allow list before its time.
    AllowRemoved {
        /// The entry that it was.
        #[serde(flatten)]
        allow: Allow,
        /// The user who did it.
        by: Option<Arc<str>>,
    },
    /// Limits were set at runtime.
    LimitsSet {
        /// Whose.
        #[serde(flatten)]
        target: LimitTarget,
        /// The limits.
        limits: Vec<LimitSpec>,
        /// Whether what they would drop passes.
        observe: bool,
        /// Until when; `None` is forever.
        #[serde(default)]
        until: Option<Timestamp>,
        /// Why.
        #[serde(default)]
        reason: Option<Arc<str>>,
        /// The user who did it.
        by: Arc<str>,
    },
    /// The time of runtime limits is over: the configuration holds again.
    LimitsEnded {
        /// Whose.
        #[serde(flatten)]
        target: LimitTarget,
        /// Whether what sources have used under them does not count for the limits that hold again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        starts_anew: bool,
    },
    /// Runtime limits were taken away: the configuration holds again.
    LimitsRemoved {
        /// Whose.
        #[serde(flatten)]
        target: LimitTarget,
        /// The user who did it.
        by: Option<Arc<str>>,
    },
    /// An attack was found.
    AttackBegan(AttackView),
    /// An attack is over.
    AttackEnded(AttackView),
    /// The configuration was read again and applied.
    Reloaded {
        /// What is different, a line each.
        changes: Vec<String>,
    },
    /// The configuration was read again and refused; the one before stays in force.
    ReloadRefused {
        /// Why.
        error: String,
    },
    /// A configuration is in force on trial.
    TrialBegan {
        /// Where its text came from.
        file: String,
        /// When the one before comes back, unless somebody confirms it.
        until: Timestamp,
        /// What is different, a line each.
        changes: Vec<String>,
        /// The user who did it.
        by: Arc<str>,
    },
    /// The configuration on trial is kept.
    TrialConfirmed {
        /// Where its text came from.
        file: String,
        /// The user who did it.
        by: Arc<str>,
    },
    /// The configuration before the trial is in force again.
    TrialRolledBack {
        /// Where the text came from that was tried.
        file: String,
        /// The user who did it; `None` at the end of its time.
        by: Option<Arc<str>>,
    },
    /// The programs were taken off their interfaces.
    Detached {
        /// The interfaces.
        interfaces: Vec<String>,
        /// The user who did it.
        by: Arc<str>,
    },
    /// Packets that come to an interface are judged.
    InterfaceAttached {
        /// Its name.
        interface: String,
        /// Where in the kernel: `native` or `generic`.
        mode: String,
        /// What is to be known about that.
        #[serde(default)]
        remark: Option<String>,
    },
    /// Packets that come to an interface are not judged any more, or not yet.
    InterfaceLost {
        /// Its configured name.
        interface: String,
        /// Why.
        why: String,
    },
    /// Something does not work that keeps nothing else from working.
    TroubleBegan {
        /// What: `metrics`, `state`, `configuration`, `pins`.
        what: String,
        /// Why, and what follows from it.
        error: String,
    },
    /// It works again.
    TroubleEnded {
        /// What.
        what: String,
    },
    /// From here on everything passes.
    PassAllOn {
        /// Until when; `None` is until it is ended.
        until: Option<Timestamp>,
        /// The user who did it.
        by: Arc<str>,
    },
    /// Packets are judged again.
    PassAllOff {
        /// The user who did it; `None` when its time was over.
        by: Option<Arc<str>>,
    },
    /// From here on sources that are not verified are challenged: more came than may.
    ChallengeBegan {
        /// Beyond how many in a second, as it is written.
        when: String,
        /// Whether it is for datagrams to ports that serve DNS, not for TCP connections.
        #[serde(default)]
        is_of_dns: bool,
    },
    /// Nobody is challenged for a while, as nobody who was proved itself.
    ChallengeSuspended {
        /// Until when.
        until: Timestamp,
    },
    /// Nobody is challenged any more.
    ChallengeEnded {
        /// Whether that is for datagrams to ports that serve DNS.
        #[serde(default)]
        is_of_dns: bool,
    },
    /// Whoever follows was too slow for events that are gone.
    Lost {
        /// How many.
        count: u64,
    },
}

/// What became of bans.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BanChange {
    /// They are in force.
    Added,
    /// Their time is over.
    Ended,
    /// They were taken away.
    Removed,
}

/// A packet that was dropped.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Dropped {
    /// Its source: an address where it was banned, the source as it is counted where it was limited.
    pub source: IpAddr,
    /// The address that it came from; `None` where its front does not say it.
    #[serde(default)]
    pub from: Option<IpAddr>,
    /// What it was, as far as its front says; the interface is beside it.
    #[serde(default)]
    pub packet: PacketRequest,
    /// The reason, as in the metrics.
    pub reason: String,
    /// Whether it passed because of a dry run.
    pub observed: bool,
    /// The policy whose limit refused it.
    pub policy: Option<String>,
    /// The limit.
    pub limit: Option<LimitSpec>,
    /// The interface that it came in by.
    pub interface: String,
}

impl Dropped {
    /// Whether another drop says the same, but for the port that its packet came from.
    pub fn is_like(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.packet.source_port = self.packet.source_port;
        *self == other
    }
}

/// A kind of events.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Bans that came, ended or were taken away
    Bans,
    /// Attacks that began, or ended
    Attacks,
    /// Every change: bans, attacks, allows, limits, reloads
    Changes,
    /// The sample of the drops
    Drops,
}

/// Which events are asked for, and how.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct EventRequest {
    /// Whether the answer goes on with what comes.
    pub follow: bool,
    /// How many of the events that are kept, the last ones; `None` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Those of a kind; `None` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<EventKind>,
    /// Those about a prefix, a part of it, or what it is a part of; `None` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Prefix>,
    /// Those that happened then or later; `None` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Of the events that are kept, those behind the one with this cursor; `None` is all. A number is that of a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
}

impl EventRequest {
    /// Whether an event is wanted, as far as its kind, its prefix and its time say. What was lost may have been.
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
    /// Whether it is a change of bans.
    pub const fn is_ban(&self) -> bool {
        matches!(
            self,
            Self::BanAdded(_) | Self::BanEnded(_) | Self::BanRemoved { .. } | Self::Bans { .. }
        )
    }

    /// Whether it is the beginning or the end of an attack.
    pub const fn is_attack(&self) -> bool {
        matches!(self, Self::AttackBegan(_) | Self::AttackEnded(_))
    }

    /// Whether it is the beginning or the end of a configuration's trial.
    pub const fn is_trial(&self) -> bool {
        matches!(
            self,
            Self::TrialBegan { .. } | Self::TrialConfirmed { .. } | Self::TrialRolledBack { .. }
        )
    }

    /// The prefix that it is about; `None` when it is about no one in particular.
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
            | Self::TroubleBegan { .. }
            | Self::TroubleEnded { .. }
            | Self::PassAllOn { .. }
            | Self::PassAllOff { .. }
            | Self::ChallengeBegan { .. }
            | Self::ChallengeSuspended { .. }
            | Self::ChallengeEnded { .. }
            | Self::Lost { .. } => None,
        }
    }

    /// Whether traffic causes it, as often as somebody outside wants: such changes are kept apart from those that people make.
    pub fn is_of_traffic(&self) -> bool {
        match self {
            Self::Drop(_)
            | Self::AttackBegan(_)
            | Self::AttackEnded(_)
            | Self::ChallengeBegan { .. }
            | Self::ChallengeSuspended { .. }
            | Self::ChallengeEnded { .. } => true,
            Self::BanAdded(ban) | Self::BanEnded(ban) | Self::BanRemoved { ban, by: None } => {
                ban.origin.is_automatic()
            }
            Self::Bans { origin, .. } => origin.is_automatic(),
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
            | Self::TroubleBegan { .. }
            | Self::TroubleEnded { .. }
            | Self::PassAllOn { .. }
            | Self::PassAllOff { .. }
            | Self::Lost { .. } => false,
        }
    }

    /// Whether it is a packet, and no change.
    pub const fn is_drop(&self) -> bool {
        matches!(self, Self::Drop(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DROP: &str = r#"{"number":7,"at":"2026-03-02T14:32:07Z","event":"drop","source":"192.0.2.1","from":"192.0.2.1","packet":{"protocol":"udp","destination_port":53},"reason":"limited","observed":false,"policy":"default","limit":{"packets":9,"per":"1s","algorithm":"fixed-window"},"interface":"eth0"}"#;
    const REMOVED: &str = r#"{"number":8,"at":"2026-03-02T14:32:07Z","event":"ban-removed","prefix":"203.0.113.0/24","until":null,"since":"2026-03-02T14:32:07Z","reason":null,"author":"root","origin":"manual","by":"root"}"#;
    const LOST: &str = r#"{"number":0,"at":"2026-03-02T14:32:07Z","event":"lost","count":12}"#;

    #[test]
    fn an_event_reads_as_what_it_writes() {
        for text in [DROP, REMOVED, LOST] {
            assert_eq!(serde_json::to_string(&event(text)).unwrap(), text);
        }
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
