//! `rlctl protected`.

use ratelimit_core::api::{ProtectedView, Refused};

use crate::control::{controller::Controller, queries::views, question::Question};

/// What is protected from bans.
#[derive(Clone, Copy)]
pub struct ProtectedPrefixes;

impl Question for ProtectedPrefixes {
    type Answer = Result<Vec<ProtectedView>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        Ok(views::protected(&controller.state))
    }
}
