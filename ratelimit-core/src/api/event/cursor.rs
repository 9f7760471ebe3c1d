//! The position at which a follower of events continues.

use std::{fmt, num::ParseIntError, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Event;

/// A position in the journal, valid across restarts of the daemon, even if the last changes before
/// a crash were lost.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Cursor {
    /// Identifies the journal file; 0 if unknown.
    pub journal: u32,
    /// Identifies the run of the daemon; 0 if unknown.
    pub run: u64,
    /// Number of the first change in the run.
    pub first: u64,
    /// Number of the last change.
    pub change: u64,
    /// Number of the last sampled drop in the run.
    pub drop: u64,
}

/// The current end of the journal.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CursorNow {
    /// Position after the last event.
    pub cursor: Cursor,
}

/// Reports that a text is not a cursor.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not an event cursor")]
pub struct NoCursor(String);

impl Cursor {
    /// Returns whether `event` is at or before this position, in a journal that ends at `now`.
    pub fn has_seen(&self, event: &Event, now: &Self) -> bool {
        let is_drop = event.what.is_drop();
        let of_run = event.cursor.map_or(0, |cursor| cursor.run);
        if of_run == self.run && of_run != 0 {
            return event.number <= if is_drop { self.drop } else { self.change };
        }
        let is_of_journal = self.journal == now.journal || self.journal == 0;
        !is_drop && event.number < self.first && is_of_journal && !self.is_ahead_of(now)
    }

    /// Returns whether this is a plain number that changes have not reached, so that numbering
    /// restarted.
    const fn is_ahead_of(&self, now: &Self) -> bool {
        self.run == 0 && self.change > now.change
    }
}

impl From<u64> for Cursor {
    /// Returns the position after the change with this number.
    fn from(change: u64) -> Self {
        Self {
            first: change.saturating_add(1),
            change,
            ..Self::default()
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            journal,
            run,
            first,
            change,
            drop,
        } = self;
        if *run == 0 {
            return write!(formatter, "{change}");
        }
        write!(formatter, "{change}-{drop}-{first}-{run:x}-{journal:x}")
    }
}

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let error = || NoCursor(text.to_owned());
        let parts: Vec<&str> = text.split('-').collect();
        let read = || -> Result<Option<Self>, ParseIntError> {
            Ok(match parts[..] {
                [change] => Some(change.parse::<u64>()?.into()),
                [change, drop, first, run, journal] => Some(Self {
                    journal: u32::from_str_radix(journal, 16)?,
                    run: u64::from_str_radix(run, 16)?,
                    first: first.parse()?,
                    change: change.parse()?,
                    drop: drop.parse()?,
                }),
                _ => None,
            })
        };
        read().ok().flatten().ok_or_else(error)
    }
}

from_text!(Cursor);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::What;

    const SECOND_RUN: Cursor = Cursor {
        journal: 7,
        run: 0xb2,
        first: 81,
        change: 88,
        drop: 517,
    };

    #[test]
    fn a_cursor_reads_back_as_written() {
        for text in ["88-517-81-b2-7", "88"] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
        assert_eq!("88-517-81-b2-7".parse(), Ok(SECOND_RUN));
        for text in ["", "8-8", "88-517-81-x-7", "88-517-81-b2-7-1", "-1"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_cursor_has_seen_what_its_run_told_until_then_and_the_runs_before() {
        let now = Cursor {
            run: 0xc3,
            first: 85,
            change: 90,
            ..SECOND_RUN
        };
        let seen = |run, number| SECOND_RUN.has_seen(&change(run, number), &now);
        assert!(seen(0xa1, 80) && seen(0xb2, 81) && seen(0xb2, 88));
        assert!(!seen(0xb2, 89), "it came later");
        assert!(
            !seen(0xc3, 85),
            "the changes 85 to 88 were lost, and their numbers used again"
        );
        let anew = Cursor { journal: 8, ..now };
        assert!(!SECOND_RUN.has_seen(&change(0xa1, 80), &anew));
    }

    #[test]
    fn a_number_is_that_of_a_change() {
        let seen = |number, last| {
            let now = Cursor {
                change: last,
                ..SECOND_RUN
            };
            Cursor::from(5).has_seen(&change(0xb2, number), &now)
        };
        assert!(seen(5, 8) && !seen(6, 8));
        assert!(!seen(1, 4), "changes are counted from 1 again");
    }

    fn change(run: u64, number: u64) -> Event {
        Event {
            number,
            at: jiff::Timestamp::UNIX_EPOCH,
            cursor: Some(Cursor { run, ..SECOND_RUN }),
            what: What::Reloaded { changes: vec![] },
        }
    }
}
