//! The thread that keeps history.

use std::{
    collections::BTreeMap,
    mem,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_core::{
    api::{AttackView, History, HistoryRequest, HistoryStatus, PastAttack, Refused},
    detection::Kind,
};
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::{
    answer::Plan,
    file::{Batch, File, Found, is_damage},
    increments::Last,
    rollup::Rollup,
    sample::Sample,
};
use crate::clock;

/// The interval of writes.
const FLUSH: Duration = Duration::from_secs(10);
/// Attacks that wait to be written.
const ATTACKS_MAX: usize = 1_000;

/// A job of the thread.
pub enum Job {
    Sample(Box<Sample>),
    Question(HistoryRequest, oneshot::Sender<Result<History, Refused>>),
    Report(oneshot::Sender<Report>),
}

/// The state of the history.
#[derive(Clone, Debug)]
pub struct Report {
    /// The status for reports.
    pub status: HistoryStatus,
    /// The error that prevents writing; `None` if the history can be written.
    pub error: Option<String>,
}

/// The identity of an attack.
type Known = (Kind, String, Timestamp);

/// The history and its file.
pub struct Keeper {
    file: File,
    rollup: Rollup,
    last: Option<Last>,
    /// The attacks that are not in the file, or other there.
    attacks: BTreeMap<Known, PastAttack>,
    keep: Option<Duration>,
    /// Whether the state to continue was loaded.
    is_loaded: bool,
    flushed: Instant,
    written: Option<Timestamp>,
    errors: u64,
    error: Option<String>,
}

impl Keeper {
    /// Starts without reading the file.
    pub fn new(directory: &Path) -> Self {
        Self {
            file: File::of(directory),
            rollup: Rollup::default(),
            last: None,
            attacks: BTreeMap::new(),
            keep: None,
            is_loaded: false,
            flushed: clock::monotonic(),
            written: None,
            errors: 0,
            error: None,
        }
    }

    /// Processes jobs until all senders are gone, and writes the rest.
    pub fn run(mut self, queue: &Receiver<Job>) {
        loop {
            let pause = FLUSH.saturating_sub(clock::elapsed(self.flushed));
            match queue.recv_timeout(pause) {
                Ok(Job::Sample(sample)) => self.take(&sample),
                Ok(Job::Question(request, sender)) => {
                    // The client may be gone.
                    let _ = sender.send(self.answer(request));
                }
                Ok(Job::Report(sender)) => {
                    let _ = sender.send(self.report());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if clock::elapsed(self.flushed) >= FLUSH {
                self.flush();
            }
        }
        self.flush();
    }

    fn take(&mut self, sample: &Sample) {
        self.keep = sample.keep;
        if sample.keep.is_none() {
            self.last = None;
            return;
        }
        self.load();
        let next = Last::of(sample);
        if let Some(increment) = self.last.as_ref().and_then(|last| last.until(&next)) {
            self.rollup.add(&increment);
            self.rollup.note(next.second, &sample.levels);
        }
        self.last = Some(next);
        for attack in &sample.attacks {
            self.see(attack, sample.at);
        }
    }

    fn see(&mut self, attack: &AttackView, at: Timestamp) {
        let known = (attack.kind, attack.subject.clone(), attack.since);
        if self.attacks.len() >= ATTACKS_MAX && !self.attacks.contains_key(&known) {
            return;
        }
        let seen = PastAttack {
            kind: attack.kind,
            subject: attack.subject.clone(),
            since: attack.since,
            seen: at,
            packets_per_second: attack.packets_per_second,
            sources: attack.sources,
        };
        self.attacks.insert(known, seen);
    }

    /// Loads the state to continue, once.
    fn load(&mut self) {
        if self.is_loaded {
            return;
        }
        let found = self.file.load();
        let found = found.or_else(|error| {
            if !is_damage(&error) {
                return Err(error);
            }
            self.recreate(&error);
            self.file.load()
        });
        match found {
            Ok(Found { ends, last }) => {
                let before = mem::take(&mut self.rollup);
                self.rollup = Rollup::behind(ends, before);
                self.last = self.last.take().or(last);
                self.is_loaded = true;
            }
            Err(error) => self.fail(&error),
        }
    }

    fn flush(&mut self) {
        self.flushed = clock::monotonic();
        let Some(keep) = self.keep else {
            return;
        };
        self.load();
        if self.is_loaded {
            let batch = Batch {
                rollup: &self.rollup,
                last: self.last.as_ref(),
                attacks: self.attacks.values().collect(),
                keep,
            };
            match self.file.write(&batch) {
                Ok(()) => self.succeed(),
                Err(error) if is_damage(&error) => self.recreate(&error),
                Err(error) => self.fail(&error),
            }
        }
        self.rollup.bound(keep);
    }

    fn succeed(&mut self) {
        self.rollup.written();
        self.attacks.clear();
        self.written = Some(clock::wall());
        if self.error.take().is_some() {
            info!(path = %self.file.path().display(), "packet history is written again");
        }
    }

    fn fail(&mut self, error: &anyhow::Error) {
        self.file.close();
        self.errors += 1;
        let error = format!("{error:#}");
        if self.error.is_none() {
            warn!(error, path = %self.file.path().display(), "cannot write packet history");
        }
        self.error = Some(error);
    }

    fn recreate(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        let error = format!("{error:#}");
        warn!(
            error, path = %self.file.path().display(),
            "packet history is damaged; starting a new one"
        );
        self.file.remove();
    }

    fn report(&self) -> Report {
        Report {
            status: HistoryStatus {
                keep_seconds: self.keep.map(|keep| keep.as_secs()),
                bytes: self.file.bytes(),
                written: self.written,
                errors: self.errors,
            },
            error: self.error.clone(),
        }
    }

    fn answer(&mut self, request: HistoryRequest) -> Result<History, Refused> {
        let Some(keep) = self.keep else {
            let refused = Refused::because("packet history is disabled");
            return Err(refused.hint("set retention = \"30d\" in [history]"));
        };
        let plan = Plan::of(request, clock::wall().as_second(), keep)?;
        let found = self.find(&plan);
        found.map_err(|error| {
            let refused = format!("cannot read packet history: {error:#}");
            if is_damage(&error) {
                self.recreate(&error);
            } else {
                self.file.close();
            }
            Refused::because(refused)
        })
    }

    fn find(&mut self, plan: &Plan) -> anyhow::Result<History> {
        let time = [plan.from, plan.to];
        let mut buckets = self.file.read(plan.tier, time)?;
        let newer = self.rollup.buckets().iter();
        let newer = newer.filter(|((tier, _), bucket)| {
            *tier == plan.tier && (plan.from..plan.to).contains(&bucket.at)
        });
        buckets.extend(newer.map(|(place, bucket)| (*place, bucket.clone())));
        let mut attacks: BTreeMap<Known, PastAttack> = BTreeMap::new();
        let kept = self.file.attacks(time)?.into_iter();
        let newer = self
            .attacks
            .values()
            .filter(|it| it.seen.as_second() >= plan.from && it.since.as_second() < plan.to);
        for attack in kept.chain(newer.cloned()) {
            attacks.insert((attack.kind, attack.subject.clone(), attack.since), attack);
        }
        let mut attacks: Vec<PastAttack> = attacks.into_values().collect();
        attacks.sort_by_key(|it| it.since);
        Ok(plan.answer(buckets.values(), attacks)?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::OnceLock};

    use ratelimit_common::{DropReason, Family, Verdict, layout::Counter};
    use rusqlite::Connection;

    use super::*;
    use crate::traffic_log::{
        Counters,
        rollup::{Bucket, Tier},
        series::{Series, Sums},
    };

    const DAY: Duration = Duration::from_hours(24);
    const LIMITED: Verdict = Verdict::Drop(DropReason::Limited);

    #[test]
    fn what_was_written_and_what_came_since_are_answered_together() {
        let directory = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(directory.path());
        feed(&mut keeper, &[0, 10, 30]);
        assert_eq!(answered(&mut keeper), [10, 20]);
        keeper.flush();
        feed(&mut keeper, &[30, 30, 35]);
        assert_eq!(answered(&mut keeper).iter().sum::<u64>(), 35);
        keeper.flush();
        assert_eq!(keeper.errors, 0);
        assert!(keeper.report().status.bytes > 0);
    }

    #[test]
    fn a_restart_continues_the_history_and_misses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut before = Keeper::new(directory.path());
        feed(&mut before, &[0, 10, 30]);
        before.flush();
        drop(before);
        let mut after = Keeper::new(directory.path());
        let hours = |keeper: &Keeper| keeper.rollup.last(Tier::Hour);
        // Seven packets arrived without a sample.
        feed_from(1, &mut after, &[37, 40]);
        assert_eq!(answered(&mut after).iter().sum::<u64>(), 40);
        let first = hours(&after);
        for _ in 0..5 {
            after.flush();
            after = Keeper::new(directory.path());
            feed_from(2, &mut after, &[40]);
        }
        // Daemons that follow each other soon use no sums up.
        assert!(hours(&after) <= first + 1);
    }

    #[test]
    fn a_damaged_file_loses_what_was_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        for noise in [&[7; 5000][..], b"SQLite format 3\0 truncated"] {
            let _ = fs::remove_file(directory.path().join("history.db-wal"));
            fs::write(directory.path().join("history.db"), noise).unwrap();
            let mut keeper = Keeper::new(directory.path());
            feed(&mut keeper, &[0, 10]);
            keeper.flush();
            assert_eq!((keeper.errors, &keeper.error), (1, &None));
            assert_eq!(answered(&mut keeper), [10]);
        }
    }

    #[test]
    fn a_row_that_is_not_ours_is_damage() {
        let spoils = [
            "UPDATE bucket SET counts = x'0102'",
            "UPDATE series SET id = id + 100",
            "UPDATE last SET counters = 'x'",
            "DROP TABLE bucket; CREATE TABLE bucket (number)",
        ];
        for spoil in spoils {
            let directory = tempfile::tempdir().unwrap();
            let mut keeper = Keeper::new(directory.path());
            feed(&mut keeper, &[0, 10]);
            keeper.flush();
            drop(keeper);
            let file = Connection::open(directory.path().join("history.db")).unwrap();
            file.execute_batch(spoil).unwrap();
            drop(file);
            let mut keeper = Keeper::new(directory.path());
            feed(&mut keeper, &[20, 30]);
            keeper.flush();
            assert_eq!(keeper.errors, 1, "{spoil}");
            keeper.flush();
            assert_eq!(keeper.error, None, "{spoil}");
            assert_eq!(answered(&mut keeper), [10], "{spoil}");
        }
    }

    #[test]
    fn where_the_file_cannot_be_made_points_wait() {
        let directory = tempfile::tempdir().unwrap();
        let obstacle = directory.path().join("history.db");
        fs::create_dir(&obstacle).unwrap();
        let mut keeper = Keeper::new(directory.path());
        feed(&mut keeper, &[0, 10, 30]);
        keeper.flush();
        assert!(keeper.error.is_some());
        fs::remove_dir(&obstacle).unwrap();
        keeper.flush();
        assert_eq!(keeper.error, None);
        assert_eq!(answered(&mut keeper), [10, 20]);
        assert_eq!(rows(directory.path(), Tier::Second), 2);
    }

    #[test]
    fn so_many_sums_are_kept_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(directory.path());
        let keep = Duration::from_hours(2);
        for minute in 0..200 {
            keeper.take(&sample(minute * 60, minute.cast_unsigned(), keep));
        }
        keeper.flush();
        let kept = Tier::ALL.map(|tier| rows(directory.path(), tier));
        assert_eq!(kept, [3600, 120, 2]);
    }

    /// `docs/dashboard.md` says how large the file becomes.
    #[test]
    fn a_full_file_is_as_large_as_it_is_said_to_be() {
        for (series, levels, most) in [(20, 0, 6 << 20), (124, 0, 30 << 20), (124, 64, 40 << 20)] {
            let directory = tempfile::tempdir().unwrap();
            let mut keeper = Keeper::new(directory.path());
            // A million packets a second of each.
            let sums = |seconds: u64| -> Sums {
                let count = Counter {
                    packets: 1_000_000 * seconds,
                    bytes: 1_000_000_000 * seconds,
                };
                let all = (0..series).map(|it: u32| (Series::Policy(it.to_string().into()), count));
                let left = Counter {
                    packets: 1_000_000,
                    bytes: 0,
                };
                let watched = |it: u32| Series::Level {
                    watched: "left of node".into(),
                    limit: it.to_string().into(),
                };
                let levels = (0..levels).map(|it| (watched(it), left));
                all.chain(levels).collect()
            };
            let places = Tier::ALL.into_iter();
            let places =
                places.flat_map(|tier| (1..=tier.count(30 * DAY)).map(move |it| (tier, it)));
            let buckets = places.map(|place| {
                let (at, sums) = (
                    place.1 * place.0.seconds(),
                    sums(place.0.seconds().cast_unsigned()),
                );
                (
                    place,
                    Bucket {
                        at,
                        observed: 1,
                        sums,
                    },
                )
            });
            keeper.rollup = Rollup::behind(buckets.collect(), Rollup::default());
            keeper.keep = Some(30 * DAY);
            keeper.is_loaded = true;
            keeper.flush();
            assert_eq!(keeper.error, None);
            // Rewritten rows replace existing ones.
            for _ in 0..2 {
                let seconds = keeper.file.read(Tier::Second, [0, 4000]).unwrap();
                keeper.rollup = Rollup::behind(seconds, Rollup::default());
                keeper.flush();
            }
            let bytes = keeper.report().status.bytes;
            eprintln!("{series} series, {levels} levels: {bytes} bytes");
            assert!(bytes <= most, "{series}, {levels}: {bytes}");
        }
    }

    #[test]
    fn a_clock_that_jumps_forgets_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(directory.path());
        feed(&mut keeper, &[0, 10]);
        for second in [9_000_000_000, 5, -400] {
            let mut sample = sample(0, 10, 30 * DAY);
            sample.at = Timestamp::from_second(second).unwrap();
            keeper.take(&sample);
            keeper.flush();
        }
        assert_eq!(answered(&mut keeper), [10]);
        assert_eq!(
            (keeper.errors, rows(directory.path(), Tier::Second)),
            (0, 4)
        );
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_to_be() {
        let directory = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(directory.path());
        let mut off = sample(0, 10, DAY);
        off.keep = None;
        keeper.take(&off);
        keeper.flush();
        assert!(keeper.answer(HistoryRequest::default()).is_err());
        assert!(!directory.path().join("history.db").exists());
    }

    #[test]
    fn attacks_are_reported_with_when_they_were_seen_last() {
        let directory = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(directory.path());
        for (second, packets_per_second) in [(-2, 100), (-1, 900)] {
            let mut sample = sample(second, 0, DAY);
            sample.attacks.push(AttackView {
                kind: Kind::SynFlood,
                subject: "to 10.0.0.1".to_owned(),
                packets_per_second,
                sources: 3,
                since: Timestamp::from_second(now() - 10).unwrap(),
            });
            keeper.take(&sample);
            keeper.flush();
        }
        let history = keeper.answer(HistoryRequest::default()).unwrap();
        let seen = history.attacks.iter().map(|it| it.packets_per_second);
        assert_eq!(seen.collect::<Vec<_>>(), [900]);
    }

    /// Samples of the seconds until now, each with what was counted until then.
    fn feed(keeper: &mut Keeper, counted: &[u64]) {
        feed_from(1 - i64::try_from(counted.len()).unwrap(), keeper, counted);
    }

    fn feed_from(first: i64, keeper: &mut Keeper, counted: &[u64]) {
        for (second, packets) in (first..).zip(counted) {
            keeper.take(&sample(second, *packets, 30 * DAY));
        }
    }

    fn sample(second: i64, packets: u64, keep: Duration) -> Sample {
        let bytes = 60 * packets;
        let mut counters = Counters::default();
        counters.count(
            "eth0".to_owned(),
            Family::Ipv4,
            LIMITED,
            Counter { packets, bytes },
        );
        let since_boot = (1_000_000 + second).cast_unsigned();
        Sample {
            at: Timestamp::from_second(now() + second).unwrap(),
            since_boot: Duration::from_secs(since_boot),
            counters,
            levels: Sums::new(),
            attacks: vec![],
            keep: Some(keep),
        }
    }

    /// The packets of the points in which some came.
    fn answered(keeper: &mut Keeper) -> Vec<u64> {
        let request = HistoryRequest {
            to: Timestamp::from_second(now() + 60).ok(),
            step: Some(1),
            ..HistoryRequest::default()
        };
        let history = keeper.answer(request).unwrap();
        let packets = history.verdicts.into_iter().flat_map(|it| it.packets);
        packets.filter(|packets| *packets > 0).collect()
    }

    /// The same for all tests, so that none meets the end of a second.
    fn now() -> i64 {
        static NOW: OnceLock<i64> = OnceLock::new();
        *NOW.get_or_init(|| clock::wall().as_second())
    }

    fn rows(directory: &Path, tier: Tier) -> i64 {
        let file = Connection::open(directory.join("history.db")).unwrap();
        let query = "SELECT count(*) FROM bucket WHERE tier = ?1";
        file.query_row(query, [tier.seconds()], |row| row.get(0))
            .unwrap()
    }
}
