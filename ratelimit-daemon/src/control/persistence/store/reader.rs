//! What is read of rows. Those of all tables but that of bans are read as the edits that they are.

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
use crate::control::time::timekeeper::Timekeeper;

/// What the key of a destination begins with. That of a prefix of sources begins with its family, 4 or 6.
pub(super) const DESTINATION: u8 = 1;

/// What rows are read with.
pub struct Reader<'a> {
    pub(super) connection: &'a Connection,
    pub(super) timekeeper: &'a Timekeeper,
    texts: Texts,
}

impl<'a> Reader<'a> {
    /// Has the ends be those of this clock.
    pub fn of(connection: &'a Connection, timekeeper: &'a Timekeeper) -> Self {
        Self {
            connection,
            timekeeper,
            texts: Texts::default(),
        }
    }

    /// A row of `ban`.
    pub fn ban(&mut self, row: &Row<'_>) -> anyhow::Result<(Prefix, Origin, EntryRow)> {
        let ban = self.entry(row, 2)?;
        Ok((prefix(row, 0)?, row.get_ref(1)?.as_str()?.parse()?, ban))
    }

    /// What stands of an entry from a column on.
    fn entry(&mut self, row: &Row<'_>, column: usize) -> anyhow::Result<EntryRow> {
        let reason = row.get_ref(column + 2)?.as_str_or_null()?;
        let until: Option<i64> = row.get(column)?;
        Ok(EntryRow {
            until: until.map_or(FOREVER, |until| self.timekeeper.instant(until)),
            since: time(row, column + 1)?,
            reason: reason.map(|reason| self.texts.keep(reason)),
            author: self.texts.keep(row.get_ref(column + 3)?.as_str()?),
        })
    }
}

/// A row of `allow`.
pub fn read_allow(reader: &mut Reader<'_>, row: &Row<'_>) -> anyhow::Result<Edit> {
    Ok(Edit::Allow(prefix(row, 0)?, Some(reader.entry(row, 1)?)))
}

/// Runtime limits in their column.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub enum Limits {
    /// They hold alone.
    Only(Vec<LimitSpec>),
    /// They hold beside the other limits of the policy around them.
    Beside {
        /// The limits.
        beside: Vec<LimitSpec>,
    },
}

impl Limits {
    /// The text of a row.
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

/// A row of `limits`.
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
    Prefix::from_bytes(bytes).with_context(|| format!("{bytes:?} are no prefix"))
}

pub fn time(row: &Row<'_>, column: usize) -> anyhow::Result<Timestamp> {
    let nanos: i64 = row.get(column)?;
    Ok(Timestamp::from_nanosecond(nanos.into())?)
}
