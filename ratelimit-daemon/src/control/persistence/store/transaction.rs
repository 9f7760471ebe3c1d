//! Transactions: all of a change is kept, or nothing.

use anyhow::Context;
use ratelimit_core::intent::Edit;

use super::{Store, Writer};
use crate::{clock, control::time::timekeeper::Reading};

impl Store {
    /// Runs `change` in a transaction: all of it is kept, or nothing.
    pub fn transaction(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.read.take();
        let answer = self.try_transaction(change);
        self.commits.note(&answer);
        answer
    }

    /// Writes rows as `edits` say: all of them, or none.
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

    /// Each transaction has a number. One that fails is taken back as it goes out of scope.
    fn try_transaction(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // Without the clock ends mean nothing.
        let first = (self.changes == 0).then(|| self.timekeeper.note(Reading::now()));
        let writing = "writing to the database";
        let transaction = self.connection.unchecked_transaction().context(writing)?;
        let writer = Writer {
            connection: &self.connection,
            timekeeper: &self.timekeeper,
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
        self.change_count.see(self.changes);
        self.flusher.shorten(self.changes);
        Ok(())
    }
}
