//! `rlctl top --destinations`.

use ratelimit_core::api::{Refused, WiderLimits};

use crate::control::{controller::Controller, queries::levels, question::Question};

/// The destinations whose limits are fullest.
#[derive(Clone, Copy)]
pub struct FullestDestinations {
    /// How many of them.
    pub count: usize,
}

impl Question for FullestDestinations {
    type Answer = Result<Vec<WiderLimits>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        levels::fullest_destinations(&controller.state, self.count)
    }
}
