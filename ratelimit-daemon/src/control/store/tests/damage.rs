//! A small database is cut at every byte, and its bits are flipped: it is damaged, or says what it said.
//!
//! What a whole daemon makes of damage, and every bit, is in `controller/tests/damage.rs`.

use std::{
    fs, iter,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use ratelimit_core::{
    intent::{
        Offence, Target,
        list::{List, ListEntry},
    },
    lists::{Action, ReasonId, Reasons},
};

use super::*;
use crate::control::store::damage::is_damage;

const FILES: [&str; 3] = ["state.db", "state.db-wal", "state.changes"];
/// One of so many is opened as the daemon does it, which puts it aside: that takes longer than to tell that it is damaged.
const OPENED: usize = 53;

/// What a database says, each row as a text, without what the clocks add.
type Said = Vec<String>;

#[test]
fn a_bit_of_every_byte_and_every_length_of_a_closed_database_is_damage_or_harmless() {
    let files = written(true);
    assert!(files[1].is_empty());
    // Another bit in each byte.
    check(&files, 0, |bit| bit % 8 == bit / 8 % 8);
}

#[test]
fn every_bit_and_every_length_of_the_number_of_changes_is_damage_or_harmless() {
    check(&written(true), 2, |_| true);
}

#[test]
fn every_bit_and_every_length_of_the_log_of_a_killed_daemon_is_damage_or_harmless() {
    let files = written(false);
    assert!(!files[1].is_empty());
    check(&files, 1, |_| true);
}

/// A database in pages of 512 bytes, with a row or two in each table; where it is not `closed`, the last changes are in the log.
fn written(closed: bool) -> [Vec<u8>; 3] {
    let directory = directory();
    drop(Store::open(directory.path()).unwrap());
    let path = directory.path().join(FILES[0]);
    let small = "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM;";
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(small).unwrap();
    drop(connection);
    let mut store = Store::open(directory.path()).unwrap();
    for edit in edits() {
        store.transaction(|writer| writer.write(&edit)).unwrap();
    }
    if closed {
        drop(store);
        return read(directory.path());
    }
    // What is in the log alone is little: a change of each table.
    drop(store);
    let mut store = Store::open(directory.path()).unwrap();
    let last = Edit::Ban(prefix("10.1.2.3"), Origin::Manual, None);
    store.transaction(|writer| writer.write(&last)).unwrap();
    read(directory.path())
}

pub fn edits() -> Vec<Edit> {
    let ban = BanRow {
        until: FOREVER,
        since: now(),
        reason: Some("flood".into()),
        author: "root".into(),
    };
    let allow = AllowRow {
        until: clock::after(Duration::from_hours(1)),
        since: now(),
        reason: Some("migration".into()),
        author: "root".into(),
    };
    let limit = LimitSpec::new(
        5,
        LimitUnit::Bytes,
        Duration::from_secs(1),
        Algorithm::FixedWindow,
    );
    let limits = LimitRow {
        until: clock::after(Duration::from_hours(1)),
        reason: Some("crawler".into()),
        limits: vec![limit.unwrap()],
        observe: true,
        since: now(),
        author: "root".into(),
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
        forget: clock::after(Duration::from_hours(1)),
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

/// Flips the bits of one of the files that are wanted, and cuts it at each byte, on all CPUs.
fn check(files: &[Vec<u8>; 3], which: usize, is_wanted: impl Fn(usize) -> bool + Sync) {
    let intended = open_copy(files, |path| said(&Store::open(path).unwrap()));
    // A damaged log takes its end along, and with it that a ban was ended. What the kernel holds decides about that.
    let before = [files[0].clone(), Vec::new(), Vec::new()];
    let before = open_copy(&before, |path| said(&Store::open(path).unwrap()));
    assert!(intended.len() >= 5, "{intended:?}");
    let length = files[which].len();
    let harms = length * 9;
    let next = AtomicUsize::new(0);
    let check_some = || {
        let numbers = iter::repeat_with(|| next.fetch_add(1, Relaxed));
        for number in numbers.take_while(|number| *number < harms) {
            if number >= length && !is_wanted(number - length) {
                continue;
            }
            let mut files = files.clone();
            if number < length {
                files[which].truncate(number);
            } else {
                let bit = number - length;
                files[which][bit / 8] ^= 1 << (bit % 8);
            }
            let place = format!("{} of {length} bytes, harm {number}", FILES[which]);
            open_copy(&files, |directory| {
                check_one(directory, &intended, &before, &place, number % OPENED == 0);
            });
        }
    };
    let cpus = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        (0..cpus).for_each(|_| drop(scope.spawn(check_some)));
    });
}

fn check_one(directory: &Path, intended: &Said, before: &Said, place: &str, whole: bool) {
    if whole {
        let store = Store::open(directory).unwrap();
        let said = said(&store);
        match store.found() {
            Found::Sound => assert_eq!(&said, intended, "{place}"),
            Found::Damaged(damage) => {
                assert!(damage.file.exists(), "{place}");
                let mut sound = said.iter();
                assert!(
                    sound.all(|row| intended.contains(row) || before.contains(row)),
                    "{place}: {said:?}"
                );
            }
            Found::Nothing => panic!("{place}"),
        }
        return;
    }
    match Store::open_sound(&directory.join(FILES[0]), &clock::boot_id()) {
        Ok(store) => assert_eq!(&said(&store), intended, "{place}"),
        Err(error) => assert!(is_damage(&error), "{place}: {error:#}"),
    }
}

/// What a database says. Ends are on a clock that goes on, so of those only whether there is one.
fn said(store: &Store) -> Said {
    let bans = store.bans().unwrap().into_iter();
    let allows = store.allows().unwrap().into_iter();
    let limits = store.limits().unwrap().into_iter();
    let lists = store.lists().unwrap().into_iter();
    let offences = store.offences().unwrap().into_iter();
    bans.map(|row| format!("{row:?}"))
        .chain(allows.map(|row| format!("{row:?}")))
        .chain(limits.map(|row| format!("{row:?}")))
        .chain(lists.map(|row| format!("{row:?}")))
        .chain(offences.map(|(source, offence)| format!("{source} {}", offence.bans)))
        .collect()
}

fn open_copy<T>(files: &[Vec<u8>; 3], open: impl FnOnce(&Path) -> T) -> T {
    let directory = directory();
    for (name, bytes) in FILES.iter().zip(files) {
        if *name == FILES[0] || !bytes.is_empty() {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
    }
    open(directory.path())
}

fn read(directory: &Path) -> [Vec<u8>; 3] {
    FILES.map(|name| fs::read(directory.join(name)).unwrap_or_default())
}

/// A directory in memory, where there is one.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}
