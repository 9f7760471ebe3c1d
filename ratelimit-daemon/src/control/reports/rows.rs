//! Rows of the intent in reports.

use std::sync::Arc;

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Allow, Ban, EntryCounter, Origin, RuntimeEntry},
    intent::EntryRow,
    prefix::Prefix,
};

use crate::{clock, control::time::expiry};

/// Describes a row that was set just now.
pub fn entry(
    until: Instant,
    reason: Option<impl Into<Arc<str>>>,
    author: impl Into<Arc<str>>,
) -> EntryRow {
    EntryRow {
        until,
        since: clock::wall(),
        reason: reason.map(Into::into),
        author: author.into(),
    }
}

/// Describes a ban.
pub fn ban(prefix: Prefix, origin: &Origin, row: &EntryRow, counter: EntryCounter) -> Ban {
    Ban {
        prefix,
        until: expiry::reported(row.until),
        since: row.since,
        reason: row.reason.clone(),
        author: row.author.clone(),
        origin: origin.clone(),
        folded: None,
        counter,
    }
}

/// Describes a runtime allow.
pub fn allow(prefix: Prefix, row: &EntryRow, counter: EntryCounter) -> Allow {
    Allow {
        prefix,
        until: expiry::reported(row.until),
        since: Some(row.since),
        reason: row.reason.clone(),
        author: Some(row.author.clone()),
        origin: Origin::of_author(&row.author),
        counter,
    }
}

/// Describes runtime limits.
pub fn runtime(row: &EntryRow) -> RuntimeEntry {
    RuntimeEntry {
        until: expiry::reported(row.until),
        since: row.since,
        reason: row.reason.clone(),
        author: row.author.clone(),
    }
}
