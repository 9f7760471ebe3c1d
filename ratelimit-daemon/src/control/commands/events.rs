//! Events from the kernel.

use ratelimit_common::{Instant, event::DropEvent};
use ratelimit_core::api::What;

use super::Command;
use crate::{
    clock,
    control::{controller::Controller, feeds::propose, queries::drops::dropped},
};

/// Records drops, and adopts bans made by policies.
#[derive(Default)]
pub struct TakeEvents {
    /// Dropped packets that the kernel reported.
    pub drops: Vec<DropEvent>,
    /// Whether policies banned sources.
    pub has_bans: bool,
}

impl TakeEvents {
    /// Returns whether there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.drops.is_empty() && !self.has_bans
    }
}

impl Command for TakeEvents {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { drops, has_bans } = self;
        for drop in drops {
            let at = clock::to_wall(Instant::from_nanos(drop.at_ns));
            let dropped = dropped(&controller.state, &drop);
            let journal = &mut controller.state.reports.journal;
            journal.record_at(at, What::Drop(dropped));
        }
        if has_bans {
            let _ = propose(&mut controller.feeds.policy_bans, &mut controller.state);
        }
    }
}
