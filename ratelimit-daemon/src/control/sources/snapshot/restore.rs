//! Restoring a snapshot.

use std::{collections::BTreeMap, fs, net::IpAddr, path::Path, time::Duration};

use anyhow::{Context, bail};
use ratelimit_common::{Instant, Limit, Policy, Record, algorithm::Algorithm};
use ratelimit_core::{
    ip_family::IpFamily,
    policies::Policies,
    snapshot::{Header, Passage, SavedUsage, Snapshot},
};

use crate::{
    datapath::{Datapath, LogRow, SourceRow},
    private,
};

/// Rows per write.
const AT_ONCE: usize = 4096;

/// The result of a restore.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Restored {
    /// The restored sources of all policies and totals of all packets, if they have used anything.
    pub sources: u64,
    /// The age of the snapshot.
    pub taken_ago: Duration,
}

/// Restores the snapshot in `file`, if there is one, into new tables. `now` is this moment on the
/// kernel's clock and on the daemon's.
///
/// # Errors
///
/// Fails if the file cannot be used. Nothing was restored then, unless the kernel refused a part.
pub fn restore(
    file: &Path,
    policies: &Policies,
    datapath: &mut Datapath,
    (to, time_ns): (Instant, i64),
) -> anyhow::Result<Option<Restored>> {
    let bytes = private::if_there(fs::read(file));
    let context = || format!("the snapshot {} cannot be used", file.display());
    let Some(bytes) = bytes.with_context(context)? else {
        return Ok(None);
    };
    let snapshot = Snapshot::decode(&bytes).with_context(context)?;
    let is_compact = datapath.sources.table_sets().is_some();
    if snapshot.header.is_compact != is_compact {
        let store = |is_compact| if is_compact { "compact" } else { "lru" };
        bail!(
            "the snapshot {} is of the store `{}`, and `{}` is configured",
            file.display(),
            store(snapshot.header.is_compact),
            store(is_compact)
        );
    }
    let elapsed_ns = u64::try_from(time_ns - snapshot.header.time_ns).unwrap_or(0);
    let from = snapshot.header.at.as_nanos().wrapping_add(elapsed_ns);
    let passage = Passage {
        from: Instant::from_nanos(from),
        to,
    };
    let parts = policies.parts().into_iter();
    let parts = parts.map(|(scope, (_, _, part))| (scope, part.policy));
    let mut restoring = Restoring {
        passage,
        header: &snapshot.header,
        parts: parts.collect(),
        datapath,
        records: BTreeMap::new(),
        slots: BTreeMap::new(),
        logs: Vec::new(),
        sources: 0,
    };
    let mut answer = Ok(());
    snapshot.visit(|entry| {
        if answer.is_ok() {
            answer = restoring.add(entry);
        }
    })?;
    answer.and_then(|()| restoring.finish())?;
    Ok(Some(Restored {
        sources: restoring.sources,
        taken_ago: Duration::from_nanos(elapsed_ns),
    }))
}

struct Restoring<'a> {
    passage: Passage,
    header: &'a Header,
    /// The current policies, by scope.
    parts: BTreeMap<u32, &'a Policy>,
    datapath: &'a mut Datapath,
    records: BTreeMap<IpFamily, Vec<SourceRow>>,
    /// Words of a `compact` table, by scope, limit and family.
    slots: BTreeMap<(u32, usize, IpFamily), Vec<(IpAddr, u64)>>,
    logs: Vec<LogRow>,
    sources: u64,
}

impl Restoring<'_> {
    fn add(&mut self, entry: SavedUsage) -> anyhow::Result<()> {
        match entry {
            SavedUsage::Words {
                group,
                source,
                record,
            } => {
                let Some((_, record)) = self.moved(group.scope, &record) else {
                    return Ok(());
                };
                self.sources += 1;
                if self.header.is_compact {
                    for index in group.indices() {
                        let key = (group.scope, index, group.family);
                        let word = record.words[index];
                        self.slots.entry(key).or_default().push((source, word));
                    }
                    return Ok(());
                }
                let rows = self.records.entry(group.family).or_default();
                rows.push(SourceRow {
                    source,
                    scope: group.scope,
                    record,
                });
                if rows.len() >= AT_ONCE {
                    self.datapath.sources.put_records(group.family, rows)?;
                    rows.clear();
                }
            }
            SavedUsage::Total { scope, record } => {
                let moved = self.moved(scope, &record);
                if let Some((slot, record)) = moved.map(|(policy, record)| (policy.slot(), record))
                {
                    self.sources += 1;
                    self.datapath.sources.set_total(slot, record)?;
                }
            }
            SavedUsage::Log {
                scope,
                limit,
                source,
                times,
            } => {
                let policy = self.parts.get(&scope);
                let kept = policy.and_then(|policy| policy.limit(limit as usize));
                let Some(Algorithm::SlidingLog(log)) = kept.map(Limit::algorithm) else {
                    return Ok(());
                };
                let words = self.passage.times(&times, &log);
                if !words.is_empty() {
                    self.sources += 1;
                    self.logs.push(LogRow {
                        source,
                        scope,
                        limit,
                        words,
                    });
                }
                if self.logs.len() >= AT_ONCE {
                    self.datapath.sources.put_logs(&self.logs)?;
                    self.logs.clear();
                }
            }
        }
        Ok(())
    }

    /// Converts words to the clock of this boot. `None` if their policy is gone or nothing is in
    /// use any more.
    fn moved(&self, scope: u32, record: &Record) -> Option<(&Policy, Record)> {
        let policy = self.parts.get(&scope)?;
        let before = self.header.scopes.get(&scope)?;
        let mut moved = Record::default();
        let words = moved.words.iter_mut().zip(record.words);
        for ((word, held), (before, after)) in words.zip(before.iter().zip(policy.limits())) {
            if held != 0 {
                let (before, after) = (before.algorithm(), after.algorithm());
                *word = self.passage.word(held, &before, &after);
            }
        }
        (moved != Record::default()).then_some((policy, moved))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        for (family, rows) in &self.records {
            self.datapath.sources.put_records(*family, rows)?;
        }
        for ((scope, index, family), rows) in &self.slots {
            let policy = self.parts.get(scope);
            if let Some(limit) = policy.and_then(|policy| policy.limit(*index)) {
                self.datapath.sources.put_slots(limit, *family, rows)?;
            }
        }
        Ok(self.datapath.sources.put_logs(&self.logs)?)
    }
}
