//! The control plane: what is intended, and how it gets into the datapath.
//!
//! ```text
//! config files ─┐
//! rlctl ────────┼→ Controller: Intent → Rules, Policies → Enforcer → Datapath
//! state.db ─────┘
//! ```

mod check;
mod class_numbers;
mod clock_choice;
mod commands;
mod compile;
mod controller;
mod covering;
mod enforcer;
mod guards;
mod handle;
mod intent;
mod journal;
mod limit_state;
mod node_scope;
mod policies;
mod preview;
mod reconcile;
mod record;
mod reload;
mod rules;
mod store;
mod timekeeper;
mod top;
mod views;

pub use compile::{CompileError, Compiled};
pub use controller::{Controller, Reloads};
pub use enforcer::verify::{ByKind, Kind};
pub use handle::{Handle, Stopped};
pub use intent::Edit;
pub use journal::Journal;
pub use policies::Named;
pub use reconcile::Reconciliation;
pub use store::{AllowRow, BanRow, FOREVER, LimitRow, Store};
pub use views::Snapshot;

use crate::{config::Config, datapath::LogSize};

/// The sliding logs that a configuration and what was set by hand before need: the datapath makes room for them when it is
/// loaded, once and for all.
///
/// # Errors
///
/// When the database cannot be read.
pub fn log_size(config: &Config, store: &Store) -> anyhow::Result<LogSize> {
    Ok(intent::Intent::restore(config.clone(), store)?.log_size())
}
