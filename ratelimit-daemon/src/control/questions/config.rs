//! `rlctl config`.

use ratelimit_core::api::{Refused, Setting};

use crate::control::{controller::Controller, queries::settings, question::Question};

/// All settings.
#[derive(Clone, Copy)]
pub struct Settings;

impl Question for Settings {
    type Answer = Result<Vec<Setting>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        settings::settings(&controller.state.intent, &controller.trials)
    }
}
