//! The database is cut, and its bits are flipped: the daemon starts, and what the kernel held holds.

use std::fs;

use super::*;
use crate::control::store::{Damage, Found};

/// The bit or the length of a file that is different.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip(usize),
    Cut(usize),
}

/// What is done to how many places of a file, unless all of them are asked for.
const SAMPLE: usize = 60;

#[test]
fn the_kernels_bans_hold_whatever_bit_of_the_database_is_flipped_and_wherever_it_is_cut() {
    Files::closed().check_sample("state.db");
    Files::closed().check_all("state.changes");
}

#[test]
fn the_kernels_bans_hold_whatever_bit_of_the_log_is_flipped_and_wherever_it_is_cut() {
    Files::of_a_killed_daemon().check_sample("state.db-wal");
}

#[test]
#[ignore = "takes minutes: every bit, and every length"]
fn every_bit_and_every_length() {
    for files in [Files::closed(), Files::of_a_killed_daemon()] {
        files.check_all("state.db");
        files.check_all("state.db-wal");
    }
}

#[test]
fn a_database_that_is_gone_takes_no_ban_of_the_kernel_along() {
    let files = Files::closed();
    let mut lab = files.lab(&[]);
    assert_eq!(*lab.controller.store.found(), Found::Nothing);
    assert_eq!(listed(&lab.entries()), listed(&files.held));
    let request = PrefixesRequest {
        prefixes: vec![prefix("192.0.2.1")],
    };
    assert_eq!(lab.controller.unban(request, "root").unwrap().removed, 1);
}

#[test]
fn what_is_sound_of_a_damaged_database_is_taken_over() {
    let files = Files::closed();
    let mut bytes = files.bytes("state.db");
    let reason = b"flipped here";
    let at = bytes
        .windows(reason.len())
        .position(|it| it == reason)
        .unwrap();
    bytes[at] ^= 1;
    let lab = files.lab(&[("state.db", bytes)]);
    let status = lab.controller.status();
    let damaged = status.database.damaged.unwrap();
    assert!(damaged.error.contains("checksum"), "{}", damaged.error);
    assert_eq!(status.database.aside, 1);
    let ban = |text: &str| {
        let bans = lab.controller.bans();
        bans.into_iter()
            .find(|ban| ban.prefix == prefix(text))
            .unwrap()
    };
    assert_eq!(ban("192.0.2.1").reason.as_deref(), Some("test"));
    assert_eq!(&*ban("192.0.2.2").author, "ratelimitd");
    assert_eq!(lab.controller.allows().len(), 2);
}

#[test]
fn a_ban_that_was_ended_does_not_come_back_from_an_older_state_of_the_database() {
    let files = Files::closed();
    let older = files.bytes("state.db");
    let mut lab = files.lab(&[("state.db", older.clone())]);
    let request = PrefixesRequest {
        prefixes: vec![prefix("192.0.2.1")],
    };
    lab.controller.unban(request, "root").unwrap();
    let mut log = fs::read(lab.state.path().join("state.db-wal")).unwrap();
    // The first frame is damaged, and with it all that was committed behind.
    log[100] ^= 1;
    let files = Files {
        held: lab.entries(),
        ..files
    };
    let lab = files.lab(&[("state.db", older), ("state.db-wal", log)]);
    assert!(matches!(lab.controller.store.found(), Found::Damaged(_)));
    assert!(!lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
}

/// A database, and what the kernel held when it was written.
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

    /// The database of a daemon that was killed: most of it is in the log.
    fn of_a_killed_daemon() -> Self {
        Self::write(false)
    }

    fn write(closed: bool) -> Self {
        let mut lab = Lab::new(config());
        lab.ban(&["192.0.2.1", "10.0.0.0/8", "2001:db8::/32"], Some(7200.0))
            .unwrap();
        lab.ban(&["10.1.2.3"], None).unwrap();
        let request = BanRequest {
            prefixes: vec![prefix("192.0.2.2")],
            seconds: Some(3600.0),
            reason: Some("flipped here".into()),
            force: false,
        };
        lab.controller.ban(request, "root").unwrap();
        let request = AllowRequest {
            seconds: Some(3600.0),
            prefixes: vec![prefix("10.1.0.0/16")],
            reason: None,
        };
        lab.controller.allow(request, "root").unwrap();
        lab.limit(Some("203.0.113.0/24"), 77).unwrap();
        lab.ban(&[&ended().to_string()], None).unwrap();
        let request = PrefixesRequest {
            prefixes: vec![ended()],
        };
        lab.controller.unban(request, "root").unwrap();
        let (held, bans) = (lab.entries(), lab.controller.bans());
        let state = tempfile::tempdir().unwrap();
        if closed {
            let Lab {
                controller,
                state: from,
                ..
            } = lab;
            drop(controller);
            copy(from.path(), state.path());
        } else {
            copy(lab.state.path(), state.path());
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

    fn check_sample(&self, name: &'static str) {
        let length = self.bytes(name).len();
        assert!(length > 0, "{name}");
        // What SQLite reads first is where a bit says most.
        for bit in (0..100.min(length) * 8).step_by(7) {
            self.check(name, Harm::Flip(bit));
        }
        // A prime step scatters over the whole file.
        for place in (0..SAMPLE).map(|number| number * 104_729) {
            self.check(name, Harm::Flip(place % (length * 8)));
            self.check(name, Harm::Cut(place % length));
        }
    }

    fn check_all(&self, name: &'static str) {
        let length = self.bytes(name).len();
        let harms = (0..length * 8)
            .map(Harm::Flip)
            .chain((0..length).map(Harm::Cut));
        let harms: Vec<Harm> = harms.collect();
        thread::scope(|scope| {
            for part in harms.chunks(harms.len().div_ceil(4).max(1)) {
                scope.spawn(move || part.iter().for_each(|harm| self.check(name, *harm)));
            }
        });
    }

    fn check(&self, name: &'static str, harm: Harm) {
        let mut files = self.contents.clone();
        let (_, bytes) = files.iter_mut().find(|(other, _)| *other == name).unwrap();
        match harm {
            Harm::Flip(bit) => bytes[bit / 8] ^= 1 << (bit % 8),
            Harm::Cut(length) => bytes.truncate(length),
        }
        let place = format!("{name} {harm:?}");
        let lab = self.lab(&files);
        assert_eq!(listed(&lab.entries()), listed(&self.held), "{place}");
        match lab.controller.store.found() {
            Found::Damaged(Damage { file, .. }) => assert!(file.exists(), "{place}"),
            Found::Sound => {
                let bans = lab.controller.bans().into_iter().map(timeless);
                let intended = self.bans.iter().cloned().map(timeless);
                assert!(bans.eq(intended), "{place}");
            }
            Found::Nothing => panic!("{place}"),
        }
        // The same after a reboot, when the kernel holds nothing: nobody is banned who never was.
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

    /// A daemon that starts over `files` and what the kernel held.
    fn lab(&self, files: &[(&str, Vec<u8>)]) -> Lab {
        Self::over(files, &self.held)
    }

    fn over(files: &[(&str, Vec<u8>)], held: &BTreeMap<Prefix, ListEntry>) -> Lab {
        let state = directory();
        for (name, bytes) in files {
            fs::write(state.path().join(name), bytes).unwrap();
        }
        let memory = Memory {
            entries: held.clone(),
            ..Memory::default()
        };
        Lab::over(memory, state, config(), Protected::default())
    }
}

/// Whose ban was ended by the last change.
fn ended() -> Prefix {
    prefix("192.0.2.9")
}

/// A directory in memory, where there is one: each of many databases waits for the disk otherwise.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// What entries say of bans and allows.
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
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
