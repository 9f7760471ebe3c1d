//! Commands of the task that follows the decisions of `CrowdSec`.

use tracing::{info, warn};

use super::Command;
use crate::{
    control::{
        controller::Controller,
        feeds::{crowdsec::ends, propose},
        reports::cause::Cause,
    },
    crowdsec::Update,
};

/// Applies an update of the API, as a whole or not at all, and returns whether that succeeded. If
/// the API did not answer, its bans stay.
pub struct TakeDecisions(pub Result<Update, String>);

impl Command for TakeDecisions {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        match self.0 {
            Ok(update) => {
                feeds.crowdsec.take(update);
                propose(&mut feeds.crowdsec, state).is_ok()
            }
            Err(error) => {
                feeds.crowdsec.lost(state, error);
                false
            }
        }
    }
}

/// Ends the bans of an API that was removed from the configuration.
pub struct EndCrowdsecBans;

impl Command for EndCrowdsecBans {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let state = &mut controller.state;
        match state.apply(ends(state), Cause::Origin) {
            Ok(changed) if changed.removed == 0 => {}
            Ok(changed) => info!(
                bans = changed.removed,
                "[crowdsec] was removed: its bans ended"
            ),
            Err(refused) => warn!(error = refused.error, "cannot remove the bans of CrowdSec"),
        }
    }
}
