//! Replaces the configuration in force, for `rlctl reload` and `rlctl apply`.

use ratelimit_core::{
    api::Refused,
    config::Config,
    intent::{Edit, Target},
};

use crate::{
    clock,
    control::{
        configuration::diff,
        controller::Controller,
        feeds::{
            propose,
            trials::{Next, Why},
        },
        lists::configured::{self, ConfiguredLists, ListChanges},
        state::{State, lockout},
    },
};

/// Puts the next configuration in force, and returns the differences, one per line. Attaches
/// detached programs again if `is_wanted_on`.
///
/// # Errors
///
/// If the previous configuration stays in force.
pub fn replace(
    controller: &mut Controller,
    next: Next,
    is_wanted_on: bool,
) -> Result<Vec<String>, Refused> {
    // Adopt bans made so far first: bans of a dry run do not outlive it.
    let _ = propose(&mut controller.feeds.policy_bans, &mut controller.state);
    let (before, clock) = (
        controller.state.intent.config.clone(),
        controller.state.clock(),
    );
    let scopes = controller.state.scopes(Target::Default);
    let Next { config, lists, why } = next;
    let is_trial = matches!(why, Why::Trial(_));
    let replaced = put_in_force(&mut controller.state, config, lists, &why);
    controller.feeds.trials.settle(why, replaced.is_ok());
    controller.follow_config();
    controller.follow_tables();
    let lists = replaced?;
    controller.about.reloads.applied = clock::wall();
    let mut changes = diff::changes(&before, &controller.state.intent.config);
    changes.extend(scopes.runtime_changes(&controller.state.scopes(Target::Default)));
    changes.extend(controller.interfaces.reattach(
        &mut controller.state,
        &before.interfaces,
        is_wanted_on,
    ));
    if before.metrics != controller.state.intent.config.metrics {
        controller.follow_metrics();
        changes.extend(
            controller
                .state
                .reports
                .troubles
                .of("metrics")
                .map(str::to_owned),
        );
    }
    let keys = controller.state.reports.troubles.of("keys");
    if before.keys != controller.state.intent.config.keys {
        changes.extend(keys.map(str::to_owned));
    }
    changes.extend(diff::clock_change(&clock, &controller.state.clock()));
    let config = &controller.state.intent.config;
    lists.note(&mut controller.feeds.list_files, config);
    changes.extend(lists.reported());
    // During a trial all needed addresses are protected, so it does not show whom a policy drops.
    if is_trial {
        changes.extend(lockout::warning(&controller.state));
    }
    Ok(changes)
}

/// Puts a configuration in force with its lists, and returns what changed in these.
fn put_in_force(
    state: &mut State,
    config: Config,
    lists: ConfiguredLists,
    why: &Why,
) -> Result<ListChanges, Refused> {
    diff::require_no_restart(&state.intent.config, &config)?;
    if matches!(why, Why::Trial(_)) {
        configured::require_none_imported(&state.intent, &config)?;
    }
    let mut changes = configured::changes(&state.intent, state.protection.all(), &config, lists)?;
    let mut edits = std::mem::take(&mut changes.edits);
    if matches!(why, Why::Reload { force: false, .. }) {
        lockout::require_reachable(state, &config, &edits)?;
    }
    edits.push(Edit::Config(Box::new(config)));
    state.apply(edits, why.cause())?;
    Ok(changes)
}
