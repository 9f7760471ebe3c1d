//! Transactions: a change is stored completely, or not at all.

use anyhow::Context;
use ratelimit_core::intent::Edit;

use super::{Store, Writer, change_count::Seen};
use crate::{clock, control::time::ban_clock::Reading};

impl Store {
    /// Runs `change` in a transaction.
    pub fn transaction(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.read.take();
        let answer = self.try_transaction(change);
        self.commits.note(&answer);
        answer
    }

    /// Writes the rows of `edits`: all of them, or none.
    pub fn write(&mut self, mut edits: impl Iterator<Item = Edit>) -> anyhow::Result<()> {
        let progress = self.progress.clone();
        self.transaction(|writer| {
            edits.try_for_each(|edit| {
                writer.write(&edit)?;
                progress.advance(1);
                Ok(())
            })
        })
    }

    /// Runs a numbered transaction. If it fails, it is rolled back when it goes out of scope.
    fn try_transaction(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // Without the clock, ends have no meaning.
        let first = (self.changes == 0).then(|| self.ban_clock.note(Reading::now()));
        let writing = "writing to the database";
        let transaction = self.connection.unchecked_transaction().context(writing)?;
        let writer = Writer {
            connection: &self.connection,
            ban_clock: &self.ban_clock,
        };
        change(&writer)?;
        if let Some(note) = &first {
            writer.write_clock(note)?;
        }
        writer.write_changes(self.changes + 1)?;
        let begun = clock::monotonic();
        transaction.commit().context(writing)?;
        self.commits.kept(begun);
        self.changes += 1;
        self.change_count.see(Seen {
            changes: self.changes,
            synced: self.flusher.synced(),
            boot: self.boot,
        });
        self.flusher.shorten(self.changes);
        Ok(())
    }
}
