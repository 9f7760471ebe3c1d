//! Reads rows. Rows of all tables other than bans are read as edits.

use anyhow::Context;
use jiff::Timestamp;
use ratelimit_core::{
    intent::{Edit, EntryRow, FOREVER, LimitRow, Target},
    limit::LimitSpec,
    origin::Origin,
    prefix::Prefix,
};
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use super::text::Texts;
use crate::control::time::ban_clock::BanClock;

/// The first byte of a destination's key. The key of a prefix of sources begins with its family, 4
/// or 6.
pub(super) const DESTINATION: u8 = 1;

pub struct Reader<'a> {
    pub(super) connection: &'a Connection,
    pub(super) ban_clock: &'a BanClock,
    texts: Texts,
}

impl<'a> Reader<'a> {
    /// Returns a reader that converts ends with this clock.
    pub fn of(connection: &'a Connection, ban_clock: &'a BanClock) -> Self {
        Self {
            connection,
            ban_clock,
            texts: Texts::default(),
        }
    }

    /// Reads a row of `ban`.
    pub fn ban(&mut self, row: &Row<'_>) -> anyhow::Result<(Prefix, Origin, EntryRow)> {
        let ban = self.entry(row, 2)?;
        Ok((prefix(row, 0)?, row.get_ref(1)?.as_str()?.parse()?, ban))
    }

    /// Reads the values of an entry, starting at a column.
    fn entry(&mut self, row: &Row<'_>, column: usize) -> anyhow::Result<EntryRow> {
        let reason = row.get_ref(column + 2)?.as_str_or_null()?;
        let until: Option<i64> = row.get(column)?;
        Ok(EntryRow {
            until: until.map_or(FOREVER, |until| self.ban_clock.instant(until)),
            since: time(row, column + 1)?,
            reason: reason.map(|reason| self.texts.keep(reason)),
            author: self.texts.keep(row.get_ref(column + 3)?.as_str()?),
        })
    }
}

/// Reads a row of `allow`.
pub fn read_allow(reader: &mut Reader<'_>, row: &Row<'_>) -> anyhow::Result<Edit> {
    Ok(Edit::Allow(prefix(row, 0)?, Some(reader.entry(row, 1)?)))
}

/// Runtime limits in their column.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub enum Limits {
    /// They replace all limits.
    Only(Vec<LimitSpec>),
    /// They are added to the limits of the surrounding policy.
    Beside { beside: Vec<LimitSpec> },
}

impl Limits {
    /// Formats a row.
    pub fn text(row: &LimitRow) -> serde_json::Result<String> {
        let limits = row.limits.clone();
        serde_json::to_string(&if row.only {
            Self::Only(limits)
        } else {
            Self::Beside { beside: limits }
        })
    }

    fn into_parts(self) -> (Vec<LimitSpec>, bool) {
        match self {
            Self::Only(limits) => (limits, true),
            Self::Beside { beside } => (beside, false),
        }
    }
}

/// Reads a row of `limits`.
pub fn read_limits(reader: &mut Reader<'_>, row: &Row<'_>) -> anyhow::Result<Edit> {
    let (limits, only) = serde_json::from_str::<Limits>(row.get_ref(1)?.as_str()?)?.into_parts();
    let limits = LimitRow {
        limits,
        observe: row.get(2)?,
        only,
        entry: reader.entry(row, 3)?,
    };
    Ok(Edit::Limits(target(row)?, Some(limits)))
}

fn target(row: &Row<'_>) -> anyhow::Result<Target> {
    Ok(match row.get_ref(0)?.as_blob()? {
        [] => Target::Default,
        [DESTINATION, bytes @ ..] => Target::Destination(prefix_of(bytes)?),
        bytes => Target::Sources(prefix_of(bytes)?),
    })
}

pub fn prefix(row: &Row<'_>, column: usize) -> anyhow::Result<Prefix> {
    prefix_of(row.get_ref(column)?.as_blob()?)
}

fn prefix_of(bytes: &[u8]) -> anyhow::Result<Prefix> {
    Prefix::from_bytes(bytes).with_context(|| format!("{bytes:?} are not a prefix"))
}

pub fn time(row: &Row<'_>, column: usize) -> anyhow::Result<Timestamp> {
    let nanos: i64 = row.get(column)?;
    Ok(Timestamp::from_nanosecond(nanos.into())?)
}
