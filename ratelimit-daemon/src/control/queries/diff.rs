//! `rlctl reload --dry-run`.

use ratelimit_core::{
    api::{Refused, Reloaded},
    intent::Target,
};

use crate::control::{
    configuration::{candidate::Candidate, diff},
    controller::Controller,
    lists::configured,
};

/// Compares a configuration with the one in force. Refuses one that needs a restart.
pub fn diff(controller: &Controller, candidate: Candidate) -> Result<Reloaded, Refused> {
    let (config, lists) = (candidate.config, candidate.lists);
    let before = &controller.state.intent.config;
    diff::require_no_restart(before, &config)?;
    let state = &controller.state;
    let (scopes, clock) = state.scopes_and_clock_under(&config)?;
    let mut changes = diff::changes(before, &config);
    changes.extend(state.scopes(Target::Default).runtime_changes(&scopes));
    changes.extend(diff::clock_change(&state.clock(), &clock));
    let lists = configured::changes(&state.intent, state.protection.all(), &config, lists)?;
    changes.extend(lists.reported());
    let files = config.files.iter();
    let files = files.map(|file| file.display().to_string()).collect();
    Ok(Reloaded {
        files,
        changes,
        warnings: candidate.warnings,
    })
}
