//! The dashboard on the listener of the metrics.

use std::path::PathBuf;

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

/// The file of the token that lets one ban there; `None` where nobody may.
#[derive(Clone, Copy)]
pub struct DashboardToken;

impl Question for DashboardToken {
    type Answer = Option<PathBuf>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller.state.intent.config.dashboard_token.clone()
    }
}
