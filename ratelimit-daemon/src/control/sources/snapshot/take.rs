//! Taking a snapshot.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use ratelimit_common::{Instant, Limit, Record, layout};
use ratelimit_core::{
    ip_family::IpFamily,
    policies::Policies,
    snapshot::{Encoder, Group, Header, is_long},
};

use crate::{
    clock,
    datapath::{SETS_AT_ONCE, ScanPosition, SourceTables, to_the_end},
    private,
};

/// Sources per read.
const SOURCES_AT_ONCE: usize = 4096;

/// A snapshot to take, on any thread.
pub struct Job {
    pub tables: Arc<SourceTables>,
    pub policies: Arc<Policies>,
    /// This moment on the kernel's clock and on the daemon's, the latter in nanoseconds.
    pub now: (Instant, i64),
    /// Limits with shorter windows are left out.
    pub min_window: Duration,
    pub file: PathBuf,
}

/// A snapshot in a temporary file next to the one it will replace.
#[derive(Debug)]
pub struct Snapshot {
    /// The number of sources, totals and logs in it.
    pub entries: u64,
    pub bytes: u64,
    pub took: Duration,
    beside: PathBuf,
    file: PathBuf,
}

/// The limits of a scope, some of which are long.
struct Part {
    limits: Vec<Limit>,
    /// A bit for each long limit.
    long: u8,
    /// The slot of the words, if they are totals of all packets.
    slot: Option<u32>,
}

impl Job {
    /// Writes the snapshot to the disk, in a file with this ending.
    pub fn take(self, ending: &str) -> anyhow::Result<Snapshot> {
        let start = clock::monotonic();
        let beside = self.file.with_extension(ending);
        let context = || format!("writing {}", beside.display());
        let mut file = private::create(&beside).with_context(context)?;
        let entries = self.write(&mut file).with_context(context)?;
        file.sync_all().with_context(context)?;
        Ok(Snapshot {
            entries,
            bytes: file.metadata().with_context(context)?.len(),
            took: clock::elapsed(start),
            beside,
            file: self.file,
        })
    }

    fn write(&self, file: &mut File) -> anyhow::Result<u64> {
        let parts = self.parts();
        let scopes = parts.iter();
        let (at, time_ns) = self.now;
        let mut encoder = Encoder::new(&Header {
            layout: layout::VERSION,
            is_compact: self.tables.is_compact(),
            at,
            time_ns,
            scopes: scopes
                .map(|(scope, part)| (*scope, part.limits.clone()))
                .collect(),
        });
        for (scope, part) in &parts {
            if let Some(slot) = part.slot
                && let Some(record) = part.in_use(&self.tables.total(slot)?)
            {
                encoder.total(*scope, &record);
            }
        }
        if self.tables.is_compact() {
            self.add_slots(&parts, &mut encoder, file)?;
        } else {
            self.add_records(&parts, &mut encoder, file)?;
        }
        self.add_logs(&parts, &mut encoder, file)?;
        let entries = encoder.entries();
        file.write_all(&encoder.finish())?;
        Ok(entries)
    }

    fn add_records(
        &self,
        parts: &BTreeMap<u32, Part>,
        encoder: &mut Encoder,
        file: &mut File,
    ) -> anyhow::Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        for family in IpFamily::ALL {
            to_the_end(|place| {
                let next = self
                    .tables
                    .some_sources(family, place, SOURCES_AT_ONCE, |row| {
                        let Some(part) = parts.get(&row.scope) else {
                            return;
                        };
                        if let Some(record) = part.in_use(&row.record) {
                            let group = Group {
                                scope: row.scope,
                                family,
                                limits: part.long,
                            };
                            encoder.words(group, row.source, &record);
                        }
                    })?;
                file.write_all(&encoder.take())?;
                anyhow::Ok(next)
            })?;
        }
        Ok(())
    }

    fn add_slots(
        &self,
        parts: &BTreeMap<u32, Part>,
        encoder: &mut Encoder,
        file: &mut File,
    ) -> anyhow::Result<()> {
        for (scope, part) in parts.iter().filter(|(_, part)| part.slot.is_none()) {
            for (index, limit) in part.long_limits() {
                let algorithm = limit.algorithm();
                let region = limit.region();
                for first in (0..region.sets()).step_by(SETS_AT_ONCE as usize) {
                    let end = first.saturating_add(SETS_AT_ONCE).min(region.sets());
                    let now = clock::now();
                    self.tables.some_slots(region, first..end, |row| {
                        if algorithm.used(row.word, now) == 0 {
                            return;
                        }
                        let mut record = Record::default();
                        record.words[index] = row.word;
                        let group = Group {
                            scope: *scope,
                            family: row.family,
                            limits: 1 << index,
                        };
                        let source = self.tables.source_of_tag(row.family, row.tag);
                        encoder.words(group, source, &record);
                    })?;
                    file.write_all(&encoder.take())?;
                }
            }
        }
        Ok(())
    }

    fn add_logs(
        &self,
        parts: &BTreeMap<u32, Part>,
        encoder: &mut Encoder,
        file: &mut File,
    ) -> anyhow::Result<()> {
        to_the_end(|place: &ScanPosition| {
            let next = self.tables.some_logs(place, |row| {
                let part = parts.get(&row.scope);
                let is_long = part.is_some_and(|part| part.long >> row.limit & 1 != 0);
                if let [_, times @ ..] = &row.words[..]
                    && is_long
                {
                    let times: Vec<u64> = times.iter().copied().filter(|it| *it != 0).collect();
                    encoder.log((row.scope, row.limit), row.source, &times);
                }
            })?;
            file.write_all(&encoder.take())?;
            anyhow::Ok(next)
        })
    }

    /// Returns the parts with long limits, by scope.
    fn parts(&self) -> BTreeMap<u32, Part> {
        let parts = self.policies.parts().into_iter();
        let parts = parts.map(|(scope, (_, role, part))| {
            let limits: Vec<Limit> = part.policy.limits().copied().collect();
            let is_long = limits.iter().map(|limit| is_long(limit, self.min_window));
            let long = is_long.enumerate().fold(0, |long, (index, is_long)| {
                long | u8::from(is_long) << index
            });
            let slot = role.is_total().then(|| part.policy.slot());
            (scope, Part { limits, long, slot })
        });
        parts.filter(|(_, part)| part.long != 0).collect()
    }
}

impl Part {
    /// Returns the words of long limits that are in use, if there are any.
    fn in_use(&self, record: &Record) -> Option<Record> {
        let now = clock::now();
        let mut in_use = Record::default();
        for (index, limit) in self.long_limits() {
            let word = record.words[index];
            if word != 0 && limit.algorithm().used(word, now) > 0 {
                in_use.words[index] = word;
            }
        }
        (in_use != Record::default()).then_some(in_use)
    }

    fn long_limits(&self) -> impl Iterator<Item = (usize, &Limit)> {
        let limits = self.limits.iter().enumerate();
        limits.filter(|(index, _)| self.long >> index & 1 != 0)
    }
}

impl Snapshot {
    /// Replaces the previous snapshot. A crash leaves one or the other.
    pub fn keep(self) -> anyhow::Result<Self> {
        let renamed = fs::rename(&self.beside, &self.file);
        renamed
            .and_then(|()| private::sync_directory_of(&self.file))
            .with_context(|| format!("replacing {}", self.file.display()))?;
        Ok(self)
    }

    /// Deletes this snapshot, which may be wrong, and keeps the previous one.
    pub fn discard(self) -> anyhow::Result<()> {
        private::remove(&self.beside).map(drop)
    }
}
