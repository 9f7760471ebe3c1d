//! The datapath: what the control plane can do to the tables that packets are judged by.
//!
//! [`Kernel`] is the one in BPF maps, [`Shared`] the one in memory that tests look into.

mod batch;
mod class_maps;
mod compact;
mod count;
mod detected_maps;
mod family_maps;
mod grace;
mod kernel;
mod logs;
mod mapped;
mod maps;
#[cfg(any(test, feature = "memory"))]
mod memory;
mod prefix_filter;
mod refused_map;
mod slots;
mod source_maps;
mod source_tables;

use std::{collections::BTreeMap, net::IpAddr, ops::Range, sync::Arc};

pub use batch::Place;
pub use compact::read_held;
pub use kernel::Kernel;
pub use mapped::Mapped;
#[cfg(any(test, feature = "memory"))]
pub use memory::{Gate, Memory, Shared, Write};
use ratelimit_common::{
    BanBudgets, ClassSet, Detected, Family, Instant, Limit, ListEntry, Policy, Record, Settings,
    Standing, Verdict,
    aggregate::Aggregates,
    compact::Region,
    detected::Tally,
    generation::ByGeneration,
    layout::{Counter, POLICIES_MAX},
    new_sources::Budget,
};
use ratelimit_core::{
    api::{MapStatus, Refused},
    class_tables::{ClassArray, ClassTables},
    config::Interface,
    ip_family::IpFamily,
    log_size::LogSize,
    prefix::Prefix,
};
pub use refused_map::{refusals_in, refused_in, words_of_set};
pub use source_tables::{SETS_AT_ONCE, SourceTables};

use crate::{
    links::Sight,
    loader::{Detachment, MapPlan},
};

/// What the lists say about a prefix, in each generation.
pub type Entry = ByGeneration<ListEntry>;

/// Why a table could not be changed or read.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// The table has no room for another entry.
    #[error("the map {map} is full: it holds {capacity} entries")]
    Full {
        /// The name of the map.
        map: &'static str,
        /// Its size.
        capacity: u32,
    },
    /// The kernel refused.
    #[error("{action} the map {map}")]
    Map {
        /// What was tried.
        action: &'static str,
        /// The name of the map.
        map: &'static str,
        /// Why it failed.
        source: aya::maps::MapError,
    },
    /// The kernel did not take many entries at once.
    #[error("writing the map {map}")]
    Write {
        /// The name of the map.
        map: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The kernel did not let the whole map be read.
    #[error("reading the map {map}")]
    Read {
        /// The name of the map.
        map: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl From<DatapathError> for Refused {
    fn from(error: DatapathError) -> Self {
        anyhow::Error::from(error).into()
    }
}

/// Packets under one verdict on one interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterRow {
    /// The slot of the interface.
    pub interface: u32,
    /// The family.
    pub family: Family,
    /// The verdict.
    pub verdict: Verdict,
    /// The sum over the CPUs.
    pub count: Counter,
}

/// The state of one source under one policy.
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

/// A sliding log of a source under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRow {
    /// The scope of the policy.
    pub scope: u32,
    /// The index of the limit.
    pub limit: u32,
    /// The words of its ring.
    pub words: Vec<u64>,
}

/// Sums over the CPUs that belong to no packet in particular.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Events about drops that were sent.
    pub events_sent: u64,
    /// Events that found the ring full.
    pub events_lost: u64,
    /// Sources that got state, IPv4 and IPv6.
    pub inserted: [u64; 2],
}

/// The tables, for one owner.
pub trait Datapath: Send {
    /// Puts a policy at an index.
    fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<(), DatapathError>;

    /// Changes what holds for all packets, at once.
    fn set_settings(&mut self, settings: Settings) -> Result<(), DatapathError>;

    /// What holds for all packets.
    fn settings(&self) -> Result<Settings, DatapathError>;

    /// Replaces the arrays by which classes are looked up. A packet meanwhile may see some of both.
    fn set_classes(&mut self, classes: &ClassTables) -> Result<(), DatapathError>;

    /// The arrays by which classes are looked up.
    fn classes(&self) -> Result<ClassTables, DatapathError>;

    /// The elements of one of them at some indices, as many of which there are.
    fn some_classes(
        &self,
        array: ClassArray,
        indices: Range<u32>,
    ) -> Result<Vec<ClassSet>, DatapathError>;

    /// Changes the wider prefixes of a family that have limits, those of a generation at once.
    fn set_aggregates(
        &mut self,
        family: IpFamily,
        aggregates: ByGeneration<Aggregates>,
    ) -> Result<(), DatapathError>;

    /// The wider prefixes of a family that have limits.
    fn aggregates(&self, family: IpFamily) -> Result<ByGeneration<Aggregates>, DatapathError>;

    /// Waits until no packet is under way any more that came before: what only those were led to can be written again.
    fn wait_for_packets(&self);

    /// Forgets the state of a policy of the node, which is not in force.
    fn clear_node(&mut self, scope: u32) -> Result<(), DatapathError>;

    /// What the sliding logs can hold.
    fn log_size(&self) -> LogSize;

    /// The sets of the table in which the state of sources is, where the store is `compact`.
    fn table_sets(&self) -> Option<u32>;

    /// Empties a region of that table, in both families.
    fn clear_region(&mut self, region: Region) -> Result<(), DatapathError>;

    /// Copies what sources have used in a region of that table into the empty one of a limit whose words mean the same, in both
    /// families. Where that is too small, what was used most is kept.
    fn copy_region(&mut self, from: Region, to: &Limit) -> Result<(), DatapathError>;

    /// The state of sources, to be read beside.
    fn sources(&self) -> Arc<dyn SourceTables>;

    /// Puts entries on the lists of their prefixes' families, or replaces them. When it fails, some of them are there.
    fn set_entries(&mut self, entries: &[(Prefix, Entry)]) -> Result<(), DatapathError>;

    /// Takes entries away; it is no error when one is not there. When it fails, some of them are gone.
    fn remove_entries(&mut self, prefixes: &[Prefix]) -> Result<(), DatapathError>;

    /// A word of the prefix-length filter of a family.
    fn filter_word(&self, family: IpFamily, index: u32) -> u64;

    /// Replaces a word of the prefix-length filter of a family.
    fn set_filter_word(&mut self, family: IpFamily, index: u32, word: u64);

    /// Lets go of memory that is only held to be fast, as of now and then when there is nothing to do.
    fn release(&mut self);

    /// The most entries of a family.
    fn list_capacity(&self, family: IpFamily) -> u32;

    /// The entry of a prefix.
    fn entry(&self, prefix: Prefix) -> Result<Option<Entry>, DatapathError>;

    /// All entries of both families.
    fn entries(&self) -> Result<Vec<(Prefix, Entry)>, DatapathError>;

    /// Shows up to `count` entries of a family from a place on, or some more, and answers where to go on: at the front
    /// after the last one.
    fn some_entries(
        &self,
        family: IpFamily,
        place: &Place,
        count: usize,
        visit: &mut dyn FnMut(Prefix, Entry),
    ) -> Result<Place, DatapathError>;

    /// How many entries of a family there are, told without looking at them; `None` where the kernel does not count (before 6.4).
    fn count_entries(&self, family: IpFamily) -> Option<u64>;

    /// The policy at an index; empty where there is none.
    fn policy(&self, index: u32) -> Result<Policy, DatapathError>;

    /// The policies that are not empty, by index.
    fn policies(&self) -> Result<Vec<(u32, Policy)>, DatapathError> {
        self.some_policies(0..POLICIES_MAX)
    }

    /// Those of them at some indices.
    fn some_policies(&self, indices: Range<u32>) -> Result<Vec<(u32, Policy)>, DatapathError>;

    /// The counters that are not zero.
    fn counters(&self) -> Result<Vec<CounterRow>, DatapathError>;

    /// The strikes of a source, as a word of [`BanRule`](ratelimit_common::BanRule).
    fn strikes(&self, source: IpAddr) -> Result<u64, DatapathError>;

    /// Sets the end of a time in which everything passes, where the settings say that there is one.
    fn set_pass_all_until(&mut self, until: Instant) -> Result<(), DatapathError>;

    /// That end.
    fn pass_all_until(&self) -> Result<Instant, DatapathError>;

    /// Sets how many bans policies may make in a minute.
    fn set_detection_limit(&mut self, limit: BanBudgets) -> Result<(), DatapathError>;

    /// How many bans policies may make in a minute.
    fn detection_limit(&self) -> Result<BanBudgets, DatapathError>;

    /// Takes one ban for the daemon out of those that it and policies made of such sources in a minute, where the budget has one
    /// left.
    fn take_ban(
        &self,
        budgets: BanBudgets,
        standing: Standing,
        now: Instant,
    ) -> Result<bool, DatapathError>;

    /// Sets how many sources may get state on one CPU, where the settings say that they have a budget.
    fn set_new_sources(&mut self, window: ByGeneration<Budget>) -> Result<(), DatapathError>;

    /// How many sources may get state.
    fn new_sources(&self) -> Result<ByGeneration<Budget>, DatapathError>;

    /// The ban that a policy made of a source and that was not taken over.
    fn detected(&self, source: IpAddr) -> Result<Option<Detected>, DatapathError>;

    /// All of those bans.
    fn all_detected(&self) -> Result<Vec<(IpAddr, Detected)>, DatapathError>;

    /// Forgets those that were taken over, but for sources that a policy has banned anew since they were read; it is no error
    /// when one is not there.
    fn forget_detected(&mut self, taken: &[(IpAddr, Detected)]) -> Result<(), DatapathError>;

    /// What became of the sources that policies were to ban, over all CPUs.
    fn tally(&self) -> Result<Tally, DatapathError>;

    /// What is summed over the CPUs.
    fn totals(&self) -> Result<Totals, DatapathError>;

    /// The maps, with their sizes.
    fn maps(&self) -> Vec<MapStatus>;

    /// The slots of interfaces in the counters, with their names.
    fn slots(&self) -> Vec<(u32, String)>;

    /// What is seen of an interface.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell.
    fn look(&self, interface: &str) -> anyhow::Result<Sight>;

    /// Has programs that run on interfaces of other names than when they were put there count for those, as far as they are wanted, and
    /// answers which: the names before, and those of today.
    ///
    /// # Errors
    ///
    /// When all of them count as before.
    fn follow(&mut self, wanted: &[Interface]) -> anyhow::Result<BTreeMap<String, String>>;

    /// Puts the program on an interface, or on the one that had its name, in place of the one of ours that is there, and answers what is
    /// to be known about that.
    ///
    /// # Errors
    ///
    /// Why it is not there, or goes on as it was.
    fn attach(&mut self, interface: &Interface) -> anyhow::Result<Option<String>>;

    /// Takes the program off an interface, or off the one that had its name.
    ///
    /// # Errors
    ///
    /// When it stays.
    fn take_off(&mut self, interface: &str) -> anyhow::Result<()>;

    /// Takes the program off all interfaces but these.
    ///
    /// # Errors
    ///
    /// The first that it stays on.
    fn keep_only(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Makes pins again that somebody removed, and answers whether there were any.
    ///
    /// # Errors
    ///
    /// When they cannot be made.
    fn keep_pinned(&mut self) -> anyhow::Result<bool>;

    /// Makes the tables of a plan, empty where they are new. Programs that run keep the old ones until they are attached again.
    ///
    /// # Errors
    ///
    /// When there is not enough memory, or the kernel refuses; then the tables are those from before.
    fn renew(&mut self, plan: &MapPlan) -> anyhow::Result<()>;

    /// Takes the programs off their interfaces, and lets the tables go.
    fn detach(&mut self) -> anyhow::Result<Detachment>;
}
