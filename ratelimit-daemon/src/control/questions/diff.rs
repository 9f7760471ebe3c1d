//! `rlctl diff`.

use ratelimit_core::api::{Refused, Reloaded};

use crate::control::{
    candidate::Candidate, configured_lists, controller::Controller, question::Question, reload,
};

/// What is different between the configuration in force and another one. Refused is one that waits for a restart.
pub struct Diff(pub Candidate);

impl Question for Diff {
    type Answer = Result<Reloaded, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        let Candidate {
            config,
            lists,
            warnings,
            ..
        } = self.0;
        let before = &controller.state.intent.config;
        reload::require_no_restart(before, &config)?;
        let mut changes = reload::changes(before, &config);
        changes.extend(configured_lists::changes(&controller.state, &config, lists).reported());
        let files = config.files.iter();
        let files = files.map(|file| file.display().to_string()).collect();
        Ok(Reloaded {
            files,
            changes,
            warnings,
        })
    }
}
