//! No damage of the database prevents the daemon from starting: a damaged file is renamed as a
//! whole.
//!
//! The input damages a good database: each five bytes select a file, a position and a new value. A
//! file may also be truncated.

#![no_main]

use std::{
    fs,
    path::Path,
    sync::OnceLock,
};

use libfuzzer_sys::fuzz_target;
use ratelimit_core::{
    api::BanRequest,
    config::{self, Arguments},
};
use ratelimit_daemon::{
    control::{Controller, Store, commands::Ban},
    datapath::Memory,
    protected::Protected,
};
use tempfile::TempDir;

/// Files there cost no disk.
const MEMORY: &str = "/dev/shm";
const FILES: [&str; 3] = ["state.db", "state.db-wal", "state.changes"];

fuzz_target!(|damage: &[u8]| {
    let directory = TempDir::new_in(MEMORY).expect("memory");
    for (name, bytes) in good() {
        let mut bytes = bytes.clone();
        for edit in damage.chunks_exact(5) {
            apply(name, &mut bytes, edit);
        }
        fs::write(directory.path().join(name), bytes).expect("a file in memory");
    }
    check(directory.path());
    // The result of the first start is sound.
    check(directory.path());
});

fn check(directory: &Path) {
    // It reads every row, and puts aside what has a damaged one.
    let store = Store::open(directory).expect("any damage is put aside");
    store.bans().expect("bans");
}

fn apply(name: &str, bytes: &mut Vec<u8>, edit: &[u8]) {
    let [file, high, middle, low, value] = edit else {
        return;
    };
    let file_of = FILES[usize::from(file & 0x7f) % FILES.len()];
    if file_of != name || bytes.is_empty() {
        return;
    }
    let place =
        (usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low)) % bytes.len();
    if *file == 0xff {
        bytes.truncate(place);
    } else {
        bytes[place] = *value;
    }
}

/// The files of a database that a daemon made, with rows of each kind, and did not close.
fn good() -> &'static Vec<(&'static str, Vec<u8>)> {
    static GOOD: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let directory = TempDir::new_in(MEMORY).expect("memory");
        let mut config = config::from_command_line(&Arguments {
            interfaces: vec!["lo".to_owned()],
            packets: Some(1000),
            per: Some("1s".to_owned()),
            ..Arguments::default()
        })
        .expect("a configuration");
        config.paths.state = directory.path().into();
        let store = Store::open(directory.path()).expect("a new database");
        let tables = Memory::new(&config.source, None).and_then(|memory| memory.open());
        let tables = tables.expect("tables");
        let mut controller = Controller::new(config, store, tables, Protected::default())
            .expect("a controller");
        for number in 0..20 {
            let request = BanRequest {
                prefixes: vec![format!("192.0.2.{number}").parse().expect("a prefix")],
                seconds: (number % 2 == 0).then_some(3600.0),
                reason: Some("seed".to_owned()),
                ..BanRequest::default()
            };
            controller.run(Ban(request, "root".into())).expect("a ban");
        }
        let files = FILES.map(|name| {
            (
                name,
                fs::read(directory.path().join(name)).unwrap_or_default(),
            )
        });
        assert!(files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 4096);
        files.into()
    })
}
