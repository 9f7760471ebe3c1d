//! The control plane: what is intended, and how it gets into the datapath.
//!
//! ```text
//! config files ─┐
//! rlctl ────────┼→ Controller: Intent → Rules, Policies → Enforcer → Datapath
//! state.db ─────┘
//! ```

mod adopt_from_kernel;
mod busy;
mod candidate;
mod cause;
mod challenge;
mod change_log;
pub mod commands;
mod compiled;
mod config_diff;
mod config_warnings;
mod connection;
mod controller;
mod edit_events;
mod enforcer;
mod entry_counters;
mod event_log;
mod evictions;
mod fallback_directory;
mod feeds;
mod file_reads;
mod fitting;
mod handle;
mod history;
mod import;
mod journal;
mod last_good;
mod lifetime;
mod links;
mod list_room;
mod lists;
mod map_plan;
mod metrics_port;
mod prefix_filters;
mod progress;
mod protected_now;
pub mod queries;
pub mod read_commands;
mod read_only_ring;
mod reconcile;
mod reminder;
mod rows;
mod scanner;
mod state;
mod state_file;
mod store;
mod suspended;
mod syncookies;
mod timekeeper;
mod trial_permission;
mod trial_record;
mod troubles;
mod unshared;
mod unwritten;
mod verified;
mod workload;

pub use busy::{BusyWith, OWN_WORK, asked_as};
pub use candidate::Candidate;
pub use cause::Cause;
pub use challenge::UNANSWERED;
pub use config_warnings::warn as warn_of_elsewhere;
pub use controller::{Controller, Reloads, Unkept};
pub use enforcer::verify::{ByKind, Kind};
pub use fallback_directory::{copy as copy_state, open as open_store};
pub use feeds::detected::Detections;
pub use file_reads::{read_again, read_before, read_request};
pub use handle::{Handle, Unanswered};
pub use journal::Journal;
pub use last_good::Start;
pub use list_room::Filling;
pub use lists::file::ListFile;
pub use map_plan::open_kernel;
pub use metrics_port::Listeners;
pub use queries::export::Export;
pub use read_commands::{Snapshot, bans, bans_in_parts, fill, scrape, status, top};
pub use reconcile::Reconciliation;
pub use scanner::{Scanner, Sources};
pub use state::State;
pub use store::Store;
pub use trial_record::resume;
pub use troubles::{CONFIGURATION, PINS};
pub use workload::{Seen as SeenWorkload, Workload};
