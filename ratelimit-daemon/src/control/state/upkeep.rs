//! Upkeep between changes: clocks, the database, and events on disk.

use ratelimit_core::{
    folding,
    intent::{Edit, Target},
};
use tracing::{error, info, warn};

use super::{State, edit_events::record_edits};
use crate::{
    clock,
    control::{
        reports::{cause::Cause, troubles::DATABASE},
        time::ban_clock::Reading,
    },
};

impl State {
    /// Reads the clocks.
    pub fn read_clocks(&mut self) {
        if let Err(error) = self.keep_time(Reading::now()) {
            warn!(
                error = format!("{error:#}"),
                "cannot adjust the expiry of bans, allows and limits to the clock"
            );
        }
    }

    /// Processes the readings of the clocks. After a suspend, ends are at other points on the
    /// kernel's clock.
    pub(in crate::control) fn keep_time(&mut self, now: Reading) -> anyhow::Result<()> {
        let Some(moved) = self.kept.store.keep_time(now) else {
            return Ok(());
        };
        self.intent.move_ends(|until| moved.end(until));
        self.compile_all()?;
        let different = self.enforce_all()?;
        info!(
            different,
            "adjusted the expiry of bans, allows and limits for the time the machine was asleep or \
             off"
        );
        Ok(())
    }

    /// Writes pending changes, and releases unused counters.
    pub fn catch_up(&mut self) {
        self.tend_database();
        self.entry_counters.free(self.enforcer.datapath());
        self.write_unwritten();
        self.keep_journal();
        self.noted.filling.watch(&self.enforcer);
        self.kept.store.flush();
    }

    /// Restores a deleted database, and reports that until it exists.
    fn tend_database(&mut self) {
        let trouble = match self.kept.store.keep_in_place() {
            Ok(false) => None,
            Ok(true) => Some("the fallback directory was removed; creating it again".to_owned()),
            Err(error) => Some(format!(
                "the fallback directory was removed; changes will be lost when ratelimitd stops: \
                 {error:#}"
            )),
        };
        self.report(DATABASE, trouble);
    }

    /// Tries a last time to write changes that are not in the database.
    pub fn write_last(&mut self) {
        self.kept.unwritten.try_at_once();
        self.write_unwritten();
        self.kept.list_copies.finish();
        if let Some(unwritten) = self.kept.unwritten.behind() {
            error!(
                unwritten,
                "changes were never saved and will be lost at the next start"
            );
        }
    }

    /// Writes changes that are not in the database, if possible.
    pub fn write_unwritten(&mut self) {
        self.kept
            .unwritten
            .catch_up(&self.intent, &mut self.kept.store);
    }

    /// Saves events for a restart.
    pub fn keep_journal(&mut self) {
        self.reports.keep();
    }

    /// Removes and reports what expired while no daemon was running, and folds that the
    /// configuration has no longer, before anything is compiled.
    pub(super) fn drop_ended(&mut self) {
        let mut edits = self.intent.ended(clock::now());
        edits.extend(folding::retired(&self.intent));
        let targets = edits.iter().filter_map(Edit::ended_limits);
        let targets: Vec<Target> = targets.collect();
        // If the policies cannot be compiled, the start reports it.
        let scopes = |state: &Self, target| {
            let (intent, enforcer) = (&state.intent, &state.enforcer);
            state.compiled.scopes_of(intent, enforcer, target).ok()
        };
        let before: Vec<_> = targets.iter().map(|it| scopes(self, *it)).collect();
        self.intent.edit_all(&mut edits);
        self.kept
            .unwritten
            .write(&edits, &self.intent, &mut self.kept.store);
        let anew = targets.into_iter().zip(before).filter(|(target, before)| {
            let both = before.as_ref().zip(scopes(self, *target));
            both.is_some_and(|(before, after)| before.start_anew_as(&after))
        });
        let anew = anew.map(|(target, _)| target).collect();
        record_edits(
            &self.intent,
            &mut self.reports.journal,
            &edits,
            Cause::Time,
            &anew,
        );
    }
}
