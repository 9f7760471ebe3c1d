//! What the kernel tells.

use ratelimit_common::event::DropEvent;

use super::Command;
use crate::control::controller::Controller;

/// Records drops, and takes bans over that policies made.
#[derive(Default)]
pub struct TakeEvents {
    /// Packets that the kernel says it dropped.
    pub drops: Vec<DropEvent>,
    /// Whether it says that policies banned sources.
    pub has_bans: bool,
}

impl TakeEvents {
    /// Whether there is nothing to be done.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.drops.is_empty() && !self.has_bans
    }
}

impl Command for TakeEvents {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { drops, has_bans } = self;
        if !drops.is_empty() {
            controller.state.record_drops(&drops);
        }
        if has_bans {
            controller.take_missed();
        }
    }
}
