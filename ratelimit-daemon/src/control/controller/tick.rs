//! What is due each second, and when interfaces change or the daemon ends.

use ratelimit_core::config::OnStop;

use super::{Controller, command::Command};
use crate::control::{interfaces, state::fallback_directory::FallbackDirectory};

/// What is due each second, but for the end of the comparison: each component does its own.
pub struct Tick;

impl Command for Tick {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller {
            state,
            feeds,
            interfaces,
            metrics_port,
            comparisons,
            fallback,
            about,
            ..
        } = controller;
        state.read_clocks();
        feeds.tick(state);
        interfaces.tick(state);
        metrics_port.tick(state);
        FallbackDirectory::tick(fallback, state);
        state.catch_up();
        comparisons.begin(state);
        about.workload.tick();
    }
}

/// Compares the next part of the tables with what is intended, and answers whether there is another in this second.
pub struct CompareOn;

impl Command for CompareOn {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.comparisons.go_on(&mut controller.state)
    }
}

/// Writes down what was not yet, as the daemon ends.
pub struct Stop;

impl Command for Stop {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let state = &mut controller.state;
        controller.scans.history.keep(&mut state.kept.store);
        state.write_last();
        if state.intent.config.on_stop == OnStop::Keep {
            controller.interfaces.tend_all(state);
            // Pins that were made again a moment ago are there the second time.
            interfaces::tend_pins(state);
            interfaces::tend_pins(state);
        }
    }
}

/// Looks at the interfaces, and puts the program where it is to be.
pub struct TendLinks;

impl Command for TendLinks {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.interfaces.tend_all(&mut controller.state);
    }
}

/// Looks at the interfaces, where the last look is too old for those who ask.
pub struct LookAtLinks;

impl Command for LookAtLinks {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.interfaces.look(&mut controller.state);
    }
}
