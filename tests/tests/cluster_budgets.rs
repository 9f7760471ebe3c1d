//! Three daemons in three namespaces and a real Redis share one limit: what all kernels together admit of one source.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use ratelimit_core::api::{ClusterStatus, NodeState, NodeView, Status};
use ratelimit_tests::{
    Frame, Lab, lab::Sender, redis::Redis, require_package, require_root, service::Service,
};

const PATIENCE: Duration = Duration::from_mins(1);
const SOURCE: &str = "203.0.113.9";
const LIMIT: f64 = 1_000.0;
/// How long the shares may take to follow the load. Two seconds are promised; this machine may be busy.
const SETTLED: Duration = Duration::from_secs(6);
/// How long packets are counted.
const COUNTED: Duration = Duration::from_secs(10);

/// A load is sent in so many parts of a second.
const SLICES: u32 = 50;

/// Tells threads to stop, also where the test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

struct Node {
    lab: Lab,
    service: Service,
    /// Packets a second that come here.
    load: AtomicU32,
}

impl Node {
    fn started(redis: &Redis, name: &str, limit: &str) -> Self {
        let lab = Lab::new().unwrap();
        let socket = redis.socket();
        let toml = format!(
            "[policy.default]\nlimits = [{limit}]\n[cluster]\nurl = \"{}\"\nnode = \"{name}\"\nnodes = 3\n\
             secret = \"0123456789abcdef0123456789abcdef\"\n",
            socket.display()
        );
        let mut service = Service::new(&lab, &toml).unwrap();
        service.start().unwrap();
        Self {
            lab,
            service,
            load: AtomicU32::new(0),
        }
    }

    fn status(&self) -> ClusterStatus {
        let said = self.service.rlctl(&["--json", "status"]).unwrap();
        let status: Status = serde_json::from_str(&said.stdout).unwrap();
        status.cluster.unwrap()
    }

    fn is_complete(&self) -> bool {
        let nodes = self.status().nodes;
        let is_well = |node: &&NodeView| matches!(node.state, NodeState::Here | NodeState::Alive);
        nodes.iter().filter(is_well).count() == 3
    }

    /// The packets that were admitted, and about when that was.
    fn admitted(&self) -> (u64, Instant) {
        let metrics = self.service.get("/metrics", "text/plain").unwrap();
        let at = Instant::now();
        let is_admitted = |line: &&str| {
            line.starts_with("ratelimit_packets_total{") && line.contains("reason=\"conforming\"")
        };
        let counts = metrics.lines().filter(is_admitted);
        let counts = counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        (counts.sum(), at)
    }

    /// Sends what its load is until told to stop.
    fn send(&self, frame: &[u8], stop: &AtomicBool) {
        let sender = Sender::new(&self.lab.far).unwrap();
        let mut due = Instant::now();
        while !stop.load(Relaxed) {
            for _ in 0..self.load.load(Relaxed) / SLICES {
                sender.send(frame).unwrap();
            }
            due += Duration::from_secs(1) / SLICES;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}

/// What three nodes admit of what they get, in packets a second.
fn admitted(nodes: &[Node; 3]) -> [f64; 3] {
    let before = nodes.each_ref().map(Node::admitted);
    thread::sleep(COUNTED);
    let after = nodes.each_ref().map(Node::admitted);
    std::array::from_fn(|node| {
        let (count, time) = (
            after[node].0 - before[node].0,
            after[node].1 - before[node].1,
        );
        f64::from(u32::try_from(count).unwrap()) / time.as_secs_f64()
    })
}

#[track_caller]
fn check(what: &str, nodes: &[Node; 3], loads: [u32; 3], expected: Range<f64>) -> [f64; 3] {
    for (node, load) in nodes.iter().zip(loads) {
        node.load.store(load, Relaxed);
    }
    thread::sleep(SETTLED);
    let each = admitted(nodes);
    let sum: f64 = each.iter().sum();
    println!("{what}: {sum:.0} a second, of {each:.0?}");
    assert!(
        expected.contains(&sum),
        "{what}: {sum} of {each:?}, {:?} {}",
        nodes[0].status(),
        nodes[0].service.log()
    );
    each
}

fn three(redis: &Redis, limit: &str) -> [Node; 3] {
    let nodes = ["edge-1", "edge-2", "edge-3"].map(|name| Node::started(redis, name, limit));
    let deadline = Instant::now() + PATIENCE;
    while !nodes.iter().all(Node::is_complete) {
        assert!(Instant::now() < deadline, "{}", nodes[0].service.log());
        thread::sleep(Duration::from_millis(50));
    }
    nodes
}

/// A window may begin right before and end right after what is counted, on each node, and a busy machine counts late.
fn at_most(limit: f64) -> f64 {
    limit * (COUNTED.as_secs_f64() + 2.0) / COUNTED.as_secs_f64()
}

#[test]
fn one_source_through_three_nodes_gets_one_limit_wherever_it_comes_in() {
    require_root!();
    require_package!("redis-server");
    let mut redis = Redis::started().unwrap();
    let nodes = three(
        &redis,
        "{ packets = 1000, per = \"1s\", scope = \"cluster\" }",
    );
    let frame = Frame::ethernet().ipv4(SOURCE.parse().unwrap());
    let frame = frame.udp(53).pad_to(70).build();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        for node in &nodes {
            scope.spawn(|| node.send(&frame, &stop));
        }
        // Nothing is lost of the limit on an idle machine; a busy one reports late.
        let whole = 0.5 * LIMIT..at_most(LIMIT);
        check("equal load", &nodes, [3_333; 3], whole.clone());
        let skewed = check("skewed load", &nodes, [9_700, 200, 100], whole.clone());
        assert!(skewed[0] > 0.4 * LIMIT, "{skewed:?}");
        check("one node", &nodes, [0, 10_000, 0], whole);
        redis.kill().unwrap();
        let part = LIMIT / 3.0;
        let each = check("no store", &nodes, [3_333; 3], 0.5 * LIMIT..at_most(LIMIT));
        assert!(each.iter().all(|rate| *rate < at_most(part)), "{each:?}");
    });
}
