//! With a truncated database or flipped bits, the daemon starts, and keeps the kernel's state.

use std::fs;

use ratelimit_core::{
    intent::{
        FOREVER, Offence,
        list::{List, ListEntry as Listed},
    },
    lists::{Action, ReasonId, Reasons},
};
use rusqlite::Connection;

use super::*;
use crate::{
    clock,
    control::persistence::store::{Damage, Found, Store},
};

/// The bit or the length of a file that is different.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip(usize),
    Cut(usize),
}

/// The damaged positions of a file, for each kind of damage.
const SAMPLE: usize = 12;

#[test]
fn the_kernels_bans_hold_whatever_bit_of_the_database_is_flipped_and_wherever_it_is_cut() {
    let files = Files::closed();
    files.check_some("state.db", SAMPLE);
    files.check_some("state.changes", SAMPLE);
}

#[test]
fn the_kernels_bans_hold_whatever_bit_of_the_log_is_flipped_and_wherever_it_is_cut() {
    Files::of_a_killed_daemon().check_some("state.db-wal", SAMPLE);
}

#[test]
#[ignore = "thorough"]
fn the_kernels_bans_hold_wherever_a_database_is_damaged() {
    let closed = Files::closed();
    closed.check_some("state.db", 2_000);
    closed.check_some("state.changes", 200);
    Files::of_a_killed_daemon().check_some("state.db-wal", 2_000);
}

#[test]
fn a_database_that_is_gone_takes_no_ban_of_the_kernel_along() {
    let files = Files::closed();
    let mut lab = files.lab(&[]);
    assert_eq!(*lab.state.kept.store.found(), Found::Nothing);
    assert_eq!(listed(&lab.entries()), listed(&files.held));
    assert_eq!(lab.unban(&["192.0.2.1"]).unwrap().removed, 1);
}

#[test]
fn a_start_that_fails_after_the_database_was_replaced_takes_no_ban_of_the_kernel_along() {
    let files = Files::closed();
    let mut bytes = files.bytes("state.db");
    bytes.truncate(100);
    for damaged in [&[][..], &[("state.db", bytes)]] {
        let state = directory();
        for (name, bytes) in damaged {
            fs::write(state.path().join(name), bytes).unwrap();
        }
        // The port of the metrics is taken, or memory is short.
        drop(Store::open(state.path()).unwrap());
        let memory = holding(&files.held);
        let mut lab = Lab::over(memory, state, config(), Protected::default());
        assert_eq!(listed(&lab.entries()), listed(&files.held));
        let aside = lab.status().database.aside;
        assert_eq!(aside, usize::from(!damaged.is_empty()));
        lab.restart();
        assert_eq!(*lab.state.kept.store.found(), Found::Sound);
        assert_eq!(listed(&lab.entries()), listed(&files.held));
    }
}

#[test]
fn a_damaged_database_is_put_aside_and_what_the_kernel_holds_is_intended() {
    let files = Files::closed();
    let mut bytes = files.bytes("state.db");
    let reason = b"flipped here";
    let at = bytes
        .windows(reason.len())
        .position(|it| it == reason)
        .unwrap();
    bytes[at] ^= 1;
    let mut lab = files.lab(&[("state.db", bytes)]);
    let status = lab.status();
    let damaged = status.database.damaged.unwrap();
    assert!(damaged.error.contains("checksum"), "{}", damaged.error);
    assert_eq!(status.database.aside, 1);
    let is_adopted = |ban: &Ban| &*ban.author == "ratelimitd";
    assert!(lab.listed_bans().iter().all(is_adopted));
    assert_eq!(queries::allows(&lab.state).len(), 2);
    lab.restart();
    assert_eq!(*lab.state.kept.store.found(), Found::Sound);
    assert_eq!(listed(&lab.entries()), listed(&files.held));
}

#[test]
fn a_ban_that_was_ended_does_not_come_back_from_an_older_state_of_the_database() {
    let files = Files::closed();
    let older = files.bytes("state.db");
    let mut lab = files.lab(&[("state.db", older.clone())]);
    lab.unban(&["192.0.2.1"]).unwrap();
    let [mut log, changes] = ["state.db-wal", "state.changes"]
        .map(|name| fs::read(lab.directory.path().join(name)).unwrap());
    // The first frame is damaged: SQLite takes it for the end, and loses all that was committed
    // behind.
    log[100] ^= 1;
    let files = Files {
        held: lab.entries(),
        ..files
    };
    let contents = [
        ("state.db", older),
        ("state.db-wal", log),
        ("state.changes", changes),
    ];
    let lab = files.lab(&contents);
    assert!(matches!(lab.state.kept.store.found(), Found::Damaged(_)));
    assert!(!lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
}

/// A database, and the state of the kernel when it was written.
struct Files {
    contents: Vec<(&'static str, Vec<u8>)>,
    held: BTreeMap<Prefix, ListEntry>,
    bans: Vec<Ban>,
}

impl Files {
    /// The database of a daemon that was stopped.
    fn closed() -> Self {
        Self::write(true)
    }

    /// The database of a daemon that was killed: its last change is in the log.
    fn of_a_killed_daemon() -> Self {
        Self::write(false)
    }

    fn write(closed: bool) -> Self {
        let memory = Memory::new(&config().source, None).unwrap();
        let mut lab = Lab::over(memory, small(), config(), Protected::default());
        lab.ban(&["192.0.2.1", "10.0.0.0/8", "2001:db8::/32"], Some(7200.0))
            .unwrap();
        lab.ban(&["10.1.2.3"], None).unwrap();
        let request = BanRequest {
            prefixes: vec![prefix("192.0.2.2")],
            seconds: Some(3600.0),
            reason: Some("flipped here".into()),
            force: false,
            ..BanRequest::default()
        };
        lab.controller.ban(request, "root").unwrap();
        lab.allow("10.1.0.0/16", Some(3600.0)).unwrap();
        lab.limit(Some("203.0.113.0/24"), 77).unwrap();
        lab.edit(&[
            Edit::List("bad".into(), Some(list().into()), [in_list()].into()),
            Edit::Offence(
                prefix("192.0.2.9"),
                Some(Offence {
                    bans: 3,
                    forget: clock::after(Duration::from_hours(1)),
                }),
            ),
        ]);
        lab.ban(&[&ended().to_string()], None).unwrap();
        // The last change alone is in the log of one that is killed.
        let database = Connection::open(lab.directory.path().join("state.db")).unwrap();
        let emptied = "PRAGMA wal_checkpoint(TRUNCATE)";
        database.query_row(emptied, [], |_| Ok(())).unwrap();
        drop(database);
        let request = PrefixesRequest {
            prefixes: vec![ended()],
        };
        lab.controller.unban(request, "root").unwrap();
        let (held, bans) = (lab.entries(), lab.listed_bans());
        let state = tempfile::tempdir().unwrap();
        if closed {
            let Lab {
                controller,
                directory: from,
                ..
            } = lab;
            drop(controller);
            copy(from.path(), state.path());
        } else {
            copy(lab.directory.path(), state.path());
        }
        let names = ["state.db", "state.db-wal", "state.changes"].into_iter();
        let files = names.filter_map(|name| Some((name, fs::read(state.path().join(name)).ok()?)));
        Self {
            contents: files.collect(),
            held,
            bans,
        }
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.contents.iter().find(|(other, _)| *other == name);
        file.map_or_else(Vec::new, |(_, bytes)| bytes.clone())
    }

    fn check_some(&self, name: &'static str, count: usize) {
        let length = self.bytes(name).len();
        assert!(length > 0, "{name}");
        // A wrong bit has the most effect in the part that SQLite reads first.
        for bit in (0..100.min(length) * 8).step_by(71) {
            self.check(name, Harm::Flip(bit));
        }
        // A prime step scatters over the whole file.
        for place in (0..count).map(|number| number * 104_729) {
            self.check(name, Harm::Flip(place % (length * 8)));
            self.check(name, Harm::Cut(place % length));
        }
    }

    fn harmed(&self, name: &str, harm: Harm) -> Vec<(&'static str, Vec<u8>)> {
        let mut files = self.contents.clone();
        if let Some((_, bytes)) = files.iter_mut().find(|(other, _)| *other == name) {
            match harm {
                Harm::Flip(bit) => bytes[bit / 8] ^= 1 << (bit % 8),
                Harm::Cut(length) => bytes.truncate(length),
            }
        }
        files
    }

    fn check(&self, name: &'static str, harm: Harm) {
        let files = self.harmed(name, harm);
        let place = format!("{name} {harm:?}");
        let lab = self.lab(&files);
        assert_eq!(listed(&lab.entries()), listed(&self.held), "{place}");
        match lab.state.kept.store.found() {
            Found::Damaged(Damage { file, .. }) => assert!(file.exists(), "{place}"),
            Found::Sound => {
                let bans = lab.listed_bans().into_iter().map(timeless);
                let intended = self.bans.iter().cloned().map(timeless);
                assert!(bans.eq(intended), "{place}");
            }
            Found::Nothing => panic!("{place}"),
        }
        // After a reboot, when the kernel is empty, there are no bans that never existed.
        let lab = Self::over(&files, &BTreeMap::new());
        for (prefix, entry) in lab.entries() {
            let before = self.held.get(&prefix).copied().unwrap_or_default();
            let was_ended = prefix == ended();
            assert!(
                was_ended || entry.banned_until() <= before.banned_until(),
                "{place}: {prefix}"
            );
        }
    }

    /// Starts a daemon with `files` and the state of the kernel.
    fn lab(&self, files: &[(&str, Vec<u8>)]) -> Lab {
        Self::over(files, &self.held)
    }

    fn over(files: &[(&str, Vec<u8>)], held: &BTreeMap<Prefix, ListEntry>) -> Lab {
        let state = directory();
        for (name, bytes) in files {
            fs::write(state.path().join(name), bytes).unwrap();
        }
        Lab::over(holding(held), state, config(), Protected::default())
    }
}

/// A database in pages of 512 bytes, of which there are few.
fn small() -> TempDir {
    let state = directory();
    drop(Store::open(state.path()).unwrap());
    let connection = Connection::open(state.path().join("state.db")).unwrap();
    let small = "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM;";
    connection.execute_batch(small).unwrap();
    state
}

fn list() -> List {
    let entry = Listed {
        prefix: in_list(),
        until: FOREVER,
        reason: ReasonId::NONE,
    };
    let list = List::new(Action::Ban, None, clock::wall(), "root".into());
    list.with_entries(vec![entry], Reasons::default())
}

fn in_list() -> Prefix {
    prefix("198.51.100.7")
}

/// The prefix whose ban was ended by the last change.
fn ended() -> Prefix {
    prefix("192.0.2.9")
}

/// A directory in memory, where there is one: each of many databases waits for the disk otherwise.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// The bans and allows of entries.
fn listed(entries: &BTreeMap<Prefix, ListEntry>) -> BTreeMap<Prefix, [Option<Instant>; 2]> {
    let said = |entry: &ListEntry| [entry.allowed_until(), entry.banned_until()];
    let said = entries.iter().map(|(prefix, entry)| (*prefix, said(entry)));
    said.filter(|(_, said)| *said != [None, None]).collect()
}

/// A ban without its end, which the wall clock tells to the millisecond.
fn timeless(ban: Ban) -> Ban {
    Ban { until: None, ..ban }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // Copies of lists are in a directory of their own.
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Tables with these entries.
fn holding(entries: &BTreeMap<Prefix, ListEntry>) -> Arc<Memory> {
    let memory = Memory::new(&config().source, None).unwrap();
    let entries = entries.iter();
    let entries = entries.map(|(prefix, entry)| (*prefix, EntryByGeneration::both(*entry)));
    let mut tables = memory.open().unwrap();
    tables.lists.set(&entries.collect::<Vec<_>>()).unwrap();
    memory
}
