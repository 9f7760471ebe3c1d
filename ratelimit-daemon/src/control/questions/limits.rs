//! The limits.

use ratelimit_core::api::{PolicyView, Refused};

use crate::control::{controller::Controller, queries::views, question::Question};

/// All limits.
#[derive(Clone, Copy)]
pub struct Limits;

impl Question for Limits {
    type Answer = Result<Vec<PolicyView>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        Ok(views::limits(&controller.state))
    }
}
