//! `rlctl diff`.

use ratelimit_core::api::{Refused, Reloaded};

use crate::control::{
    candidate::Candidate, config_diff, controller::Controller, lists::configured,
};

/// What is different between the configuration in force and another one. Refused is one that waits for a restart.
pub fn diff(controller: &Controller, candidate: Candidate) -> Result<Reloaded, Refused> {
    let (config, lists) = (candidate.config, candidate.lists);
    let before = &controller.state.intent.config;
    config_diff::require_no_restart(before, &config)?;
    let mut changes = config_diff::changes(before, &config);
    changes.extend(configured::changes(&controller.state, &config, lists)?.reported());
    let files = config.files.iter();
    let files = files.map(|file| file.display().to_string()).collect();
    Ok(Reloaded {
        files,
        changes,
        warnings: candidate.warnings,
    })
}
