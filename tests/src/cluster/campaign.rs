//! Failures of a cluster at random moments, under traffic: what all nodes admit stays within the bound, and nothing that is banned opens.

mod failure;

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::{
    Node, admitted_in, admitted_of, set_load, store_network::StoreNetwork, under_load,
    wait_for_all, with_store,
};
use crate::{Frame, Lab, redis::Redis};

pub use failure::Failure;

const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
const LIMITS: &str =
    "[policy.default]\nlimits = [{ packets = 1000, per = \"1s\", scope = \"cluster\" }]\n";
const LIMIT: f64 = 1_000.0;
const SENT: u32 = 11_000;
/// The last two bytes of the source that is over the limit, and of the one that is banned.
const BUSY: u16 = (113 << 8) + 9;
const BANNED: u16 = (113 << 8) + 66;
/// How long all may take to work together again, on a busy machine.
const BACK: Duration = Duration::from_secs(30);

/// Three nodes, their store, and the links between them.
pub struct Rig {
    nodes: Vec<Node>,
    redis: Redis,
    network: StoreNetwork,
}

/// What became of a failure.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// What failed.
    pub failure: Failure,
    /// For how long, where it has a length.
    pub lasted: Duration,
    /// What all nodes admitted, of the bound.
    pub part: f64,
    /// How long after it ended limits were divided by all again.
    pub back: Duration,
}

impl Rig {
    /// Three nodes that divide a limit and know a ban.
    pub fn new() -> Result<Self> {
        let network = StoreNetwork::new()?;
        let redis = Redis::started_in(Some(&network.store))?;
        let start = |(place, name): (usize, &&str)| {
            let lab = Lab::new()?;
            let url = network.join(&lab, place)?;
            Node::started_in(lab, &with_store(&url, name, NAMES.len(), LIMITS))
        };
        let nodes: Vec<Node> = NAMES.iter().enumerate().map(start).collect::<Result<_>>()?;
        wait_for_all(&nodes)?;
        let ban = ["ban", "203.0.113.66", "--for", "1d"];
        nodes[0].service().rlctl_ok(&ban)?;
        let deadline = Instant::now() + BACK;
        for node in &nodes {
            let list = || node.service().rlctl_ok(&["list", "bans"]);
            while !list()?.contains("203.0.113.66") {
                ensure!(Instant::now() < deadline, "the ban is not on all nodes");
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(Self {
            nodes,
            redis,
            network,
        })
    }

    /// Plays a failure for each seed, and tells each one.
    ///
    /// # Errors
    ///
    /// With the first that admits more than the bound, opens the ban, or does not end.
    pub fn play(
        &mut self,
        seeds: impl Iterator<Item = u64>,
        mut report: impl FnMut(u64, &Outcome),
    ) -> Result<Vec<Outcome>> {
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
        } = self;
        under_load(nodes, &frames, || {
            let outcomes = seeds.map(|seed| {
                let outcome = one(seed, nodes, redis, network)?;
                report(seed, &outcome);
                Ok(outcome)
            });
            outcomes.collect()
        })
    }
}

/// One failure at a random moment, of a random kind.
fn one(seed: u64, nodes: &[Node], redis: &mut Redis, network: &StoreNetwork) -> Result<Outcome> {
    let mut random = Rng::with_seed(seed);
    set_load(nodes, &load(&mut random));
    let start = Instant::now();
    thread::sleep(Duration::from_millis(random.u64(500..2_500)));
    let place = random.usize(..nodes.len());
    let failure = Failure::ALL[random.usize(..Failure::ALL.len())];
    let lasted = Duration::from_millis(random.u64(200..4_000));
    let what = format!("seed {seed}: {failure:?} at {}, {lasted:?}", NAMES[place]);
    failure.play(redis, network, (&nodes[place], place), lasted)?;
    let healed = Instant::now();
    wait_for_all(nodes)?;
    let back = healed.elapsed();
    let end = Instant::now();
    let seconds = end.duration_since(start).as_secs_f64();
    let rates = admitted_of(nodes, BUSY, &(start..end));
    let admitted = seconds * rates.iter().sum::<f64>();
    // A window may begin right before and end right after what is counted, and a report be missing.
    let bound = LIMIT * (failure.bound() * seconds + 2.0 - 1.0 / 3.0);
    let part = admitted / bound;
    ensure!(
        part <= 1.0,
        "{what}: {admitted:.0} passed, above {bound:.0}"
    );
    ensure!(back < BACK, "{what}: together again only after {back:?}");
    let by_source = admitted_in(nodes, start..end).by_source;
    ensure!(!by_source.contains_key(&BANNED), "{what}: a ban opened");
    ensure!(admitted > 0.0, "{what}: nothing passed");
    Ok(Outcome {
        failure,
        lasted,
        part,
        back,
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
