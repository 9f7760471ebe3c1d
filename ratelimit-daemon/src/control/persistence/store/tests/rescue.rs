//! A daemon that ends while a damaged database is replaced, or before it has looked at what the kernel holds.

use std::fs;

use ratelimit_core::{
    intent::{
        Offence, Target,
        list::{List, ListEntry},
    },
    lists::{Action, ReasonId, Reasons},
};

use super::*;

#[test]
fn wherever_a_daemon_ends_the_next_one_takes_the_sound_rows_over() {
    let states: [fn(&Path, &Path); 5] = [
        |_, _| {},
        |path, aside| rename(path, aside, "-wal"),
        |path, aside| {
            rename(path, aside, "-wal");
            rename(path, aside, "");
        },
        // In another order, after a power failure.
        |path, aside| rename(path, aside, ""),
        |path, aside| {
            rename(path, aside, "-wal");
            rename(path, aside, "");
            fs::write(with_suffix(path, ".new"), "half of it").unwrap();
            fs::write(with_suffix(path, ".new-wal"), "half of it").unwrap();
        },
    ];
    for (number, left) in states.into_iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let (path, aside) = damaged(directory.path());
        left(&path, &aside);
        let store = Store::open(directory.path()).unwrap();
        let Found::Damaged(damage) = store.found() else {
            panic!("{number}: {:?}", store.found());
        };
        assert_eq!((damage.file == aside, &*damage.error), (true, "test"));
        assert!(aside.exists(), "{number}");
        assert_eq!(rows(&store), [1, 1, 1, 1], "{number}");
    }
}

#[test]
fn what_could_not_be_written_for_want_of_room_is_taken_over_by_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let (path, aside) = damaged(directory.path());
    let in_the_way = with_suffix(&path, ".new");
    fs::create_dir(&in_the_way).unwrap();
    assert!(Store::open(directory.path()).is_err());
    assert!(aside.exists() && !path.exists());
    fs::remove_dir(&in_the_way).unwrap();
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(rows(&store), [1, 1, 1, 1]);
}

#[test]
fn a_new_database_is_one_until_what_the_kernel_holds_was_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(*store.found(), Found::Nothing);
    }
    Store::open(directory.path()).unwrap().end_rescue().unwrap();
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(*store.found(), Found::Sound);
}

/// A database and its log that were found to be damaged, and where they are to be put aside.
fn damaged(directory: &Path) -> (PathBuf, PathBuf) {
    let killed = tempfile::tempdir().unwrap();
    let mut store = Store::open(killed.path()).unwrap();
    for edit in edits() {
        store.transaction(|writer| writer.write(&edit)).unwrap();
    }
    for name in ["state.db", "state.db-wal"] {
        fs::copy(killed.path().join(name), directory.join(name)).unwrap();
    }
    let aside = directory.join("state.db.damaged-20260302T142207Z");
    let damage = Damage {
        file: aside.clone(),
        error: "test".to_owned(),
    };
    let document = serde_json::json!({ "damaged": damage });
    fs::write(directory.join("rescue.json"), document.to_string()).unwrap();
    (directory.join("state.db"), aside)
}

fn rename(path: &Path, aside: &Path, suffix: &str) {
    fs::rename(with_suffix(path, suffix), with_suffix(aside, suffix)).unwrap();
}

/// How many bans but one, allows, limits and lists there are.
fn rows(store: &Store) -> [usize; 4] {
    [
        store.bans().unwrap().len() - 1,
        store.allows().unwrap().len(),
        store.limits().unwrap().len(),
        store.lists().unwrap().len(),
    ]
}

/// A row or two in each table.
fn edits() -> Vec<Edit> {
    let hour = clock::after(Duration::from_hours(1));
    let ban = rows::entry(FOREVER, Some("flood"), "root");
    let allow = rows::entry(hour, Some("migration"), "root");
    let limit = LimitSpec::new(
        5,
        LimitUnit::Bytes,
        Duration::from_secs(1),
        Algorithm::FixedWindow,
    );
    let limits = LimitRow {
        limits: vec![limit.unwrap()],
        observe: true,
        only: false,
        entry: rows::entry(hour, Some("crawler"), "root"),
    };
    let entry = ListEntry {
        prefix: prefix("192.0.2.7"),
        until: FOREVER,
        reason: ReasonId::NONE,
    };
    let list = List::new(Action::Ban, None, now(), "root".into());
    let list = list.with_entries(vec![entry], Reasons::default());
    let offence = Offence {
        bans: 3,
        forget: hour,
    };
    vec![
        Edit::Ban(prefix("192.0.2.0/24"), Origin::Manual, Some(ban.clone())),
        Edit::Ban(prefix("10.1.2.3"), Origin::Manual, Some(ban)),
        Edit::Allow(prefix("192.0.2.1"), Some(allow)),
        Edit::Limits(Target::Sources(prefix("2001:db8::1")), Some(limits)),
        Edit::List("bad".into(), Some(list.into()), [].into()),
        Edit::Offence(prefix("192.0.2.9"), Some(offence)),
    ]
}
