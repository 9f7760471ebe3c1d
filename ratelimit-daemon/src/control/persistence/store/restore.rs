//! What is intended, as the database has it.

use ratelimit_core::{config::Config, intent::Intent};

use super::{
    Store,
    schema::{OTHERS, POLICIES},
};

impl Store {
    /// The intent of a configuration, with what the database has.
    pub fn restore(&self, config: Config) -> anyhow::Result<Intent> {
        let mut intent = self.restore_policies(config)?;
        intent.take_bans(self.bans()?);
        for edit in self.edits(&OTHERS)? {
            intent.edit(edit);
        }
        Ok(intent)
    }

    /// The same of policies alone, with neither bans nor allows nor lists.
    pub fn restore_policies(&self, config: Config) -> anyhow::Result<Intent> {
        let mut intent = Intent::new(config);
        for edit in self.edits(&POLICIES)? {
            intent.edit(edit);
        }
        Ok(intent)
    }
}
