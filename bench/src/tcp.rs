//! Measures the throughput of TCP under a limit of bytes, by algorithm, number of connections and
//! round-trip time.
//!
//! One source sends as fast as it can to a server behind the limiter. The bytes received by the
//! server are divided by what the limit admits. Headers are 4 % of what a limit counts, so at most
//! 96 % can be reached.

mod relay;

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratelimit_tests::lab::{INTERFACE, Lab, Namespace};

use crate::{
    installation::Installation,
    report::{Report, TcpRow},
    scenario::Scenario,
    statistics::Spread,
    store::Store,
    table,
};
use relay::Relay;

/// Bytes that each limit admits in a second.
const RATE: f64 = 10e6;
/// The limits, as they are written.
pub const LIMITS: [&str; 7] = [
    "bytes = \"10MB\", per = \"1s\"",
    "bytes = \"1MB\", per = \"100ms\"",
    "bytes = \"10MB\", per = \"1s\", burst = \"1MB\"",
    "bytes = \"10MB\", per = \"1s\", burst = \"100kB\"",
    "bytes = \"10MB\", per = \"1s\", algorithm = \"sliding-window\"",
    "bytes = \"10MB\", per = \"1s\", algorithm = \"fixed-window\"",
    "bytes = \"1MB\", per = \"100ms\", algorithm = \"fixed-window\"",
];
/// The numbers of simultaneous connections.
pub const CONNECTIONS: [usize; 2] = [1, 64];
/// Round-trip times, in milliseconds.
pub const ROUND_TRIPS: [u64; 3] = [0, 10, 40];
/// The time before the measurement: the burst of every limit is used up by then.
const BEFORE: Duration = Duration::from_secs(3);
/// The duration of a measurement.
const TURN: Duration = Duration::from_secs(6);
const ROUNDS: usize = 1;

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ADDRESSES: [&[&str]; 2] = [&["192.0.2.1/24"], &["192.0.2.2/24"]];
/// The timeout of a thread's socket, after which it checks whether all is over.
const PATIENCE: Duration = Duration::from_millis(100);
/// Bytes that are written at once.
const BLOCK: usize = 1 << 16;

/// `tcp/bytes = "10MB", per = "1s"/1 connection/0 ms`
fn name(limit: &str, connections: usize, round_trip: u64) -> String {
    format!("tcp/{limit}/{connections} connections/{round_trip} ms")
}

/// Measures the cases whose names contain what is wanted.
pub fn measure(
    rounds: Option<usize>,
    is_wanted: impl Fn(&str) -> bool,
    report: &mut Report,
) -> Result<()> {
    for limit in LIMITS {
        for round_trip in ROUND_TRIPS {
            let mut wanted = CONNECTIONS.to_vec();
            wanted.retain(|count| is_wanted(&name(limit, *count, round_trip)));
            if wanted.is_empty() {
                continue;
            }
            let mut path = Path::new(limit, round_trip)?;
            for connections in wanted {
                let parts = (0..rounds.unwrap_or(ROUNDS)).map(|_| path.part(connections));
                let parts: Vec<f64> = parts.collect::<Result<_>>()?;
                let part = Spread::of(&parts).context("no round was measured")?;
                let row = TcpRow {
                    limit: limit.to_owned(),
                    connections,
                    round_trip,
                    part,
                };
                eprintln!(
                    "{}: {:.2}",
                    name(limit, connections, round_trip),
                    part.median
                );
                report.tcp.push(row);
            }
            if let Some(relay) = &mut path.relay {
                relay.end()?;
            }
        }
    }
    Ok(())
}

/// A server behind the limiter, and a client so far away.
struct Path {
    relay: Option<Relay>,
    _installation: Installation,
    lab: Lab,
}

impl Path {
    fn new(limit: &str, round_trip: u64) -> Result<Self> {
        let lab = Lab::without_link()?;
        let relay = if round_trip == 0 {
            link(&lab.near, INTERFACE, &lab.far, INTERFACE)?;
            None
        } else {
            let relay = Namespace::of("relay")?;
            link(&lab.near, INTERFACE, &relay, "near")?;
            link(&lab.far, INTERFACE, &relay, "far")?;
            let one_way = Duration::from_millis(round_trip) / 2;
            Some(Relay::new(relay, ["near", "far"], one_way)?)
        };
        let [near, far] = ADDRESSES;
        lab.add_addresses(near, far)?;
        for end in [&lab.near, &lab.far] {
            // Segments as on a wire: no packets of 64 kB, and no checksum offloading.
            end.run("ethtool", &["--offload", INTERFACE, "tx", "off"])?;
            // No connection knows how an earlier one fared.
            let sysctl = "/proc/sys/net/ipv4/tcp_no_metrics_save";
            end.enter(|| std::fs::write(sysctl, "1"))?;
        }
        let toml = format!("[policy.default]\nlimits = [{{ {limit} }}]");
        let scenario = Scenario::new(Store::Lru, "tcp", toml);
        Ok(Self {
            _installation: Installation::new(&lab, &scenario)?,
            relay,
            lab,
        })
    }

    /// Returns the throughput of this many connections, as a part of the limit.
    fn part(&self, connections: usize) -> Result<f64> {
        let traffic = Traffic::start(&self.lab, connections)?;
        thread::sleep(BEFORE);
        let (start, before) = (Instant::now(), traffic.received.load(Relaxed));
        thread::sleep(TURN);
        let (bytes, seconds) = (
            traffic.received.load(Relaxed) - before,
            start.elapsed().as_secs_f64(),
        );
        traffic.stop()?;
        #[expect(clippy::cast_precision_loss, reason = "millions")]
        Ok(bytes as f64 / seconds / RATE)
    }
}

/// The table of the documentation, in percent: a row for each limit, a column for each number of
/// connections and round-trip time.
pub fn render(rows: &[TcpRow]) -> String {
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_by_key(|row| (row.connections, row.round_trip));
    let cells = rows.into_iter().map(|row| table::Cell {
        row: format!("`{}`", row.limit),
        column: format!("{} × {} ms", row.connections, row.round_trip),
        text: format!("{:.0}", row.part.median * 100.0),
    });
    table::pivot("limit", &cells.collect::<Vec<_>>())
}

/// Joins two namespaces.
fn link(one: &Namespace, name: &str, other: &Namespace, other_name: &str) -> Result<()> {
    let peer = ["peer", "name", other_name, "netns", other.name()];
    one.ip(&[&["link", "add", name, "type", "veth"], &peer[..]].concat())?;
    one.ip(&["link", "set", name, "up"])?;
    other.ip(&["link", "set", other_name, "up"]).map(drop)
}

/// Connections that send as fast as they can.
struct Traffic {
    received: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Traffic {
    fn start(lab: &Lab, connections: usize) -> Result<Self> {
        let mut traffic = Self {
            received: Arc::default(),
            is_over: Arc::default(),
            threads: vec![],
        };
        let listener = lab.near.enter(|| TcpListener::bind((SERVER, 0)))?;
        let address = listener.local_addr()?;
        for _ in 0..connections {
            let client = lab.far.enter(|| TcpStream::connect(address))?;
            let (server, _) = listener.accept()?;
            client.set_write_timeout(Some(PATIENCE))?;
            server.set_read_timeout(Some(PATIENCE))?;
            let is_over = Arc::clone(&traffic.is_over);
            traffic
                .threads
                .push(thread::spawn(move || send(client, &is_over)));
            let (is_over, received) = (Arc::clone(&traffic.is_over), Arc::clone(&traffic.received));
            let receive = move || receive(server, &is_over, &received);
            traffic.threads.push(thread::spawn(receive));
        }
        Ok(traffic)
    }

    fn stop(self) -> Result<()> {
        self.is_over.store(true, Relaxed);
        self.threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("it does not panic"))
    }
}

fn send(mut client: TcpStream, is_over: &AtomicBool) -> Result<()> {
    let block = vec![0; BLOCK];
    while !is_over.load(Relaxed) {
        waited(client.write(&block))?;
    }
    // The other end may have closed already.
    let _ = client.shutdown(Shutdown::Both);
    Ok(())
}

fn receive(mut server: TcpStream, is_over: &AtomicBool, received: &AtomicU64) -> Result<()> {
    let mut block = vec![0; BLOCK];
    while !is_over.load(Relaxed) {
        let bytes = waited(server.read(&mut block))?;
        received.fetch_add(bytes as u64, Relaxed);
    }
    Ok(())
}

/// Returns the transferred bytes: 0 if the socket timed out, or the other end has ended.
fn waited(transferred: std::io::Result<usize>) -> Result<usize> {
    match transferred {
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe => Ok(0),
            _ => Err(error.into()),
        },
        Ok(bytes) => Ok(bytes),
    }
}
