//! Transactions, and groups of changes that share one: each change of a group is made whole or not at all, and all of them
//! are kept by one commit.

use anyhow::{Context, ensure};
use ratelimit_core::intent::Edit;

use super::{Store, Writer};
use crate::clock;

/// Where a group stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Group {
    /// There is none: each change is a transaction.
    #[default]
    None,
    /// The first change begins the transaction.
    Empty,
    /// Its transaction has begun.
    Begun,
}

impl Store {
    /// Runs `change` in a transaction, or as one of the changes of a group: all of it is kept, or nothing.
    ///
    /// # Errors
    ///
    /// Those of `change`, and of the database.
    pub fn transaction<T>(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let answer = self.try_transaction(change);
        self.note(&answer);
        answer
    }

    fn try_transaction<T>(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.read.take();
        if self.group != Group::None {
            return self.change_in_group(change);
        }
        self.run("BEGIN")?;
        let answer = change(&self.writer());
        match answer.and_then(|answer| self.commit().map(|()| answer)) {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.roll_back();
                Err(error)
            }
        }
    }

    /// From here on changes are kept together, by [`end_group`](Self::end_group).
    pub fn begin_group(&mut self) {
        self.group = Group::Empty;
    }

    /// Keeps the changes since the group began.
    ///
    /// # Errors
    ///
    /// When the database refuses: then none of them is kept.
    pub fn end_group(&mut self) -> anyhow::Result<()> {
        let group = std::mem::take(&mut self.group);
        if group != Group::Begun {
            return Ok(());
        }
        let answer = self.require_group().and_then(|()| self.commit());
        if answer.is_err() {
            self.roll_back();
        }
        self.commits.note(&answer);
        answer
    }

    /// Writes rows as `edits` say: all of them, or none. Where it fails in a group, that is to be [abandoned](Self::abandon_group).
    pub fn write(&mut self, edits: impl Iterator<Item = Edit>) -> anyhow::Result<()> {
        let progress = self.progress.clone();
        let change = |writer: &Writer<'_>| {
            let mut edits = edits;
            edits.try_for_each(|edit| {
                writer.write(&edit)?;
                progress.advance(1);
                Ok(())
            })
        };
        if self.group == Group::None {
            return self.transaction(change);
        }
        self.read.take();
        let answer = self.join_group().and_then(|()| change(&self.writer()));
        self.note(&answer);
        answer
    }

    /// Takes back what a group has written so far. What comes after is no part of one.
    pub fn abandon_group(&mut self) {
        self.group = Group::None;
        self.roll_back();
    }

    fn join_group(&mut self) -> anyhow::Result<()> {
        if self.group == Group::Empty {
            self.run("BEGIN")?;
            self.group = Group::Begun;
        }
        self.require_group()
    }

    fn change_in_group<T>(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.join_group()?;
        self.run("SAVEPOINT one")?;
        let answer = change(&self.writer());
        if answer.is_err() {
            self.run("ROLLBACK TO one")?;
        }
        self.run("RELEASE one")?;
        answer
    }

    /// Where the disk is full, among others, `SQLite` rolls back more than the change that failed.
    fn require_group(&self) -> anyhow::Result<()> {
        ensure!(
            !self.connection.is_autocommit(),
            "the database has taken back the changes before"
        );
        Ok(())
    }

    /// Ends the transaction that has begun, with the number that it has.
    fn commit(&mut self) -> anyhow::Result<()> {
        self.writer().write_changes(self.changes + 1)?;
        let begun = clock::monotonic();
        self.run("COMMIT")?;
        self.commits.kept(begun);
        self.changes += 1;
        self.witness.see(self.changes);
        self.flusher.shorten(self.changes);
        Ok(())
    }

    fn note<T>(&mut self, answer: &anyhow::Result<T>) {
        self.patience.note(&self.connection, answer);
        self.commits.note(answer);
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.run("ROLLBACK")
        {
            let error = format!("{error:#}");
            tracing::error!(error, "a transaction that failed could not be taken back");
        }
    }

    fn run(&self, statement: &str) -> anyhow::Result<()> {
        self.writer()
            .run(statement, [])
            .with_context(|| format!("writing to the database ({statement})"))
    }

    const fn writer(&self) -> Writer<'_> {
        Writer {
            connection: &self.connection,
            timekeeper: &self.timekeeper,
        }
    }
}
