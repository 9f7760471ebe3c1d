//! Samples the usage of sources from time to time, for the history.

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

/// Samples the usage of some sources on another thread, and returns the time until the next sample.
pub async fn sample_sources(controller: &Handle) -> Result<Duration, Unanswered> {
    let sample = match controller.ask(policies_to_sample).await? {
        Some(policies) => Some(controller.scan(|scanner| scanner.sample(policies)).await?),
        None => None,
    };
    controller.call(TakeSample(sample)).await
}

/// Returns the policies to sample, or `None` during an attack, whose sources are not typical.
pub fn policies_to_sample(controller: &Controller) -> Option<Arc<Policies>> {
    let is_quiet = controller.feeds.attacks.is_quiet();
    is_quiet.then(|| controller.policies())
}

/// Records a sample.
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
