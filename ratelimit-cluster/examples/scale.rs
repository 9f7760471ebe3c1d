//! How the cluster scales: `cargo run -p ratelimit-cluster --release --example scale` writes the tables of `docs/cluster.md`.
//!
//! Up to 100 nodes all of them run the real code in one thread. For more, one real node receives the reports of all others, and bytes are
//! counted from messages as they are sent.

#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people, of some digits"
)]

use std::collections::BTreeMap;
use std::time::Instant;

use ratelimit_cluster::budget::members::Views;
use ratelimit_cluster::budget::{Count, Division, Held, Limit, Report};
use ratelimit_cluster::message::{Body, Secret, open, seal};
use ratelimit_cluster::statements::{Bounds, Guard, Subject};
use ratelimit_cluster::{Arrival, Cluster, Config, Host, Memory, NodeName, Now, Outgoing};

/// Sources above their limit at a time, of a million that send: 10 times the limit each, through so many nodes.
const BUSY: usize = 1_000;
const NODES_OF_A_SOURCE: usize = 4;
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

    fn held(&self, _: &Key) -> Held {
        Held::default()
    }
}

fn main() {
    println!(
        "| nodes | message, bytes | written by a node, B/s | read by a node, kB/s | messages into Redis, 1/s | out of Redis, MB/s | a node's work, ms/s | within 5 % after | then admitted, % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for nodes in [10, 100, 1_000, 10_000] {
        let (bytes, work) = one_node(nodes);
        let settled = (nodes <= 100).then(|| settle(nodes));
        let (after, admitted) = settled.map_or(("-".into(), "-".into()), |(after, admitted)| {
            (format!("{after} periods"), format!("{admitted:.1}"))
        });
        let (read, count) = (bytes * nodes, nodes as f64);
        let out = read as f64 * count / 1e6;
        println!(
            "| {nodes} | {bytes} | {bytes} | {:.1} | {nodes} | {out:.2} | {work:.1} | {after} | {admitted} |",
            read as f64 / 1e3
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
        1,
        memory,
    )
}

/// The busy sources that reach a node: family, address and limit are 7 bytes.
fn offered(node: usize, nodes: usize) -> BTreeMap<Key, u64> {
    let each = NODES_OF_A_SOURCE.min(nodes);
    let reaches = |source: &usize| (0..each).any(|hop| (source * 7 + hop * 13) % nodes == node);
    let key = |source: usize| source.to_be_bytes()[1..].to_vec();
    (0..BUSY)
        .filter(reaches)
        .map(|source| (key(source), LIMIT.amount * 10 / each as u64))
        .collect()
}

/// The bytes of a report, and what it costs a node to read and divide those of all others.
#[expect(clippy::disallowed_methods, reason = "it measures work")]
fn one_node(nodes: usize) -> (usize, f64) {
    let mut reader = start(0, nodes);
    let mut kernel = Kernel {
        offered: offered(0, nodes),
        passed: BTreeMap::new(),
    };
    let mut bytes = 0;
    let mut work = 0.0;
    for second in 0..8 {
        let now = Now {
            wall: BEGIN + second * PERIOD,
            monotonic: second * PERIOD,
        };
        let arrival = Arrival::Stream { stored: now.wall };
        let begun = Instant::now();
        let sent = reader.due(now, &mut kernel);
        work = begun.elapsed().as_secs_f64() * 1e3;
        hear_itself(&mut reader, now, &sent, &kernel);
        let reports: Vec<_> = (1..nodes.min(201))
            .map(|node| report_of(node, nodes, now))
            .collect();
        bytes = reports.iter().map(Vec::len).sum::<usize>() / reports.len();
        let begun = Instant::now();
        for report in &reports {
            let _ = reader.receive(now, arrival, report, &kernel);
        }
        work += begun.elapsed().as_secs_f64() * 1e3 * nodes as f64 / reports.len() as f64;
    }
    (bytes, work)
}

fn hear_itself(cluster: &mut Cluster<Key>, now: Now, sent: &[Outgoing], kernel: &Kernel) {
    for message in sent.iter().filter_map(published) {
        let _ = cluster.receive(now, Arrival::Stream { stored: now.wall }, message, kernel);
    }
}

fn published(outgoing: &Outgoing) -> Option<&Vec<u8>> {
    if let Outgoing::Publish(message) = outgoing {
        Some(message)
    } else {
        None
    }
}

/// What a node reports a period later, when it has started long ago.
fn report_of(node: usize, nodes: usize, now: Now) -> Vec<u8> {
    let mut cluster = start(node, nodes);
    let mut kernel = Kernel {
        offered: offered(node, nodes),
        passed: BTreeMap::new(),
    };
    let mut last = Vec::new();
    for second in 0..5 {
        let back = (4 - second) * PERIOD;
        let then = Now {
            wall: now.wall - back,
            monotonic: 1_000_000 - back,
        };
        let sent = cluster.due(then, &mut kernel);
        hear_itself(&mut cluster, then, &sent, &kernel);
        if let Some(message) = sent.iter().filter_map(published).next_back() {
            last.clone_from(message);
        }
    }
    // It ran alone; among others it hears all of them.
    let secret = Secret::new(b"secret");
    let (header, body) = open(&secret, &last).expect("its own message");
    let Ok(Body::<Key>::Report(report, stated)) = Body::read(body) else {
        return last;
    };
    seal(
        &secret,
        &header,
        &Body::Report(
            Report {
                unheard: Vec::new(),
                ..report
            },
            stated,
        )
        .write(),
    )
}

/// All nodes run: after how many periods of load the sources together have within 5 % of their limits, and what they have then.
fn settle(nodes: usize) -> (u64, f64) {
    let mut all: Vec<_> = (0..nodes)
        .map(|node| {
            (
                start(node, nodes),
                Kernel {
                    offered: BTreeMap::new(),
                    passed: BTreeMap::new(),
                },
            )
        })
        .collect();
    let (mut settled, mut percent) = (0, 0.0);
    for second in 0..16 {
        let now = Now {
            wall: BEGIN + second * PERIOD,
            monotonic: second * PERIOD,
        };
        if second == 6 {
            all.iter_mut()
                .enumerate()
                .for_each(|(node, (_, kernel))| kernel.offered = offered(node, nodes));
        }
        let mut sent = Vec::new();
        for (cluster, kernel) in &mut all {
            sent.extend(
                cluster
                    .due(now, kernel)
                    .iter()
                    .filter_map(published)
                    .cloned(),
            );
        }
        let mut passed = 0;
        for (cluster, kernel) in &mut all {
            let shares: BTreeMap<_, _> = cluster.shares().collect();
            let share = |key| {
                shares
                    .get(key)
                    .copied()
                    .unwrap_or(cluster.default_share(&LIMIT))
                    .at(now.monotonic)
            };
            kernel.passed = kernel
                .offered
                .iter()
                .map(|(key, offered)| (key.clone(), share(key).min(*offered)))
                .collect();
            passed += kernel.passed.values().sum::<u64>();
        }
        percent = passed as f64 * 100.0 / (LIMIT.amount as f64 * BUSY as f64);
        if second >= 6 && percent < 95.0 {
            settled = second - 5;
        }
        for (cluster, kernel) in &mut all {
            for message in &sent {
                let _ = cluster.receive(now, Arrival::Stream { stored: now.wall }, message, kernel);
            }
        }
    }
    (settled, percent)
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
