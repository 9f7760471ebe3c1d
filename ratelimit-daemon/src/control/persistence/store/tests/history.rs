//! The usage history and limited sources survive a change of the tables, and are recovered from a
//! damaged file.

use ratelimit_core::{detection::Kind, intent::LimitedRow};

use super::*;
use crate::control::persistence::store::usage_histogram::{Measured, Seen};

/// The tables that version 2 did not have from its beginning on.
const LATER: [&str; 3] = ["offence", "limited", "history"];

#[test]
fn a_database_from_before_these_tables_opens_and_keeps_everything() {
    let directory = tempfile::tempdir().unwrap();
    let allow = rows::entry(FOREVER, Some("monitoring"), "alice");
    let ban = entry(FOREVER);
    let mut store = Store::open(directory.path()).unwrap();
    store
        .transaction(|writer| {
            writer.write(&Edit::Allow(prefix("192.0.2.1"), Some(allow.clone())))?;
            writer.write(&Edit::Ban(
                prefix("192.0.2.2"),
                Origin::Manual,
                Some(ban.clone()),
            ))
        })
        .unwrap();
    for table in LATER {
        store
            .connection
            .execute(&format!("DROP TABLE {table}"), [])
            .unwrap();
    }
    store.end_adoption().unwrap();
    drop(store);

    let mut store = Store::open(directory.path()).unwrap();
    assert_eq!(store.found(), &Found::Sound);
    assert_eq!(store.allows().unwrap(), [(prefix("192.0.2.1"), allow)]);
    assert_eq!(
        store.bans().unwrap(),
        [(prefix("192.0.2.2"), Origin::Manual, ban)]
    );
    assert!(store.limited().unwrap().is_empty() && hours(&store).is_empty());
    write(&mut store, &[7]);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(store.found(), &Found::Sound);
    assert_eq!(store.limited().unwrap(), [(prefix("192.0.2.9"), limited())]);
    assert_eq!(hours(&store), [7]);
}

#[test]
fn a_row_of_history_that_is_wrong_puts_the_database_aside() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    write(&mut store, &[7, 8, 9]);
    let wrong = "UPDATE history SET full = full + 1 WHERE hour = 8";
    store.connection.execute(wrong, []).unwrap();
    drop(store);

    let store = Store::open(directory.path()).unwrap();
    let Found::Damaged(Damage { error, .. }) = store.found() else {
        panic!("{:?}", store.found());
    };
    assert!(error.contains("FROM history"), "{error}");
    assert!(store.limited().unwrap().is_empty() && hours(&store).is_empty());
}

/// Writes a limited source, and the history of some hours.
fn write(store: &mut Store, hours: &[i64]) {
    let mut seen = Seen::new();
    seen.held.record_n(5, 40).unwrap();
    seen.held.record_n(1_000_000, 2).unwrap();
    (seen.full, seen.sources) = (2, 30);
    store
        .transaction(|writer| {
            writer.write(&Edit::Limited(prefix("192.0.2.9"), Some(limited())))?;
            let mut hours = hours.iter();
            hours.try_for_each(|hour| writer.put_history(*hour, &measured(), &seen))
        })
        .unwrap();
}

fn hours(store: &Store) -> Vec<i64> {
    let rows = store.history(0).unwrap().into_iter();
    rows.map(|(hour, ..)| hour).collect()
}

fn measured() -> Measured {
    Measured {
        policy: "default".into(),
        measure: "Packets 1000000000 fixed-window".into(),
    }
}

fn limited() -> LimitedRow {
    let second = Duration::from_secs(1);
    LimitedRow {
        until: Instant::from_nanos(1 << 50),
        since: Timestamp::UNIX_EPOCH,
        kind: Kind::AckFlood,
        limit: LimitSpec::new(10, LimitUnit::Packets, second, Algorithm::FixedWindow).unwrap(),
    }
}
