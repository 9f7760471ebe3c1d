//! How the cluster scales: `cargo run -p ratelimit-cluster --release --example scale` writes the tables of `docs/cluster.md`.
//!
//! Up to 100 nodes all of them run the real code in one thread. Of more, the nodes of some sources do, and read reports of all others that
//! ask for the same in each period. Bytes are counted from messages as they are sent, work is that of one node.

#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people, of some digits"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ratelimit_cluster::budget::members::Views;
use ratelimit_cluster::budget::{Count, Division, Entry, Held, Limit, Report};
use ratelimit_cluster::message::{Body, Header, Secret, Stated, open, seal};
use ratelimit_cluster::statements::{Bounds, Guard, Subject};
use ratelimit_cluster::{Arrival, Cluster, Config, Host, Memory, NodeName, Now, Outgoing};

/// Sources above their limit at a time, of a million that send: 10 times the limit each, through so many nodes.
const BUSY: usize = 1_000;
const NODES_OF_A_SOURCE: usize = 4;
/// So many nodes at most all run.
const WHOLE: usize = 100;
/// Of more nodes, those of so many sources run.
const FOLLOWED: usize = 20;
const LIMIT: Limit = Limit {
    amount: 100_000,
    division: Division::Equal,
    window: 1_000,
};
const PERIOD: u64 = 1_000;
const BEGIN: u64 = 1_700_000_000_000;

type Key = Vec<u8>;

/// A host: what is offered in a period, and what passed.
struct Kernel {
    offered: BTreeMap<Key, u64>,
    passed: BTreeMap<Key, u64>,
}

impl Guard<Key> for Kernel {
    fn permits(&self, _: &Subject<Key>) -> Result<(), &'static str> {
        Ok(())
    }
}

impl Host<Key> for Kernel {
    fn limit(&self, _: &Key) -> Option<Limit> {
        Some(LIMIT)
    }

    fn limits(&self) -> u64 {
        1
    }

    fn counts(&mut self) -> Vec<Count<Key>> {
        let count = |(key, offered): (&Key, &u64)| {
            let admitted = self.passed.get(key).copied().unwrap_or_default();
            Count {
                key: key.clone(),
                admitted,
                refused: offered - admitted.min(*offered),
                passed: admitted,
            }
        };
        self.offered.iter().map(count).collect()
    }

    fn held(&self, _: &Key, _: u64) -> Held {
        Held::default()
    }
}

fn main() {
    println!(
        "| nodes | message, bytes | written by a node, B/s | read by a node, kB/s | messages into Redis, 1/s | out of Redis, MB/s | a node's work, ms/s | within 5 % after | then admitted, % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for nodes in [10, 100, 1_000, 10_000] {
        let seen = play(nodes);
        let (bytes, read, count) = (seen.bytes, seen.bytes * nodes, nodes as f64);
        let out = read as f64 * count / 1e6;
        println!(
            "| {nodes} | {bytes} | {bytes} | {:.1} | {nodes} | {out:.2} | {:.1} | {} periods | {:.1} |",
            read as f64 / 1e3,
            seen.work,
            seen.settled,
            seen.percent
        );
    }
    println!("\n| streams | masters | streams of the fullest master, of its even part |");
    println!("|---|---|---|");
    for (streams, masters) in [
        (16, 3),
        (64, 3),
        (256, 3),
        (64, 8),
        (256, 8),
        (1024, 8),
        (1024, 32),
    ] {
        println!(
            "| {streams} | {masters} | {:.2} |",
            fullest(streams, masters)
        );
    }
}

fn name(node: usize) -> NodeName {
    NodeName::new(&format!("edge-{node:05}")).expect("a name")
}

fn start(node: usize, nodes: usize) -> Cluster<Key> {
    let current = (0..nodes).map(name).collect();
    let memory = Memory {
        views: Views {
            current,
            ..Views::default()
        },
        ..Memory::default()
    };
    let config = Config {
        node: name(node),
        secret: Secret::new(b"secret"),
        period: PERIOD,
        bounds: Bounds::default(),
    };
    Cluster::new(
        config,
        Now {
            wall: BEGIN,
            monotonic: 0,
        },
        memory,
    )
}

/// The busy sources that reach each node: family, address and limit are 7 bytes.
fn offered(nodes: usize) -> Vec<BTreeMap<Key, u64>> {
    let each = LIMIT.amount * 10 / NODES_OF_A_SOURCE.min(nodes) as u64;
    let mut offered = vec![BTreeMap::new(); nodes];
    for source in 0..BUSY {
        for node in reached(source, nodes) {
            offered[node].insert(key(source), each);
        }
    }
    offered
}

/// The nodes that a source reaches.
fn reached(source: usize, nodes: usize) -> impl Iterator<Item = usize> {
    (0..NODES_OF_A_SOURCE.min(nodes)).map(move |hop| (source * 7 + hop * 13) % nodes)
}

fn key(source: usize) -> Key {
    source.to_be_bytes()[1..].to_vec()
}

fn published(outgoing: &Outgoing) -> Option<&Vec<u8>> {
    if let Outgoing::Publish(message) = outgoing {
        Some(message)
    } else {
        None
    }
}

/// The report that a message is.
fn read(message: &[u8]) -> Option<(Header, Report<Key>, Stated)> {
    let (header, body) = open(&Secret::new(b"secret"), message).expect("its own message");
    match Body::read(body) {
        Ok(Body::Report(report, stated)) => Some((header, report, stated)),
        _ => None,
    }
}

fn write(header: &Header, report: Report<Key>, stated: Stated) -> Vec<u8> {
    let body = Body::Report(report, stated).write();
    seal(&Secret::new(b"secret"), header, &body)
}

/// What a node that does not run reports beside one that does: it asks for the same in each period.
fn beside(
    (header, report, stated): &(Header, Report<Key>, Stated),
    node: usize,
    entries: &[Entry<Key>],
) -> Vec<u8> {
    let header = Header {
        node: name(node),
        ..header.clone()
    };
    let report = Report {
        unheard: Vec::new(),
        entries: entries.to_vec(),
        ..*report
    };
    write(&header, report, *stated)
}

/// What a node asks for that has the limit divided by the nodes.
fn wanted(offered: &BTreeMap<Key, u64>, nodes: usize) -> Vec<Entry<Key>> {
    let claim = LIMIT.amount / nodes as u64;
    let entry = |(key, demand): (&Key, &u64)| Entry {
        key: key.clone(),
        claim,
        demand: *demand,
        held: 0,
        passed: claim,
    };
    offered.iter().map(entry).collect()
}

/// A node that runs.
struct Node {
    cluster: Cluster<Key>,
    kernel: Kernel,
    offered: BTreeMap<Key, u64>,
}

/// What is measured of so many nodes.
struct Seen {
    /// Of a report, as a mean over all nodes.
    bytes: usize,
    /// What it costs a node to read and divide the reports of all, in milliseconds a period.
    work: f64,
    /// After how many periods of load the sources together have within 5 % of their limits, and what they have then.
    settled: u64,
    percent: f64,
}

#[expect(clippy::disallowed_methods, reason = "it measures work")]
fn play(nodes: usize) -> Seen {
    let followed = if nodes <= WHOLE { BUSY } else { FOLLOWED };
    let keys: Vec<Key> = (0..followed).map(key).collect();
    let (mut run, mut others) = (Vec::new(), Vec::new());
    for (node, offered) in offered(nodes).into_iter().enumerate() {
        if keys.iter().any(|key| offered.contains_key(key)) {
            run.push(Node {
                cluster: start(node, nodes),
                kernel: Kernel {
                    offered: BTreeMap::new(),
                    passed: BTreeMap::new(),
                },
                offered,
            });
        } else {
            others.push((node, wanted(&offered, nodes)));
        }
    }
    let mut seen = Seen {
        bytes: 0,
        work: 0.0,
        settled: 0,
        percent: 0.0,
    };
    for second in 0..16 {
        let now = Now {
            wall: BEGIN + second * PERIOD,
            monotonic: second * PERIOD,
        };
        if second == 6 {
            for node in &mut run {
                node.kernel.offered = node.offered.clone();
            }
        }
        let mut sent = Vec::new();
        let mut work = Duration::ZERO;
        for node in &mut run {
            let begun = Instant::now();
            let outgoing = node.cluster.due(now, &mut node.kernel);
            work += begun.elapsed();
            sent.extend(outgoing.iter().filter_map(published).cloned());
        }
        if let Some(model) = sent.iter().find_map(|message| read(message)) {
            let beside = |(node, wanted): &(usize, Vec<_>)| beside(&model, *node, wanted);
            sent.extend(others.iter().map(beside));
        }
        seen.bytes = sent.iter().map(Vec::len).sum::<usize>() / sent.len().max(1);
        let mut passed = 0;
        for node in &mut run {
            let shares: BTreeMap<_, _> = node.cluster.budget().shares().collect();
            let default = node.cluster.budget().default_share(&LIMIT);
            let share = |key: &Key| {
                let share = shares.get(key).copied().unwrap_or(default);
                share.at(now.monotonic)
            };
            let pass = |(key, offered): (&Key, &u64)| (key.clone(), share(key).min(*offered));
            node.kernel.passed = node.kernel.offered.iter().map(pass).collect();
            let of_followed = keys.iter().filter_map(|key| node.kernel.passed.get(key));
            passed += of_followed.sum::<u64>();
        }
        seen.percent = passed as f64 * 100.0 / (LIMIT.amount as f64 * followed as f64);
        if second >= 6 && seen.percent < 95.0 {
            seen.settled = second - 5;
        }
        let begun = Instant::now();
        for node in &mut run {
            for message in &sent {
                let arrival = Arrival::Stream { stored: now.wall };
                let received = node.cluster.receive(now, arrival, message, &node.kernel);
                received.expect("all is well");
            }
        }
        work += begun.elapsed();
        seen.work = work.as_secs_f64() * 1e3 / run.len() as f64;
    }
    seen
}

/// The part of streams `rl:{shard}` that the fullest master of a Redis Cluster has, of an even part.
fn fullest(streams: usize, masters: usize) -> f64 {
    let mut of_master = vec![0usize; masters];
    for stream in 0..streams {
        let slot = usize::from(crc16(format!("rl:{stream}").as_bytes()) % 16_384);
        of_master[slot * masters / 16_384] += 1;
    }
    let fullest = of_master.into_iter().max().unwrap_or_default();
    (fullest * masters) as f64 / streams as f64
}

/// CRC-16/XMODEM, by which Redis Cluster maps keys to slots.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    })
}
