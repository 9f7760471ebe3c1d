//! Policies, classes, and what holds for all packets.

use std::{collections::BTreeMap, ops::Range};

use ratelimit_common::{
    ClassSet, Instant, Limit, Policy, Settings,
    aggregate::Aggregates,
    compact::Region,
    generation::ByGeneration,
    interface::InterfaceRule,
    layout::POLICIES_MAX,
    new_sources::{Budget, Taken},
};
use ratelimit_core::{class_tables::ClassTables, ip_family::IpFamily, log_size::LogSize};

use super::Result;

/// What interfaces have of their own, by name.
pub type InterfaceRules = BTreeMap<String, ByGeneration<InterfaceRule>>;

/// Policies, classes, and what holds for all packets.
pub trait PolicyTables {
    /// Puts a policy at an index.
    fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<()>;

    /// Changes what holds for all packets, at once.
    fn set_settings(&mut self, settings: Settings) -> Result<()>;

    /// What holds for all packets.
    fn settings(&self) -> Result<Settings>;

    /// Replaces the arrays by which classes are looked up. A packet meanwhile may see some of both.
    fn set_classes(&mut self, classes: &ClassTables) -> Result<()>;

    /// The arrays by which classes are looked up.
    fn classes(&self) -> Result<ClassTables>;

    /// The elements at some indices, as many of which there are.
    fn some_classes(&self, indices: Range<u32>) -> Result<Vec<ClassSet>>;

    /// Changes the wider prefixes of a family that have limits, those of a generation at once.
    fn set_aggregates(
        &mut self,
        family: IpFamily,
        aggregates: ByGeneration<Aggregates>,
    ) -> Result<()>;

    /// The wider prefixes of a family that have limits.
    fn aggregates(&self, family: IpFamily) -> Result<ByGeneration<Aggregates>>;

    /// Waits until no packet is under way any more that came before: what only those were led to can be written again.
    fn wait_for_packets(&self);

    /// Forgets the state in the slot of a policy of the node or of a destination, which is not in force.
    fn clear_total(&mut self, slot: u32) -> Result<()>;

    /// What the sliding logs can hold.
    fn log_size(&self) -> LogSize;

    /// The words of a record of a source, where the store is `lru`.
    fn record_words(&self) -> u32;

    /// The sets of the table in which the state of sources is, where the store is `compact`.
    fn table_sets(&self) -> Option<u32>;

    /// Empties a region of that table, in both families.
    fn clear_region(&mut self, region: Region) -> Result<()>;

    /// Copies what sources have used in a region of that table into the empty one of a limit whose words mean the same, in both
    /// families. Where that is too small, what was used most is kept.
    fn copy_region(&mut self, from: Region, to: &Limit) -> Result<()>;

    /// The policy at an index; empty where there is none.
    fn policy(&self, index: u32) -> Result<Policy>;

    /// The policies that are not empty, by index.
    fn policies(&self) -> Result<Vec<(u32, Policy)>> {
        self.some_policies(0..POLICIES_MAX)
    }

    /// Those of them at some indices.
    fn some_policies(&self, indices: Range<u32>) -> Result<Vec<(u32, Policy)>>;

    /// Sets the end of a time in which everything passes, where the settings say that there is one.
    fn set_pass_all_until(&mut self, until: Instant) -> Result<()>;

    /// That end.
    fn pass_all_until(&self) -> Result<Instant>;

    /// Sets how many sources may get state on one CPU, where the settings say that they have a budget.
    fn set_new_sources(&mut self, window: ByGeneration<Budget>) -> Result<()>;

    /// How many sources may get state.
    fn new_sources(&self) -> Result<ByGeneration<Budget>>;

    /// What was drawn of it.
    fn new_sources_taken(&self) -> Result<Taken>;

    /// Sets what interfaces have of their own, by name, where the settings say that some have; all others have nothing.
    fn set_interface_rules(&mut self, rules: InterfaceRules) -> Result<()>;

    /// What they have, of all that have a slot.
    fn interface_rules(&self) -> Result<InterfaceRules>;
}
