//! What the task tells that follows the decisions of `CrowdSec`.

use tracing::{info, warn};

use super::Command;
use crate::{
    control::{controller::Controller, feeds::crowdsec::ends, reports::cause::Cause},
    crowdsec::Update,
};

/// Puts what the API answered in force, all of it or nothing, and tells whether that worked. Where it does not answer, its bans stay.
pub struct TakeDecisions(pub Result<Update, String>);

impl Command for TakeDecisions {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller {
            crowdsec, state, ..
        } = controller;
        let update = match self.0 {
            Ok(update) => update,
            Err(error) => {
                crowdsec.lost(state, error);
                return false;
            }
        };
        let edits = crowdsec.answered(state, update);
        let answer = state.apply(edits, Cause::Origin);
        let is_in_force = answer.is_ok();
        crowdsec.settle(state, answer.err().map(|refused| refused.error));
        is_in_force
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
