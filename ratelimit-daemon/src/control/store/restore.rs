//! What is intended, as the database has it.

use std::sync::Arc;

use ratelimit_core::{
    config::Config,
    intent::{Edit, Intent},
};

use super::Store;

impl Store {
    /// The intent of a configuration, with what the database has.
    pub fn restore(&self, config: Config) -> anyhow::Result<Intent> {
        let mut intent = self.restore_policies(config)?;
        intent.take_bans(self.bans()?);
        for (prefix, row) in self.allows()? {
            intent.edit(Edit::Allow(prefix, Some(row)));
        }
        for (name, list) in self.lists()? {
            intent.edit(Edit::List(name, Some(Arc::new(list)), [].into()));
        }
        for (source, offence) in self.offences()? {
            intent.edit(Edit::Offence(source, Some(offence)));
        }
        Ok(intent)
    }

    /// The same of policies alone, with neither bans nor allows nor lists.
    pub fn restore_policies(&self, config: Config) -> anyhow::Result<Intent> {
        let mut intent = Intent::new(config);
        for (target, row) in self.limits()? {
            intent.edit(Edit::Limits(target, Some(row)));
        }
        for (prefix, row) in self.limited()? {
            intent.edit(Edit::Limited(prefix, Some(row)));
        }
        Ok(intent)
    }
}
