//! The commands of the controller: one type for each verb of `rlctl` and each task of the daemon.

mod allow;
mod apply;
mod attacks;
mod ban;
mod cluster;
mod crowdsec;
mod detach;
mod events;
mod everywhere;
pub mod file_reads;
mod history;
mod import;
mod limit;
mod lists;
mod pass_all;
mod program;
mod protect;
mod reload;
mod replace;
mod snapshot;
mod tcp_connections;

use std::collections::HashSet;

use ratelimit_core::{api::Refused, prefix::Prefix};

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
    snapshot::{TakeSnapshot, snapshots_every, take_snapshot},
    tcp_connections::NoteConnections,
};
pub use super::controller::{
    command::{Command, ReadOnly},
    tick::{CompareOn, LookAtLinks, Stop, TendLinks, Tick},
};

/// Removes duplicates from the prefixes of a request. Refuses an empty list.
fn distinct(prefixes: &[Prefix]) -> Result<Vec<Prefix>, Refused> {
    if prefixes.is_empty() {
        return Err(Refused::because("no prefix given"));
    }
    let mut seen = HashSet::new();
    let distinct = prefixes.iter().filter(|prefix| seen.insert(**prefix));
    Ok(distinct.copied().collect())
}
