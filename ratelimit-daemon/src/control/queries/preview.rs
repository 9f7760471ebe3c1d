//! What would happen to a packet at this moment: [`decide`], over the tables as they are, without leaving a trace.

use std::net::IpAddr;

use ratelimit_common::{
    BanRule, ClassSet, Cursor, Detected, Family, Instant, Policy, Record, Settings, SourceKey,
    Standing, Tables, Verdict,
    aggregate::Aggregates,
    algorithm::sliding_log::Ring,
    charge::{Refusal, Words},
    decide,
    detected::Detection,
    list::Listed,
    new_sources::Newcomer,
    node::{Node, Share},
    parse::transport::Kind,
    strikes::Strike,
    tables::{FamilyTables, InsertError},
};
use ratelimit_core::{config::Source, ip_family::IpAddress, rules::Rules};

use crate::{control::enforcer::Enforcer, datapath::SourceTables};

/// A small frame, as a packet of the source that is asked about.
const FRAME_BYTES: usize = 64;

/// No next header (RFC 8200, 4.7).
const NO_NEXT_HEADER: u8 = 59;

/// The verdict on a packet of `address` and these classes at `now`.
#[must_use]
pub fn preview(
    address: IpAddr,
    classes: ClassSet,
    now: Instant,
    rules: &Rules,
    enforcer: &Enforcer,
    source: &Source,
) -> Verdict {
    let frame = frame(address);
    decide(
        Cursor::new(&frame),
        now,
        &Preview {
            rules,
            enforcer,
            tables: &*enforcer.datapath().sources(),
            source,
            classes,
            now,
        },
    )
}

fn frame(address: IpAddr) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    let (ethertype, version, offset): (u16, u8, usize) = match address {
        IpAddr::V4(_) => (0x0800, 0x45, 26),
        IpAddr::V6(_) => (0x86dd, 0x60, 22),
    };
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame[14] = version;
    match address {
        IpAddr::V4(address) => frame[offset..offset + 4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => {
            frame[20] = NO_NEXT_HEADER;
            frame[offset..offset + 16].copy_from_slice(&address.octets());
        }
    }
    frame
}

struct Preview<'a> {
    rules: &'a Rules,
    enforcer: &'a Enforcer,
    tables: &'a dyn SourceTables,
    source: &'a Source,
    classes: ClassSet,
    now: Instant,
}

impl Tables for Preview<'_> {
    type Node<'a>
        = ReadOnlyNode<'a>
    where
        Self: 'a;

    fn settings(&self) -> Settings {
        self.enforcer.held().settings
    }

    fn pass_all_until(&self) -> Instant {
        self.enforcer.held().pass_all_until
    }

    fn policy(&self, index: u32) -> Option<&Policy> {
        self.enforcer.held().policies.get(&index)
    }

    /// The small frame is of no protocol that a class could name: it is of those that are asked about.
    fn classes_of(&self, _: Kind) -> ClassSet {
        self.classes
    }

    fn classes_from(&self, _: u32) -> ClassSet {
        self.classes
    }

    fn classes_to(&self, _: u32) -> ClassSet {
        self.classes
    }

    fn node(&self) -> ReadOnlyNode<'_> {
        ReadOnlyNode(self.tables)
    }

    /// What is told is what happens while there is room for new sources.
    fn admits(&self, _: Newcomer, _: Instant) -> bool {
        true
    }

    fn admits_neighbour_discovery(&self, _: Instant) -> bool {
        true
    }

    fn may_detect(&self, _: Standing, _: Instant) -> bool {
        false
    }

    fn count_detection(&self, _: Detection) {}

    fn count(&self, _: Family, _: Verdict, _: u32) {}
}

impl<A: IpAddress> FamilyTables<A> for Preview<'_> {
    type Words<'a>
        = ReadOnly<'a>
    where
        Self: 'a;

    fn aggregates(&self) -> Aggregates {
        let aggregates = &self.enforcer.held().aggregates;
        aggregates.get(&A::IP_FAMILY).copied().unwrap_or_default()
    }

    fn source_mask(&self) -> A {
        self.source.mask()
    }

    fn listed(&self, address: A, now: Instant) -> Listed {
        let matched = self.rules.longest_match(address.to_std());
        let entry = matched.and_then(|(prefix, _)| self.enforcer.entry(prefix));
        entry.map(|entry| entry.at(now)).unwrap_or_default()
    }

    /// A source without state would get it: nothing is used.
    fn words(&self, key: &SourceKey<A>) -> Option<ReadOnly<'_>> {
        let (address, scope) = (key.address().to_std(), key.scope());
        let mut policies = self.enforcer.held().policies.values();
        let policy = policies.find(|policy| policy.scope() == scope)?;
        let record = self.tables.record(address, policy, self.now);
        Some(ReadOnly {
            record: record.ok().flatten().unwrap_or_default(),
            tables: self.tables,
            logs: Some((address, scope)),
        })
    }

    fn insert(&self, _: &SourceKey<A>) -> Result<(), InsertError> {
        Ok(())
    }

    fn detected(&self, source: &A) -> Option<Detected> {
        let datapath = self.enforcer.datapath();
        datapath.detected(source.to_std()).ok().flatten()
    }

    fn count_refusal(&self, _: &A, _: Instant) {}

    fn count_strike(&self, _: &A, _: &BanRule, _: Instant) -> bool {
        false
    }

    fn is_connected(&self, _: &Strike<'_>) -> bool {
        false
    }

    fn ban(&self, _: &A, _: Detected) -> bool {
        false
    }

    fn sample(&self, _: A, _: Refusal) {}
}

/// The state of a source or of the node, which stays as it is.
struct ReadOnly<'a> {
    record: Record,
    tables: &'a dyn SourceTables,
    /// The source and the scope of its sliding logs.
    logs: Option<(IpAddr, u32)>,
}

impl Words for ReadOnly<'_> {
    type Ring = ReadOnlyRing;

    fn load(&self, index: usize) -> u64 {
        self.record.words[index]
    }

    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }

    fn ring(&self, index: usize) -> Option<ReadOnlyRing> {
        let ((source, scope), index) = (self.logs?, u32::try_from(index).ok()?);
        let words = self.tables.log(source, scope, index).ok().flatten()?;
        Some(ReadOnlyRing(words))
    }

    fn make_ring(&self, index: usize) -> Option<ReadOnlyRing> {
        let empty = || ReadOnlyRing(Vec::new());
        Some(self.ring(index).unwrap_or_else(empty))
    }
}

/// The words of a sliding log.
pub struct ReadOnlyRing(pub Vec<u64>);

impl Ring for ReadOnlyRing {
    fn times(&self) -> u32 {
        u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn load(&self, index: u32) -> u64 {
        self.0.get(index as usize).copied().unwrap_or_default()
    }

    fn compare_exchange(&self, _: u32, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }
}

/// The state of the node. What each CPU has drawn, and not spent, is not known: it counts as used.
struct ReadOnlyNode<'a>(&'a dyn SourceTables);

impl<'a> Node for ReadOnlyNode<'a> {
    type Words = ReadOnly<'a>;

    fn words(&self, scope: u32) -> Option<ReadOnly<'a>> {
        let record = self.0.node_record(scope).ok()?;
        Some(ReadOnly {
            record,
            tables: self.0,
            logs: None,
        })
    }

    fn share(&self, _: usize) -> Share {
        Share::default()
    }

    fn set_share(&self, _: usize, _: Share) {}
}
