//! Rows of what is intended, as they are reported.

use ratelimit_core::{
    api::{Allow, Ban, EntryCounter, Origin, RuntimeEntry},
    intent::{AllowRow, BanRow, LimitRow},
    prefix::Prefix,
};

use super::lifetime;

/// A ban as it is reported.
pub fn ban(prefix: Prefix, origin: &Origin, row: &BanRow, counter: EntryCounter) -> Ban {
    Ban {
        prefix,
        until: lifetime::reported(row.until),
        since: row.since,
        reason: row.reason.clone(),
        author: row.author.clone(),
        origin: origin.clone(),
        counter,
    }
}

/// A runtime allow, as it is reported.
pub fn allow(prefix: Prefix, row: &AllowRow, counter: EntryCounter) -> Allow {
    Allow {
        prefix,
        until: lifetime::reported(row.until),
        since: Some(row.since),
        reason: row.reason.clone(),
        author: Some(row.author.clone()),
        origin: Origin::of_author(&row.author),
        counter,
    }
}

/// What is reported of runtime limits.
pub fn runtime(row: &LimitRow) -> RuntimeEntry {
    RuntimeEntry {
        until: lifetime::reported(row.until),
        since: row.since,
        reason: row.reason.clone(),
        author: row.author.clone(),
    }
}
