//! What is due from time to time.

use super::{Command, EndTrial};
use crate::control::{configured_lists::ConfiguredLists, controller::Controller};

impl Controller {
    /// What is due each second: the clocks are read, bans that the kernel made are taken over, what ends ends, and the
    /// kernel's tables are compared with what is intended. The daemon does the same step by step.
    pub fn tick(&mut self) {
        self.begin_tick();
        if self.trials.is_over()
            && let Ok(files) = self.trials.returning_lists(&self.state.intent.config)
        {
            let lists = ConfiguredLists::read_some(files);
            self.run(EndTrial { lists });
        }
        while self.compare_on() {}
    }
}

/// What is due each second, but for the end of the comparison.
pub struct Tick;

impl Command for Tick {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.begin_tick();
    }
}

/// Compares the next part of the tables with what is intended, and answers whether there is another in this second.
pub struct CompareOn;

impl Command for CompareOn {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.compare_on()
    }
}

/// Looks at the interfaces, and puts the program where it is to be.
pub struct TendLinks;

impl Command for TendLinks {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.tend_links();
    }
}

/// Looks at the interfaces, where the last look is too old for those who ask.
pub struct LookAtLinks;

impl Command for LookAtLinks {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.look_at_links();
    }
}
