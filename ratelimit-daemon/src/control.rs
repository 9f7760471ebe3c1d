//! The control plane: what is intended, and how it gets into the datapath.
//!
//! ```text
//! config files ─┐
//! rlctl ────────┼→ Controller: Intent → Rules, Policies → Enforcer → Datapath
//! state.db ─────┘
//! ```

mod adopt;
mod apply;
mod attacks;
mod busy;
mod carried;
mod change_log;
mod check;
mod class_numbers;
mod clock_choice;
mod commands;
mod compile;
mod configured_lists;
mod controller;
mod covering;
mod crowdsec;
mod detected;
mod ends;
mod enforcer;
mod event_log;
mod evictions;
mod export;
mod guards;
mod handle;
mod history;
mod import;
mod intent;
mod journal;
mod kept;
mod kernel;
mod left_out;
mod limit_state;
mod limited;
mod list;
mod list_files;
mod lists;
mod new_sources;
mod node_scope;
mod offences;
mod own_files;
mod pass_all;
mod policies;
mod preview;
mod programs;
mod progress;
mod protection;
mod reconcile;
mod record;
mod regions;
mod reload;
mod reminder;
mod renewed;
mod reserve;
mod rules;
mod stopped;
mod store;
mod suggest;
mod survey;
mod term;
mod timekeeper;
mod top;
mod trial;
mod unwritten;
mod views;

pub use attacks::Attacks;
pub use busy::{BusyWith, asked_as};
pub use compile::{CompileError, Compiled};
pub use controller::{Controller, Reloads};
pub use detected::{Detections, Offence};
pub use enforcer::verify::{ByKind, Kind};
pub use export::Export;
pub use handle::{Handle, Unanswered};
pub use history::look;
pub use intent::Edit;
pub use journal::Journal;
pub use kernel::open_kernel;
pub use list_files::ListFile;
pub use policies::Named;
pub use reconcile::Reconciliation;
pub use reserve::Filling;
pub use store::{AllowRow, BanRow, FOREVER, LimitRow, Store};
pub use survey::{Sources, Survey};
pub use top::top;
pub use trial::resume;
pub use views::{Snapshot, bans, scrape, status};
