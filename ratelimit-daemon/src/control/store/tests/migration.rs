//! Databases of older versions.

use super::*;

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
fn what_version_1_kept_is_there_after_its_change_to_version_2() {
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
        let limits = store.limits().unwrap();
        let targets: Vec<_> = limits
            .iter()
            .map(|(target, row)| (*target, row.observe))
            .collect();
        assert_eq!(
            targets,
            [(None, false), (Some(prefix("192.0.2.0/24")), true)]
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
        error.contains("from version 1 to 2") && error.contains("nonsense"),
        "{error}"
    );
    let rows: u32 = Connection::open(file)
        .unwrap()
        .query_row("SELECT count(*) FROM allow", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
}

fn first(directory: &Path) -> Connection {
    let connection = Connection::open(directory.join("state.db")).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection
}
