//! Restores the intent from the database.

use ratelimit_core::{config::Config, intent::Intent};

use super::{
    Store,
    schema::{OTHERS, POLICIES},
};

impl Store {
    /// Returns the intent of a configuration with the rows of the database.
    pub fn restore(&self, config: Config) -> anyhow::Result<Intent> {
        let mut intent = self.restore_policies(config)?;
        intent.take_bans(self.bans()?);
        for edit in self.edits(&OTHERS)? {
            intent.edit(edit);
        }
        Ok(intent)
    }

    /// Returns only what policies depend on, without bans, allows and lists.
    pub fn restore_policies(&self, config: Config) -> anyhow::Result<Intent> {
        let mut intent = Intent::new(config);
        for edit in self.edits(&POLICIES)? {
            intent.edit(edit);
        }
        Ok(intent)
    }
}
