//! Lists: a row for each, and its entries in blobs of a few thousand, with 6 bytes for a permanent
//! IPv4 address without a reason. A row for each entry would take ten times as long to write and to
//! read.

use std::net::IpAddr;

use anyhow::{Context, ensure};
use ratelimit_core::{
    intent::{
        Edit, FOREVER,
        list::{List, ListEntry},
    },
    lists::{Action, ReasonId, Reasons},
    prefix::Prefix,
};
use rusqlite::{Connection, Row, params};

use super::{
    reader::{Reader, time},
    table::{Table, Writer},
};
use crate::control::time::ban_clock::{BanClock, nanos};

pub const TABLES: &str = "
    CREATE TABLE list (
        name TEXT PRIMARY KEY NOT NULL,
        action TEXT NOT NULL,
        file TEXT,                          -- NULL for one that was imported by hand
        since_ns INTEGER NOT NULL,
        author TEXT NOT NULL,
        reasons TEXT NOT NULL,              -- JSON
        parts INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE list_entry (
        list TEXT NOT NULL,
        part INTEGER NOT NULL,
        entries BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (list, part)
    ) STRICT;
";

pub const LIST: Table = Table {
    name: "list",
    rows: "SELECT name, action, file, since_ns, author, reasons, parts, checksum FROM list ORDER \
           BY name",
    put: "INSERT OR REPLACE INTO list VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    nullable: &[2],
};

const ENTRY: Table = Table {
    name: "list_entry",
    rows: "SELECT list, part, entries, checksum FROM list_entry WHERE list = ? ORDER BY part",
    put: "INSERT OR REPLACE INTO list_entry VALUES (?, ?, ?, ?)",
    nullable: &[],
};

/// Entries per blob.
const PART: usize = 4096;

/// Flags in the byte before an entry.
const IS_V6: u8 = 1;
const ENDS: u8 = 2;
const HAS_REASON: u8 = 4;

/// Reads a row of [`LIST`], with the entries.
pub fn read_list(reader: &mut Reader<'_>, row: &Row<'_>) -> anyhow::Result<Edit> {
    let (name, action) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
    let (file, author) = (row.get_ref(2)?.as_str_or_null()?, row.get_ref(4)?.as_str()?);
    let (reasons, parts) = (row.get_ref(5)?.as_str()?, row.get(6)?);
    let (action, file) = (read_action(action)?, file.map(Into::into));
    let list = List::new(action, file, time(row, 3)?, author.into());
    let entries = read_entries(reader.connection, name, parts, reader.ban_clock)?;
    let mut texts = Reasons::default();
    for text in serde_json::from_str::<Vec<String>>(reasons)? {
        texts.add(&text);
    }
    let list = list.with_entries(entries, texts);
    Ok(Edit::List(name.into(), Some(list.into()), [].into()))
}

fn read_entries(
    connection: &Connection,
    name: &str,
    parts: i64,
    ban_clock: &BanClock,
) -> anyhow::Result<Vec<ListEntry>> {
    let mut statement = connection.prepare_cached(ENTRY.rows)?;
    let mut rows = statement.query([name])?;
    let mut entries = Vec::new();
    let mut next = 0;
    while let Some(row) = rows.next()? {
        let mut read = || -> anyhow::Result<()> {
            ENTRY.check(row)?;
            ensure!(row.get::<_, i64>(1)? == next, "it is not the next");
            decode(row.get_ref(2)?.as_blob()?, ban_clock, &mut entries)
        };
        read().with_context(|| format!("part {next} of the list {name} is damaged"))?;
        next += 1;
    }
    ensure!(next == parts, "the list {name} has {next} parts of {parts}");
    Ok(entries)
}

impl Writer<'_> {
    /// Stores a list, replacing one with its name, or removes it if `None`.
    pub(super) fn put_list(&self, name: &str, list: Option<&List>) -> anyhow::Result<()> {
        self.run("DELETE FROM list_entry WHERE list = ?1", params![name])?;
        self.run("DELETE FROM list WHERE name = ?1", params![name])?;
        let Some(list) = list else { return Ok(()) };
        let reasons: Vec<&str> = list.reasons.iter().collect();
        let reasons = serde_json::to_string(&reasons)?;
        let file = list.file.as_ref().map(|file| file.display().to_string());
        let (action, since) = (list.action.label(), nanos(list.since));
        let mut parts: i64 = 0;
        let mut blob = Vec::new();
        for entries in list.entries().chunks(PART) {
            blob.clear();
            for entry in entries {
                encode(entry, self.ban_clock, &mut blob);
            }
            self.put(&ENTRY, params![name, parts, blob])?;
            parts += 1;
        }
        self.put(
            &LIST,
            params![name, action, file, since, list.author, reasons, parts],
        )
    }
}

fn encode(entry: &ListEntry, ban_clock: &BanClock, bytes: &mut Vec<u8>) {
    let ends = entry.until != FOREVER;
    let has_reason = entry.reason != ReasonId::NONE;
    let is_v6 = entry.prefix.address().is_ipv6();
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    bytes.push(flag(is_v6, IS_V6) | flag(ends, ENDS) | flag(has_reason, HAS_REASON));
    bytes.push(entry.prefix.len());
    match entry.prefix.address() {
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
    if ends {
        bytes.extend(ban_clock.time(entry.until).to_le_bytes());
    }
    if has_reason {
        bytes.extend(entry.reason.number().to_le_bytes());
    }
}

fn decode(bytes: &[u8], ban_clock: &BanClock, entries: &mut Vec<ListEntry>) -> anyhow::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let entry = decode_one(&mut rest, ban_clock).context("an entry is cut")?;
        entries.push(entry);
    }
    Ok(())
}

fn decode_one(rest: &mut &[u8], ban_clock: &BanClock) -> Option<ListEntry> {
    let [flags, length] = take(rest)?;
    let address: IpAddr = if flags & IS_V6 == 0 {
        take::<4>(rest)?.into()
    } else {
        take::<16>(rest)?.into()
    };
    let until = if flags & ENDS == 0 {
        FOREVER
    } else {
        ban_clock.instant(i64::from_le_bytes(take(rest)?))
    };
    let reason = if flags & HAS_REASON == 0 {
        ReasonId::NONE
    } else {
        ReasonId::from_number(u32::from_le_bytes(take(rest)?))
    };
    let prefix = Prefix::around(address, length)?;
    Some(ListEntry {
        prefix,
        until,
        reason,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (front, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*front)
}

fn read_action(text: &str) -> anyhow::Result<Action> {
    let actions = [Action::Ban, Action::Allow, Action::Policy].into_iter();
    let mut found = actions.filter(|action| action.label() == text);
    found
        .next()
        .with_context(|| format!("`{text}` is not an action of a list"))
}
