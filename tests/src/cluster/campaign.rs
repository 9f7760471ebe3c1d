//! Failures of a cluster at random moments, under traffic: all nodes together stay within the
//! bound, and no ban is lost.

mod failure;

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::{
    Node, admitted_in, admitted_of, bound, losses::Losses, set_load, store_network::StoreNetwork,
    under_load, wait_for_all, with_store,
};
use crate::{Frame, Lab, PATIENCE, redis::Redis};

pub use failure::Failure;

const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
const LIMITS: &str =
    "[policy.default]\nlimits = [{ packets = 1000, per = \"1s\", scope = \"cluster\" }]\n";
const LIMIT: f64 = 1_000.0;
const SENT: u32 = 11_000;
/// The duration of traffic before the first failure.
const WARM: Duration = Duration::from_secs(3);
/// The last two bytes of the source that is over the limit, and of the one that is banned.
const BUSY: u16 = (113 << 8) + 9;
const BANNED: u16 = (113 << 8) + 66;
/// A source that is banned, unbanned and allowed after each failure.
const CHANGED: &str = "203.0.113.77";

/// Deadlines.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Status, metrics and log report that the store is lost.
    pub told: Duration,
    /// All work together again after a failure.
    pub back: Duration,
    /// A ban, its end, and an allow are on the other nodes after the command has answered.
    pub spread: Duration,
    /// The most additional memory of a daemon at the end, in bytes.
    pub memory: u64,
}

impl Deadlines {
    /// The promised deadlines.
    pub const PROMISED: Self = Self {
        told: Duration::from_secs(2),
        back: Duration::from_secs(10),
        spread: Duration::from_secs(1),
        memory: 8 << 20,
    };
    /// Deadlines for a busy machine.
    pub const BUSY: Self = Self {
        told: Duration::from_secs(8),
        back: Duration::from_secs(30),
        spread: Duration::from_secs(6),
        memory: 16 << 20,
    };
}

/// Three nodes, their store, and the links between them.
pub struct Rig {
    nodes: Vec<Node>,
    redis: Redis,
    network: StoreNetwork,
    deadlines: Deadlines,
}

/// The result of a failure.
#[derive(Clone, Copy, Debug)]
pub struct FailureResult {
    /// What failed.
    pub failure: Failure,
    /// The duration of the failure, if it has one.
    pub lasted: Duration,
    /// The admitted part of the bound.
    pub part: f64,
    /// The time until the last affected node reported the loss. `None` if none had to.
    pub told: Option<Duration>,
    /// The time until limits were divided by new reports of all nodes.
    pub back: Duration,
    /// The longest time from the command until a ban, its end and an allow were on all nodes.
    pub spread: Duration,
}

/// The results of all failures.
#[derive(Clone, Debug)]
pub struct Played {
    /// The result of each failure.
    pub outcomes: Vec<FailureResult>,
    /// The memory of each daemon before the first and after the last failure, in bytes.
    pub memory: Vec<(u64, u64)>,
}

impl Played {
    /// Whether each daemon has as much memory as before, and some.
    ///
    /// # Errors
    ///
    /// With the first that has more.
    pub fn check_memory(&self, deadlines: &Deadlines) -> Result<()> {
        for (name, (before, after)) in NAMES.iter().zip(&self.memory) {
            ensure!(
                *after <= before + deadlines.memory,
                "{name} had {before} bytes in memory before, and {after} after"
            );
        }
        Ok(())
    }
}

impl Rig {
    /// Three nodes that divide a limit and know a ban.
    pub fn new(deadlines: Deadlines) -> Result<Self> {
        let network = StoreNetwork::new()?;
        let redis = Redis::started_in(&network.store)?;
        let start = |(place, name): (usize, &&str)| {
            let lab = Lab::new()?;
            let url = network.join(&lab, place)?;
            Node::started_in(lab, &with_store(&url, name, NAMES.len(), LIMITS))
        };
        let nodes: Vec<Node> = NAMES.iter().enumerate().map(start).collect::<Result<_>>()?;
        wait_for_all(&nodes)?;
        let ban = ["ban", "203.0.113.66", "--for", "1d"];
        change(&nodes, 0, &ban, ("bans", "203.0.113.66", true))?;
        Ok(Self {
            nodes,
            redis,
            network,
            deadlines,
        })
    }

    /// Plays a failure for each seed, and tells each one.
    ///
    /// # Errors
    ///
    /// With the first that admits more than the bound, opens the ban, or misses a deadline.
    pub fn play(
        &mut self,
        seeds: impl Iterator<Item = u64>,
        mut report: impl FnMut(u64, &FailureResult),
    ) -> Result<Played> {
        let frame = |last: u8| {
            let frame = Frame::ethernet().ipv4([203, 0, 113, last].into());
            frame.udp(53).pad_to(70).build()
        };
        // One packet in eleven comes from a source that is banned.
        let mut frames = vec![frame(9); 10];
        frames.push(frame(66));
        let Self {
            nodes,
            redis,
            network,
            deadlines,
        } = self;
        let memory = |nodes: &[Node]| {
            let all = nodes.iter().map(|node| node.service().memory("VmRSS"));
            all.collect::<Result<Vec<u64>>>()
        };
        under_load(nodes, &frames, || {
            // A daemon that has seen no traffic has less.
            set_load(nodes, &[SENT / 3; 3]);
            thread::sleep(WARM);
            let before = memory(nodes)?;
            let outcomes = seeds.map(|seed| {
                let outcome = one(seed, nodes, (redis, network), deadlines)?;
                report(seed, &outcome);
                Ok(outcome)
            });
            let outcomes = outcomes.collect::<Result<_>>()?;
            let memory: Vec<_> = before.into_iter().zip(memory(nodes)?).collect();
            Ok(Played { outcomes, memory })
        })
    }
}

/// Changes something on a node and waits until all have it: whether a list of `rlctl list` has the
/// text. Gives how long it took after the command had answered.
fn change(
    nodes: &[Node],
    place: usize,
    command: &[&str],
    (list, text, has): (&str, &str, bool),
) -> Result<Duration> {
    nodes[place].service().rlctl_ok(command)?;
    let began = Instant::now();
    for node in nodes {
        let listed = || node.service().rlctl_ok(&["list", list]);
        while listed()?.contains(text) != has {
            ensure!(
                began.elapsed() < PATIENCE,
                "{command:?} is not on all nodes"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(began.elapsed())
}

/// Bans, unbans and allows a source on a node, and gives how long the slowest of it took to be on
/// all.
fn spread(nodes: &[Node], place: usize) -> Result<Duration> {
    let ban = ["ban", CHANGED, "--for", "1h"];
    let allow = ["allow", "add", CHANGED, "--for", "1h", "--cluster"];
    let undo = ["allow", "rm", CHANGED, "--cluster"];
    let steps: [(&[&str], _); 4] = [
        (&ban, ("bans", CHANGED, true)),
        (&["unban", CHANGED], ("bans", CHANGED, false)),
        (&allow, ("allows", CHANGED, true)),
        (&undo, ("allows", CHANGED, false)),
    ];
    let times = steps.map(|(command, expected)| change(nodes, place, command, expected));
    let mut slowest = Duration::ZERO;
    for time in times {
        slowest = slowest.max(time?);
    }
    Ok(slowest)
}

/// The time from `began` until the last of some nodes reported everywhere that it lost its store;
/// `None` if one missed the deadline.
fn told(
    nodes: &[Node],
    before: &[Losses],
    began: Instant,
    deadline: Duration,
) -> Result<Option<Duration>> {
    for (node, before) in nodes.iter().zip(before) {
        let look = || Losses::of(&node.service());
        if !before.wait_for_more(look, began + deadline)? {
            return Ok(None);
        }
    }
    Ok(Some(began.elapsed()))
}

/// One failure at a random moment, of a random kind.
fn one(
    seed: u64,
    nodes: &[Node],
    (redis, network): (&mut Redis, &StoreNetwork),
    deadlines: &Deadlines,
) -> Result<FailureResult> {
    let mut random = Rng::with_seed(seed);
    set_load(nodes, &load(&mut random));
    let start = Instant::now();
    thread::sleep(Duration::from_millis(random.u64(500..2_500)));
    let place = random.usize(..nodes.len());
    let failure = Failure::ALL[random.usize(..Failure::ALL.len())];
    let lasted = Duration::from_millis(random.u64(200..4_000));
    let what = format!("seed {seed}: {failure:?} at {}, {lasted:?}", NAMES[place]);
    let losers = &nodes[failure.losers(place, nodes.len())];
    let before = losers.iter().map(|node| Losses::of(&node.service()));
    let before: Vec<Losses> = before.collect::<Result<_>>()?;
    let must_be_told = failure.must_be_told(lasted, deadlines.told);
    let patience = if must_be_told { deadlines.told } else { lasted };
    let began = Instant::now();
    let (told, back, end) = thread::scope(|scope| {
        let told = scope.spawn(|| told(losers, &before, began, patience));
        failure.play(redis, network, (&nodes[place], place), lasted)?;
        let healed = Instant::now();
        wait_for_all(nodes)?;
        let (back, end) = (healed.elapsed(), Instant::now());
        let told = told.join().expect("nothing in it panics")?;
        Ok::<_, anyhow::Error>((told, back, end))
    })?;
    let seconds = end.duration_since(start).as_secs_f64();
    let rates = admitted_of(nodes, BUSY, &(start..end));
    let admitted = seconds * rates.iter().sum::<f64>();
    let bound = bound(LIMIT, nodes.len(), failure.bound() * seconds);
    let part = admitted / bound;
    ensure!(
        part <= 1.0,
        "{what}: {admitted:.0} passed, above {bound:.0}"
    );
    ensure!(
        !must_be_told || told.is_some(),
        "{what}: status, metrics and log had not told of it after {:?}",
        deadlines.told
    );
    ensure!(
        back < deadlines.back,
        "{what}: together again only after {back:?}"
    );
    let by_source = admitted_in(nodes, start..end).by_source;
    ensure!(!by_source.contains_key(&BANNED), "{what}: a ban opened");
    ensure!(admitted > 0.0, "{what}: nothing passed");
    let spread = spread(nodes, place)?;
    ensure!(
        spread < deadlines.spread,
        "{what}: a ban, an unban or an allow was on all nodes only after {spread:?}"
    );
    Ok(FailureResult {
        failure,
        lasted,
        part,
        told: told.filter(|_| !losers.is_empty()),
        back,
        spread,
    })
}

/// A load that is skewed at random.
fn load(random: &mut Rng) -> [u32; 3] {
    let first = random.u32(0..=SENT);
    let second = random.u32(0..=SENT - first);
    let mut load = [first, second, SENT - first - second];
    random.shuffle(&mut load);
    load
}
