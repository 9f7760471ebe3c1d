//! Another configuration in the place of the one in force, for `rlctl reload` and `rlctl apply`.

use ratelimit_core::{
    api::{ClockStatus, Refused},
    intent::Target,
};

use crate::{
    clock,
    control::{config_diff, controller::Controller},
};

/// Puts the configuration in force that is next, and answers what is different, a line each. Where everything was taken off, it is put on
/// again if that `is_wanted_on`.
///
/// # Errors
///
/// Why the one before stays in force.
pub fn replace(controller: &mut Controller, is_wanted_on: bool) -> Result<Vec<String>, Refused> {
    // What was banned in a dry run is not kept when that ends.
    let _ = controller.state.take(&mut controller.detections);
    let (before, clock) = (
        controller.state.intent.config.clone(),
        controller.state.clock(),
    );
    let scopes = controller.state.scopes(Target::Default);
    let replaced = controller.state.take(&mut controller.trials);
    controller.follow_config();
    controller.follow_tables();
    replaced?;
    controller.reloads.applied = clock::wall();
    let mut changes = config_diff::changes(&before, &controller.state.intent.config);
    changes.extend(scopes.runtime_changes(&controller.state.scopes(Target::Default)));
    changes.extend(controller.interfaces.reattach(
        &mut controller.state,
        &before.interfaces,
        is_wanted_on,
    ));
    if before.metrics != controller.state.intent.config.metrics {
        controller.follow_metrics();
        changes.extend(controller.troubles.of("metrics").map(str::to_owned));
    }
    let is_other = |after: &ClockStatus| (after.clock, after.wish) != (clock.clock, clock.wish);
    let after = Some(controller.state.clock()).filter(is_other);
    changes.extend(after.map(|after| after.to_string()));
    changes.extend(note_lists(controller));
    Ok(changes)
}

/// Takes notice of lists that were put in force, and answers what is different, a line each.
fn note_lists(controller: &mut Controller) -> Vec<String> {
    let changes = controller.trials.changes();
    controller
        .list_files
        .retain(&controller.state.intent.config.lists);
    for (name, read) in &changes.read {
        controller.list_files.succeeded(name, read.fetched);
    }
    changes.log();
    changes.reported()
}
