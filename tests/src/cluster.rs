//! Daemons in separate namespaces with a real Redis between them: the load on each, and what its
//! kernel admits.

pub mod campaign;
pub mod losses;
pub mod store_network;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use ratelimit_core::api::{ClusterStatus, NodeState, NodeView, SharingStatus, Status};

use crate::{
    Lab,
    lab::{Receiver, Sender},
    redis::Redis,
    service::Service,
    waiting,
};

/// The number of bursts per second.
const SLICES: u32 = 200;
/// The interval at which a thread checks for the end.
const POLL: Duration = Duration::from_millis(20);
/// The window of the limits.
const WINDOW: Duration = Duration::from_secs(1);

/// A node of the cluster.
pub struct Node {
    /// Its namespaces.
    pub lab: Lab,
    service: Mutex<Service>,
    /// Packets a second that are sent to it.
    load: AtomicU32,
    admitted: Mutex<Vec<Admitted>>,
    /// The time until which `admitted` is complete. `None` if nothing reads.
    read_until: Mutex<Option<Instant>>,
}

/// A packet that a kernel admitted.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: Instant,
    /// The last two bytes of its source.
    source: u16,
    bytes: u16,
}

/// Tells threads to stop, also where the test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Returns the configuration of a node with the limits in `toml`.
pub fn configuration(redis: &Redis, name: &str, nodes: usize, toml: &str) -> String {
    with_store(&redis.socket().display().to_string(), name, nodes, toml)
}

/// Returns the configuration with another connection to the store.
pub fn with_store(url: &str, name: &str, nodes: usize, toml: &str) -> String {
    format!(
        "{toml}\n[cluster]\nurl = \"{url}\"\nnode = \"{name}\"\nnodes = {nodes}\n\
         secret = \"0123456789abcdef0123456789abcdef\"\n"
    )
}

impl Node {
    /// A node that runs.
    pub fn started(redis: &Redis, name: &str, nodes: usize, toml: &str) -> Result<Self> {
        Self::started_in(Lab::new()?, &configuration(redis, name, nodes, toml))
    }

    /// A node that runs in a lab, with a whole configuration.
    pub fn started_in(lab: Lab, configuration: &str) -> Result<Self> {
        let service = Service::started(&lab, configuration)?;
        Ok(Self {
            lab,
            service: Mutex::new(service),
            load: AtomicU32::new(0),
            admitted: Mutex::default(),
            read_until: Mutex::default(),
        })
    }

    /// Its daemon.
    pub fn service(&self) -> MutexGuard<'_, Service> {
        self.service.lock().expect("no thread panicked with it")
    }

    /// Returns the status of the cluster according to this node.
    pub fn status(&self) -> Result<ClusterStatus> {
        let status: Status = self.service().json(&["status"])?;
        status.cluster.context("the configuration has [cluster]")
    }

    /// Waits until something is so, and answers how long that took.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl FnMut() -> bool) -> Duration {
        waiting::until(is_so, || format!("{what}: {}", self.service().log()))
    }

    /// Returns whether the node reaches the store, hears all nodes, and divides limits by their
    /// reports since then.
    fn hears(&self, nodes: usize, since: Timestamp) -> Result<bool> {
        let status = self.status()?;
        let is_well = |node: &&NodeView| matches!(node.state, NodeState::Here | NodeState::Alive);
        let is_divided = status.sharing.is_none_or(|it| divides(&it, since));
        Ok(status.connected == Some(true)
            && is_divided
            && status.nodes.iter().filter(is_well).count() == nodes)
    }

    /// Sends what its load is until told to stop, of each frame in turn.
    fn send(&self, frames: &[Vec<u8>], stop: &AtomicBool) -> Result<()> {
        let sender = Sender::new(&self.lab.far)?;
        let (mut due, mut frames) = (Instant::now(), frames.iter().cycle());
        let mut owed = 0;
        while !stop.load(Relaxed) {
            owed += self.load.load(Relaxed);
            for frame in frames.by_ref().take((owed / SLICES) as usize) {
                sender.send(frame)?;
            }
            owed %= SLICES;
            due += Duration::from_secs(1) / SLICES;
            // A backlog from a busy machine is not sent at once.
            due = due.max(Instant::now().checked_sub(POLL).unwrap_or(due));
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    /// Notes what passes until told to stop.
    fn receive(&self, stop: &AtomicBool) -> Result<()> {
        let mut receiver = Receiver::new(&self.lab.near)?;
        let read_until = |at| *self.read_until.lock().expect("no thread panicked with it") = at;
        // From here on frames are stamped.
        receiver.waited()?;
        let mut at = Instant::now();
        read_until(Some(at));
        while !stop.load(Relaxed) {
            let before = Instant::now();
            let Some(frame) = receiver.next(POLL)? else {
                read_until(Some(before));
                continue;
            };
            // In order, also where the clocks that it comes from differ by a moment.
            let came = Instant::now().checked_sub(receiver.waited()?);
            at = at.max(came.unwrap_or(at));
            let of_source = if frame[12..14] == [0x86, 0xdd] {
                36
            } else {
                28
            };
            let mut admitted = self.admitted.lock().expect("no thread panicked with it");
            admitted.push(Admitted {
                at,
                source: u16::from_be_bytes([frame[of_source], frame[of_source + 1]]),
                bytes: frame.len().try_into()?,
            });
            read_until(Some(at));
        }
        read_until(None);
        ensure!(receiver.lost()? == 0, "packets were received too slowly");
        Ok(())
    }

    /// Waits until all that came before a time was read.
    fn wait_for_reads(&self, until: Instant) {
        waiting::wait_until("what was admitted is read", || {
            let read = *self.read_until.lock().expect("no thread panicked with it");
            read.is_none_or(|read| read >= until)
        });
    }

    /// The time at which it last admitted a packet of a source, by its last two bytes.
    pub fn last_admitted(&self, source: u16) -> Option<Instant> {
        let admitted = self.admitted.lock().expect("no thread panicked with it");
        let mut admitted = admitted.iter().rev();
        admitted.find(|it| it.source == source).map(|it| it.at)
    }

    /// The time at which it first admitted a packet of a source after `since`.
    pub fn first_admitted(&self, source: u16, since: Instant) -> Option<Instant> {
        let admitted = self.admitted.lock().expect("no thread panicked with it");
        let first = admitted.partition_point(|it| it.at < since);
        let mut admitted = admitted[first..].iter();
        admitted.find(|it| it.source == source).map(|it| it.at)
    }

    /// Returns what it admitted in a time: packets, bytes, and packets by source. Packets within
    /// `edge` of its beginning and end count the less, the closer they are.
    fn admitted_in(&self, time: &Range<Instant>, edge: Duration) -> (f64, f64, BTreeMap<u16, f64>) {
        let admitted = self.admitted.lock().expect("no thread panicked with it");
        let first = admitted.partition_point(|it| it.at < time.start);
        let those = admitted[first..].iter().take_while(|it| it.at < time.end);
        let mut sum = (0.0, 0.0, BTreeMap::new());
        for it in those {
            let inside = (it.at - time.start).min(time.end - it.at);
            let weight = if inside < edge {
                inside.div_duration_f64(edge)
            } else {
                1.0
            };
            sum.0 += weight;
            sum.1 += weight * f64::from(it.bytes);
            *sum.2.entry(it.source).or_default() += weight;
        }
        sum
    }
}

/// Returns the most per second that all nodes may admit of a limit over a number of seconds.
///
/// A window may begin right before this time and another end right after it. One report may be
/// missing, and then each node has up to its part in addition to what the others used.
#[expect(clippy::cast_precision_loss, reason = "there are few nodes")]
pub fn bound(limit: f64, nodes: usize, seconds: f64) -> f64 {
    limit * (seconds + 2.0 - 1.0 / nodes as f64)
}

/// Compares what all nodes admitted of sources, by their last two bytes, with the bound: in each
/// time of a tenth of a second to three.
///
/// # Panics
///
/// When it is more.
#[track_caller]
#[expect(clippy::cast_precision_loss, reason = "packets of seconds")]
pub fn check_bound(nodes: &[Node], limit: f64, is_counted: impl Fn(u16) -> bool) {
    let mut times = Vec::new();
    for node in nodes {
        let admitted = node.admitted.lock().expect("no thread panicked with it");
        let those = admitted.iter().filter(|it| is_counted(it.source));
        times.extend(those.map(|it| it.at));
    }
    times.sort_unstable();
    assert!(!times.is_empty(), "nothing was admitted");
    for seconds in [0.1, 1.0, 3.0] {
        let (time, mut first, mut most) = (Duration::from_secs_f64(seconds), 0, 0);
        for (place, at) in times.iter().enumerate() {
            while at.duration_since(times[first]) >= time {
                first += 1;
            }
            most = most.max(place + 1 - first);
        }
        let bound = bound(limit, nodes.len(), seconds);
        println!("{most} in {seconds} s, of {bound:.0} at most");
        assert!(most as f64 <= bound, "{most} in {seconds} s, above {bound}");
    }
}

/// The rates admitted by all nodes, per second.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Packets, of each node.
    pub packets: Vec<f64>,
    /// Bytes, of each node.
    pub bytes: Vec<f64>,
    /// Packets of all nodes, by the last two bytes of the source.
    pub by_source: BTreeMap<u16, f64>,
}

/// Nodes that hear each other and divide limits.
///
/// # Errors
///
/// When a daemon does not start.
pub fn started(redis: &Redis, names: &[&str], toml: &str) -> Result<Vec<Node>> {
    let nodes = names.iter();
    let nodes = nodes.map(|name| Node::started(redis, name, names.len(), toml));
    let nodes: Vec<Node> = nodes.collect::<Result<_>>()?;
    wait_for_all(&nodes)?;
    Ok(nodes)
}

/// Whether limits are divided by reports of a time that began since then: a division is of the
/// reports of two periods before.
fn divides(sharing: &SharingStatus, since: Timestamp) -> bool {
    let reported = since + SignedDuration::from_secs_f64(2.0 * sharing.period_seconds);
    sharing.fallback.is_none() && sharing.divided_at.is_some_and(|at| at > reported)
}

/// Waits until all nodes hear each other, and divide limits by reports from now on.
///
/// # Errors
///
/// If that takes too long.
pub fn wait_for_all(nodes: &[Node]) -> Result<()> {
    let since = Timestamp::now();
    for node in nodes {
        let log = || format!("{:?} {}", node.status(), node.service().log());
        waiting::until(|| node.hears(nodes.len(), since).unwrap_or(false), log);
    }
    Ok(())
}

/// Sends packets a second to each node, as many as [`set_load`] says, while something is done.
pub fn under_load<R>(nodes: &[Node], frames: &[Vec<u8>], act: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        for node in nodes {
            scope.spawn(|| node.receive(&stop).expect("frames can be received"));
            scope.spawn(|| node.send(frames, &stop).expect("frames can be sent"));
        }
        act()
    })
}

/// Sets the packets per second sent to each node.
pub fn set_load(nodes: &[Node], load: &[u32]) {
    for (node, load) in nodes.iter().zip(load) {
        node.load.store(*load, Relaxed);
    }
}

/// Waits for this time and a window, and returns what nodes admitted on average.
pub fn admitted_for(nodes: &[Node], time: Duration) -> Rates {
    let start = Instant::now();
    thread::sleep(time + WINDOW);
    admitted_on_average(nodes, start..start + time + WINDOW)
}

/// Returns what nodes admitted in a time.
pub fn admitted_in(nodes: &[Node], time: Range<Instant>) -> Rates {
    admitted(nodes, &time, Duration::ZERO)
}

/// Returns what nodes admitted in a time, the average of all times that are a window shorter. A
/// window is used up at its beginning, and on a busy machine a little earlier or later: the packets
/// of one that lies across an edge would count fully or not at all.
pub fn admitted_on_average(nodes: &[Node], time: Range<Instant>) -> Rates {
    admitted(nodes, &time, WINDOW)
}

/// Returns what nodes admitted in a time, at whose edges packets count little.
fn admitted(nodes: &[Node], time: &Range<Instant>, edge: Duration) -> Rates {
    let seconds = time
        .end
        .duration_since(time.start)
        .saturating_sub(edge)
        .as_secs_f64();
    for node in nodes {
        node.wait_for_reads(time.end);
    }
    let (mut rates, mut by_source) = ((Vec::new(), Vec::new()), BTreeMap::new());
    for node in nodes {
        let (packets, bytes, sources) = node.admitted_in(time, edge);
        rates.0.push(packets / seconds);
        rates.1.push(bytes / seconds);
        for (source, packets) in sources {
            *by_source.entry(source).or_default() += packets / seconds;
        }
    }
    Rates {
        packets: rates.0,
        bytes: rates.1,
        by_source,
    }
}

/// Packets a second that each node admitted of one source in a time, by its last two bytes.
pub fn admitted_of(nodes: &[Node], source: u16, time: &Range<Instant>) -> Vec<f64> {
    let seconds = time.end.duration_since(time.start).as_secs_f64();
    for node in nodes {
        node.wait_for_reads(time.end);
    }
    let of_source = |node: &Node| {
        let (_, _, by_source) = node.admitted_in(time, Duration::ZERO);
        by_source.get(&source).copied().unwrap_or_default() / seconds
    };
    nodes.iter().map(of_source).collect()
}
