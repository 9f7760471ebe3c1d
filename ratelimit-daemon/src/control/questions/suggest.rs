//! `rlctl suggest`.

use ratelimit_core::api::{Refused, SuggestRequest, Suggested};

use crate::control::{controller::Controller, queries::suggest, question::Question};

/// Limits that would have refused few.
pub struct Suggest(pub SuggestRequest);

impl Question for Suggest {
    type Answer = Result<Suggested, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        let (state, history) = (&controller.state, &controller.history);
        suggest::suggest(state, history, controller.started, &self.0)
    }
}
