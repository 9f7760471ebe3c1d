use std::time::Duration;

use ratelimit_common::{
    Unit,
    algorithm::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket},
    layout,
};

use super::*;

const SECOND: u64 = 1_000_000_000;
const HOUR: Duration = Duration::from_hours(1);

#[test]
fn a_snapshot_reads_back_as_written() {
    let (bytes, entries) = snapshot();
    let snapshot = Snapshot::decode(&bytes).unwrap();
    let mut read = Vec::new();
    snapshot.visit(|entry| read.push(entry)).unwrap();
    assert_eq!(snapshot.header, header());
    // The words of sources come last: they wait until a frame is full.
    read.rotate_right(2);
    assert_eq!(read, entries);
}

#[test]
fn a_snapshot_that_was_changed_or_cut_is_refused() {
    let (bytes, _) = snapshot();
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 0x40;
        assert!(Snapshot::decode(&changed).is_err(), "byte {index}");
        assert!(Snapshot::decode(&bytes[..index]).is_err(), "cut at {index}");
    }
    let text = b"[policy.default]\n";
    assert_eq!(Snapshot::decode(text).unwrap_err(), Unreadable::Foreign);
}

#[test]
fn a_snapshot_of_other_tables_is_refused() {
    let other = Header {
        layout: layout::VERSION + 1,
        ..header()
    };
    let bytes = Encoder::new(&other).finish();
    let error = Snapshot::decode(&bytes).unwrap_err();
    assert_eq!(error, Unreadable::OtherVersion);
}

#[test]
fn limits_are_long_by_their_window_or_by_the_time_that_their_bucket_takes_to_fill() {
    let second = Duration::from_secs(1);
    let limits = [
        (Algorithm::from(FixedWindow::new(5, HOUR).unwrap()), true),
        (FixedWindow::new(5, second).unwrap().into(), false),
        (SlidingWindow::new(5, HOUR).unwrap().into(), true),
        (SlidingLog::new(5, second).unwrap().into(), false),
        (TokenBucket::new(5, second, 5).unwrap().into(), false),
        (TokenBucket::new(5, second, 500).unwrap().into(), true),
    ];
    for (algorithm, expected) in limits {
        let limit = Limit::new(algorithm, Unit::Packets);
        let minute = Duration::from_mins(1);
        assert_eq!(is_long(&limit, minute), expected, "{algorithm:?}");
    }
}

#[test]
fn a_fixed_window_ends_when_it_would_have_ended() {
    let window = FixedWindow::new(10, HOUR).unwrap();
    let algorithm = Algorithm::from(window);
    let opened = Instant::from_nanos(77_777 * SECOND);
    let word = window.step(0, opened, 10).unwrap();
    // The host was off for 20 minutes, and was booted 5 seconds ago: the window opened before that.
    let moved = after(20 * 60, 5, 77_777, word, &algorithm, &algorithm);
    let at = |seconds: u64| Instant::from_nanos(seconds * SECOND);
    assert_eq!(window.used(moved, at(5)), 10);
    assert!(window.step(moved, at(5 + 40 * 60 - 1), 1).is_err());
    // A tick later at most.
    assert!(window.step(moved, at(5 + 40 * 60 + 4), 1).is_ok());
    // It has ended since.
    let moved = after(3600, 5, 77_777, word, &algorithm, &algorithm);
    assert_eq!(moved, 0);
}

#[test]
fn a_smaller_amount_applies_to_what_was_used_before_the_reboot() {
    let [before, now] = [10, 4].map(|amount| FixedWindow::new(amount, HOUR).unwrap());
    let word = before.step(0, Instant::from_nanos(SECOND), 7).unwrap();
    let moved = after(60, 5, 1, word, &before.into(), &now.into());
    let at = Instant::from_nanos(5 * SECOND);
    assert!(now.step(moved, at, 1).is_err());
    let other = FixedWindow::new(4, HOUR * 2).unwrap();
    let moved = after(60, 5, 1, word, &before.into(), &other.into());
    assert_eq!(moved, 0, "words of another window mean something else");
}

#[test]
fn a_sliding_window_never_admits_more_than_it_would_have() {
    let window = SlidingWindow::new(100, HOUR).unwrap();
    let algorithm = Algorithm::from(window);
    // Everywhere in a window, restored everywhere in one.
    for (charged, booted) in (0..8).flat_map(|a| (0..8).map(move |b| (a * 450, b * 450))) {
        let charged = 36_000 + charged;
        let word = window
            .step(0, Instant::from_nanos(charged * SECOND), 100)
            .unwrap();
        for off in [1, 900, 3600, 5000] {
            let moved = after(off, booted, charged, word, &algorithm, &algorithm);
            for later in (0..4 * 3600).step_by(300) {
                let at = |start: u64| Instant::from_nanos((start + later) * SECOND);
                let would = window.used(word, at(charged + off));
                let has = window.used(moved, at(booted));
                assert!(
                    has >= would,
                    "{charged} {booted} {off} {later}: {has} < {would}"
                );
            }
            let over = Instant::from_nanos((booted + 3 * 3600 + 10) * SECOND);
            assert_eq!(window.used(moved, over), 0, "{charged} {booted} {off}");
        }
    }
}

#[test]
fn a_token_bucket_fills_while_the_host_is_off() {
    let bucket = TokenBucket::new(1, Duration::from_secs(1), 1000).unwrap();
    let then = Instant::from_nanos(500 * SECOND);
    let word = bucket.step(0, then, 900).unwrap();
    let restarted = bucket.starting(Instant::from_nanos(3 * SECOND));
    let moved = after(600, 3, 500, word, &bucket.into(), &restarted.into());
    let used = restarted.used(moved, Instant::from_nanos(3 * SECOND));
    assert!((300..=301).contains(&used), "{used}");
}

#[test]
fn times_of_a_log_from_before_the_boot_count_from_its_beginning() {
    let log = SlidingLog::new(5, HOUR).unwrap();
    let passage = Passage {
        from: Instant::from_nanos(10_000 * SECOND),
        to: Instant::from_nanos(100 * SECOND),
    };
    let times = [0, 9_990, 9_000, 6_400, 6_399].map(|second: u64| second * SECOND);
    let moved = passage.times(&times, &log);
    assert_eq!(moved, [1, 90 * SECOND]);
}

/// The word of a time on the clock before the reboot, restored this number of seconds after the
/// boot.
fn after(
    off: u64,
    booted: u64,
    then: u64,
    word: u64,
    before: &Algorithm,
    after: &Algorithm,
) -> u64 {
    let passage = Passage {
        from: Instant::from_nanos((then + off) * SECOND),
        to: Instant::from_nanos(booted * SECOND),
    };
    passage.word(word, before, after)
}

fn header() -> Header {
    let limits = [
        Limit::new(FixedWindow::new(10, HOUR).unwrap(), Unit::Packets),
        Limit::new(TokenBucket::new(5, HOUR, 50).unwrap(), Unit::Bytes),
    ];
    Header {
        layout: layout::VERSION,
        is_compact: false,
        at: Instant::from_nanos(77),
        time_ns: -3,
        scopes: [(9, limits.to_vec()), (4, limits[..1].to_vec())].into(),
    }
}

fn snapshot() -> (Vec<u8>, Vec<SavedUsage>) {
    let group = |family, limits| Group {
        scope: 9,
        family,
        limits,
    };
    let record = |words: [u64; 2]| {
        let mut record = Record::default();
        record.words[..2].copy_from_slice(&words);
        record
    };
    let words = |group, source: &str, record| SavedUsage::Words {
        group,
        source: source.parse().unwrap(),
        record,
    };
    let entries = vec![
        words(group(IpFamily::V4, 3), "192.0.2.1", record([5, u64::MAX])),
        words(group(IpFamily::V6, 2), "2001:db8::1", record([0, 7])),
        SavedUsage::Log {
            scope: 9,
            limit: 1,
            source: "192.0.2.1".parse().unwrap(),
            times: vec![3, 1, 2],
        },
        SavedUsage::Total {
            scope: 4,
            record: record([1, 2]),
        },
    ];
    let mut encoder = Encoder::new(&header());
    for entry in &entries {
        match entry {
            SavedUsage::Words {
                group,
                source,
                record,
            } => encoder.words(*group, *source, record),
            SavedUsage::Log {
                scope,
                limit,
                source,
                times,
            } => encoder.log((*scope, *limit), *source, times),
            SavedUsage::Total { scope, record } => encoder.total(*scope, record),
        }
    }
    (encoder.finish(), entries)
}
