//! Converts edits to events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::control::{
    persistence::unwritten::intended,
    reports::{cause::Cause, journal::Journal, rows},
    time::expiry,
};
use ratelimit_core::{
    api::{BanChange, DETECTION, EntryCounter, What},
    intent::{Edit, EntryRow, Intent, LimitedRow, Target},
    origin::Origin,
    prefix::Prefix,
};

/// The most bans of a change that are reported one by one. More are summarized by origin.
const BANS_TOLD: usize = 100;

impl Cause<'_> {
    fn by(self) -> Option<Arc<str>> {
        match self {
            Self::User(user) => Some(user.into()),
            Self::Origin | Self::Rollback | Self::Time => None,
        }
    }

    fn of_removed(self) -> BanChange {
        match self {
            Self::Time => BanChange::Ended,
            Self::Origin | Self::Rollback | Self::User(_) => BanChange::Removed,
        }
    }
}

/// Records applied edits as events and in the log; `reverse` are the edits that undo them. The
/// runtime limits in `anew` expired, and their usage was reset.
pub fn record_edits(
    intent: &Intent,
    journal: &mut Journal,
    reverse: &[Edit],
    cause: Cause<'_>,
    anew: &BTreeSet<Target>,
) {
    let changed = || {
        let pairs = reverse.iter();
        let pairs = pairs.map(|before| (intended(before, intent), before));
        pairs.filter(|(edit, before)| edit != *before)
    };
    let is_ban = |edit: &Edit| matches!(edit, Edit::Ban(..));
    let are_many = reverse.iter().filter(|edit| is_ban(edit)).count() > BANS_TOLD;
    let one_by_one = changed().filter(|(edit, _)| !(are_many && is_ban(edit)));
    let events = one_by_one.filter_map(|(edit, before)| event(&edit, before, cause, anew));
    let mut events: Vec<What> = events.collect();
    // The runtime limits of a prefix and the further limit of an attack end together, and are
    // reported once.
    events.dedup();
    if are_many {
        events.extend(summaries(changed(), cause));
    }
    for what in events {
        journal.record(what);
    }
}

fn event(edit: &Edit, before: &Edit, cause: Cause<'_>, anew: &BTreeSet<Target>) -> Option<What> {
    Some(match (edit, before) {
        // It lasts longer.
        (Edit::Ban(_, Origin::Folded, Some(_)), Edit::Ban(_, _, Some(_))) => return None,
        (Edit::Ban(prefix, origin, Some(row)), _) => {
            What::BanAdded(rows::ban(*prefix, origin, row, EntryCounter::default()))
        }
        (Edit::Ban(..), Edit::Ban(prefix, origin, Some(row))) => {
            ban_gone(*prefix, origin, row, cause)
        }
        (Edit::Allow(prefix, Some(row)), _) => {
            What::AllowAdded(rows::allow(*prefix, row, EntryCounter::default()))
        }
        (Edit::Allow(..), Edit::Allow(prefix, Some(row))) => {
            let allow = rows::allow(*prefix, row, EntryCounter::default());
            match cause {
                Cause::Time => What::AllowEnded(allow),
                Cause::Origin | Cause::Rollback | Cause::User(_) => What::AllowRemoved {
                    allow,
                    by: cause.by(),
                },
            }
        }
        (Edit::List(name, list, touched), before) => What::ListReplaced {
            list: Arc::clone(name),
            entries: list.as_ref().map_or(0, |list| list.entries().len()),
            different: touched.len(),
            is_new: matches!(before, Edit::List(_, None, _)),
            by: cause.by().or_else(|| {
                let imported = list.as_ref().filter(|list| list.file.is_none());
                imported.map(|list| Arc::clone(&list.author))
            }),
        },
        (Edit::Limits(target, Some(row)), _) => What::LimitsSet {
            target: (*target).into(),
            limits: row.limits.clone(),
            observe: row.observe,
            until: expiry::reported(row.entry.until),
            reason: row.entry.reason.clone(),
            by: row.entry.author.clone(),
        },
        // It lasts longer.
        (Edit::Limited(_, Some(row)), Edit::Limited(_, Some(before)))
            if (&row.limit, row.kind) == (&before.limit, before.kind) =>
        {
            return None;
        }
        (Edit::Limited(prefix, Some(row)), _) => What::LimitsSet {
            target: Target::Sources(*prefix).into(),
            limits: vec![row.limit.clone()],
            observe: false,
            until: expiry::reported(row.until),
            reason: None,
            by: author(row),
        },
        (Edit::Limited(prefix, None), Edit::Limited(_, Some(row))) => What::LimitsRemoved {
            target: Target::Sources(*prefix).into(),
            by: Some(cause.by().unwrap_or_else(|| author(row))),
        },
        (Edit::Limits(target, None), _) if cause == Cause::Time => What::LimitsEnded {
            target: (*target).into(),
            starts_anew: anew.contains(target),
        },
        (Edit::Limits(target, None), _) => What::LimitsRemoved {
            target: (*target).into(),
            by: cause.by(),
        },
        (Edit::PassAll(Some(until)), _) => What::PassAllOn {
            until: expiry::reported(*until),
            by: cause.by().unwrap_or_default(),
        },
        (Edit::PassAll(None), _) => What::PassAllOff { by: cause.by() },
        (
            Edit::Ban(..)
            | Edit::Allow(..)
            | Edit::Limited(_, None)
            | Edit::Offence(..)
            | Edit::Config(_),
            _,
        ) => return None,
    })
}

fn ban_gone(prefix: Prefix, origin: &Origin, row: &EntryRow, cause: Cause<'_>) -> What {
    let ban = rows::ban(prefix, origin, row, EntryCounter::default());
    match cause.of_removed() {
        BanChange::Ended => What::BanEnded(ban),
        BanChange::Added | BanChange::Removed => What::BanRemoved {
            ban,
            by: cause.by(),
        },
    }
}

/// The author of a further limit: `detection (syn-flood)`, `connections`.
fn author(row: &LimitedRow) -> Arc<str> {
    match row.kind {
        Some(kind) => format!("{DETECTION} ({})", kind.label()).into(),
        None => "connections".into(),
    }
}

/// Counts added and removed bans by origin, given each edit with its reverse.
fn summaries<'e>(changed: impl Iterator<Item = (Edit, &'e Edit)>, cause: Cause<'_>) -> Vec<What> {
    let mut added: BTreeMap<Origin, (usize, Option<Arc<str>>)> = BTreeMap::new();
    let mut removed: BTreeMap<&Origin, usize> = BTreeMap::new();
    for (edit, before) in changed {
        if let Edit::Ban(_, origin, Some(row)) = edit {
            let (count, _) = added.entry(origin).or_insert_with(|| (0, Some(row.author)));
            *count += 1;
        } else if let Edit::Ban(_, origin, Some(_)) = before {
            *removed.entry(origin).or_default() += 1;
        }
    }
    let added = added.into_iter().map(|(origin, (count, by))| What::Bans {
        change: BanChange::Added,
        count,
        origin,
        by,
    });
    let removed = removed.into_iter().map(|(origin, count)| What::Bans {
        change: cause.of_removed(),
        count,
        origin: origin.clone(),
        by: cause.by(),
    });
    added.chain(removed).collect()
}
