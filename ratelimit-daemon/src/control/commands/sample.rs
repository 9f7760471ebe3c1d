//! What sources have in use, from time to time, for the history.

use std::{sync::Arc, time::Duration};

use ratelimit_core::policies::Policies;

use super::Command;
use crate::control::{
    controller::{
        Controller,
        handle::{Handle, Unanswered},
    },
    sources::history::UsageSample,
};

/// Samples what some sources have in use, beside the controller, and answers how long to wait before the next sample.
pub async fn sample_sources(controller: &Handle) -> Result<Duration, Unanswered> {
    let sample = match controller.ask(policies_to_sample).await? {
        Some(policies) => Some(controller.scan(|scanner| scanner.sample(policies)).await?),
        None => None,
    };
    controller.call(TakeSample(sample)).await
}

/// The policies under which to sample sources; none during an attack, whose sources are not those that limits are for.
pub fn policies_to_sample(controller: &Controller) -> Option<Arc<Policies>> {
    let is_quiet = controller.feeds.attacks.is_quiet();
    is_quiet.then(|| controller.policies())
}

/// Takes in what was found.
pub struct TakeSample(pub Option<UsageSample>);

impl Command for TakeSample {
    type Answer = Duration;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let policies = controller.policies();
        let state = &mut controller.state;
        controller
            .scans
            .history
            .take_sample(self.0, &policies, &mut state.kept.store)
    }
}
