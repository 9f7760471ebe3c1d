//! What is due each second, and when interfaces change or the daemon ends.

use ratelimit_core::config::OnStop;
use tracing::warn;

use super::{Controller, command::Command};
use crate::{
    clock,
    control::{
        feeds::adopted,
        interfaces,
        state::fallback_directory::{FallbackDirectory, tend_database},
        time::timekeeper::Reading,
    },
};

/// What is due each second, but for the end of the comparison. The clocks are read, bans that the kernel made are adopted, what ends
/// ends, and the kernel's tables are compared with what is intended.
pub struct Tick;

impl Command for Tick {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let state = &mut controller.state;
        if let Err(error) = state.keep_time(Reading::now()) {
            warn!(
                error = format!("{error:#}"),
                "the ends of bans, allows and limits could not be brought to the clock"
            );
        }
        controller.pass_all.tick(state);
        // Without pins nothing goes on when the daemon ends.
        controller.interfaces.tend_all(state);
        controller.interfaces.prepare(state);
        interfaces::tend_pins(state);
        let _ = controller.interfaces.follow_next(state);
        FallbackDirectory::tick(&mut controller.fallback, state);
        tend_database(state);
        let proved = controller.verified.look(state);
        controller.cluster.tell_verified(state, &proved);
        controller.challenge.tick(state, &controller.verified);
        if controller.metrics_port.is_due() {
            controller.metrics_port.follow(state);
        }
        controller.last_good.catch_up();
        // Feeds log what went wrong.
        let _ = controller.detections.adopt(state);
        let _ = controller.ended.forget(state, clock::now());
        if adopted::is_there(state) && is_reported_again(controller) {
            adopted::take_away(&mut controller.state);
        }
        let state = &mut controller.state;
        state.entry_counters.free(state.enforcer.datapath());
        state.write_unwritten();
        state.keep_journal();
        controller.comparisons.begin(state);
        state.filling.watch(&state.enforcer);
        state.store.flush();
        controller.workload.tick();
    }
}

/// Whether all who may ban and allow have said again whom: files of lists were read, and `CrowdSec` answered.
fn is_reported_again(controller: &Controller) -> bool {
    let config = &controller.state.intent.config;
    let is_read = |name: &String| controller.list_files.state(name).read.is_some();
    config.lists.keys().all(is_read)
        && (config.crowdsec.is_none() || controller.crowdsec.has_answered())
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
        controller.history.keep(&mut state.store);
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
