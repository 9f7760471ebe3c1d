//! `rlctl reload --dry-run`.

use ratelimit_core::{
    api::{Refused, Reloaded},
    config::Config,
    intent::Target,
};

use crate::control::{
    configuration::{candidate::Candidate, diff},
    controller::{Controller, command::Command},
    lists::configured,
    state::{State, lockout},
};

/// Compares a configuration with the one in force.
pub struct Diff {
    /// The configuration, already read.
    pub candidate: Result<Candidate, Refused>,
    /// Whether a reload would read it, and not a trial.
    pub is_reload: bool,
}

impl Command for Diff {
    type Answer = Result<Reloaded, Refused>;

    /// Refuses what the reload would refuse.
    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self {
            candidate,
            is_reload,
        } = self;
        let Candidate {
            config,
            lists,
            mut warnings,
            ..
        } = candidate?;
        let state = &mut controller.state;
        diff::require_no_restart(&state.intent.config, &config)?;
        let (scopes, clock) = state.scopes_and_clock_under(&config)?;
        let mut changes = diff::changes(&state.intent.config, &config);
        changes.extend(state.scopes(Target::Default).runtime_changes(&scopes));
        changes.extend(diff::clock_change(&state.clock(), &clock));
        let lists = configured::changes(&state.intent, state.protection.all(), &config, lists)?;
        match lockout::require_reachable(state, &config, &lists.edits) {
            Err(refused) if is_reload => return Err(refused),
            // A trial drops no protected address.
            Err(refused) => warnings.push(refused.error),
            Ok(()) => {}
        }
        changes.extend(lists.reported());
        warnings.extend(missing_interfaces(state, &config));
        let files = config.files.iter();
        let files = files.map(|file| file.display().to_string()).collect();
        Ok(Reloaded {
            files,
            changes,
            warnings,
        })
    }
}

/// Returns a warning for each interface that would be new, and does not exist.
fn missing_interfaces(state: &mut State, config: &Config) -> Vec<String> {
    let before = state.intent.config.interfaces.iter();
    let before: Vec<String> = before.map(|it| it.name.clone()).collect();
    let names = config.interfaces.iter().map(|it| &it.name);
    let new = names.filter(|name| !before.contains(name));
    let programs = state.enforcer.attachments();
    new.filter(|name| programs.look(name).is_ok_and(|sight| sight.there.is_none()))
        .map(|name| format!("interface {name}: there is no such interface"))
        .collect()
}
