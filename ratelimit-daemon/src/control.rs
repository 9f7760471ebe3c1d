//! The control plane: the intent, and its way into the datapath.
//!
//! ```text
//! config files ─┐
//! rlctl ────────┼→ Controller: Intent → Rules, Policies → Enforcer → Datapath
//! state.db ─────┘
//! ```

pub mod commands;
mod configuration;
mod controller;
mod enforcement;
mod feeds;
mod interfaces;
mod lists;
mod persistence;
pub mod queries;
mod reports;
#[cfg(test)]
mod rooms;
mod sources;
mod state;
mod time;

pub use self::{
    commands::file_reads::{read_files, read_previous, read_request},
    configuration::{
        candidate::Candidate, last_good::Start, trial_record::resume,
        warnings::warn as warn_of_elsewhere,
    },
    controller::{
        Controller, Reloads, Unkept,
        handle::{Handle, Unanswered},
        port::Listeners,
    },
    enforcement::{
        enforcer::verify::{ByKind, Kind},
        list_room::Filling,
        map_plan::open_kernel,
    },
    feeds::{challenge::UNANSWERED, policy_bans::PolicyBans},
    lists::{export::Export, file::ListFile},
    persistence::store::Store,
    queries::Snapshot,
    reports::{
        cause::Cause,
        journal::Journal,
        troubles::{CONFIGURATION, PINS},
        workload::{BusyWith, OWN_WORK, Seen as SeenWorkload, Workload, asked_as},
    },
    sources::scanner::{Scanner, Sources},
    state::{
        State,
        fallback_directory::{Originals, open as open_store},
        reconcile::Reconciliation,
    },
};
