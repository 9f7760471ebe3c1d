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
mod covering;
mod crowdsec;
mod detected;
mod ends;
mod enforcer;
mod evictions;
mod export;
mod guards;
mod handle;
mod history;
mod import;
mod intent;
mod journal;
mod kept;
mod left_out;
mod limit_state;
mod limited;
mod list;
mod list_files;
mod lists;
mod new_sources;
mod node_scope;
mod offences;
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
mod unforgotten;
mod views;

pub use attacks::Attacks;
pub use compile::{CompileError, Compiled};
pub use controller::{Controller, Reloads};
pub use detected::{Detections, Offence};
pub use enforcer::verify::{ByKind, Kind};
pub use export::Export;
pub use handle::{Handle, Unanswered};
pub use history::look;
pub use intent::Edit;
pub use journal::Journal;
pub use list_files::ListFile;
pub use policies::Named;
pub use reconcile::Reconciliation;
pub use reserve::Filling;
pub use store::{AllowRow, BanRow, FOREVER, LimitRow, Store};
pub use survey::{Sources, Survey};
pub use top::top;
pub use trial::resume;
pub use views::{Snapshot, bans, scrape, status};

use self::intent::Intent;
use crate::{
    config::{Config, StateStore},
    datapath::{self, LogSize, Sizes},
};

/// What a configuration and what was set by hand before need: the datapath makes room for it when it is loaded, once and for
/// all. While a configuration is on trial, the one before counts too: it may come back.
///
/// # Errors
///
/// When the database cannot be read.
pub fn sizes(config: &Config, store: &Store) -> anyhow::Result<Sizes> {
    let intent = Intent::restore_policies(config.clone(), store)?;
    let before = trial::before(&config.paths.state);
    let logs = intent.log_size();
    let times = before.as_ref().map_or(0, intent::log_times);
    let sets = match config.source.store {
        StateStore::Lru => None,
        StateStore::Compact => {
            let before = before.map(Intent::new);
            let before = before.as_ref().map_or(0, regions::table_sets);
            let wanted = regions::table_sets(&intent).max(before);
            let held = datapath::held_table(&config.paths.pins)?;
            Some(held.map_or(wanted, |held| compile::sets_beside(&intent, wanted, &held)))
        }
    };
    Ok(Sizes {
        logs: if times > logs.times {
            LogSize {
                times,
                logs: config.source.logs,
            }
        } else {
            logs
        },
        sets,
    })
}
