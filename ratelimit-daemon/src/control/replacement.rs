//! Another configuration in the place of the one in force.
//!
//! Tables of another size, or of other sources, need no restart. They are made and filled while the programs that run keep the old
//! ones, and then each program is replaced through its link.

use ratelimit_core::{
    api::{ClockStatus, Refused},
    compile::HeldTable,
    config::Config,
    intent::Edit,
};
use tracing::error;

use super::{
    configured_lists::{ConfiguredLists, ListChanges},
    controller::Controller,
    kernel,
    lists::told,
    reload,
    scanner::Scanner,
    state::State,
};

impl State {
    /// Whether the tables that there are do not do for a configuration.
    pub(super) fn needs_other_tables(&self, config: &Config) -> bool {
        let times = ratelimit_core::intent::log_times(config);
        config.source != self.intent.config.source
            || times > self.enforcer.datapath().log_size().times
    }

    fn refill(&mut self) -> anyhow::Result<()> {
        self.compile_all()?;
        self.enforce_all().map(drop)
    }
}

impl Controller {
    /// Puts another configuration in force with these lists, unless it waits for a restart, and answers what is different. Other lists
    /// that it names stay as they are.
    pub(super) fn replace_with(
        &mut self,
        config: Config,
        lists: ConfiguredLists,
    ) -> Result<Vec<String>, Refused> {
        if let Some(part) = reload::needs_restart(&self.state.intent.config, &config) {
            return Err(Refused::because(format!(
                "{part} is different, which takes effect at a restart only"
            ))
            .hint("restart ratelimitd: limits and bans go on being enforced meanwhile"));
        }
        // What was banned in a dry run is not kept when that ends.
        self.take_missed();
        let clock = self.state.clock();
        let mut changes = reload::changes(&self.state.intent.config, &config);
        let before = self.state.intent.config.clone();
        let scopes = self.state.scopes(None);
        let lists = self.state.list_changes(&config, lists);
        if self.state.needs_other_tables(&config) {
            self.replace_on_other_tables(config, &lists.edits)?;
        } else {
            self.replace_config(config, &lists.edits)?;
        }
        changes.extend(scopes.runtime_changes(&self.state.scopes(None)));
        changes.extend(self.reattach(&before.interfaces));
        if before.metrics != self.state.intent.config.metrics {
            self.open_metrics();
            changes.extend(self.troubles().of("metrics").map(str::to_owned));
        }
        let is_other = |after: &ClockStatus| (after.clock, after.wish) != (clock.clock, clock.wish);
        changes.extend(
            Some(self.state.clock())
                .filter(is_other)
                .map(|after| after.to_string()),
        );
        changes.extend(self.note_lists(lists));
        Ok(changes)
    }

    /// Puts another configuration in force with the lists that it names, or leaves everything as it was.
    pub(super) fn replace_config(&mut self, config: Config, lists: &[Edit]) -> anyhow::Result<()> {
        let on_trial = self.trials.require_none_pending().is_err();
        let answer = self.state.replace_config(config, lists, on_trial);
        self.crowdsec
            .wish(self.state.intent.config.crowdsec.as_ref());
        self.cluster.wish(self.state.intent.config.cluster.as_ref());
        answer
    }

    /// Puts a configuration in force on tables of its own.
    ///
    /// # Errors
    ///
    /// Why the one before stays in force.
    fn replace_on_other_tables(&mut self, config: Config, lists: &[Edit]) -> anyhow::Result<()> {
        let before = self.state.intent.config.clone();
        let replaced = self
            .renew_tables(&config)
            .and_then(|()| self.replace_config(config, lists));
        if replaced.is_err()
            && let Err(error) = self
                .renew_tables(&before)
                .and_then(|()| self.state.refill())
        {
            let error = format!("{error:#}");
            error!(error, "the tables from before could not be made again");
        }
        self.attach_wanted(true);
        replaced
    }

    fn renew_tables(&mut self, config: &Config) -> anyhow::Result<()> {
        let mut policies = self.state.enforcer.held().policies.clone();
        policies.extend(&self.state.enforcer.held().retired);
        let sets = self.state.enforcer.datapath().table_sets();
        let logs = self.state.enforcer.datapath().log_size();
        let held = sets.map(|sets| HeldTable { sets, policies });
        let sizes = kernel::sizes(config, &self.state.store, held.as_ref(), Some(logs))?;
        let plan = kernel::plan(config, sizes)?;
        self.state.enforcer.datapath_mut().renew(&plan)?;
        self.state.enforcer.reread()?;
        let tables = self.state.enforcer.datapath().sources();
        if let Some(scans) = &self.scans {
            // Without that thread nobody looks at the tables.
            let _ = scans.blocking_send(Box::new(move |scanner| *scanner = Scanner::new(tables)));
        }
        Ok(())
    }

    /// Takes notice of lists that were put in force, and answers what is different, a line each.
    fn note_lists(&mut self, changes: ListChanges) -> Vec<String> {
        self.list_files.retain(&self.state.intent.config.lists);
        let gone = changes.gone.into_iter();
        let mut lines: Vec<String> = gone
            .map(|(name, removed)| format!("list {name}: removed, with {removed} entries"))
            .collect();
        for (name, bad, difference) in changes.read {
            self.list_files.succeeded(&name);
            lines.extend(told(&name, bad, &difference));
        }
        lines
    }
}
