//! What the rest of the daemon can do to the tables that packets are judged by, and to programs on interfaces.

use std::{collections::BTreeMap, net::IpAddr, ops::Range};

use ratelimit_common::{
    BanBudgets, ClassSet, Detected, Instant, Limit, Policy, Record, Refusals, Settings, Standing,
    aggregate::Aggregates,
    challenge::{self, Verified},
    compact::Region,
    detected::{Filter, Tally},
    features::Features,
    generation::ByGeneration,
    interface::InterfaceRule,
    layout::{Counter, POLICIES_MAX},
    lease::{Demand, Lease},
    new_sources::{Budget, Taken},
    source::LogKey,
};
use ratelimit_core::{
    class_tables::ClassTables, config::Interface, ip_family::IpFamily, log_size::LogSize,
    prefix::Prefix,
};

use super::{Entry, LogRow, Place, Result, SlotRow, SourceRow};
use crate::links::Sight;

/// What lists say of prefixes, and the filter of prefix lengths before them.
pub trait ListTables {
    /// Puts entries on the lists of their prefixes' families, or replaces them. When it fails, some of them are there.
    fn set_entries(&mut self, entries: &[(Prefix, Entry)]) -> Result<()>;

    /// Takes entries away; it is no error when one is not there. When it fails, some of them are gone.
    fn remove_entries(&mut self, prefixes: &[Prefix]) -> Result<()>;

    /// A word of the prefix-length filter of a family.
    fn filter_word(&self, family: IpFamily, index: u32) -> u64;

    /// Replaces a word of the prefix-length filter of a family.
    fn set_filter_word(&mut self, family: IpFamily, index: u32, word: u64);

    /// Lets go of memory that is only held to be fast, as of now and then when there is nothing to do.
    fn release(&mut self);

    /// The most entries of a family.
    fn list_capacity(&self, family: IpFamily) -> u32;

    /// The entry of a prefix.
    fn entry(&self, prefix: Prefix) -> Result<Option<Entry>>;

    /// All entries of both families.
    fn entries(&self) -> Result<Vec<(Prefix, Entry)>>;

    /// Shows up to `count` entries of a family from a place on, or some more, and answers where to go on: at the front
    /// after the last one.
    fn some_entries(
        &self,
        family: IpFamily,
        place: &Place,
        count: usize,
        visit: &mut dyn FnMut(Prefix, Entry),
    ) -> Result<Place>;

    /// How many entries of a family there are, told without looking at them; `None` where the kernel does not count (before 6.4).
    fn count_entries(&self, family: IpFamily) -> Option<u64>;
}

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

    /// Replaces the state in the slot of a policy of the node or of a destination, which is not in force.
    fn set_total(&mut self, slot: u32, record: Record) -> Result<()>;

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

/// Puts back what sources have used, into tables that no program uses yet.
pub trait UsageTables {
    /// Puts records of sources of a family into the tables of the store `lru`.
    fn put_records(&mut self, family: IpFamily, rows: &[SourceRow]) -> Result<()>;

    /// Puts the words of sources of a family into the region of a limit, where the store is `compact`. Where that is too small, what
    /// was used most is kept.
    fn put_slots(&mut self, limit: &Limit, family: IpFamily, rows: &[(IpAddr, u64)]) -> Result<()>;

    /// Puts sliding logs. Their words are the times, the newest last.
    fn put_logs(&mut self, rows: &[LogRow]) -> Result<()>;
}

/// What this node may admit of limits that nodes share, and what packets asked of them.
pub trait LeaseTables {
    /// Sets which keys the program looks for among leases and demands, by family. It adds those that limits refuse.
    fn set_leased_filters(&mut self, filters: &[Filter; 2]) -> Result<()>;

    /// Puts leases in place of those of the same keys.
    fn set_leases(&mut self, leases: &[(LogKey, Lease)]) -> Result<()>;

    /// Takes leases away; it is no error when one is not there.
    fn remove_leases(&mut self, keys: &[LogKey]) -> Result<()>;

    /// All leases.
    fn leases(&self) -> Result<Vec<(LogKey, Lease)>>;

    /// What packets asked of limits that nodes share, since their source was first refused or got a lease.
    fn demands(&self) -> Result<Vec<(LogKey, Demand)>>;
}

/// When sources are challenged, and which are verified.
pub trait ChallengeTables {
    /// Sets when sources are challenged, where the settings say that they may be.
    fn set_challenge(&mut self, rules: ByGeneration<challenge::Rules>) -> Result<()>;

    /// When sources are challenged.
    fn challenge(&self) -> Result<ByGeneration<challenge::Rules>>;

    /// Since when and until when they are, and what was taken of what all CPUs share.
    fn challenge_taken(&self) -> Result<challenge::Taken>;

    /// Sets until when nobody is challenged.
    fn suspend_challenge(&mut self, until: Instant) -> Result<()>;

    /// Until when nobody is, or was.
    fn challenge_suspended(&self) -> Result<Instant>;

    /// How many SYNs and queries had no answer, as the answers were spent.
    fn challenge_unanswered(&self) -> Result<u64>;

    /// Until when a source is, or was, verified.
    fn verified(&self, source: IpAddr) -> Result<Option<Verified>>;

    /// Shows all that are, or were.
    fn for_each_verified(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<()>;
}

/// Bans that policies make in the kernel, and how many they may make.
pub trait DetectionTables {
    /// The strikes of a source, as a word of [`BanRule`](ratelimit_common::BanRule).
    fn strikes(&self, source: IpAddr) -> Result<u64>;

    /// Sets how many bans policies may make in a minute.
    fn set_detection_limit(&mut self, limit: BanBudgets) -> Result<()>;

    /// How many bans policies may make in a minute.
    fn detection_limit(&self) -> Result<BanBudgets>;

    /// Takes one ban for the daemon out of those that it and policies made of such sources in a minute, where the budget has one
    /// left.
    fn take_ban(&self, budgets: BanBudgets, standing: Standing, now: Instant) -> Result<bool>;

    /// The ban that a policy made of a source and that was not adopted.
    fn detected(&self, source: IpAddr) -> Result<Option<Detected>>;

    /// All of those bans.
    fn all_detected(&self) -> Result<Vec<(IpAddr, Detected)>>;

    /// Forgets those that were adopted, but for sources that a policy has banned anew since they were read; it is no error
    /// when one is not there.
    fn forget_detected(&mut self, taken: &[(IpAddr, Detected)]) -> Result<()>;

    /// What became of the sources that policies were to ban, over all CPUs.
    fn tally(&self) -> Result<Tally>;
}

/// Packets that matched an entry of the lists, by the slots that entries name.
pub trait EntryCounterTables {
    /// What is kept beside each slot that somebody has: of the first one the seed of hashes, of the others the hash of the owner.
    fn counter_owners(&self) -> Result<BTreeMap<u16, u64>>;

    /// Replaces that of one slot.
    fn set_counter_owner(&mut self, slot: u16, owner: u64) -> Result<()>;

    /// The counts of slots that stand side by side.
    fn entry_counters(&self, slots: Range<u32>) -> Result<Vec<Counter>>;

    /// The count of a slot.
    fn entry_counter(&self, slot: u16) -> Result<Counter> {
        let slot = u32::from(slot);
        let counts = self.entry_counters(slot..slot + 1)?;
        Ok(counts.first().copied().unwrap_or_default())
    }

    /// The packets that limits judged on all interfaces there ever were.
    fn judged(&self) -> Result<Counter>;

    /// Replaces the count of a slot in which no packet is counted meanwhile.
    fn set_entry_counter(&mut self, slot: u16, count: Counter) -> Result<()>;
}

/// Programs on their interfaces.
pub trait Attachments {
    /// The slots of interfaces in the counters, with their names.
    fn slots(&self) -> Vec<(u32, String)>;

    /// Whether a program of ours runs anywhere, so that packets are judged by the tables that it
    /// was attached with.
    fn runs(&self) -> bool;

    /// What is seen of an interface.
    fn look(&self, interface: &str) -> anyhow::Result<Sight>;

    /// Has programs that run on interfaces of other names than when they were put there count for those, as far as they are wanted, and
    /// answers which. These are the names before, and those of today.
    ///
    /// # Errors
    ///
    /// When all of them count as before.
    fn follow(&mut self, wanted: &[Interface]) -> anyhow::Result<BTreeMap<String, String>>;

    /// Loads the program for an interface that is not there, so that it can be put on at once when it comes.
    ///
    /// # Errors
    ///
    /// When the verifier refuses it.
    fn prepare(&mut self, interface: &Interface) -> anyhow::Result<()>;

    /// Puts the program on an interface, or on the one that had its name, in place of the one of ours that is there. It answers what is
    /// to be known about that.
    ///
    /// # Errors
    ///
    /// Why it is not there, or goes on as it was.
    fn attach(&mut self, interface: &Interface) -> anyhow::Result<Option<String>>;

    /// The features that every running program has, and that those have which are attached next.
    fn features(&self) -> Features;

    /// Replaces the programs that run by ones with these features.
    ///
    /// # Errors
    ///
    /// When a program cannot be replaced. The others may have been: [`features`](Self::features) are
    /// then those that the old and the new programs have in common.
    fn specialise(&mut self, features: Features) -> anyhow::Result<()>;

    /// Takes the program off an interface, or off the one that had its name.
    fn take_off(&mut self, interface: &str) -> anyhow::Result<()>;

    /// Takes the program off all interfaces but these.
    fn keep_only(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Makes pins again that somebody removed, and answers whether there were any.
    fn keep_pinned(&mut self) -> anyhow::Result<bool>;

    /// The interfaces whose program calls another one than the one that is pinned where their `chain` says, or where none is pinned there.
    fn stale_next(&mut self) -> anyhow::Result<Vec<String>>;

    /// Takes the programs off their interfaces, which it answers, and lets the tables go.
    fn detach(&mut self) -> anyhow::Result<Vec<String>>;
}

/// Sets of a `compact` table that are read at once: 2 MiB of each family. To map a whole table takes a millisecond and more, in which no
/// other thread can map what it needs.
pub const SETS_AT_ONCE: u32 = 1 << 14;

/// The state of sources, of the node and of who was refused.
pub trait SourceTables: Send + Sync {
    /// Whether the state of sources is in a `compact` table.
    fn is_compact(&self) -> bool;

    /// How many sources of IPv4 and of IPv6 ever got state.
    fn inserted(&self) -> Result<[u64; 2]>;

    /// Shows the slots of some sets of a region of that table that are not empty, in both families.
    fn some_slots(
        &self,
        region: Region,
        sets: Range<u32>,
        visit: &mut dyn FnMut(SlotRow),
    ) -> Result<()>;

    /// The same of all its sets.
    fn for_each_slot(&self, region: Region, visit: &mut dyn FnMut(SlotRow)) -> Result<()> {
        let mut firsts = (0..region.sets()).step_by(SETS_AT_ONCE as usize);
        firsts.try_for_each(|first| {
            let end = first.saturating_add(SETS_AT_ONCE);
            self.some_slots(region, first..end.min(region.sets()), visit)
        })
    }

    /// The source that a tag of that table stands for.
    fn source_of_tag(&self, family: IpFamily, tag: u64) -> IpAddr;

    /// Shows up to `count` sources of a family from a place on, or some more, and answers where to go on: at the front after the
    /// last one. Those in a `compact` table are not among them.
    fn some_sources(
        &self,
        family: IpFamily,
        place: &Place,
        count: usize,
        visit: &mut dyn FnMut(SourceRow),
    ) -> Result<Place>;

    /// Shows the state of all sources of all scopes, but for those in a `compact` table.
    fn for_each_source(&self, visit: &mut dyn FnMut(SourceRow)) -> Result<()>;

    /// The state of a source, whose address is cut to the configured prefix, under a policy. In a `compact` table it is
    /// what a packet of the source would be judged by, at `now`, where it has no slot.
    fn record(&self, source: IpAddr, policy: &Policy, now: Instant) -> Result<Option<Record>>;

    /// The words of a sliding log: that of the limit at `limit` for a source under a scope. `None` when it logged nothing.
    fn log(&self, source: IpAddr, scope: u32, limit: u32) -> Result<Option<Vec<u64>>>;

    /// Shows some of the sliding logs from a place on, of both families.
    fn some_logs(&self, place: &Place, visit: &mut dyn FnMut(LogRow)) -> Result<Place>;

    /// How many entries maps have that only a scan can count, but for those of sources, by their names.
    fn count_others(&self) -> Result<Vec<(&'static str, u64)>>;

    /// The state of a policy of the node or of a destination, in its slot.
    fn total(&self, slot: u32) -> Result<Record>;

    /// How often a source was refused; `None` where it is not known to have been.
    fn refusals(&self, source: IpAddr) -> Result<Option<Refusals>>;

    /// How often limits of this scope refused packets of an address that many share, as far as it is known; `None` where that is not counted.
    fn shared_refusals(&self, address: IpAddr, scope: u32) -> Result<Option<Refusals>>;

    /// Shows the sources that were refused last, as many as have room.
    fn for_each_refused(&self, visit: &mut dyn FnMut(IpAddr, Refusals)) -> Result<()>;
}
