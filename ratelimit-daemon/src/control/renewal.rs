//! Tables of another size, or of other sources, without a restart: they are made and filled while the programs that run keep the old
//! ones, and then each program is replaced through its link.

use ratelimit_core::{compile::HeldTable, config::Config, intent::Edit};
use tracing::error;

use super::{controller::Controller, kernel, state::State, survey::Survey};

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
    /// Puts a configuration in force on tables of its own.
    ///
    /// # Errors
    ///
    /// Why the one before stays in force.
    pub(super) fn replace_on_other_tables(
        &mut self,
        config: Config,
        lists: &[Edit],
    ) -> anyhow::Result<()> {
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
        if let Some(walks) = &self.walks {
            // Without that thread nobody looks at the tables.
            let _ = walks.blocking_send(Box::new(move |survey| *survey = Survey::new(tables)));
        }
        Ok(())
    }
}
