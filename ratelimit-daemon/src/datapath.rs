//! The datapath: the tables that judge packets, and the programs on interfaces.
//!
//! Tables are typed maps over a backend (`backend.rs`): maps of the kernel, or maps in
//! memory for tests.

mod backend;
mod batch;
mod challenge;
mod compact;
mod count;
mod counters;
mod grace_period;
mod kernel;
mod leases;
mod lists;
mod logs;
mod lru;
mod map_errors;
mod mapped;
mod maps;
#[cfg(any(test, feature = "memory"))]
mod memory;
mod policies;
mod policy_bans;
mod prefix_filter;
mod programs;
mod refused;
mod rings;
mod sources;

use std::{
    net::IpAddr,
    ops::{BitOr as _, Deref, DerefMut},
    sync::Arc,
};

pub use batch::{ScanPosition, to_the_end};
pub use challenge::ChallengeTables;
pub use compact::read_held;
pub use counters::CounterTables;
pub use leases::LeaseTables;
pub use lists::ListTables;
pub use logs::address_of;
pub use mapped::Mapped;
#[cfg(any(test, feature = "memory"))]
pub use memory::{Memory, Switches, Write};
pub use policies::PolicyTables;
pub use policy_bans::PolicyBanTables;
pub use programs::Attachments;
use ratelimit_common::{
    Family, ListEntry, Policy, Record, Settings, Verdict,
    event::Sampler,
    features::{Feature, Features},
    generation::ByGeneration,
    layout::Counter,
};
use ratelimit_core::{
    api::{Code, MapStatus, Refused},
    compile::Switched,
    config::Interface,
    ip_family::IpFamily,
    log_size::LogSize,
};
pub use refused::{refusals_in, refused_in, words_of_set};
pub use rings::Rings;
pub use sources::{SETS_AT_ONCE, SourceTables};
use tracing::warn;

use self::{
    backend::Backend,
    lru::Replaced,
    maps::{Maps, PerCpuArray},
    programs::Programs,
};
use crate::loader::{Loader, MapPlan, Pinned, Sizes};

/// The entry of a prefix in the lists, in each generation.
pub type EntryByGeneration = ByGeneration<ListEntry>;

/// The result of an operation on a table.
pub type Result<T, E = DatapathError> = std::result::Result<T, E>;

/// The reason a table could not be changed or read.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// The table has no room for another entry.
    #[error("the map {map} is full: it holds {capacity} entries")]
    Full {
        /// The name of the map.
        map: &'static str,
        /// The capacity of the map.
        capacity: u32,
    },
    /// A program could not be replaced by one with the features that a change needs.
    #[error("replacing the program by one that enforces the change")]
    Program(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The kernel refused the operation.
    #[error("{action} the map {map}")]
    Failed {
        /// The operation.
        action: &'static str,
        /// The name of the map.
        map: &'static str,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<DatapathError> for Refused {
    fn from(error: DatapathError) -> Self {
        let is_full = matches!(error, DatapathError::Full { .. });
        let refused = Self::from(anyhow::Error::from(error));
        if is_full {
            return refused.code(Code::MapFull);
        }
        refused
    }
}

/// The count of a verdict on an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterRow {
    /// The slot of the interface.
    pub interface: u32,
    /// The family of the packets.
    pub family: Family,
    /// The verdict.
    pub verdict: Verdict,
    /// The sum over the CPUs.
    pub count: Counter,
}

/// The state of a source under a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceRow {
    /// The source.
    pub source: IpAddr,
    /// The scope of the policy.
    pub scope: u32,
    /// The words of its limits.
    pub record: Record,
}

/// A slot of a `compact` table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlotRow {
    /// The family of its source.
    pub family: IpFamily,
    /// The tag of its source.
    pub tag: u64,
    /// The state of the limit.
    pub word: u64,
}

/// A sliding log of a source under a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRow {
    /// The source.
    pub source: IpAddr,
    /// The scope of the policy.
    pub scope: u32,
    /// The index of the limit.
    pub limit: u32,
    /// The words of its ring.
    pub words: Vec<u64>,
}

/// Sums over the CPUs that belong to no particular packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Events about drops that were sent.
    pub events_sent: u64,
    /// Events lost because the ring was full.
    pub events_lost: u64,
    /// Sources that ever got state, IPv4 and IPv6.
    pub inserted: [u64; 2],
}

/// The tables and the programs, for a single owner.
pub struct Datapath {
    tables: Tables,
    /// The programs on interfaces.
    pub programs: Box<dyn Attachments>,
    /// Whether running programs have shorter records or logs than the tables.
    is_outgrown: bool,
}

/// The tables, which all programs share.
#[expect(missing_docs, reason = "they are named after their content")]
pub struct Tables {
    pub lists: ListTables,
    pub policies: PolicyTables,
    pub leases: LeaseTables,
    pub challenge: ChallengeTables,
    pub policy_bans: PolicyBanTables,
    pub counters: CounterTables,
    /// The state of sources, which other threads can read.
    pub sources: Arc<SourceTables>,
    sampler: PerCpuArray<Sampler>,
    /// Records of another size, which old programs charge until they are replaced.
    replaced: Option<Replaced>,
    maps: Vec<MapStatus>,
    /// The maps that allocate memory with each entry.
    on_demand: Vec<(&'static str, Arc<dyn Backend>)>,
}

/// The datapath in the kernel as it was opened.
pub struct Opened {
    /// The tables and programs.
    pub datapath: Datapath,
    /// The rings to read.
    pub rings: Rings,
    /// The reason that usage was reset. `None` if it was adopted.
    pub usage_reset: Option<&'static str>,
}

const OTHER_LAYOUT: &str = "another version of ratelimitd made the tables; usage of sources, \
                            destinations and the node is reset";

/// Has the loader open the maps of a plan for these interfaces. Nothing is attached yet, so the
/// tables can be filled before the first packet.
///
/// Running programs have at least the features that the tables use: a daemon adds features before
/// it uses them.
pub fn open(
    loader: Box<dyn Loader>,
    held: &Pinned,
    plan: &MapPlan,
    wanted: &[Interface],
) -> anyhow::Result<Opened> {
    let (programs, maps, rings) = Programs::open(loader, held, plan, wanted)?;
    let mut datapath = Datapath {
        tables: Tables::open(&maps, plan.sizes.sets)?,
        programs: Box::new(programs),
        is_outgrown: outgrows(
            plan.sizes,
            held.record_words.unwrap_or(plan.sizes.words),
            held.logs.unwrap_or(plan.sizes.logs),
        ),
    };
    let features = datapath.features_in_use()?;
    datapath.programs.set_features(features);
    datapath.begin_to_carry();
    // A daemon that was killed before it had carried over the usage may not have replaced the
    // programs either.
    datapath.is_outgrown |= datapath.replaced.is_some();
    Ok(Opened {
        datapath,
        rings,
        usage_reset: held.has_other_layout.then_some(OTHER_LAYOUT),
    })
}

impl Tables {
    /// Opens the tables, with this number of sets in the `compact` table if that is the store.
    fn open(maps: &Maps, sets: Option<u32>) -> anyhow::Result<Self> {
        let on_demand = lists::LISTS.into_iter().chain(policy_bans::BANS);
        let on_demand = on_demand.map(|name| Ok((name, maps.open(name)?)));
        Ok(Self {
            lists: ListTables::new(maps)?,
            policies: PolicyTables::new(maps)?,
            leases: LeaseTables::new(maps)?,
            challenge: ChallengeTables::new(maps)?,
            policy_bans: PolicyBanTables::new(maps)?,
            counters: CounterTables::new(maps)?,
            sources: Arc::new(SourceTables::new(maps, sets)?),
            sampler: maps.per_cpu_array("SAMPLER")?,
            replaced: Replaced::of(maps)?,
            maps: maps.statuses()?,
            on_demand: on_demand.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Returns the features that the tables use.
    fn features_in_use(&self) -> Result<Features> {
        let policies = self.policies.with_leased()?;
        let policies = policies.iter().map(Features::of_policy);
        let settings = self.policies.settings()?;
        let switched = self.policies.switched()?;
        let tunnels = switched.of(settings.generation()).tunnels;
        let settings = Features::of_settings(settings)
            .with(Feature::Samples)
            .with_if(!tunnels.is_empty(), Feature::Tunnels);
        Ok(policies.fold(settings, Features::bitor))
    }

    /// Returns the sums over the CPUs.
    pub fn totals(&self) -> Result<Totals> {
        let samplers = self.sampler.get(0)?;
        Ok(Totals {
            events_sent: samplers.iter().map(|sampler| sampler.sent).sum(),
            events_lost: samplers.iter().map(|sampler| sampler.lost).sum(),
            inserted: self.sources.inserted()?,
        })
    }

    /// Returns the maps with their sizes.
    pub fn maps(&self) -> Vec<MapStatus> {
        let mut maps = self.maps.clone();
        for (name, map) in &self.on_demand {
            let status = maps.iter_mut().find(|status| status.name == *name);
            if let (Some(status), Some(bytes)) = (status, map.memory_bytes()) {
                status.memory_bytes = bytes;
            }
        }
        maps
    }

    /// Copies the usage from records of another size. Failures are retried when the programs are
    /// replaced.
    fn begin_to_carry(&self) {
        if let Err(error) = self.carry() {
            let error = format!("{error:#}");
            warn!(
                error,
                "the usage of sources could not be carried over to the new record size"
            );
        }
    }

    fn carry(&self) -> Result<()> {
        let replaced = self.replaced.as_ref();
        replaced.map_or(Ok(()), |replaced| self.sources.take_over(replaced))
    }
}

impl Deref for Datapath {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl DerefMut for Datapath {
    fn deref_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }
}

impl Datapath {
    /// Writes a policy. Running programs must have its features.
    pub fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<()> {
        self.require(Features::of_policy(policy));
        self.policies.set(index, policy)
    }

    /// Replaces the settings for all packets atomically. Running programs must have their features.
    pub fn set_settings(&mut self, settings: Settings) -> Result<()> {
        self.require(Features::of_settings(settings));
        self.policies.set_settings(settings)
    }

    fn require(&self, features: Features) {
        debug_assert!(
            !self.programs.runs() || self.programs.features().covers(features),
            "{features:?} of {:?}",
            self.programs.features()
        );
    }

    /// Writes the tables with a value for each generation, each of them atomically.
    pub fn set_switched(&mut self, switched: &ByGeneration<Switched>) -> Result<()> {
        self.policies.set_switched(switched)?;
        let rules = switched.map(|tables| tables.interfaces.clone());
        self.programs.set_rules(rules)
    }

    /// Returns these tables.
    pub fn switched(&self) -> Result<ByGeneration<Switched>> {
        let (tables, rules) = (self.policies.switched()?, self.programs.rules()?);
        Ok(ByGeneration::each(|generation| Switched {
            interfaces: rules.of(generation).clone(),
            ..tables.of(generation).clone()
        }))
    }

    /// Returns the nonzero counters.
    pub fn counters(&self) -> Result<Vec<CounterRow>> {
        let slots = self.programs.slots().into_iter();
        self.counters.of_interfaces(slots.map(|(slot, _)| slot))
    }

    /// Creates the tables of a plan; new ones are empty. Running programs keep the old ones until
    /// they are attached again.
    ///
    /// # Errors
    ///
    /// If memory is short or the kernel refuses, the tables are as before.
    pub fn renew(&mut self, plan: &MapPlan) -> anyhow::Result<()> {
        let maps = self.programs.open_maps(plan)?;
        let tables = Tables::open(&maps, plan.sizes.sets)?;
        let (words, logs) = (self.sources.record_words(), self.sources.log_size());
        self.is_outgrown |= outgrows(plan.sizes, words, logs);
        self.tables = tables;
        self.begin_to_carry();
        Ok(())
    }

    /// Replaces the running programs on some of these interfaces if their records are shorter than
    /// those in the maps. Only then may a policy have more limits, because a program ignores limits
    /// without a word in its records.
    ///
    /// # Errors
    ///
    /// A program that cannot be replaced continues with its shorter records.
    pub fn lengthen(&mut self, interfaces: &[Interface]) -> anyhow::Result<()> {
        if !self.is_outgrown {
            return Ok(());
        }
        self.programs.replace(interfaces)?;
        self.settle()
    }

    /// Copies what programs have charged to records of another size until they were replaced, and
    /// releases these records.
    pub fn settle(&mut self) -> anyhow::Result<()> {
        self.is_outgrown = false;
        if self.replaced.is_none() {
            return Ok(());
        }
        self.carry()?;
        self.replaced = None;
        self.programs.forget_replaced()
    }
}

/// Whether records or logs of these sizes are longer than others, and neither is shorter.
const fn outgrows(sizes: Sizes, words: u32, logs: LogSize) -> bool {
    let (longer_records, longer_logs) = (sizes.words > words, sizes.logs.times > logs.times);
    (longer_records || longer_logs) && sizes.words >= words && sizes.logs.times >= logs.times
}
