//! The daemon ends while it replaces a damaged database, or before it has adopted the state of the
//! kernel.

use std::fs;

use super::*;

#[test]
fn wherever_a_daemon_ends_the_next_one_looks_at_what_the_kernel_holds() {
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
        // The next one ends as early.
        for _ in 0..2 {
            let store = Store::open(directory.path()).unwrap();
            assert_ne!(*store.found(), Found::Sound, "{number}");
            assert_eq!(store.bans().unwrap(), [], "{number}");
            assert_eq!(store.count_damaged(), 1, "{number}");
        }
    }
}

#[test]
fn a_new_database_is_one_until_what_the_kernel_holds_was_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(*store.found(), Found::Nothing);
    }
    let mut store = Store::open(directory.path()).unwrap();
    store.end_adoption().unwrap();
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(*store.found(), Found::Sound);
}

/// The files of a daemon that was killed, of which the log is damaged, and where they are to be put
/// aside.
fn damaged(directory: &Path) -> (PathBuf, PathBuf) {
    let killed = tempfile::tempdir().unwrap();
    let mut store = Store::open(killed.path()).unwrap();
    let ban = rows::entry(FOREVER, Some("flood"), "root");
    let edit = Edit::Ban(prefix("192.0.2.0/24"), Origin::Manual, Some(ban));
    store.transaction(|writer| writer.write(&edit)).unwrap();
    for name in ["state.db", "state.db-wal", "state.changes"] {
        fs::copy(killed.path().join(name), directory.join(name)).unwrap();
    }
    let log = directory.join("state.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes[100] ^= 1;
    fs::write(&log, bytes).unwrap();
    let aside = directory.join("state.db.damaged-20260302T142207Z");
    (directory.join("state.db"), aside)
}

fn rename(path: &Path, aside: &Path, suffix: &str) {
    fs::rename(with_suffix(path, suffix), with_suffix(aside, suffix)).unwrap();
}
