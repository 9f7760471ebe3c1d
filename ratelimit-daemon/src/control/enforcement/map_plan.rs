//! Opens the datapath with the sizes that the configuration and runtime settings need.

use anyhow::anyhow;
use ratelimit_core::{
    compile::{self, ExistingTable, regions},
    config::{Config, StateStore},
    intent::{self, Intent},
    log_size::LogSize,
};

use crate::{
    control::{
        configuration::{syncookies, trial_record},
        persistence::store::Store,
    },
    cpus,
    datapath::{self, Opened, read_held},
    loader::{Loader, MapPlan, Pinned, Sizes},
};

/// Has the loader open the maps, large enough for everything. Nothing is attached yet.
pub fn open_kernel(
    config: &Config,
    store: &Store,
    mut loader: Box<dyn Loader>,
) -> anyhow::Result<Opened> {
    syncookies::require(config).map_err(|refused| {
        let hint = refused.hint.clone().unwrap_or_default();
        anyhow!("{}; {hint}", refused.in_full())
    })?;
    let held = loader.open(&config.paths.pins)?;
    let table = held.table.as_ref().map(read_held).transpose()?;
    let sizes = sizes(config, store, table.as_ref(), held.logs)?;
    let plan = plan(config, beside_programs(sizes, config, &held))?;
    datapath::open(loader, &held, &plan, &config.interfaces)
}

/// Makes records and logs at least as long as those of running programs. These programs are
/// replaced by ones with more features before the tables change, and until then the old policies
/// need every word.
fn beside_programs(wanted: Sizes, config: &Config, held: &Pinned) -> Sizes {
    if held.links.is_empty() {
        return wanted;
    }
    let times = held.logs.map_or(0, |logs| logs.times);
    Sizes {
        words: wanted.words.max(held.record_words.unwrap_or(0)),
        logs: if times > wanted.logs.times {
            LogSize {
                times,
                logs: config.source.logs,
            }
        } else {
            wanted.logs
        },
        ..wanted
    }
}

/// Returns the maps to create for a configuration, with tables of these sizes.
pub(crate) fn plan(config: &Config, sizes: Sizes) -> anyhow::Result<MapPlan> {
    Ok(MapPlan {
        ipv4_prefix: config.source.ipv4_prefix,
        ipv6_prefix: config.source.ipv6_prefix,
        capacity: config.source.capacity,
        sizes,
        cpus: cpus::possible()?,
    })
}

/// Returns the sizes for the configuration and the runtime settings, which are fixed when the maps
/// are loaded. During a trial, the previous configuration counts too, as it may return.
pub(crate) fn sizes(
    config: &Config,
    store: &Store,
    held: Option<&ExistingTable>,
    held_logs: Option<LogSize>,
) -> anyhow::Result<Sizes> {
    let intent = store.restore_policies(config.clone())?;
    let before = trial_record::before(&config.paths.state);
    let logs = intent.log_size();
    let times = before.as_ref().map_or(0, intent::log_times);
    let times = times.max(logs.times);
    // Shorter logs would start empty. If no limit is a log, they are removed.
    let held_logs = held_logs.filter(|held| held.logs == config.source.logs && times > 0);
    let times = held_logs.map_or(times, |held| times.max(held.times));
    let before = before.map(Intent::new);
    let words = before.as_ref().map_or(1, Intent::record_words);
    let words = words.max(intent.record_words());
    let sets = match config.source.store {
        StateStore::Lru => None,
        StateStore::Compact => {
            let before = before.as_ref().map_or(0, regions::table_sets);
            let wanted = regions::table_sets(&intent).max(before);
            Some(held.map_or(wanted, |held| compile::sets_beside(&intent, wanted, held)))
        }
    };
    Ok(Sizes {
        words,
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
