//! The policies as they are compiled.

use std::sync::Arc;

use ratelimit_core::policies::Policies;

use crate::control::{controller::Controller, question::Question};

/// All policies.
#[derive(Clone, Copy)]
pub struct CompiledPolicies;

impl Question for CompiledPolicies {
    type Answer = Arc<Policies>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        Arc::clone(&controller.state.compiled.policies)
    }
}
