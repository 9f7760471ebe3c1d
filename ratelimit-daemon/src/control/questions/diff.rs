//! `rlctl diff`.

use ratelimit_core::api::{Refused, Reloaded};

use crate::control::{
    candidate::Candidate, controller::Controller, queries::diff, question::Question,
};

/// What a configuration would change.
pub struct Diff(pub Candidate);

impl Question for Diff {
    type Answer = Result<Reloaded, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        diff::diff(&controller.state, self.0)
    }
}
