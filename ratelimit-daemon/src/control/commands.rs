//! What the controller is asked for: a typed command for each verb of `rlctl` and for each task of the daemon.

mod allow;
mod apply;
mod attacks;
mod ban;
mod cluster;
mod crowdsec;
mod detach;
mod events;
mod everywhere;
mod history;
mod import;
mod limit;
mod lists;
mod pass_all;
mod program;
mod protect;
mod reload;
mod replace;
mod sample;
mod tick;

use std::collections::HashSet;

use ratelimit_core::{api::Refused, prefix::Prefix};

use super::controller::Controller;

pub use self::{
    allow::{Allow, Disallow},
    apply::{Apply, Confirm, EndTrial, IsTrialOver, RollBack},
    attacks::{NoteAttacks, SampleTraffic},
    ban::{Ban, Unban, UnbanMatching},
    cluster::{
        HearStored, JoinCluster, LeaveCluster, NoteStore, ReachCluster, RevokeNode, StepCluster,
    },
    crowdsec::{EndCrowdsecBans, TakeDecisions},
    detach::Detach,
    events::TakeEvents,
    everywhere::{AllowEverywhere, DisallowEverywhere, LimitEverywhere, RemoveLimitsEverywhere},
    history::NoteHistory,
    import::Import,
    limit::{RemoveLimits, SetLimits},
    lists::{DueLists, RemoveList, TakeList},
    pass_all::SetPassAll,
    program::{BanByProgram, UnbanByProgram},
    protect::{Protect, ProtectSshPeer},
    reload::Reload,
    replace::replace,
    sample::TakeSample,
    tick::{CompareOn, LookAtLinks, Stop, TendLinks, Tick},
};

/// A request that changes something. Many hold what is asked for, and who asks.
pub trait Command: Send + 'static {
    /// What it answers.
    type Answer: Send + 'static;

    /// Whether its changes may be in one transaction with those of commands that wait at the same time, where a client asks for it.
    const SHARES_TRANSACTION: bool = false;

    /// Carries it out.
    fn run(self, controller: &mut Controller) -> Self::Answer;
}

/// A [command that only reads](super::read_commands), which waits for its turn as commands do.
pub struct Asked<F>(pub F);

impl<F, T> Command for Asked<F>
where
    F: FnOnce(&Controller) -> T + Send + 'static,
    T: Send + 'static,
{
    type Answer = T;

    fn run(self, controller: &mut Controller) -> T {
        self.0(controller)
    }
}

impl Controller {
    /// Runs a command. Where that makes tables anew, it has not ended before the programs run on them.
    pub fn run<C: Command>(&mut self, command: C) -> C::Answer {
        let answer = command.run(self);
        self.follow_tables();
        answer
    }
}

/// The prefixes of a request, each once: a client may name one twice. Refuses an empty list.
fn distinct(prefixes: &[Prefix]) -> Result<Vec<Prefix>, Refused> {
    if prefixes.is_empty() {
        return Err(Refused::because(
            "no prefix was given: an empty list is not taken for anything",
        ));
    }
    let mut seen = HashSet::new();
    let distinct = prefixes.iter().filter(|prefix| seen.insert(**prefix));
    Ok(distinct.copied().collect())
}
