//! Looks at what sources have in use, from time to time, for the history.

use std::{sync::Arc, time::Duration};

use ratelimit_core::policies::Policies;

use super::Command;
use crate::control::{
    controller::Controller,
    handle::{Handle, Unanswered},
    history::Look,
};

/// Looks at what some sources have in use, beside the controller, and answers how long to wait before the next look.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn look_at_sources(controller: &Handle) -> Result<Duration, Unanswered> {
    let look = match controller.ask(policies_to_look_at).await? {
        Some(policies) => Some(controller.scan(|scanner| scanner.look(policies)).await?),
        None => None,
    };
    controller.call(EndLook(look)).await
}

/// The policies under which to look at sources; `None` while an attack is going on: its sources are not those that limits are for.
pub fn policies_to_look_at(controller: &Controller) -> Option<Arc<Policies>> {
    let is_quiet = controller.attacks.is_quiet();
    is_quiet.then(|| Arc::clone(&controller.state.compiled.policies))
}

/// Takes in what was found.
pub struct EndLook(pub Option<Look>);

impl Command for EndLook {
    type Answer = Duration;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let state = &mut controller.state;
        let policies = Arc::clone(&state.compiled.policies);
        controller
            .history
            .end_look(self.0, &policies, &mut state.store)
    }
}
