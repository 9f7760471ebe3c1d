//! What the task tells that follows the decisions of `CrowdSec`.

use super::Command;
use crate::{control::controller::Controller, crowdsec::Update};

/// Puts what the API answered in force, and tells whether that worked: all of it, or nothing.
pub struct TakeDecisions(pub Update);

impl Command for TakeDecisions {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(update) = self;
        controller.crowdsec.answered(update);
        controller.state.take(&mut controller.crowdsec).is_ok()
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
        controller.crowdsec.gone();
        let _ = controller.state.take(&mut controller.crowdsec);
    }
}
