//! The datapath: what the control plane can do to the tables that packets are judged by.
//!
//! [`Kernel`] is the one in BPF maps, `Shared` the one in memory that tests look into.

mod batch;
mod challenge_maps;
mod compact;
mod count;
mod cpu_counters;
mod detected_maps;
mod entry_counter_maps;
mod family_maps;
mod grace_period;
mod kernel;
mod lease_maps;
mod logs;
mod lru;
mod map_errors;
mod mapped;
mod maps;
#[cfg(any(test, feature = "memory"))]
mod memory;
mod prefix_filter_map;
mod refused_map;
mod source_maps;
mod tables;

use std::{net::IpAddr, sync::Arc};

pub use batch::{Place, to_the_end};
pub use compact::read_held;
pub use kernel::Kernel;
pub use logs::address_of;
pub use mapped::Mapped;
#[cfg(any(test, feature = "memory"))]
pub use memory::{Gate, Memory, Shared, Write};
use ratelimit_common::{
    Family, ListEntry, Record, Verdict, generation::ByGeneration, layout::Counter,
};
use ratelimit_core::{
    api::{Code, MapStatus, Refused},
    config::Interface,
    ip_family::IpFamily,
};
pub use refused_map::{refusals_in, refused_in, words_of_set};
pub use tables::{
    Attachments, ChallengeTables, DetectionTables, EntryCounterTables, InterfaceRules, LeaseTables,
    ListTables, PolicyTables, SETS_AT_ONCE, SourceTables, UsageTables,
};

use crate::loader::MapPlan;

/// What the lists say about a prefix, in each generation.
pub type Entry = ByGeneration<ListEntry>;

/// What a table answers.
pub type Result<T, E = DatapathError> = std::result::Result<T, E>;

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
    /// A program could not be replaced by one with the features that a change needs.
    #[error("replacing the program by one that enforces the change")]
    Program(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The kernel refused.
    #[error("{action} the map {map}")]
    Failed {
        /// What was tried.
        action: &'static str,
        /// The name of the map.
        map: &'static str,
        /// Why it failed.
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
    /// The source.
    pub source: IpAddr,
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

/// All of it, for one owner.
pub trait Datapath:
    ListTables
    + PolicyTables
    + UsageTables
    + LeaseTables
    + ChallengeTables
    + DetectionTables
    + EntryCounterTables
    + Attachments
    + Send
{
    /// The state of sources, to be read beside.
    fn sources(&self) -> Arc<dyn SourceTables>;

    /// The counters that are not zero.
    fn counters(&self) -> Result<Vec<CounterRow>>;

    /// What is summed over the CPUs.
    fn totals(&self) -> Result<Totals>;

    /// The maps, with their sizes.
    fn maps(&self) -> Vec<MapStatus>;

    /// Makes the tables of a plan, empty where they are new. Programs that run keep the old ones until they are attached again.
    ///
    /// # Errors
    ///
    /// When there is not enough memory, or the kernel refuses; then the tables are those from before.
    fn renew(&mut self, plan: &MapPlan) -> anyhow::Result<()>;

    /// Replaces the programs that run on some of these interfaces, where the records of `renew` or
    /// of a start are longer than theirs. A policy with more limits may come after that, since a
    /// program leaves out the limits for which its records have no words.
    ///
    /// # Errors
    ///
    /// When a program cannot be replaced: it goes on with its shorter records.
    fn lengthen(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Takes over what programs have charged to records of another size until they were replaced, and lets those go.
    fn settle(&mut self) -> anyhow::Result<()>;
}
