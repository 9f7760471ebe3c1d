//! Scans what the kernel keeps of sources, on a thread of their own. One through a million takes a good part of a second,
//! in which no ban is to wait. They take place one after the other, so that several that are asked for at once slow packets no more
//! than one does.
//!
//! A scan changes nothing. What it has to know of what is intended it is given, as it was when it began. Policies may change
//! meanwhile, and a region of a `compact` table may become that of another limit. Who asks for a scan looks, when it has ended,
//! whether the policies are still the same.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::compact::Region;
use ratelimit_core::policies::Policies;
use tokio::sync::mpsc;

use super::{
    evictions::Evictions,
    history::{Scan, UsageSample},
};
use crate::{
    clock,
    datapath::{self, SlotRow, SourceRow, SourceTables},
};

/// Scans that may wait for their turn.
const QUEUE: usize = 64;
/// How long a count of the sources is good for.
const COUNT_LASTS: Duration = Duration::from_secs(10);

/// The tables, and what scans them remember.
pub struct Scanner {
    pub(crate) tables: Arc<dyn SourceTables>,
    /// The sources as they were counted a moment ago.
    counted: Option<(Instant, Sources)>,
    evictions: [Evictions; 2],
    /// Where the limits were in a `compact` table at the last count, each with the scope that it is of.
    regions: Option<Vec<(u32, Region)>>,
    /// Where the next sample of what sources have sent goes on.
    scan: Scan,
}

/// Sources of IPv4 and of IPv6; in a `compact` table each counts once for each limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sources {
    /// Those that have state.
    pub held: [u64; 2],
    /// Those whose state gave way to that of others.
    pub evicted: [u64; 2],
}

/// A scan, and what is done with what it found.
pub(crate) type Job = Box<dyn FnOnce(&mut Scanner) + Send>;

impl Scanner {
    /// One that has begun no scan yet.
    pub fn new(tables: Arc<dyn SourceTables>) -> Self {
        Self {
            tables,
            counted: None,
            evictions: [Evictions::default(); 2],
            regions: None,
            scan: Scan::default(),
        }
    }

    /// Counts the windows of the node, and of some sources: as many as there is time for.
    pub fn sample(&mut self, policies: Arc<Policies>) -> UsageSample {
        self.scan.sample(&*self.tables, policies)
    }

    /// Scans on a thread of its own until nobody can ask any more.
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

    /// How many sources have state under `policies`, or had a moment ago.
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
        let moved = self.have_moved(policies);
        let mut evicted = [0; 2];
        for (family, evictions) in self.evictions.iter_mut().enumerate() {
            evicted[family] = evictions.count(inserted[family], held[family], moved);
        }
        let sources = Sources { held, evicted };
        self.counted = Some((clock::monotonic(), sources));
        Ok(sources)
    }

    /// How many entries the maps have that only a scan can count, by their names.
    pub fn fill(&mut self, policies: &Policies) -> datapath::Result<Vec<(&'static str, u64)>> {
        let mut fill = self.tables.count_others()?;
        if !self.tables.is_compact() {
            let [v4, v6] = self.count_sources(policies)?.held;
            fill.extend([("SOURCES_V4", v4), ("SOURCES_V6", v6)]);
        }
        Ok(fill)
    }

    /// Whether limits are not where they were in a `compact` table when this was last asked.
    fn have_moved(&mut self, policies: &Policies) -> bool {
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

    /// The slots of a `compact` table that are not empty, of IPv4 and of IPv6: one for each source and limit.
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
