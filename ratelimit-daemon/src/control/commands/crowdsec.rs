//! What the task tells that follows the decisions of `CrowdSec`.

use tracing::{info, warn};

use super::Command;
use crate::{
    control::{cause::Cause, controller::Controller, feeds::crowdsec::ends},
    crowdsec::Update,
};

/// Puts what the API answered in force, and tells whether that worked: all of it, or nothing.
pub struct TakeDecisions(pub Update);

impl Command for TakeDecisions {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(update) = self;
        let Controller {
            crowdsec, state, ..
        } = controller;
        let edits = crowdsec.answered(state, update);
        let answer = state.apply(edits, Cause::Origin);
        let is_in_force = answer.is_ok();
        crowdsec.settle(state, answer.err().map(|refused| refused.error));
        is_in_force
    }
}

/// Notes that the API does not answer, and why. Its bans stay.
pub struct LoseCrowdsec(pub String);

impl Command for LoseCrowdsec {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(error) = self;
        controller.crowdsec.lost(&controller.state, error);
    }
}

/// Ends the bans of an API that the configuration names no more.
pub struct EndCrowdsecBans;

impl Command for EndCrowdsecBans {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let state = &mut controller.state;
        match state.apply(ends(state), Cause::Origin) {
            Ok(changed) if changed.removed == 0 => {}
            Ok(changed) => info!(
                bans = changed.removed,
                "the configuration names no [crowdsec]: its bans ended"
            ),
            Err(refused) => warn!(
                error = refused.error,
                "the bans of CrowdSec could not be ended"
            ),
        }
    }
}
