//! Challenged sources, and which of them would have answered.
//!
//! A capture contains no answers to a challenge that was never sent. A source that acknowledges
//! data after it was challenged has received packets of a server in between. It would have received
//! the challenge too, and counts as verified from then on.

use std::{collections::HashSet, net::IpAddr};

use ratelimit_common::{DropReason, Instant, Verdict};

use super::{answer::Challenged as Answer, origin::Origin};
use crate::memory_tables::MemoryTables;

/// The sources that were challenged.
#[derive(Debug, Default)]
pub struct Challenged {
    silent: HashSet<IpAddr>,
    verified: HashSet<IpAddr>,
}

impl Challenged {
    /// Records the outcome for a packet.
    pub fn take(&mut self, verdict: Verdict, origin: &Origin, now: Instant, tables: &MemoryTables) {
        if verdict == Verdict::Drop(DropReason::Challenged) {
            self.silent.insert(origin.source);
        } else if origin.acknowledges && self.silent.remove(&origin.source) {
            self.verified.insert(origin.source);
            tables.verify(origin.source, now);
        }
    }

    /// Returns the counts.
    pub fn answer(&self) -> Answer {
        Answer {
            sources: self.silent.union(&self.verified).count(),
            verified: self.verified.len(),
        }
    }
}
