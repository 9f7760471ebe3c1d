//! The file of the history, SQLite.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use jiff::Timestamp;
use ratelimit_common::layout::{self, Counter};
use ratelimit_core::{api::PastAttack, detection::Kind};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params, params_from_iter};

use super::{
    increments::Last,
    leb128,
    rollup::{Bucket, BucketKey, Rollup, Tier},
    sample::Counters,
    series::{Series, Sums},
};
use crate::{clock, private};

/// The attacks that are kept.
const ATTACKS_MAX: i64 = 1_000;
/// The pages of the log, from which on a commit brings them over.
const LOG_PAGES: i64 = 100;
/// The bytes that the log keeps when it is brought over.
const LOG_BYTES: i64 = LOG_PAGES * PAGE_BYTES;
/// A row with all possible series fits into a page of this size.
const PAGE_BYTES: i64 = 8192;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS series (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,             -- pass, drop, observe, policy, or `left of` and whose
        name TEXT NOT NULL,             -- the reason, the policy, or the limit
        UNIQUE (kind, name)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS bucket (
        tier INTEGER NOT NULL,          -- seconds
        number INTEGER NOT NULL,
        at INTEGER NOT NULL,            -- seconds since 1970
        observed INTEGER NOT NULL,      -- seconds
        counts BLOB NOT NULL,           -- for each series its id, packets and bytes, as LEB128
        PRIMARY KEY (tier, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS bucket_at ON bucket (tier, at);
    CREATE TABLE IF NOT EXISTS last (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        start TEXT NOT NULL,            -- of the machine, and the layout of the counters
        second INTEGER NOT NULL,
        since_boot_ns INTEGER NOT NULL,
        counters TEXT NOT NULL          -- JSON
    ) STRICT;
    CREATE TABLE IF NOT EXISTS attack (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        since_ms INTEGER NOT NULL,
        seen_ms INTEGER NOT NULL,
        packets_per_second INTEGER NOT NULL,
        sources INTEGER NOT NULL,
        UNIQUE (kind, subject, since_ms)
    ) STRICT;";

/// The file.
pub struct File {
    path: PathBuf,
    connection: Option<Connection>,
    ids: BTreeMap<Series, u16>,
}

/// The state in the file that later samples continue.
#[derive(Default)]
pub struct Found {
    /// The last sum of each tier.
    pub ends: BTreeMap<BucketKey, Bucket>,
    /// The last counters; `None` if they cannot be continued.
    pub last: Option<Last>,
}

/// A batch of changes, written atomically.
pub struct Batch<'b> {
    pub rollup: &'b Rollup,
    pub last: Option<&'b Last>,
    pub attacks: Vec<&'b PastAttack>,
    pub keep: Duration,
}

impl File {
    /// Returns the file of a state directory, which is opened when needed.
    pub fn of(directory: &Path) -> Self {
        Self {
            path: directory.join("history.db"),
            connection: None,
            ids: BTreeMap::new(),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes it, so that it is opened again.
    pub fn close(&mut self) {
        self.connection = None;
        self.ids.clear();
    }

    /// Takes it away.
    pub fn remove(&mut self) {
        self.close();
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.with(suffix));
        }
    }

    /// Returns its size in bytes, including its log.
    pub fn bytes(&self) -> u64 {
        let files = ["", "-wal", "-shm"].map(|suffix| fs::metadata(self.with(suffix)));
        files.into_iter().flatten().map(|file| file.len()).sum()
    }

    fn with(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    fn connection(&mut self) -> anyhow::Result<&mut Connection> {
        if self.connection.is_none() {
            private::open(&self.path)
                .with_context(|| format!("opening {}", self.path.display()))?;
            let connection = Connection::open(&self.path)?;
            connection.busy_timeout(Duration::ZERO)?;
            connection.pragma_update(None, "page_size", PAGE_BYTES)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
            connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
            connection.execute_batch(TABLES)?;
            let names = read_names(&connection)?.into_iter();
            self.ids = names.map(|(id, series)| (series, id)).collect();
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it was just opened"))
    }

    /// Loads the state to continue.
    pub fn load(&mut self) -> anyhow::Result<Found> {
        let connection = self.connection()?;
        let last = read_last(connection)?;
        let mut ends = BTreeMap::new();
        for tier in Tier::ALL {
            let last = "tier = ?1 ORDER BY number DESC LIMIT 1";
            ends.extend(read_buckets(connection, tier, last, &[tier.seconds()])?);
        }
        Ok(Found { ends, last })
    }

    /// Writes what is new, and forgets what is too old.
    ///
    /// # Errors
    ///
    /// If it cannot be written. Then no part of it is.
    pub fn write(&mut self, batch: &Batch<'_>) -> anyhow::Result<()> {
        self.connection()?;
        let connection = self.connection.as_mut().expect("it was just opened");
        let transaction = connection.transaction()?;
        let mut ids = self.ids.clone();
        let put = "INSERT OR REPLACE INTO bucket VALUES (?1, ?2, ?3, ?4, ?5)";
        for ((tier, number), bucket) in batch.rollup.buckets() {
            let counts = encode(&bucket.sums, &mut ids, &transaction)?;
            let Bucket { at, observed, .. } = bucket;
            transaction.prepare_cached(put)?.execute(params![
                tier.seconds(),
                number,
                at,
                observed,
                counts
            ])?;
        }
        for tier in Tier::ALL {
            let before = batch.rollup.last(tier) - tier.count(batch.keep);
            let forget = "DELETE FROM bucket WHERE tier = ?1 AND number <= ?2";
            transaction
                .prepare_cached(forget)?
                .execute([tier.seconds(), before])?;
        }
        if let Some(last) = batch.last {
            write_last(&transaction, last)?;
        }
        write_attacks(&transaction, &batch.attacks)?;
        transaction.commit()?;
        self.ids = ids;
        Ok(())
    }

    /// The sums of a tier that begin in a time, by their numbers.
    pub fn read(
        &mut self,
        tier: Tier,
        [from, to]: [i64; 2],
    ) -> anyhow::Result<BTreeMap<BucketKey, Bucket>> {
        let time = "tier = ?1 AND at >= ?2 AND at < ?3";
        read_buckets(self.connection()?, tier, time, &[tier.seconds(), from, to])
    }

    /// The attacks that were seen in a time.
    pub fn attacks(&mut self, [from, to]: [i64; 2]) -> anyhow::Result<Vec<PastAttack>> {
        let query = "SELECT kind, subject, since_ms, seen_ms, packets_per_second, sources
            FROM attack WHERE seen_ms >= ?1 AND since_ms < ?2";
        let mut statement = self.connection()?.prepare_cached(query)?;
        let mut rows = statement.query([from.saturating_mul(1000), to.saturating_mul(1000)])?;
        let mut attacks = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: String = row.get(0)?;
            // Kinds of a newer version are skipped.
            let mut known = Kind::ALL.iter().copied();
            let Some(kind) = known.find(|it| it.label() == kind) else {
                continue;
            };
            attacks.push(PastAttack {
                kind,
                subject: row.get(1)?,
                since: Timestamp::from_millisecond(row.get(2)?)?,
                seen: Timestamp::from_millisecond(row.get(3)?)?,
                packets_per_second: row.get::<_, i64>(4)?.cast_unsigned(),
                sources: row.get::<_, i64>(5)?.cast_unsigned(),
            });
        }
        Ok(attacks)
    }
}

/// Whether an error says that the file is damaged, or not ours.
pub fn is_damage(error: &anyhow::Error) -> bool {
    use rusqlite::Error;
    if error.downcast_ref::<Unsound>().is_some() {
        return true;
    }
    let Some(error) = error.downcast_ref::<Error>() else {
        return false;
    };
    // Tables or values of another kind than ours.
    let is_other = matches!(
        error,
        Error::SqlInputError { .. }
            | Error::InvalidColumnType(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
    );
    let codes = [
        ErrorCode::DatabaseCorrupt,
        ErrorCode::NotADatabase,
        ErrorCode::Unknown,
    ];
    is_other
        || error
            .sqlite_error_code()
            .is_some_and(|it| codes.contains(&it))
}

/// A value that we did not write.
#[derive(Debug, thiserror::Error)]
#[error("a row is not sound")]
struct Unsound;

fn read_names(connection: &Connection) -> anyhow::Result<BTreeMap<u16, Series>> {
    let mut statement = connection.prepare_cached("SELECT id, kind, name FROM series")?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, Series::from_texts(row.get(1)?, row.get(2)?)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads the sums of a tier that meet a condition, by number.
fn read_buckets(
    connection: &Connection,
    tier: Tier,
    condition: &str,
    values: &[i64],
) -> anyhow::Result<BTreeMap<BucketKey, Bucket>> {
    let names = read_names(connection)?;
    let query = format!("SELECT number, at, observed, counts FROM bucket WHERE {condition}");
    let mut statement = connection.prepare_cached(&query)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut buckets = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let bucket = Bucket {
            at: row.get(1)?,
            observed: row.get(2)?,
            sums: decode(&row.get::<_, Vec<u8>>(3)?, &names)?,
        };
        buckets.insert((tier, row.get(0)?), bucket);
    }
    Ok(buckets)
}

fn encode(
    sums: &Sums,
    ids: &mut BTreeMap<Series, u16>,
    transaction: &Transaction<'_>,
) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (series, count) in sums {
        let id = if let Some(id) = ids.get(series) {
            *id
        } else {
            let (kind, name) = series.texts();
            let put = "INSERT INTO series (kind, name) VALUES (?1, ?2)";
            transaction.execute(put, [kind, name])?;
            // With more names the file starts from empty.
            let id = u16::try_from(transaction.last_insert_rowid()).map_err(|_| Unsound)?;
            ids.insert(series.clone(), id);
            id
        };
        for number in [id.into(), count.packets, count.bytes] {
            leb128::put(&mut bytes, number);
        }
    }
    Ok(bytes)
}

fn decode(bytes: &[u8], names: &BTreeMap<u16, Series>) -> anyhow::Result<Sums> {
    let mut rest = bytes;
    let mut sums = Sums::new();
    while !rest.is_empty() {
        let id = leb128::take(&mut rest).ok_or(Unsound)?;
        let packets = leb128::take(&mut rest).ok_or(Unsound)?;
        let bytes = leb128::take(&mut rest).ok_or(Unsound)?;
        let id = u16::try_from(id).map_err(|_| Unsound)?;
        let series = names.get(&id).ok_or(Unsound)?;
        sums.insert(series.clone(), Counter { packets, bytes });
    }
    Ok(sums)
}

/// Identifies counters that continue each other.
fn start() -> String {
    format!("{} {}", clock::boot_id(), layout::VERSION)
}

fn read_last(connection: &Connection) -> anyhow::Result<Option<Last>> {
    let query = "SELECT second, since_boot_ns, counters FROM last WHERE start = ?1";
    let row = connection.query_row(query, [start()], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?))
    });
    let Some((second, since_boot, counters)) = row.optional()? else {
        return Ok(None);
    };
    Ok(Some(Last {
        second,
        since_boot: Duration::from_nanos(i64::cast_unsigned(since_boot)),
        counters: Counters::from_json(&counters).ok_or(Unsound)?,
    }))
}

fn write_last(transaction: &Transaction<'_>, last: &Last) -> anyhow::Result<()> {
    let since_boot = i64::try_from(last.since_boot.as_nanos())?;
    let counters = last.counters.to_json();
    let put = "INSERT OR REPLACE INTO last VALUES (1, ?1, ?2, ?3, ?4)";
    transaction.prepare_cached(put)?.execute(params![
        start(),
        last.second,
        since_boot,
        counters
    ])?;
    Ok(())
}

fn write_attacks(transaction: &Transaction<'_>, attacks: &[&PastAttack]) -> anyhow::Result<()> {
    let put = "INSERT INTO attack (kind, subject, since_ms, seen_ms, packets_per_second, sources)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET seen_ms = excluded.seen_ms,
        packets_per_second = excluded.packets_per_second, sources = excluded.sources";
    for attack in attacks {
        transaction.prepare_cached(put)?.execute(params![
            attack.kind.label(),
            attack.subject,
            attack.since.as_millisecond(),
            attack.seen.as_millisecond(),
            attack.packets_per_second.cast_signed(),
            attack.sources.cast_signed(),
        ])?;
    }
    let forget = "DELETE FROM attack WHERE id <= (SELECT max(id) FROM attack) - ?1";
    transaction.prepare_cached(forget)?.execute([ATTACKS_MAX])?;
    Ok(())
}
