//! A database without the tables that were added later.

use ratelimit_core::{detection::Kind, intent::LimitedRow};

use super::*;

/// The tables that version 2 did not have from its beginning on.
const LATER: [&str; 2] = ["offence", "limited"];

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
    assert!(store.limited().unwrap().is_empty());
    write(&mut store);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(store.found(), &Found::Sound);
    assert_eq!(store.limited().unwrap(), [(prefix("192.0.2.9"), limited())]);
}

/// Writes a limited source.
fn write(store: &mut Store) {
    let edit = Edit::Limited(prefix("192.0.2.9"), Some(limited()));
    store.transaction(|writer| writer.write(&edit)).unwrap();
}

fn limited() -> LimitedRow {
    let second = Duration::from_secs(1);
    LimitedRow {
        is_full: false,
        until: Instant::from_nanos(1 << 50),
        since: Timestamp::UNIX_EPOCH,
        kind: Some(Kind::AckFlood),
        limit: LimitSpec::new(10, LimitUnit::Packets, second, Algorithm::FixedWindow).unwrap(),
    }
}
