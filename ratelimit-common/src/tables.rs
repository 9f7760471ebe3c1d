//! What the pipeline needs from the world: the lists, the policies, the state of the sources, the counters.

use crate::{
    Address, Family, Ipv4, Ipv6, ListEntry, Policy, Settings, Verdict,
    charge::{Refusal, Words},
    source::{Record, SourceKey},
};

/// Why the state of a new source was not stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InsertError {
    /// Another CPU stored it first.
    Exists,
    /// There is no room, for the moment.
    Full,
}

/// The tables of the datapath. The kernel has them in BPF maps, tests and `rlctl simulate` in memory.
pub trait Tables: FamilyTables<Ipv4> + FamilyTables<Ipv6> {
    /// What holds for all packets.
    fn settings(&self) -> Settings;

    /// The policy at `index`; `None` where there is none.
    fn policy(&self, index: u32) -> Option<&Policy>;

    /// Counts a packet, once, under its verdict.
    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32);
}

/// The tables of one address family.
pub trait FamilyTables<A: Address> {
    /// The state of one source.
    type Words<'a>: Words
    where
        Self: 'a;

    /// The bits of an address that make it a source.
    fn source_mask(&self) -> A;

    /// The list entry of the longest prefix that matches `address`.
    fn list_entry(&self, address: A) -> Option<ListEntry>;

    /// The state of a source that was seen before.
    fn words(&self, key: &SourceKey<A>) -> Option<Self::Words<'_>>;

    /// Stores the state of a source that was not seen before.
    ///
    /// # Errors
    ///
    /// See [`InsertError`].
    fn insert(&self, key: &SourceKey<A>, record: &Record) -> Result<(), InsertError>;

    /// Notes that a limit refused a packet of `source`.
    fn strike(&self, source: A);

    /// Shows a packet of `source` that is dropped, or would be, to whoever looks at a sample of them.
    fn sample(&self, source: A, refusal: Refusal);
}
