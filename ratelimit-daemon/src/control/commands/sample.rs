//! What sources have in use, from time to time, for the history.

use std::{sync::Arc, time::Duration};

use super::Command;
use crate::control::{controller::Controller, history::UsageSample};

/// Takes in what was found.
pub struct TakeSample(pub Option<UsageSample>);

impl Command for TakeSample {
    type Answer = Duration;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let state = &mut controller.state;
        let policies = Arc::clone(&state.compiled.policies);
        controller
            .history
            .take_sample(self.0, &policies, &mut state.store)
    }
}
