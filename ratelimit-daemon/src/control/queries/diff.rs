//! `rlctl diff`: what a configuration would change.

use ratelimit_core::api::{Refused, Reloaded};

use crate::control::{candidate::Candidate, configured_lists, reload, state::State};

/// What is different between the configuration in force and another one.
///
/// # Errors
///
/// When the other one waits for a restart.
pub fn diff(state: &State, candidate: Candidate) -> Result<Reloaded, Refused> {
    let Candidate { config, lists, .. } = candidate;
    let before = &state.intent.config;
    reload::require_no_restart(before, &config)?;
    let mut changes = reload::changes(before, &config);
    changes.extend(configured_lists::changes(state, &config, lists).reported());
    let files = config.files.iter();
    let files = files.map(|file| file.display().to_string()).collect();
    Ok(Reloaded { files, changes })
}
