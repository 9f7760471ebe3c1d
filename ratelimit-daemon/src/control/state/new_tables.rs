//! Tables of other sizes: for another capacity or store, or for longer and shorter records.

use ratelimit_core::{compile::ExistingTable, config::Interface, intent::Edit};
use tracing::warn;

use super::State;
use crate::{control::enforcement::map_plan, loader::Sizes};

impl State {
    /// Returns whether another configuration needs other tables.
    pub(super) fn needs_other_tables(&self, edit: &Edit) -> bool {
        let Edit::Config(config) = edit else {
            return false;
        };
        let times = ratelimit_core::intent::log_times(config);
        !config.source.has_tables_of(&self.intent.config.source)
            || times > self.enforcer.datapath().sources.log_size().times
    }

    /// Returns whether a policy has more limits than a record has words.
    pub(super) fn needs_longer_records(&self) -> bool {
        let datapath = self.enforcer.datapath();
        datapath.sources.table_sets().is_none()
            && self.intent.record_words() > datapath.sources.record_words()
    }

    /// Creates tables for the configuration, after adding its features to the running programs:
    /// they share some of the tables, and cannot be replaced before the new ones are filled.
    pub(super) fn renew_beside_programs(&mut self) -> anyhow::Result<()> {
        let features = self.compiled.features_of(&self.intent, &self.enforcer)?;
        self.enforcer.widen(features)?;
        self.renew_tables()
    }

    /// Creates tables for the configuration. Running programs keep the old ones until these are
    /// filled.
    pub(super) fn renew_tables(&mut self) -> anyhow::Result<()> {
        let mut sizes = self.wanted_sizes()?;
        // Records shrink only at a start, because the database does not have the current change
        // yet.
        let datapath = self.enforcer.datapath();
        let (words, logs) = (datapath.sources.record_words(), datapath.sources.log_size());
        sizes.words = words.max(sizes.words).max(self.intent.record_words());
        // Longer records need another program before the rules change, and it needs their logs.
        if sizes.words > words && logs.times > sizes.logs.times {
            sizes.logs = logs;
        }
        self.renew_as(sizes)
    }

    /// Shrinks records and logs to what the policies need. Running programs keep the longer ones
    /// until they are replaced.
    pub(in crate::control) fn shorten_records(&mut self) -> anyhow::Result<()> {
        let datapath = self.enforcer.datapath();
        let (words, logs) = (datapath.sources.record_words(), datapath.sources.log_size());
        let sets = datapath.sources.table_sets();
        // A table of another size would start empty.
        let sizes = Sizes {
            sets,
            ..self.wanted_sizes()?
        };
        if (sizes.words, sizes.logs) == (words, logs) {
            return Ok(());
        }
        self.renew_as(sizes)
    }

    fn wanted_sizes(&self) -> anyhow::Result<Sizes> {
        let held = self.enforcer.held();
        let mut policies = held.policies.clone();
        policies.extend(&held.retired);
        let datapath = self.enforcer.datapath();
        let sets = datapath.sources.table_sets();
        let held = sets.map(|sets| ExistingTable { sets, policies });
        let logs = Some(datapath.sources.log_size());
        map_plan::sizes(&self.intent.config, &self.kept.store, held.as_ref(), logs)
    }

    fn renew_as(&mut self, sizes: Sizes) -> anyhow::Result<()> {
        let plan = map_plan::plan(&self.intent.config, sizes)?;
        self.noted.renewals += 1;
        self.enforcer.datapath_mut().renew(&plan)?;
        Ok(self.enforcer.reread()?)
    }

    /// Gives the programs on these interfaces longer records before a policy needs them. New tables
    /// must be filled first.
    pub(in crate::control) fn lengthen(&mut self, interfaces: &[Interface]) -> anyhow::Result<()> {
        if self.enforcer.len() == 0 && self.enforcer.held().policies.is_empty() {
            return Ok(());
        }
        self.enforcer.datapath_mut().lengthen(interfaces)
    }

    /// Moves limits that replaced others to regions of full size, with their usage, once the others
    /// are gone.
    pub(super) fn enlarge_regions(&mut self) {
        if !self.compiled.has_small_regions() {
            return;
        }
        if let Err(error) = self.compile_all().and_then(|()| self.enforce_all()) {
            warn!(
                error = format!("{error:#}"),
                "the state table of new limits is smaller than needed"
            );
        }
    }
}
