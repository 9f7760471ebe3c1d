//! Commands of the task that detects attacks in samples of all packets.

use ratelimit_core::detection::{Attack, Step};

use super::Command;
use crate::{
    control::{controller::Controller, feeds::propose},
    datapath,
};

/// Turns the kernel's sampling on or off, unless the configuration always samples.
pub struct SampleTraffic(pub bool);

impl Command for SampleTraffic {
    type Answer = datapath::Result<()>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.state.sample(self.0)
    }
}

/// Records detected attacks, and bans or limits their sources as configured.
pub struct NoteAttacks {
    /// The attacks that began or ended, and their sources.
    pub step: Step,
    /// The ongoing attacks.
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
        // The first call bans, the second one limits.
        let _ = propose(&mut controller.feeds.attacks, &mut controller.state);
        let _ = propose(&mut controller.feeds.attacks, &mut controller.state);
    }
}
