//! The line of an event in the log.

use jiff::Timestamp;
use ratelimit_core::{
    api::{Allow, AttackView, Ban, BanChange, LimitTarget, What},
    author,
    origin::Origin,
};
use tracing::{debug, error, info, warn};

use super::troubles::is_of_enforcement;

/// The fields of the line of a changed ban, allow or limit.
#[derive(Default)]
struct Line<'e> {
    message: &'static str,
    prefix: Option<String>,
    count: Option<usize>,
    origin: Option<&'e Origin>,
    limits: Option<String>,
    reason: Option<&'e str>,
    until: Option<Timestamp>,
    author: Option<&'e str>,
}

/// Logs an event.
pub fn log(what: &What) {
    match what {
        What::Drop(drop) => debug!(
            source = %drop.source,
            reason = drop.reason,
            limit = drop.limit.as_ref().map(tracing::field::display),
            interface = drop.interface,
            "a sampled drop"
        ),
        What::ListReplaced {
            list,
            entries: 0,
            different,
            by,
            ..
        } => info!(%list, removed = different, author = by.as_deref(), "list removed"),
        What::AttackBegan(attack) => log_attack("attack began", attack),
        What::AttackEnded(attack) => log_attack("attack ended", attack),
        What::Reloaded { changes } => info!(changes = changes.len(), "configuration applied"),
        What::TrialBegan {
            file, until, by, ..
        } => info!(file, author = &**by, %until, "configuration on trial"),
        What::TrialConfirmed { file, by } => info!(file, author = &**by, "configuration confirmed"),
        What::TrialRolledBack { file, by } => {
            let author = by.as_deref().unwrap_or("the end of its trial");
            warn!(
                file,
                author, "configuration rolled back to the previous one"
            );
        }
        What::Detached { interfaces, by } => info!(?interfaces, author = &**by, "detached"),
        What::InterfaceAttached {
            interface,
            mode,
            remark,
        } => {
            info!(interface, mode, "attached");
            if let Some(remark) = remark {
                warn!(interface, "{remark}");
            }
        }
        What::InterfaceLost { interface, why } => warn!(interface, why, "not enforced there"),
        What::UsageReset { why } => warn!("{why}"),
        What::TroubleBegan { what, error } if is_of_enforcement(what) => {
            error!(what, error, "does not work");
        }
        What::TroubleBegan { what, error } => warn!(what, error, "does not work"),
        What::TroubleEnded { what } => info!(what, "works again"),
        What::PassAllOff { by: Some(author) } => {
            info!(
                author = &**author,
                "pass-all is off: limits and bans are enforced"
            );
        }
        What::PassAllOff { by: None } => {
            info!("pass-all expired: limits and bans are enforced");
        }
        What::ChallengeBegan { when, is_of_dns } => {
            let clients = protocol(*is_of_dns);
            warn!(when, "challenge on for unverified {clients} clients");
        }
        What::ChallengePaused { until } => {
            warn!(%until, "challenge paused: no challenged client completed it");
        }
        What::ChallengeEnded { is_of_dns } => {
            info!("challenge off for {} clients", protocol(*is_of_dns));
        }
        // Logged with details that events do not have, or each minute.
        What::ListReplaced { .. }
        | What::ReloadRefused { .. }
        | What::PassAllOn { .. }
        | What::Lost { .. } => {}
        What::BanAdded(_)
        | What::BanEnded(_)
        | What::BanRemoved { .. }
        | What::Bans { .. }
        | What::AllowAdded(_)
        | What::AllowEnded(_)
        | What::AllowRemoved { .. }
        | What::LimitsSet { .. }
        | What::LimitsEnded { .. }
        | What::LimitsRemoved { .. } => {
            if let Some(line) = line(what) {
                line.log();
            }
        }
    }
}

/// Returns the line of a changed ban, allow or limit.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the other kinds have their own lines"
)]
fn line(what: &What) -> Option<Line<'_>> {
    Some(match what {
        What::BanAdded(ban) => Line {
            until: ban.until,
            author: Some(&ban.author),
            ..of_ban("banned", ban)
        },
        What::BanEnded(ban) => of_ban("ban ended", ban),
        What::BanRemoved { ban, by } => Line {
            author: by.as_deref(),
            ..of_ban("unbanned", ban)
        },
        What::Bans {
            change,
            count,
            origin,
            by,
        } => Line {
            message: match change {
                BanChange::Added => "banned",
                BanChange::Ended => "bans ended",
                BanChange::Removed => "unbanned",
            },
            count: Some(*count),
            origin: Some(origin),
            author: by.as_deref(),
            ..Line::default()
        },
        What::AllowAdded(allow) => Line {
            until: allow.until,
            author: allow.author.as_deref(),
            ..of_allow("allowed", allow)
        },
        What::AllowEnded(allow) => of_allow("allow ended", allow),
        What::AllowRemoved { allow, by } => Line {
            author: by.as_deref(),
            ..of_allow("removed from the allow list", allow)
        },
        What::LimitsSet {
            target,
            limits,
            until,
            reason,
            by,
            ..
        } => {
            let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
            Line {
                limits: Some(limits.join(", ")),
                reason: reason.as_deref(),
                until: *until,
                author: Some(by),
                ..of_limits("limits set", target)
            }
        }
        What::LimitsEnded { target, .. } => of_limits("limits ended", target),
        What::LimitsRemoved { target, by } => Line {
            author: by.as_deref(),
            ..of_limits("limits removed", target)
        },
        _ => return None,
    })
}

const fn protocol(is_dns: bool) -> &'static str {
    if is_dns { "DNS" } else { "TCP" }
}

fn log_attack(message: &'static str, attack: &AttackView) {
    let AttackView {
        packets_per_second,
        sources,
        ..
    } = attack;
    let (kind, subject) = (attack.kind.label(), &attack.subject);
    info!(kind, subject, packets_per_second, sources, "{message}");
}

impl Line<'_> {
    fn log(self) {
        let author = self.author.map(author::parts);
        info!(
            prefix = self.prefix,
            count = self.count,
            origin = self.origin.map(tracing::field::display),
            limits = self.limits,
            reason = self.reason,
            until = self.until.map(tracing::field::display),
            author = author.map(|(author, _)| author),
            sudo_user = author.and_then(|(_, user)| user),
            "{}",
            self.message
        );
    }
}

fn of_ban<'e>(message: &'static str, ban: &'e Ban) -> Line<'e> {
    Line {
        message,
        prefix: Some(ban.prefix.to_string()),
        origin: Some(&ban.origin),
        reason: ban.reason.as_deref(),
        ..Line::default()
    }
}

fn of_allow<'e>(message: &'static str, allow: &'e Allow) -> Line<'e> {
    Line {
        message,
        prefix: Some(allow.prefix.to_string()),
        reason: allow.reason.as_deref(),
        ..Line::default()
    }
}

fn of_limits<'e>(message: &'static str, target: &LimitTarget) -> Line<'e> {
    let prefix = match (target.prefix, target.destination) {
        (Some(sources), _) => sources.to_string(),
        (None, Some(destination)) => format!("to {destination}"),
        (None, None) => "default".to_owned(),
    };
    Line {
        message,
        prefix: Some(prefix),
        ..Line::default()
    }
}
