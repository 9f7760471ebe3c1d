//! `rlctl lists`.

use ratelimit_core::api::{ListView, Refused};

use crate::control::{controller::Controller, queries::lists, question::Question};

/// The lists.
#[derive(Clone, Copy)]
pub struct Lists;

impl Question for Lists {
    type Answer = Result<Vec<ListView>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        Ok(lists::lists(&controller.state, &controller.list_files))
    }
}
