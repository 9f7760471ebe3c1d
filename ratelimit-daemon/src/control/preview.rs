//! What would happen to a packet at this moment: [`decide`], over the tables as they are, without leaving a trace.

use std::net::IpAddr;

use ratelimit_common::{
    Cursor, Family, Instant, ListEntry, Policy, Record, Settings, SourceKey, Tables, Verdict,
    charge::{Refusal, Words},
    decide,
    tables::{FamilyTables, InsertError},
};

use super::{enforcer::Enforcer, rules::Rules};
use crate::{config::Source, datapath::IpAddress};

/// A small frame, as a packet of the source that is asked about.
const FRAME_BYTES: usize = 64;

/// No next header (RFC 8200, 4.7).
const NO_NEXT_HEADER: u8 = 59;

/// The verdict on a packet of `address` at `now`.
#[must_use]
pub fn preview(
    address: IpAddr,
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
            source,
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
    source: &'a Source,
}

impl Tables for Preview<'_> {
    fn settings(&self) -> Settings {
        self.enforcer.settings()
    }

    fn policy(&self, index: u32) -> Option<&Policy> {
        self.enforcer.policies().get(&index)
    }

    fn count(&self, _: Family, _: Verdict, _: u32) {}
}

impl<A: IpAddress> FamilyTables<A> for Preview<'_> {
    type Words<'a>
        = ReadOnly
    where
        Self: 'a;

    fn source_mask(&self) -> A {
        A::source_mask(self.source)
    }

    fn list_entry(&self, address: A) -> Option<ListEntry> {
        let (prefix, _) = self.rules.longest_match(address.to_std())?;
        self.enforcer.entry(prefix)
    }

    fn words(&self, key: &SourceKey<A>) -> Option<ReadOnly> {
        let record = self
            .enforcer
            .datapath()
            .record(key.address().to_std(), key.scope());
        record.ok().flatten().map(ReadOnly)
    }

    fn insert(&self, _: &SourceKey<A>, _: &Record) -> Result<(), InsertError> {
        Ok(())
    }

    fn strike(&self, _: A) {}

    fn sample(&self, _: A, _: Refusal) {}
}

/// The state of a source, which stays as it is.
struct ReadOnly(Record);

impl Words for ReadOnly {
    fn load(&self, index: usize) -> u64 {
        self.0.words[index]
    }

    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }
}
