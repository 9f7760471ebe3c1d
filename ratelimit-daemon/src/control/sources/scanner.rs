//! Scans the state of sources in the kernel, on its own thread: a scan of a million sources takes a
//! good part of a second, and no ban should wait for it. Scans run one after the other, so that
//! several of them slow packets no more than one does.
//!
//! A scan changes nothing. It gets the intent as it was at its beginning. If policies change during
//! it, a region of a `compact` table may become that of another limit. So the caller checks
//! afterwards whether the policies are still the same.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::compact::Region;
use ratelimit_core::policies::Policies;
use tokio::sync::mpsc;

use super::evictions::Evictions;
use crate::{
    clock,
    datapath::{self, SlotRow, SourceRow, SourceTables},
};

/// Scans that can wait for their turn.
const QUEUE: usize = 64;
/// The time for which a count of sources stays fresh.
const COUNT_LASTS: Duration = Duration::from_secs(10);

/// The tables, and the memory of the scans.
pub struct Scanner {
    pub(crate) tables: Arc<SourceTables>,
    /// The last count of sources.
    counted: Option<(Instant, Sources)>,
    evictions: [Evictions; 2],
    /// The regions of the limits in a `compact` table at the last count, with their scopes.
    regions: Option<Vec<(u32, Region)>>,
}

/// Numbers of sources, IPv4 and IPv6. A `compact` table counts a source once for each limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sources {
    /// Sources with state.
    pub held: [u64; 2],
    /// Sources whose state was evicted.
    pub evicted: [u64; 2],
}

/// A scan that processes its own results.
pub(crate) type Job = Box<dyn FnOnce(&mut Scanner) + Send>;

impl Scanner {
    /// Returns a scanner that starts from the beginning.
    pub fn new(tables: Arc<SourceTables>) -> Self {
        Self {
            tables,
            counted: None,
            evictions: [Evictions::default(); 2],
            regions: None,
        }
    }

    /// Runs scans on their own thread until all senders are gone.
    pub(crate) fn spawn(mut self) -> io::Result<(mpsc::Sender<Job>, thread::JoinHandle<()>)> {
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let thread = thread::Builder::new()
            .name("scanner".into())
            .spawn(move || {
                while let Some(job) = queue.blocking_recv() {
                    job(&mut self);
                }
            })?;
        Ok((jobs, thread))
    }

    /// Counts the sources with state under `policies`, or returns a recent count.
    pub fn count_sources(&mut self, policies: &Policies) -> datapath::Result<Sources> {
        if let Some((counted, sources)) = self.counted
            && clock::elapsed(counted) < COUNT_LASTS
        {
            return Ok(sources);
        }
        let inserted = self.tables.inserted()?;
        let mut held = self.count_slots(policies)?;
        let count = &mut |row: SourceRow| held[usize::from(row.source.is_ipv6())] += 1;
        self.tables.for_each_source(count)?;
        let moved = self.limits_have_moved(policies);
        let mut evicted = [0; 2];
        for (family, evictions) in self.evictions.iter_mut().enumerate() {
            evicted[family] = evictions.count(inserted[family], held[family], moved);
        }
        let sources = Sources { held, evicted };
        self.counted = Some((clock::monotonic(), sources));
        Ok(sources)
    }

    /// Returns the number of entries of maps that only a scan can count, by name.
    pub fn fill(&mut self, policies: &Policies) -> datapath::Result<Vec<(&'static str, u64)>> {
        let mut fill = self.tables.count_others()?;
        if !self.tables.is_compact() {
            let [v4, v6] = self.count_sources(policies)?.held;
            fill.extend([("SOURCES_V4", v4), ("SOURCES_V6", v6)]);
        }
        Ok(fill)
    }

    /// Returns whether limits have moved in a `compact` table since the last call.
    fn limits_have_moved(&mut self, policies: &Policies) -> bool {
        if !self.tables.is_compact() {
            return false;
        }
        let parts = policies.parts();
        let regions = parts.iter().flat_map(|(scope, (_, _, part))| {
            let limits = part.policy.limits();
            limits.map(|limit| (*scope, limit.region()))
        });
        let before = self.regions.replace(regions.collect());
        before.is_some_and(|before| Some(before) != self.regions)
    }

    /// Counts the used slots of a `compact` table, IPv4 and IPv6: one for each source and limit.
    pub fn count_slots(&self, policies: &Policies) -> datapath::Result<[u64; 2]> {
        let mut slots = [0; 2];
        let parts = policies.parts();
        for limit in parts.values().flat_map(|(_, _, part)| part.policy.limits()) {
            let count = &mut |row: SlotRow| slots[row.family as usize] += 1;
            self.tables.for_each_slot(limit.region(), count)?;
        }
        Ok(slots)
    }
}
