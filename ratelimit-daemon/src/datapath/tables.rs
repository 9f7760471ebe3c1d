//! Operations of the rest of the daemon on the tables that judge packets, and on programs on
//! interfaces.

use std::{collections::BTreeMap, net::IpAddr, ops::Range};

use ratelimit_common::{
    BanBudgets, ClassSet, Evidence, Instant, Limit, Policy, PolicyBan, Record, Refusals, Settings,
    challenge::{self, Verified},
    compact::Region,
    features::Features,
    generation::ByGeneration,
    layout::{Counter, POLICIES_MAX},
    lease::{Demand, Lease},
    new_sources::Taken,
    policy_ban::Tally,
    source::LogKey,
    source_filter::Filter,
};
use ratelimit_core::{
    class_tables::ClassTables, compile::Switched, config::Interface, ip_family::IpFamily,
    log_size::LogSize, prefix::Prefix,
};

use super::{EntryByGeneration, LogRow, Result, ScanPosition, SlotRow, SourceRow};
use crate::links::Sight;

/// The lists, with their prefix-length filters.
pub trait ListTables {
    /// Inserts or replaces entries. If it fails, some of them were written.
    fn set_entries(&mut self, entries: &[(Prefix, EntryByGeneration)]) -> Result<()>;

    /// Removes entries; missing ones are no error. If it fails, some of them were removed.
    fn remove_entries(&mut self, prefixes: &[Prefix]) -> Result<()>;

    /// Returns a word of the prefix-length filter of a family.
    fn filter_word(&self, family: IpFamily, index: u32) -> u64;

    /// Replaces a word of the prefix-length filter of a family.
    fn set_filter_word(&mut self, family: IpFamily, index: u32, word: u64);

    /// Releases memory that only serves speed. Called occasionally when there is nothing to do.
    fn release(&mut self);

    /// Returns the most entries of a family.
    fn list_capacity(&self, family: IpFamily) -> u32;

    /// Returns the entry of a prefix.
    fn entry(&self, prefix: Prefix) -> Result<Option<EntryByGeneration>>;

    /// Returns all entries of both families.
    fn entries(&self) -> Result<Vec<(Prefix, EntryByGeneration)>>;

    /// Visits about `count` entries of a family from a position, and returns where to continue: the
    /// beginning after the last one.
    fn some_entries(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(Prefix, EntryByGeneration),
    ) -> Result<ScanPosition>;

    /// Returns the number of entries of a family without a scan. `None` if the kernel does not
    /// count them (before 6.4).
    fn count_entries(&self, family: IpFamily) -> Option<u64>;
}

/// Policies, classes, and settings for all packets.
pub trait PolicyTables {
    /// Writes a policy.
    fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<()>;

    /// Replaces the settings for all packets atomically.
    fn set_settings(&mut self, settings: Settings) -> Result<()>;

    /// Returns the settings for all packets.
    fn settings(&self) -> Result<Settings>;

    /// Replaces the class arrays. During the change, a packet may see a mixture of both.
    fn set_classes(&mut self, classes: &ClassTables) -> Result<()>;

    /// Returns the class arrays.
    fn classes(&self) -> Result<ClassTables>;

    /// Returns elements of the class arrays in a range of indices.
    fn some_classes(&self, indices: Range<u32>) -> Result<Vec<ClassSet>>;

    /// Writes the tables with a value for each generation, each of them atomically. Interfaces
    /// without a rule have none.
    fn set_switched(&mut self, switched: &ByGeneration<Switched>) -> Result<()>;

    /// Returns these tables.
    fn switched(&self) -> Result<ByGeneration<Switched>>;

    /// Waits until no packet from before this call is being processed. Data that only such packets
    /// could use may then be overwritten.
    fn wait_for_packets(&self);

    /// Replaces the state in the slot of a policy of the node or of a destination that is not in
    /// force.
    fn set_total(&mut self, slot: u32, record: Record) -> Result<()>;

    /// Returns the size of the sliding logs.
    fn log_size(&self) -> LogSize;

    /// Returns the words of a record in the store `lru`.
    fn record_words(&self) -> u32;

    /// Returns the number of sets of the `compact` table, if that is the store.
    fn table_sets(&self) -> Option<u32>;

    /// Clears a region of that table, in both families.
    fn clear_region(&mut self, region: Region) -> Result<()>;

    /// Copies the usage in a region of that table to the empty one of a limit whose words have the
    /// same meaning, in both families. If the new one is too small, the highest usage is kept.
    fn copy_region(&mut self, from: Region, to: &Limit) -> Result<()>;

    /// Returns the policy at an index, which may be empty.
    fn policy(&self, index: u32) -> Result<Policy>;

    /// Returns the policies that are not empty, by index.
    fn policies(&self) -> Result<Vec<(u32, Policy)>> {
        self.some_policies(0..POLICIES_MAX)
    }

    /// Returns the policies in a range of indices that are not empty.
    fn some_policies(&self, indices: Range<u32>) -> Result<Vec<(u32, Policy)>>;

    /// Sets the end of pass-all, which the settings enable.
    fn set_pass_all_until(&mut self, until: Instant) -> Result<()>;

    /// Returns the end of pass-all.
    fn pass_all_until(&self) -> Result<Instant>;

    /// Returns the used part of the budget for new sources.
    fn new_sources_taken(&self) -> Result<Taken>;
}

/// Restores usage into tables that no program uses yet.
pub trait UsageTables {
    /// Writes records of sources of a family to the store `lru`.
    fn put_records(&mut self, family: IpFamily, rows: &[SourceRow]) -> Result<()>;

    /// Writes words of sources of a family to the region of a limit in the store `compact`. If the
    /// region is too small, the highest usage is kept.
    fn put_slots(&mut self, limit: &Limit, family: IpFamily, rows: &[(IpAddr, u64)]) -> Result<()>;

    /// Writes sliding logs. Their words are the times, newest last.
    fn put_logs(&mut self, rows: &[LogRow]) -> Result<()>;
}

/// This node's leases of shared limits, and the demand for these limits.
pub trait LeaseTables {
    /// Sets the keys for which the program looks for leases and demands, by family. The program
    /// adds refused keys.
    fn set_leased_filters(&mut self, filters: &[Filter; 2]) -> Result<()>;

    /// Writes leases, replacing those of the same keys.
    fn set_leases(&mut self, leases: &[(LogKey, Lease)]) -> Result<()>;

    /// Removes leases; missing ones are no error.
    fn remove_leases(&mut self, keys: &[LogKey]) -> Result<()>;

    /// Returns all leases.
    fn leases(&self) -> Result<Vec<(LogKey, Lease)>>;

    /// Returns the demand for shared limits since their source was first refused or got a lease.
    fn demands(&self) -> Result<Vec<(LogKey, Demand)>>;
}

/// The challenge, and verified sources.
pub trait ChallengeTables {
    /// Returns when the challenge is on, and the used part of the budgets that all CPUs share.
    fn challenge_taken(&self) -> Result<challenge::Taken>;

    /// Pauses the challenge.
    fn pause_challenge(&mut self, until: Instant) -> Result<()>;

    /// Returns the end of the last pause of the challenge.
    fn challenge_paused_until(&self) -> Result<Instant>;

    /// Returns how many SYNs and queries were not challenged because the budget was spent.
    fn challenge_unanswered(&self) -> Result<u64>;

    /// Returns the verification of a source, which may have expired.
    fn verified(&self, source: IpAddr) -> Result<Option<Verified>>;

    /// Visits all verified sources, including expired ones.
    fn for_each_verified(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<()>;
}

/// Bans by policies in the kernel, and their budgets.
pub trait PolicyBanTables {
    /// Returns the strikes of a source, as a word of [`BanRule`](ratelimit_common::BanRule).
    fn strikes(&self, source: IpAddr) -> Result<u64>;

    /// Sets the budgets for bans by policies per minute.
    fn set_ban_budgets(&mut self, limit: BanBudgets) -> Result<()>;

    /// Returns the budgets for bans by policies per minute.
    fn ban_budgets(&self) -> Result<BanBudgets>;

    /// Takes a ban for the daemon from the budget of this minute, which it shares with policies.
    /// Returns whether one was left.
    fn take_ban(&self, budgets: BanBudgets, evidence: Evidence, now: Instant) -> Result<bool>;

    /// Returns a policy's ban of a source that was not adopted yet.
    fn policy_ban(&self, source: IpAddr) -> Result<Option<PolicyBan>>;

    /// Returns all bans that were not adopted yet.
    fn policy_bans(&self) -> Result<Vec<(IpAddr, PolicyBan)>>;

    /// Removes adopted bans, except those that the program has replaced since they were read.
    /// Missing bans are not an error.
    fn forget_policy_bans(&mut self, taken: &[(IpAddr, PolicyBan)]) -> Result<()>;

    /// Returns the results of bans by policies, summed over all CPUs.
    fn tally(&self) -> Result<Tally>;
}

/// Counts of packets that matched list entries, by the slots in these entries.
pub trait EntryCounterTables {
    /// Returns the owner of each used slot as a hash. The first slot has the seed of the hashes.
    fn counter_owners(&self) -> Result<BTreeMap<u16, u64>>;

    /// Sets the owner of a slot.
    fn set_counter_owner(&mut self, slot: u16, owner: u64) -> Result<()>;

    /// Returns the counts of consecutive slots.
    fn entry_counters(&self, slots: Range<u32>) -> Result<Vec<Counter>>;

    /// Returns the count of a slot.
    fn entry_counter(&self, slot: u16) -> Result<Counter> {
        let slot = u32::from(slot);
        let counts = self.entry_counters(slot..slot + 1)?;
        Ok(counts.first().copied().unwrap_or_default())
    }

    /// Returns the packets that limits have judged on all interfaces, including former ones.
    fn judged(&self) -> Result<Counter>;

    /// Replaces the count of a slot that no packet uses.
    fn set_entry_counter(&mut self, slot: u16, count: Counter) -> Result<()>;
}

/// Programs on their interfaces.
pub trait Attachments {
    /// Returns the slots of interfaces in the counters, with their names.
    fn slots(&self) -> Vec<(u32, String)>;

    /// Returns whether one of our programs is running anywhere, with the tables it was attached
    /// with.
    fn runs(&self) -> bool;

    /// Returns the state of an interface.
    fn look(&self, interface: &str) -> anyhow::Result<Sight>;

    /// Applies renames: programs on interfaces that have another name than when they were attached
    /// count for the new name, if it is configured. Returns the old and the new names.
    ///
    /// # Errors
    ///
    /// On failure, all count as before.
    fn follow(&mut self, wanted: &[Interface]) -> anyhow::Result<BTreeMap<String, String>>;

    /// Loads the program for a missing interface, so that it can be attached as soon as the
    /// interface appears.
    ///
    /// # Errors
    ///
    /// Fails if the verifier refuses it.
    fn prepare(&mut self, interface: &Interface) -> anyhow::Result<()>;

    /// Attaches the program to an interface, or to the one that had its name, replacing one of
    /// ours. Returns a remark, if there is one.
    ///
    /// # Errors
    ///
    /// Returns why it is not attached, or continues as before.
    fn attach(&mut self, interface: &Interface) -> anyhow::Result<Option<String>>;

    /// Returns the features of every running program, and of those attached next.
    fn features(&self) -> Features;

    /// Replaces the running programs by ones with these features.
    ///
    /// # Errors
    ///
    /// If a program cannot be replaced, others may have been: [`features`](Self::features) then
    /// returns those common to the old and the new programs.
    fn specialise(&mut self, features: Features) -> anyhow::Result<()>;

    /// Sets the features of the programs that are attached next. Those that run keep theirs, which
    /// are at least these.
    fn set_features(&mut self, features: Features);

    /// Detaches the program from an interface, or from the one that had its name.
    fn take_off(&mut self, interface: &str) -> anyhow::Result<()>;

    /// Detaches the program from all interfaces except these.
    fn keep_only(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Restores removed pins, and returns whether there were any.
    fn keep_pinned(&mut self) -> anyhow::Result<bool>;

    /// Returns the interfaces whose program calls another program than the one pinned at the path
    /// in `chain`, also if none is pinned there.
    fn stale_next(&mut self) -> anyhow::Result<Vec<String>>;

    /// Detaches all programs, returns their interfaces, and releases the tables.
    fn detach(&mut self) -> anyhow::Result<Vec<String>>;
}

/// Sets of a `compact` table per read: 2 MiB of each family. Mapping a whole table takes a
/// millisecond and more, in which no other thread can map memory.
pub const SETS_AT_ONCE: u32 = 1 << 14;

/// The state of sources and of the node, and refused sources.
pub trait SourceTables: Send + Sync {
    /// Returns whether the state of sources is in a `compact` table.
    fn is_compact(&self) -> bool;

    /// Returns the number of sources of IPv4 and IPv6 that ever got state.
    fn inserted(&self) -> Result<[u64; 2]>;

    /// Visits the used slots in some sets of a region of that table, in both families.
    fn some_slots(
        &self,
        region: Region,
        sets: Range<u32>,
        visit: &mut dyn FnMut(SlotRow),
    ) -> Result<()>;

    /// Visits the used slots in all sets of a region.
    fn for_each_slot(&self, region: Region, visit: &mut dyn FnMut(SlotRow)) -> Result<()> {
        let mut firsts = (0..region.sets()).step_by(SETS_AT_ONCE as usize);
        firsts.try_for_each(|first| {
            let end = first.saturating_add(SETS_AT_ONCE);
            self.some_slots(region, first..end.min(region.sets()), visit)
        })
    }

    /// Returns the source of a tag in that table.
    fn source_of_tag(&self, family: IpFamily, tag: u64) -> IpAddr;

    /// Visits about `count` sources of a family from a position, except those in a `compact` table.
    /// Returns where to continue: the beginning after the last one.
    fn some_sources(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(SourceRow),
    ) -> Result<ScanPosition>;

    /// Visits the state of all sources in all scopes, except those in a `compact` table.
    fn for_each_source(&self, visit: &mut dyn FnMut(SourceRow)) -> Result<()>;

    /// Returns the state of a source, whose address is cut to the configured prefix, under a
    /// policy. For a source without a slot in a `compact` table, it is what would judge a packet at
    /// `now`.
    fn record(&self, source: IpAddr, policy: &Policy, now: Instant) -> Result<Option<Record>>;

    /// Returns the words of the sliding log of a limit for a source in a scope. `None` if nothing
    /// was logged.
    fn log(&self, source: IpAddr, scope: u32, limit: u32) -> Result<Option<Vec<u64>>>;

    /// Visits some sliding logs of both families from a position.
    fn some_logs(
        &self,
        place: &ScanPosition,
        visit: &mut dyn FnMut(LogRow),
    ) -> Result<ScanPosition>;

    /// Returns the number of entries of maps that only a scan can count, except those of sources,
    /// by name.
    fn count_others(&self) -> Result<Vec<(&'static str, u64)>>;

    /// Returns the state of a policy of the node or of a destination.
    fn total(&self, slot: u32) -> Result<Record>;

    /// Returns how often a source was refused, if that is known.
    fn refusals(&self, source: IpAddr) -> Result<Option<Refusals>>;

    /// Returns how often limits of this scope refused packets of an address that many sources
    /// share, if that is counted and known.
    fn shared_refusals(&self, address: IpAddr, scope: u32) -> Result<Option<Refusals>>;

    /// Visits the sources that were refused last, as many as are stored.
    fn for_each_refused(&self, visit: &mut dyn FnMut(IpAddr, Refusals)) -> Result<()>;
}
