//! What was found in samples of all packets.

use ratelimit_core::detection::{Answer, Attack, Step};

use super::Command;
use crate::{control::controller::Controller, datapath};

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
        let journal = &mut controller.state.journal;
        controller.attacks.note(&step, going_on, observe, journal);
        for answer in [Answer::Ban, Answer::Limit] {
            controller.attacks.answer(&mut controller.state, answer);
        }
    }
}
