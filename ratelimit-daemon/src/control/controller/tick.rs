//! Periodic work: each second, when interfaces change, and when the daemon stops.

use ratelimit_core::config::OnStop;

use super::{Controller, command::Command};
use crate::control::{interfaces, state::fallback_directory::FallbackDirectory};

/// The work of each second, except for the rest of the comparison. Each component does its own
/// part.
pub struct Tick;

impl Command for Tick {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller {
            state,
            feeds,
            interfaces,
            metrics_port,
            keys_port,
            comparisons,
            fallback,
            about,
            ..
        } = controller;
        state.read_clocks();
        feeds.tick(state, interfaces.links.are_detached());
        interfaces.tick(state);
        metrics_port.tick(state);
        keys_port.tick(state);
        FallbackDirectory::tick(fallback, state);
        state.catch_up();
        comparisons.begin(state);
        about.workload.tick();
    }
}

/// Compares the next part of the tables with the intent, and returns whether more is due in this
/// second.
pub struct CompareOn;

impl Command for CompareOn {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.comparisons.go_on(&mut controller.state)
    }
}

/// Saves what is not saved yet, when the daemon stops.
pub struct Stop;

impl Command for Stop {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let state = &mut controller.state;
        state.write_last();
        if state.intent.config.on_stop == OnStop::Keep {
            controller.interfaces.tend_all(state);
            // The second call sees pins that the first one created again.
            interfaces::tend_pins(state);
            interfaces::tend_pins(state);
        }
    }
}

/// Checks the interfaces, and attaches the program where it should run.
pub struct TendLinks;

impl Command for TendLinks {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.interfaces.tend_all(&mut controller.state);
    }
}

/// Checks the interfaces, unless that was done a moment ago.
pub struct LookAtLinks;

impl Command for LookAtLinks {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.interfaces.look(&mut controller.state);
    }
}
