//! What was found in samples of all packets.

use ratelimit_core::detection::{Attack, Step};

use super::Command;
use crate::{
    control::{controller::Controller, feeds::propose},
    datapath,
};

/// Has the kernel sample packets, or not, where the configuration does not ask for samples all the time.
pub struct SampleTraffic(pub bool);

impl Command for SampleTraffic {
    type Answer = datapath::Result<()>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.state.sample(self.0)
    }
}

/// Takes over what was found, and bans or limits the sources that are to be.
pub struct NoteAttacks {
    /// What began, what ended, and the sources that have part in it.
    pub step: Step,
    /// The attacks that are going on.
    pub going_on: Vec<Attack>,
}

impl Command for NoteAttacks {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { step, going_on } = self;
        let observe = controller.state.intent.config.observe;
        let journal = &mut controller.state.reports.journal;
        controller
            .feeds
            .attacks
            .note(&step, going_on, observe, journal);
        // Bans, and then limits.
        let _ = propose(&mut controller.feeds.attacks, &mut controller.state);
        let _ = propose(&mut controller.feeds.attacks, &mut controller.state);
    }
}
