//! The datapath: the operations of the control plane on the tables that judge packets.
//!
//! [`Kernel`] implements it with BPF maps, `Shared` in memory for tests.

mod batch;
mod challenge_maps;
mod compact;
mod count;
mod cpu_counters;
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
mod policy_ban_maps;
mod prefix_filter_map;
mod refused_map;
mod source_maps;
mod tables;

use std::{net::IpAddr, sync::Arc};

pub use batch::{ScanPosition, to_the_end};
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
    Attachments, ChallengeTables, EntryCounterTables, LeaseTables, ListTables, PolicyBanTables,
    PolicyTables, SETS_AT_ONCE, SourceTables, UsageTables,
};

use crate::loader::MapPlan;

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

/// All operations, for a single owner.
pub trait Datapath:
    ListTables
    + PolicyTables
    + UsageTables
    + LeaseTables
    + ChallengeTables
    + PolicyBanTables
    + EntryCounterTables
    + Attachments
    + Send
{
    /// Returns the state of sources, which other threads can read.
    fn sources(&self) -> Arc<dyn SourceTables>;

    /// Returns the nonzero counters.
    fn counters(&self) -> Result<Vec<CounterRow>>;

    /// Returns the sums over the CPUs.
    fn totals(&self) -> Result<Totals>;

    /// Returns the maps with their sizes.
    fn maps(&self) -> Vec<MapStatus>;

    /// Creates the tables of a plan; new ones are empty. Running programs keep the old ones until
    /// they are attached again.
    ///
    /// # Errors
    ///
    /// If memory is short or the kernel refuses, the tables are as before.
    fn renew(&mut self, plan: &MapPlan) -> anyhow::Result<()>;

    /// Replaces the running programs on some of these interfaces if their records are shorter than
    /// those in the maps. Only then may a policy have more limits, because a program ignores limits
    /// without a word in its records.
    ///
    /// # Errors
    ///
    /// A program that cannot be replaced continues with its shorter records.
    fn lengthen(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Copies what programs have charged to records of another size until they were replaced, and
    /// releases these records.
    fn settle(&mut self) -> anyhow::Result<()>;
}
