//! `rlctl stats`.

use ratelimit_core::api::{Refused, StatsRow};

use crate::control::{controller::Controller, queries::views, question::Question};

/// The counters.
#[derive(Clone, Copy)]
pub struct Stats;

impl Question for Stats {
    type Answer = Result<Vec<StatsRow>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        views::stats(&controller.state)
    }
}
