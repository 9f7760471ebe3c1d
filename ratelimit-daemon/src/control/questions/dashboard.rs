//! The dashboard on the listener of the metrics.

use crate::control::{controller::Controller, question::Question};

/// Whether it is served.
#[derive(Clone, Copy)]
pub struct IsDashboardOpen;

impl Question for IsDashboardOpen {
    type Answer = bool;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller.state.intent.config.dashboard
    }
}
