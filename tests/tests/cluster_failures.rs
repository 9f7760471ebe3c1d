//! Three nodes whose store is slow, read-only or no store at all; messages of another release or
//! another time; and ten thousand bans at once.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ratelimit_cluster::{
    NodeName, Stamp,
    budget::{KeyReport, Report},
    message::{Body, Header, STATEMENTS_MAX, Secret, open, seal},
    statements::{Bounds, Statement, Subject, Verb},
};
use ratelimit_core::prefix::Prefix;
use ratelimit_daemon::cluster::ClusterKey;
use ratelimit_tests::{
    PATIENCE,
    cluster::{Node, losses::Losses, started},
    redis::Redis,
    require_package, require_root,
};
use tempfile::TempDir;

const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
const NO_LIMITS: &str = "[policy.default]\nlimits = []\n";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn run(node: &Node, arguments: &[&str]) -> String {
    node.service().rlctl_ok(arguments).unwrap()
}

fn losses(node: &Node) -> Losses {
    Losses::of(&node.service()).unwrap()
}

fn bans(node: &Node) -> usize {
    node.status().unwrap().bans
}

/// An endpoint for daemons that replaces the store.
struct Front {
    directory: TempDir,
}

impl Front {
    /// Has each connection served by `serve`, until the test ends.
    fn new(serve: impl Fn(UnixStream) + Clone + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let front = Self { directory };
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
        open(front.directory.path()).unwrap();
        let listener = UnixListener::bind(front.socket()).unwrap();
        open(&front.socket()).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serve = serve.clone();
                thread::spawn(move || serve(stream));
            }
        });
        front
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("front.sock")
    }

    /// Has a node go to the store this way.
    fn redirect(&self, node: &Node, name: &str) {
        let toml = format!(
            "{NO_LIMITS}[cluster]\n\
             url = \"{}\"\n\
             node = \"{name}\"\n\
             nodes = 3\n\
             secret = \"{SECRET}\"\n",
            self.socket().display()
        );
        node.service().configure(&toml).unwrap();
        run(node, &["reload"]);
    }
}

/// Copies bytes, each a while after it came.
fn copy(mut from: UnixStream, mut to: UnixStream, delay: &AtomicU64) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        thread::sleep(Duration::from_millis(delay.load(Relaxed)));
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

#[test]
fn a_slow_store_is_used_and_one_that_is_too_slow_or_read_only_is_reported() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES, NO_LIMITS).unwrap();
    let delay = Arc::new(AtomicU64::new(0));
    let (socket, slow) = (redis.socket(), Arc::clone(&delay));
    let front = Front::new(move |stream| {
        let Ok(store) = UnixStream::connect(&socket) else {
            return;
        };
        let (back, forth) = (stream.try_clone().unwrap(), store.try_clone().unwrap());
        let delay = Arc::clone(&slow);
        thread::spawn(move || copy(forth, back, &delay));
        copy(stream, store, &slow);
    });
    front.redirect(&nodes[0], NAMES[0]);
    let connected = || nodes[0].status().unwrap().connected;
    nodes[0].wait_until("the store", || connected() == Some(true));
    delay.store(150, Relaxed);
    run(&nodes[0], &["ban", "203.0.113.1", "--for", "1h"]);
    for node in &nodes[1..] {
        node.wait_until("a ban through a slow store", || bans(node) == 1);
    }
    run(&nodes[1], &["ban", "203.0.113.2", "--for", "1h"]);
    nodes[0].wait_until("a ban of another node", || bans(&nodes[0]) == 1);
    assert_eq!(connected(), Some(true));
    delay.store(2_500, Relaxed);
    let took = nodes[0].wait_until("the loss", || connected() == Some(false));
    println!("a store that is too slow is told after {took:?}");
    assert_eq!(bans(&nodes[0]), 1, "nothing opens");
    delay.store(0, Relaxed);
    nodes[0].wait_until("the store", || connected() == Some(true));

    let before: Vec<Losses> = nodes.iter().map(losses).collect();
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    for (node, before) in nodes.iter().zip(&before) {
        let until = Instant::now() + PATIENCE;
        assert!(before.wait_for_more(|| Ok(losses(node)), until).unwrap());
        let status = || node.status().unwrap();
        let took = node.wait_until("the loss", || status().connected == Some(false));
        println!("a store that is read-only is told after {took:?}");
        let is_reported = || {
            status()
                .error
                .is_some_and(|it| it.to_lowercase().contains("readonly"))
        };
        node.wait_until("why", is_reported);
    }
    redis.cli(&["REPLICAOF", "NO", "ONE"]).unwrap();
    run(&nodes[2], &["unban", "203.0.113.1"]);
    for node in &nodes {
        node.wait_until("the end of a ban", || {
            !run(node, &["list", "bans"]).contains("203.0.113.1 ")
        });
    }
}

#[test]
fn a_store_that_talks_nonsense_changes_nothing() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES[..2], NO_LIMITS).unwrap();
    run(&nodes[1], &["ban", "203.0.113.1", "--for", "1h"]);
    nodes[0].wait_until("the ban", || bans(&nodes[0]) == 1);
    let answers: [&[u8]; 5] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        // Another type, an impossible length, endless nesting, and no answer at all.
        b":1\r\n",
        b"$99999999999\r\n",
        b"*2147483647\r\n*2147483647\r\n*2147483647\r\n",
        b"",
    ];
    for answer in answers {
        let front = Front::new(move |mut stream| {
            let mut bytes = [0; 4096];
            while let Ok(1..) = stream.read(&mut bytes) {
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
        front.redirect(&nodes[0], NAMES[0]);
        let text = String::from_utf8_lossy(answer);
        let url = front.socket().display().to_string();
        let took = nodes[0].wait_until("the loss", || {
            let status = nodes[0].status().unwrap();
            status.url == url && status.connected == Some(false)
        });
        let error = nodes[0].status().unwrap().error;
        println!("{text:?} is told after {took:?}: {error:?}");
        assert_eq!(bans(&nodes[0]), 1, "nothing opens");
    }
}

#[test]
fn a_share_of_nobody_and_a_second_report_of_a_period_are_refused_and_the_node_is_named() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let limits =
        "[policy.default]\nlimits = [{ packets = 100, per = \"1s\", scope = \"cluster\" }]\n";
    let nodes = started(&redis, &NAMES[..2], limits).unwrap();
    let secret = Secret::new(SECRET.as_bytes());
    // A modified message of `edge-2`, which requires the secret.
    let mut forged = Vec::new();
    let mut forge = |change: fn(&mut Report<Vec<u8>>)| {
        let mut messages = redis.last_of(NAMES[1]).unwrap().into_iter();
        let genuine = messages.find(|it| !forged.contains(it)).unwrap();
        let (mut header, body) = open(&secret, &genuine).unwrap();
        let Body::Report(mut report, stated) = Body::read(body).unwrap() else {
            return;
        };
        header.sequence += 100 + forged.len() as u64;
        change(&mut report);
        let message = seal(&secret, &header, &Body::Report(report, stated).write());
        redis.publish(&message).unwrap();
        forged.push(message);
        thread::sleep(Duration::from_millis(100));
    };
    let refused = |label: &str| nodes[0].status().unwrap().refused.contains_key(label);
    // A key of one byte are the limits of all sources, which are no share.
    let of_nobody: fn(&mut Report<Vec<u8>>) = |report| {
        report.entries = vec![KeyReport {
            key: vec![2],
            claim: 1,
            demand: 1,
            held: 0,
            passed: 0,
        }];
    };
    let another: fn(&mut Report<Vec<u8>>) = |report| report.unheard = vec![0];
    for (label, change, why, what_to_do) in [
        (
            "report",
            of_nobody,
            "`edge-2` reports a claim above limit/nodes, or for an unknown limit",
            "compare its limits with those of this node",
        ),
        (
            "two-reports",
            another,
            "`edge-2` sent two reports for period",
            "look for a second node with this name",
        ),
    ] {
        // The period may be over before it arrives.
        nodes[0].wait_until(label, || {
            forge(change);
            refused(label)
        });
        let log = nodes[0].service().log();
        let line = log.lines().find(|line| line.contains(why));
        assert!(line.is_some_and(|line| line.contains(what_to_do)), "{log}");
    }
    let metrics = nodes[0].service().metrics().unwrap();
    assert!(
        metrics.contains("ratelimit_cluster_refused_total{reason=\"report\"}"),
        "{metrics}"
    );
}

#[test]
#[ignore = "thorough"]
fn a_peer_bans_so_many_a_minute_and_no_more() {
    const MESSAGES: usize = 110;
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES[..1], NO_LIMITS).unwrap();
    let node = &nodes[0];
    let secret = Secret::new(SECRET.as_bytes());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    let began = Instant::now();
    for message in 0..MESSAGES {
        let ban = |number: usize| {
            let number = u32::try_from(message * STATEMENTS_MAX + number).unwrap();
            let [_, high, middle, low] = number.to_be_bytes();
            let prefix: Prefix = format!("198.{}.{middle}.{low}", 18 + high).parse().unwrap();
            Statement {
                subject: Subject::Ban(ClusterKey::Prefix(prefix)),
                verb: Verb::Says,
                stamp: Stamp(now * 1000),
                until: now + 3_600_000,
                note: "a scanner".into(),
            }
        };
        let bans = (0..STATEMENTS_MAX).map(ban).collect();
        let header = Header {
            node: NodeName::new("edge-9").unwrap(),
            incarnation: now,
            sequence: 1 + message as u64,
            sent: now,
        };
        let body = Body::Statements(bans).write();
        redis.publish(&seal(&secret, &header, &body)).unwrap();
    }
    let stated = (MESSAGES * STATEMENTS_MAX) as u64;
    let (mut taken, mut denied) = (0, 0);
    // While it takes them in, an answer may come late: tens of thousands take a debug build a
    // minute.
    for (what, so_many) in [
        ("half of the statements", stated / 2),
        ("all statements", stated),
    ] {
        node.wait_until(what, || {
            if let Ok(status) = node.status() {
                (taken, denied) = (status.bans as u64, status.denied);
            }
            taken + denied >= so_many
        });
    }
    let bounds = Bounds::default();
    let since = bounds.per_minute * u32::try_from(began.elapsed().as_secs() + 1).unwrap() / 60;
    let most = u64::from(bounds.at_once + since);
    println!(
        "{taken} bans of {stated} after {:?}, {denied} denied",
        began.elapsed()
    );
    assert_eq!(taken + denied, stated);
    assert!(
        (bounds.at_once.into()..=most).contains(&taken),
        "{taken}, {most}"
    );
    // Log and status name the node, and say why.
    let denial = node.status().unwrap().denial.unwrap();
    let why = " by `edge-9`: its node exceeds the number of entries per minute";
    assert!(denial.contains(why), "{denial}");
    let log = node.service().log();
    assert!(log.contains(why), "{log}");
}
