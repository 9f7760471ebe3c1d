//! Databases of older versions.

use super::*;
use crate::control::timekeeper::nanos;

/// The tables of version 1, as the first release made them.
const FIRST: &str = "
    CREATE TABLE ban (
        prefix TEXT PRIMARY KEY, until_ns INTEGER, until_boot_ns INTEGER, boot TEXT NOT NULL,
        since_ns INTEGER NOT NULL, reason TEXT, author TEXT NOT NULL
    ) STRICT;
    CREATE TABLE allow (
        prefix TEXT PRIMARY KEY, since_ns INTEGER NOT NULL, reason TEXT, author TEXT NOT NULL
    ) STRICT;
    CREATE TABLE limits (
        target TEXT PRIMARY KEY, limits TEXT NOT NULL, observe INTEGER NOT NULL,
        since_ns INTEGER NOT NULL, author TEXT NOT NULL
    ) STRICT;
    PRAGMA user_version = 1;
";
const HOUR: i64 = 3_600_000_000_000;

#[test]
fn what_version_1_kept_is_there_after_its_change_to_version_3() {
    let directory = tempfile::tempdir().unwrap();
    let since = now();
    let since_ns = i64::try_from(since.as_nanosecond()).unwrap();
    let same_boot = i64::try_from(clock::after(Duration::from_hours(1)).as_nanos()).unwrap();
    let first = first(directory.path());
    let mut ban = first
        .prepare("INSERT INTO ban VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'root')")
        .unwrap();
    let (boot, other) = (clock::boot_id(), "another".to_owned());
    let hour = since_ns + HOUR;
    for (prefix, until, until_boot, boot, since, reason) in [
        (
            "192.0.2.1",
            Some(hour),
            Some(same_boot),
            &boot,
            since_ns,
            Some("flood"),
        ),
        ("192.0.2.2", Some(hour), Some(1), &other, since_ns, None),
        (
            "192.0.2.3",
            Some(since_ns - 1),
            Some(1),
            &other,
            since_ns - HOUR,
            None,
        ),
        // The wall clock was ten years ahead when this hour began.
        (
            "192.0.2.4",
            Some(hour + 87_600 * HOUR),
            Some(1),
            &other,
            since_ns + 87_600 * HOUR,
            None,
        ),
        ("2001:db8::/32", None, None, &other, since_ns, None),
    ] {
        ban.execute(rusqlite::params![
            prefix, until, until_boot, boot, since, reason
        ])
        .unwrap();
    }
    drop(ban);
    let limits = r#"[{"packets": 5, "per": "1s"}]"#;
    for statement in [
        format!("INSERT INTO allow VALUES ('192.0.2.10', {since_ns}, 'monitoring', 'alice')"),
        format!("INSERT INTO limits VALUES ('', '{limits}', 0, {since_ns}, 'root')"),
        format!("INSERT INTO limits VALUES ('192.0.2.0/24', '{limits}', 1, {since_ns}, 'root')"),
    ] {
        first.execute(&statement, []).unwrap();
    }
    drop(first);

    for _ in 0..2 {
        let store = Store::open(directory.path()).unwrap();
        let bans = store.bans().unwrap();
        let prefixes: Vec<String> = bans.iter().map(|(prefix, ..)| prefix.to_string()).collect();
        let expected = [
            "192.0.2.1",
            "192.0.2.2",
            "192.0.2.3",
            "192.0.2.4",
            "2001:db8::/32",
        ];
        assert_eq!(prefixes, expected);
        assert!(bans.iter().all(|(_, origin, _)| *origin == Origin::Manual));
        let until: Vec<u64> = bans.iter().map(|(.., row)| row.until.as_nanos()).collect();
        assert_eq!(until[0], same_boot.cast_unsigned());
        assert_eq!(bans[0].2.since, since);
        assert_eq!(bans[0].2.reason.as_deref(), Some("flood"));
        for left in [until[1], until[3]] {
            assert!(
                left.abs_diff(same_boot.cast_unsigned()) < 1_000_000_000,
                "{until:?}"
            );
        }
        assert!(until[2] <= clock::now().as_nanos());
        assert_eq!(bans[4].2.until, FOREVER);
        let allows = store.allows().unwrap();
        assert_eq!(allows[0].0, prefix("192.0.2.10"));
        assert_eq!(allows[0].1.reason.as_deref(), Some("monitoring"));
        assert_eq!(allows[0].1.until, FOREVER);
        let limits = store.limits().unwrap();
        let targets: Vec<_> = limits
            .iter()
            .map(|(target, row)| (*target, row.observe, row.until))
            .collect();
        assert_eq!(
            targets,
            [
                (Target::Default, false, FOREVER),
                (Target::Sources(prefix("192.0.2.0/24")), true, FOREVER)
            ]
        );
    }
}

#[test]
fn a_damaged_database_of_version_1_is_put_aside_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let connection = first(directory.path());
    connection
        .execute("INSERT INTO allow VALUES ('nonsense', 1, NULL, 'root')", [])
        .unwrap();
    drop(connection);
    let store = Store::open(directory.path()).unwrap();
    let Found::Damaged(Damage { file, error }) = store.found() else {
        panic!("{:?}", store.found());
    };
    assert!(
        error.contains("from version 1 to 3") && error.contains("nonsense"),
        "{error}"
    );
    let rows: u32 = Connection::open(file)
        .unwrap()
        .query_row("SELECT count(*) FROM allow", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
}

/// Allows and limits of version 2, as they were made and written.
const SECOND: &str = "
    DROP TABLE allow;
    DROP TABLE limits;
    CREATE TABLE allow (
        prefix BLOB PRIMARY KEY NOT NULL, since_ns INTEGER NOT NULL, reason TEXT, author TEXT NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE limits (
        target BLOB PRIMARY KEY NOT NULL, limits TEXT NOT NULL, observe INTEGER NOT NULL,
        since_ns INTEGER NOT NULL, author TEXT NOT NULL, checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 2;
    PRAGMA application_id = 0x726c0002;
";
const LIMITS: &str = r#"[{"packets":5,"per":"1s","algorithm":"fixed-window"}]"#;

#[test]
fn what_version_2_kept_is_there_after_its_change_to_version_3() {
    let directory = tempfile::tempdir().unwrap();
    let since = now();
    let until = second(directory.path(), since);
    for _ in 0..2 {
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(*store.found(), Found::Sound);
        check_second(&store, since);
        assert_eq!(store.bans().unwrap()[0].2.until, until);
        let version: u32 = store
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(version, 3);
    }
}

#[test]
fn of_a_damaged_database_of_version_2_the_sound_rows_are_taken_over() {
    let damages = [
        "UPDATE allow SET author = 'eve' WHERE author = 'mallory'",
        "UPDATE limits SET observe = 1 WHERE author = 'mallory'",
        "UPDATE ban SET author = 'eve' WHERE author = 'mallory'",
        "PRAGMA user_version = 6",
    ];
    for damage in damages {
        let directory = tempfile::tempdir().unwrap();
        let since = now();
        second(directory.path(), since);
        let connection = Connection::open(directory.path().join("state.db")).unwrap();
        let (allow, other) = (prefix("198.51.100.1").to_bytes(), nanos(since));
        let sum = allow_sum_of_second(&allow, other, None, "mallory");
        let values = rusqlite::params![allow, other, sum];
        let statement = "INSERT INTO allow VALUES (?1, ?2, NULL, 'mallory', ?3)";
        connection.execute(statement, values).unwrap();
        let sum = limits_sum_of_second(&allow, LIMITS, false, other, "mallory");
        let values = rusqlite::params![allow, LIMITS, other, sum];
        let statement = "INSERT INTO limits VALUES (?1, ?2, 0, ?3, 'mallory', ?4)";
        connection.execute(statement, values).unwrap();
        connection.execute_batch(damage).unwrap();
        drop(connection);
        let store = Store::open(directory.path()).unwrap();
        assert!(matches!(store.found(), Found::Damaged(_)), "{damage}");
        check_second(&store, since);
    }
}

/// Makes a database of version 2 with a ban, an allow and limits, and answers when the ban ends.
fn second(directory: &Path, since: Timestamp) -> Instant {
    let until = clock::after(Duration::from_hours(1));
    let mut store = Store::open(directory).unwrap();
    for author in ["root", "mallory"] {
        let ban = BanRow {
            until,
            since,
            reason: None,
            author: author.into(),
        };
        let place = if author == "root" {
            "192.0.2.1"
        } else {
            "198.51.100.1"
        };
        let edit = Edit::Ban(prefix(place), Origin::Manual, Some(ban));
        store.transaction(|writer| writer.write(&edit)).unwrap();
    }
    store.end_rescue().unwrap();
    store.connection.execute_batch(SECOND).unwrap();
    let since = nanos(since);
    let allow = prefix("192.0.2.10").to_bytes();
    let sum = allow_sum_of_second(&allow, since, Some("monitoring"), "alice");
    let statement = "INSERT INTO allow VALUES (?1, ?2, 'monitoring', 'alice', ?3)";
    let values = rusqlite::params![allow, since, sum];
    store.connection.execute(statement, values).unwrap();
    for target in [vec![], prefix("192.0.2.0/24").to_bytes().to_vec()] {
        let sum = limits_sum_of_second(&target, LIMITS, true, since, "alice");
        let statement = "INSERT INTO limits VALUES (?1, ?2, 1, ?3, 'alice', ?4)";
        let values = rusqlite::params![target, LIMITS, since, sum];
        store.connection.execute(statement, values).unwrap();
    }
    until
}

/// What [`second`] wrote is there, whatever else is.
fn check_second(store: &Store, since: Timestamp) {
    let allow = AllowRow {
        until: FOREVER,
        since,
        reason: Some("monitoring".into()),
        author: "alice".into(),
    };
    let found = store.allows().unwrap();
    assert!(found.contains(&(prefix("192.0.2.10"), allow)), "{found:?}");
    let limits = LimitRow {
        limits: serde_json::from_str(LIMITS).unwrap(),
        observe: true,
        until: FOREVER,
        since,
        reason: None,
        author: "alice".into(),
    };
    let found = store.limits().unwrap();
    for target in [None, Some(prefix("192.0.2.0/24"))] {
        assert!(
            found.contains(&(target.into(), limits.clone())),
            "{found:?}"
        );
    }
    let bans = store.bans().unwrap();
    assert_eq!(bans[0].0, prefix("192.0.2.1"));
}

fn allow_sum_of_second(key: &[u8], since: i64, reason: Option<&str>, author: &str) -> u32 {
    let sum = Checksum::of("allow").bytes(key).integer(since);
    sum.optional(reason).bytes(author.as_bytes()).sum()
}

fn limits_sum_of_second(key: &[u8], limits: &str, observe: bool, since: i64, author: &str) -> u32 {
    let sum = Checksum::of("limits").bytes(key).bytes(limits.as_bytes());
    let sum = sum.integer(observe.into()).integer(since);
    sum.bytes(author.as_bytes()).sum()
}

fn first(directory: &Path) -> Connection {
    let connection = Connection::open(directory.join("state.db")).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection
}
