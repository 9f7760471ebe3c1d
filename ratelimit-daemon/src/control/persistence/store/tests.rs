//! The database in a directory of its own.

mod later_tables;
mod replaced;

use std::{fs, os::unix::fs::PermissionsExt, sync::Arc};

use jiff::Timestamp;
use ratelimit_core::{
    intent::{LimitRow, LimitedRow, Offence, Target, list::List},
    limit::{Algorithm, LimitSpec, LimitUnit},
};

use super::{damage::with_suffix, *};
use crate::{clock, control::reports::rows};

#[test]
fn a_prefix_with_bans_of_several_origins_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let ban = entry(FOREVER);
    // As texts they have another order than as they are written here.
    let origins = [
        Origin::Manual,
        Origin::Forced,
        Origin::Automatic,
        Origin::Crowdsec,
    ];
    let mut store = Store::open(directory.path()).unwrap();
    let write = |origin: &Origin, writer: &Writer<'_>| {
        writer.write(&Edit::Ban(
            prefix("192.0.2.1"),
            origin.clone(),
            Some(ban.clone()),
        ))
    };
    store
        .transaction(|writer| origins.iter().try_for_each(|origin| write(origin, writer)))
        .unwrap();
    store.end_adoption().unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(*store.found(), Found::Sound);
    assert_eq!(store.bans().unwrap().len(), origins.len());
    assert_eq!(store.bans().unwrap().len(), origins.len(), "asked again");
}

#[test]
fn an_automatic_ban_keeps_its_row_under_the_name_from_before_1_0() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    let write = |store: &mut Store, ban| {
        let edit = Edit::Ban(prefix("192.0.2.1"), Origin::Automatic, ban);
        store.transaction(|writer| writer.write(&edit)).unwrap();
    };
    write(&mut store, Some(entry(FOREVER)));
    let origin = store
        .connection
        .query_row("SELECT origin FROM ban", [], |row| row.get::<_, String>(0));
    assert_eq!(origin.unwrap(), "detected");
    assert_eq!(store.bans().unwrap()[0].1, Origin::Automatic);
    write(&mut store, None);
    assert!(store.bans().unwrap().is_empty());
}

#[test]
fn the_database_and_its_log_are_for_the_user_of_the_daemon_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mode = |name: &str| {
        let file = fs::metadata(directory.path().join(name)).unwrap();
        file.permissions().mode() & 0o777
    };
    let store = Store::open(directory.path()).unwrap();
    assert_eq!((mode("state.db"), mode("state.db-wal")), (0o600, 0o600));
    drop(store);
    // As an older version made it.
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(directory.path().join("state.db"), readable).unwrap();
    let _store = Store::open(directory.path()).unwrap();
    assert_eq!((mode("state.db"), mode("state.db-wal")), (0o600, 0o600));
}

#[test]
fn what_was_written_is_there_after_opening_the_file_again() {
    let directory = tempfile::tempdir().unwrap();
    let minutes = |minutes| clock::after(Duration::from_mins(minutes));
    let ban = rows::entry(minutes(1), Some("flood"), "root");
    let allow = rows::entry(minutes(2), Some("migration"), "root");
    let (forever, lasting) = (entry(FOREVER), entry(FOREVER));
    let limit = LimitSpec::new(
        5,
        LimitUnit::Bytes,
        Duration::from_secs(1),
        Algorithm::FixedWindow,
    )
    .unwrap();
    let log = LimitSpec::new(
        5,
        LimitUnit::Packets,
        Duration::from_mins(1),
        Algorithm::SlidingLog,
    )
    .unwrap();
    let limits = LimitRow {
        limits: vec![limit, log],
        observe: true,
        only: false,
        entry: rows::entry(minutes(3), Some("crawler"), "root"),
    };
    let lasting_limits = LimitRow {
        entry: entry(FOREVER),
        ..limits.clone()
    };
    let (first, second) = (prefix("192.0.2.0/24"), prefix("2001:db8::1"));
    Store::open(directory.path())
        .unwrap()
        .transaction(|writer| {
            writer.write(&Edit::Ban(first, Origin::Manual, Some(ban.clone())))?;
            writer.write(&Edit::Ban(second, Origin::list("a"), Some(forever.clone())))?;
            writer.write(&Edit::Allow(first, Some(allow.clone())))?;
            writer.write(&Edit::Allow(second, Some(lasting.clone())))?;
            writer.write(&Edit::Limits(Target::Default, Some(limits.clone())))?;
            writer.write(&Edit::Limits(
                Target::Sources(second),
                Some(lasting_limits.clone()),
            ))
        })
        .unwrap();
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(
        store.bans().unwrap(),
        [
            (first, Origin::Manual, ban),
            (second, Origin::list("a"), forever)
        ]
    );
    assert_eq!(store.allows().unwrap(), [(first, allow), (second, lasting)]);
    assert_eq!(
        store.limits().unwrap(),
        [
            (Target::Default, limits),
            (Target::Sources(second), lasting_limits)
        ]
    );
}

#[test]
fn a_long_log_is_brought_over_into_the_database_beside_the_commits() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    let allow = entry(FOREVER);
    let edit = Edit::Allow(prefix("192.0.2.1"), Some(allow));
    for _ in 0..1_000 {
        store.transaction(|writer| writer.write(&edit)).unwrap();
    }
    // This way, the log is not read.
    let database = format!("file:{}/state.db?immutable=1", directory.path().display());
    let is_there = || {
        let database = Connection::open(&database).unwrap();
        let allows = database.query_row("SELECT count(*) FROM allow", [], |row| row.get(0));
        allows == Ok(1)
    };
    let is_brought_over = (0..3_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_there()
    });
    assert!(is_brought_over);
}

#[test]
fn a_power_failure_loses_what_was_not_synced_and_nothing_else() {
    let (directory, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let number = ChangeCount::beside(&directory.path().join("state.db"));
    let mut store = Store::open(directory.path()).unwrap();
    let mut allow = |address: &str| {
        let edit = Edit::Allow(prefix(address), Some(entry(FOREVER)));
        store.transaction(|writer| writer.write(&edit)).unwrap();
        store.flush();
    };
    // Another thread syncs.
    let mut addresses = (1..=250).map(|last| format!("192.0.2.{last}")).cycle();
    while number.seen().is_none_or(|seen| seen.synced == 0) {
        allow(&addresses.next().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    let write_back = |name| {
        fs::copy(directory.path().join(name), disk.path().join(name)).unwrap();
    };
    write_back("state.db");
    write_back("state.db-wal");
    allow("198.51.100.1");
    write_back("state.changes");
    let path = disk.path().join("state.db");
    assert!(Store::open_sound(&path, &clock::boot_id()).is_err());
    let store = Store::open_sound(&path, "another boot").unwrap();
    let allows = store.allows().unwrap();
    assert!(
        !allows
            .iter()
            .any(|(allowed, _)| *allowed == prefix("198.51.100.1"))
    );
    drop(store);
    // Of the log, what was synced is lost as well.
    fs::remove_file(&path).unwrap();
    Store::open(disk.path()).unwrap();
    write_back("state.changes");
    assert!(Store::open_sound(&path, "another boot").is_err());
}

#[test]
fn a_transaction_that_fails_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    let allow = entry(FOREVER);
    let answer: anyhow::Result<()> = store.transaction(|writer| {
        writer.write(&Edit::Allow(prefix("192.0.2.1"), Some(allow)))?;
        anyhow::bail!("no")
    });
    assert!(answer.is_err());
    assert_eq!(store.allows().unwrap(), []);
}

#[test]
fn after_a_reboot_everything_ends_when_it_would_have() {
    let directory = tempfile::tempdir().unwrap();
    let until = clock::after(Duration::from_hours(1));
    let limits = LimitRow {
        limits: Vec::new(),
        observe: false,
        only: false,
        entry: entry(until),
    };
    let path = directory.path().join("state.db");
    let edits = [
        Edit::Ban(prefix("192.0.2.1"), Origin::Manual, Some(entry(until))),
        Edit::Allow(prefix("192.0.2.1"), Some(entry(until))),
        Edit::Limits(Target::Default, Some(limits)),
    ];
    Store::open_sound(&path, "another boot")
        .unwrap()
        .transaction(|writer| edits.iter().try_for_each(|edit| writer.write(edit)))
        .unwrap();
    let store = Store::open(directory.path()).unwrap();
    let found = [
        store.bans().unwrap()[0].2.until,
        store.allows().unwrap()[0].1.until,
        store.limits().unwrap()[0].1.entry.until,
    ];
    for found in found {
        assert!(found.as_nanos().abs_diff(until.as_nanos()) < 50_000_000);
        assert_ne!(found, until);
    }
}

#[test]
fn an_end_or_a_reason_with_a_flipped_bit_is_not_taken_for_another() {
    let until = clock::after(Duration::from_hours(1));
    let allow = rows::entry(until, Some("test"), "root");
    let limits = LimitRow {
        limits: Vec::new(),
        observe: false,
        only: false,
        entry: allow.clone(),
    };
    for table in ["allow", "limits"] {
        for damage in [
            "until_ns = until_ns + 1",
            "until_ns = NULL",
            "reason = 'tesu'",
            "reason = NULL",
        ] {
            let directory = tempfile::tempdir().unwrap();
            let mut store = Store::open(directory.path()).unwrap();
            let edits = [
                Edit::Allow(prefix("192.0.2.1"), Some(allow.clone())),
                Edit::Limits(Target::Default, Some(limits.clone())),
            ];
            let write = |writer: &Writer<'_>| edits.iter().try_for_each(|edit| writer.write(edit));
            store.transaction(write).unwrap();
            let statement = format!("UPDATE {table} SET {damage}");
            store.connection.execute_batch(&statement).unwrap();
            let error = store.check_rows().unwrap_err();
            assert!(
                format!("{error:#}").contains("checksum"),
                "{statement}: {error:#}"
            );
        }
    }
}

#[test]
fn a_row_with_a_flipped_bit_is_not_taken_for_another() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    let ban = entry(FOREVER);
    let edit = Edit::Ban(prefix("192.0.2.1"), Origin::Manual, Some(ban));
    store.transaction(|writer| writer.write(&edit)).unwrap();
    let other = prefix("192.0.2.3").to_bytes();
    store
        .connection
        .execute("UPDATE ban SET prefix = ?1", [other])
        .unwrap();
    let error = format!("{:#}", store.bans().unwrap_err());
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn a_database_of_another_version_is_left_alone() {
    for (version, application) in [(1, 0), (2, 0x726c_0002), (99, 0x726c_0063)] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let pragmas =
            format!("PRAGMA user_version = {version}; PRAGMA application_id = {application};");
        store.connection.execute_batch(&pragmas).unwrap();
        drop(store);
        let error = format!("{:#}", Store::open(directory.path()).err().unwrap());
        let said = format!("version {version}, written by another ratelimitd");
        assert!(
            error.contains("state.db") && error.contains(&said),
            "{error}"
        );
    }
}

impl Store {
    /// The rows of one table.
    fn rows<T>(&self, kinds: &[Kind], row: impl Fn(Edit) -> Option<T>) -> anyhow::Result<Vec<T>> {
        Ok(self.edits(kinds)?.into_iter().filter_map(row).collect())
    }

    pub(crate) fn allows(&self) -> anyhow::Result<Vec<(Prefix, EntryRow)>> {
        self.rows(&OTHERS, |edit| {
            let Edit::Allow(prefix, row) = edit else {
                return None;
            };
            Some((prefix, row?))
        })
    }

    pub(crate) fn limits(&self) -> anyhow::Result<Vec<(Target, LimitRow)>> {
        self.rows(&POLICIES, |edit| {
            let Edit::Limits(target, row) = edit else {
                return None;
            };
            Some((target, row?))
        })
    }

    pub(crate) fn limited(&self) -> anyhow::Result<Vec<(Prefix, LimitedRow)>> {
        self.rows(&POLICIES, |edit| {
            let Edit::Limited(prefix, row) = edit else {
                return None;
            };
            Some((prefix, row?))
        })
    }

    pub(crate) fn lists(&self) -> anyhow::Result<Vec<Arc<List>>> {
        self.rows(&OTHERS, |edit| {
            let Edit::List(_, list, _) = edit else {
                return None;
            };
            list
        })
    }

    pub(crate) fn offences(&self) -> anyhow::Result<Vec<(Prefix, Offence)>> {
        self.rows(&OTHERS, |edit| {
            let Edit::Offence(prefix, row) = edit else {
                return None;
            };
            Some((prefix, row?))
        })
    }
}

fn entry(until: Instant) -> EntryRow {
    rows::entry(until, None::<&str>, "root")
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}
