//! The allow list.

use ratelimit_core::api::{Allow, Refused};

use crate::control::{controller::Controller, queries::views, question::Question};

/// All allows.
#[derive(Clone, Copy)]
pub struct Allows;

impl Question for Allows {
    type Answer = Result<Vec<Allow>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        Ok(views::allows(&controller.state))
    }
}
