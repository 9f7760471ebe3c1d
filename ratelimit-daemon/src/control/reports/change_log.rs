//! Changes as lines of the log: each is one line, and of many at once one line has their number and the first few.

use std::sync::Arc;

use ratelimit_common::Instant;
use ratelimit_core::{
    author,
    intent::{Edit, EntryRow, FOREVER, LimitRow, Target},
    origin::Origin,
    prefix::Prefix,
};
use tracing::info;

use super::cause::Cause;
use crate::clock;

/// Changes at once that are logged one by one.
const LINES_MAX: usize = 10;
/// Those of more that are named.
const NAMED: usize = 5;

/// One change.
struct Line {
    what: &'static str,
    prefix: Option<Prefix>,
    origin: Option<Origin>,
    limits: Option<String>,
    reason: Option<Arc<str>>,
    until: Option<Instant>,
    author: Option<Arc<str>>,
}

/// Logs changes that were made; each has what takes it back beside it. What is remembered of sources is none of them, and lists are
/// logged where they are read.
pub fn report<'e, I: Iterator<Item = (Edit, &'e Edit)>>(changed: impl Fn() -> I, cause: Cause<'_>) {
    let lines = || changed().filter_map(|(edit, before)| line(&edit, before, cause));
    if lines().nth(LINES_MAX).is_none() {
        for line in lines() {
            line.log();
        }
        return;
    }
    let mut kinds: Vec<(Line, usize, Vec<String>)> = Vec::new();
    for line in lines() {
        let kind = kinds.iter_mut().find(|(first, ..)| first.is_like(&line));
        let named = line.target();
        if let Some((_, count, names)) = kind {
            *count += 1;
            if names.len() < NAMED {
                names.push(named);
            }
        } else {
            kinds.push((line, 1, vec![named]));
        }
    }
    for (first, count, names) in kinds {
        first.log_many(count, &names.join(" "));
    }
}

impl Line {
    /// Whether both are reported as changes of one kind.
    fn is_like(&self, other: &Self) -> bool {
        (self.what, &self.origin, &self.author) == (other.what, &other.origin, &other.author)
    }

    fn target(&self) -> String {
        self.prefix
            .map_or_else(|| "default".to_owned(), |prefix| prefix.to_string())
    }

    fn log(&self) {
        let (author, sudo_user) = self.author();
        info!(
            prefix = self.target(),
            origin = self.origin.as_ref().map(display),
            limits = self.limits,
            reason = self.reason.as_deref(),
            until = self
                .until
                .filter(|until| *until != FOREVER)
                .map(|until| display(clock::to_wall(until))),
            author,
            sudo_user,
            "{}",
            self.what
        );
    }

    fn log_many(&self, count: usize, first: &str) {
        let (author, sudo_user) = self.author();
        info!(
            count,
            first,
            origin = self.origin.as_ref().map(display),
            reason = self.reason.as_deref(),
            author,
            sudo_user,
            "{}",
            self.what
        );
    }

    fn author(&self) -> (Option<&str>, Option<&str>) {
        let parts = self.author.as_deref().map(author::parts);
        (
            parts.map(|(author, _)| author),
            parts.and_then(|(_, user)| user),
        )
    }
}

const fn entry(limits: &LimitRow) -> &EntryRow {
    &limits.entry
}

fn line(edit: &Edit, before: &Edit, cause: Cause<'_>) -> Option<Line> {
    let by: Option<Arc<str>> = match cause {
        Cause::User(user) => Some(user.into()),
        Cause::Origin | Cause::Rollback | Cause::Time => None,
    };
    let what = |is_set, set, removed, ended| match cause {
        _ if is_set => set,
        Cause::Time => ended,
        Cause::Origin | Cause::Rollback | Cause::User(_) => removed,
    };
    let text = |limits: &LimitRow| {
        let limits = limits.limits.iter().map(ToString::to_string);
        limits.collect::<Vec<_>>().join(", ")
    };
    let of_entry = |set: Option<&EntryRow>, gone: Option<&EntryRow>| {
        Some(Line {
            what: "",
            prefix: None,
            origin: None,
            limits: None,
            reason: set.or(gone)?.reason.clone(),
            until: set.map(|row| row.until),
            author: set.map(|row| Arc::clone(&row.author)).or(by.clone()),
        })
    };
    Some(match (edit, before) {
        (Edit::Ban(prefix, origin, set), Edit::Ban(_, _, gone)) => Line {
            what: what(set.is_some(), "banned", "unbanned", "ban ended"),
            prefix: Some(*prefix),
            origin: Some(origin.clone()),
            ..of_entry(set.as_ref(), gone.as_ref())?
        },
        (Edit::Allow(prefix, set), Edit::Allow(_, gone)) => Line {
            what: what(
                set.is_some(),
                "allowed",
                "removed from the allow list",
                "allow ended",
            ),
            prefix: Some(*prefix),
            ..of_entry(set.as_ref(), gone.as_ref())?
        },
        (Edit::Limits(target, set), Edit::Limits(_, gone)) => Line {
            what: match target {
                Target::Destination(_) => what(
                    set.is_some(),
                    "limits of a destination set",
                    "limits of a destination removed",
                    "limits of a destination expired",
                ),
                Target::Default | Target::Sources(_) => what(
                    set.is_some(),
                    "limits set",
                    "limits removed",
                    "limits ended",
                ),
            },
            prefix: target.prefix(),
            limits: set.as_ref().or(gone.as_ref()).map(text),
            ..of_entry(set.as_ref().map(entry), gone.as_ref().map(entry))?
        },
        (Edit::Limited(prefix, set), Edit::Limited(_, gone)) => {
            set.as_ref().or(gone.as_ref())?;
            Line {
                what: what(set.is_some(), "limited", "limit removed", "limit ended"),
                prefix: Some(*prefix),
                origin: Some(Origin::Detected),
                limits: set.as_ref().map(|row| row.limit.to_string()),
                reason: set.as_ref().map(|row| row.kind.label().into()),
                until: set.as_ref().map(|row| row.until),
                author: by,
            }
        }
        (
            Edit::Ban(..)
            | Edit::Allow(..)
            | Edit::List(..)
            | Edit::Limits(..)
            | Edit::Offence(..)
            | Edit::Limited(..)
            | Edit::Config(_)
            | Edit::PassAll(_),
            _,
        ) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::reports::rows;

    #[test]
    fn of_many_changes_one_line_has_their_number_and_the_first() {
        let log = reported(30, Cause::Origin);
        assert_eq!(log.lines().count(), 1, "{log}");
        for part in [
            "banned count=30 first=\"192.0.2.0 192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4\"",
            "origin=manual",
            "reason=\"flood\"",
            "author=\"root\" sudo_user=\"alice\"",
        ] {
            assert!(log.contains(part), "{log}");
        }
    }

    #[test]
    fn a_change_is_one_line_with_all_that_is_known_of_it() {
        let log = reported(2, Cause::Origin);
        assert_eq!(log.lines().count(), 2, "{log}");
        let first = log.lines().next().unwrap();
        for part in [
            "banned prefix=\"192.0.2.0\" origin=manual reason=\"flood\" until=2",
            " author=\"root\" sudo_user=\"alice\"",
        ] {
            assert!(first.contains(part), "{first}");
        }
    }

    /// The log of so many bans.
    fn reported(count: u8, cause: Cause<'_>) -> String {
        let until = clock::after(std::time::Duration::from_mins(1));
        let row = rows::entry(until, Some("flood"), "root (sudo alice)");
        let prefix = |host| Prefix::from(std::net::IpAddr::from([192, 0, 2, host]));
        let edits: Vec<_> = (0..count)
            .map(|host| Edit::Ban(prefix(host), Origin::Manual, Some(row.clone())))
            .collect();
        let before: Vec<_> = (0..count)
            .map(|host| Edit::Ban(prefix(host), Origin::Manual, None))
            .collect();
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let changed = || edits.iter().cloned().zip(&before);
        tracing::subscriber::with_default(subscriber, || report(changed, cause));
        let text = log.0.lock().unwrap().clone();
        String::from_utf8(text).unwrap()
    }

    #[derive(Clone, Default)]
    struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
