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
mod check;
mod class_numbers;
mod clock_choice;
mod commands;
mod compile;
mod controller;
mod crowdsec;
mod detected;
mod enforcer;
mod export;
mod guards;
mod handle;
mod import;
mod intent;
mod kept;
mod limit_state;
mod list;
mod list_files;
mod lists;
mod node_scope;
mod pass_all;
mod policies;
mod preview;
mod programs;
mod protection;
mod reconcile;
mod reload;
mod reserve;
mod rules;
mod store;
mod timekeeper;
mod top;
mod trial;
mod views;

pub use attacks::Attacks;
pub use compile::{CompileError, Compiled};
pub use controller::{Controller, Reloads};
pub use detected::{Detections, Offence};
pub use enforcer::verify::{ByKind, Kind};
pub use export::Export;
pub use handle::{Handle, Stopped};
pub use intent::Edit;
pub use list_files::ListFile;
pub use policies::Named;
pub use reconcile::Reconciliation;
pub use reserve::Filling;
pub use store::{AllowRow, BanRow, FOREVER, LimitRow, Store};
pub use trial::resume;
pub use views::Snapshot;

use crate::{config::Config, datapath::LogSize};

/// The sliding logs that a configuration and what was set by hand before need: the datapath makes room for them when it is
/// loaded, once and for all. While a configuration is on trial, those of the one before count too: it may come back.
///
/// # Errors
///
/// When the database cannot be read.
pub fn log_size(config: &Config, store: &Store) -> anyhow::Result<LogSize> {
    let size = intent::Intent::restore(config.clone(), store)?.log_size();
    let before = trial::before(&config.paths.state);
    let times = before.map_or(0, |before| intent::log_times(&before));
    if times <= size.times {
        return Ok(size);
    }
    let logs = config.source.logs;
    Ok(LogSize { times, logs })
}
