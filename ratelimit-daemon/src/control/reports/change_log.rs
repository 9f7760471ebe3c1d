//! Changes of bans, allows and limits in the log: one line for each of their events.

use jiff::Timestamp;
use ratelimit_core::{
    api::{Allow, Ban, BanChange, LimitTarget, What},
    author,
    origin::Origin,
};
use tracing::info;

/// The fields of a line.
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

/// Logs an event if it is a change of bans, allows or limits. Other events are logged where they
/// happen.
pub fn log(what: &What) {
    let Some(line) = line(what) else {
        return;
    };
    let author = line.author.map(author::parts);
    info!(
        prefix = line.prefix,
        count = line.count,
        origin = line.origin.map(tracing::field::display),
        limits = line.limits,
        reason = line.reason,
        until = line.until.map(tracing::field::display),
        author = author.map(|(author, _)| author),
        sudo_user = author.and_then(|(_, user)| user),
        "{}",
        line.message
    );
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other events are no such change"
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
