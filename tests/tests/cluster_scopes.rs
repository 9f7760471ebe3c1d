//! Limits of all nodes together, in pairs: those of the node, of a prefix, of a class and of a
//! source, of a named policy and set at runtime. Two daemons, a real Redis, packets to both.

use std::{ops::Range, thread, time::Duration};

use ratelimit_tests::{
    Frame,
    cluster::{
        Node, Rates, admitted_for, check_bound, set_load, started, under_load, wait_for_all,
    },
    redis::Redis,
    require_package, require_root, wait_until,
};

const NAMES: [&str; 2] = ["edge-1", "edge-2"];
/// Shares have followed a load after this time.
const SETTLED: Duration = Duration::from_secs(2);
const COUNTED: Duration = Duration::from_secs(3);
/// The most attempts at a count.
const TRIES: usize = 4;

/// The traffic of a source: its last two bytes, its class, and its number of frames.
#[derive(Clone, Copy)]
struct Sent(u16, Class, usize);

#[derive(Clone, Copy)]
enum Class {
    Udp,
    Tcp,
}

fn frames(sent: &[Sent]) -> Vec<Vec<u8>> {
    let frames = sent.iter().map(|Sent(source, class, times)| {
        let [high, low] = source.to_be_bytes();
        let frame = Frame::ethernet().ipv4([198, 18, high, low].into());
        let frame = match class {
            Class::Udp => frame.udp(53),
            Class::Tcp => frame.tcp(80, 0x10),
        };
        vec![frame.pad_to(70).build(); *times]
    });
    frames.collect::<Vec<_>>().concat()
}

/// A busy machine has reports come late, and each costs a part of the limit for a period.
fn about(limit: f64) -> Range<f64> {
    0.88 * limit..1.07 * limit
}

#[track_caller]
fn check(what: &str, sum: f64, expected: &Range<f64>) {
    println!("{what}: {sum:.0} a second");
    assert!(expected.contains(&sum), "{what}: {sum}, not {expected:?}");
}

fn total(rates: &Rates) -> f64 {
    rates.packets.iter().sum()
}

/// Returns what the nodes admit of this load. The second node has a low demand: if the limit were
/// divided equally, they would admit about 60 % of it. Measures again if the total is less than
/// expected: on a machine that pauses for a moment, nodes fall back.
#[track_caller]
fn check_rates(nodes: &[Node], sent: &[Sent], load: [u32; 2], expected: &[Expected]) -> Rates {
    let is_less = |rates: &Rates| {
        let mut each = expected.iter();
        each.any(|Expected(_, of, limit)| of(rates) < about(*limit).start)
    };
    let rates = under_load(nodes, &frames(sent), || {
        set_load(nodes, &load);
        thread::sleep(SETTLED);
        let mut rates = admitted_for(nodes, COUNTED);
        for _ in 1..TRIES {
            if is_less(&rates) {
                rates = admitted_for(nodes, COUNTED);
            }
        }
        rates
    });
    for Expected(what, of, limit) in expected {
        check(what, of(&rates), &about(*limit));
    }
    rates
}

/// Returns what nodes with these limits admit.
#[track_caller]
fn admitted(
    limits: &str,
    sent: &[Sent],
    load: [u32; 2],
    bounds: &[Bounded],
    expected: &[Expected],
) -> Rates {
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES, limits).unwrap();
    let rates = check_rates(&nodes, sent, load, expected);
    for Bounded(limit, is_counted) in bounds {
        check_bound(&nodes, *limit, is_counted);
    }
    rates
}

/// A limit that all nodes together keep to, and which sources it is of.
struct Bounded(f64, fn(u16) -> bool);

/// A counter, and its approximate rate per second.
struct Expected(&'static str, fn(&Rates) -> f64, f64);

#[test]
fn the_node_and_a_class_of_a_source_are_limited_together() {
    require_root!();
    require_package!("redis-server");
    let limits = r#"
        [node]
        limits = [{ packets = 900, per = "1s", scope = "cluster" }]
        [policy.default]
        limits = [{ packets = 200, per = "1s", match = "udp", scope = "cluster" }]
    "#;
    // What one sends of TCP has the rest of the node's.
    let sent = [Sent(1, Class::Udp, 1), Sent(2, Class::Tcp, 3)];
    let all = [Bounded(200.0, |it| it == 1), Bounded(900.0, |_| true)];
    let expected = [Expected("the node", total, 900.0)];
    let both = admitted(limits, &sent, [6_000, 200], &all, &expected);
    assert!(both.by_source[&1] < 215.0, "{both:?}");
}

/// Each node has drawn ahead of its own limit, which never refuses. The limit of a source still
/// follows what the nodes are asked.
#[test]
fn a_source_is_limited_together_on_nodes_that_have_a_limit_each() {
    require_root!();
    require_package!("redis-server");
    let limits = r#"
        [node]
        limits = [{ packets = 1_000_000, per = "1s" }]
        [policy.default]
        limits = [{ packets = 400, per = "1s", scope = "cluster" }]
    "#;
    let of_one = [Bounded(400.0, |it| it == 1)];
    let expected = [Expected("one source", |it| it.by_source[&1], 400.0)];
    let sent = [Sent(1, Class::Udp, 1)];
    admitted(limits, &sent, [4_000, 40], &of_one, &expected);
}

#[test]
fn a_prefix_and_its_sources_are_limited_together() {
    require_root!();
    require_package!("redis-server");
    let limits = r#"
        [subnet]
        ipv4 = [{ prefix = 24, packets = 600, per = "1s", scope = "cluster" }]
        [policy.default]
        limits = [{ packets = 300, per = "1s", scope = "cluster", division = "proportional" }]
    "#;
    let sent: Vec<Sent> = (1..=6).map(|last| Sent(last, Class::Udp, 1)).collect();
    // Another prefix has a limit of its own, and of it one source.
    let sent = [&sent[..], &[Sent((7 << 8) + 1, Class::Udp, 1)]].concat();
    let of_prefix = Bounded(600.0, |it| it < 256);
    let of_source = Bounded(300.0, |it| it == (7 << 8) + 1);
    let other: fn(&Rates) -> f64 = |it| it.by_source[&((7 << 8) + 1)];
    let expected = [
        Expected("one source", other, 300.0),
        Expected(
            "the prefix",
            |it| total(it) - it.by_source[&((7 << 8) + 1)],
            600.0,
        ),
    ];
    let bounds = [of_prefix, of_source];
    admitted(limits, &sent, [7_000, 140], &bounds, &expected);
}

#[test]
fn a_named_policy_shares_a_fixed_window_a_sliding_one_and_a_log() {
    require_root!();
    require_package!("redis-server");
    let limits = r#"
        [policy.default]
        limits = [{ packets = 500, per = "1s", algorithm = "sliding-window", scope = "cluster" }]
        [policy.guests]
        sources = ["198.18.1.0/24"]
        limits = [
          { packets = 400, per = "1s", match = "udp", scope = "cluster" },
          { packets = 100, per = "1s", algorithm = "sliding-log", match = "tcp", scope = "cluster" },
        ]
    "#;
    let guest = (1 << 8) + 1;
    let sent = [
        Sent(1, Class::Udp, 1),
        Sent(guest, Class::Udp, 1),
        Sent(guest + 1, Class::Tcp, 1),
    ];
    let each = [
        Bounded(500.0, |it| it == 1),
        Bounded(400.0, |it| it == (1 << 8) + 1),
        Bounded(100.0, |it| it == (1 << 8) + 2),
    ];
    let expected = [
        Expected("a sliding window", |it| it.by_source[&1], 500.0),
        Expected("a class", |it| it.by_source[&((1 << 8) + 1)], 400.0),
        Expected("a log", |it| it.by_source[&((1 << 8) + 2)], 100.0),
    ];
    admitted(limits, &sent, [7_500, 60], &each, &expected);
}

#[test]
fn limits_that_are_set_at_runtime_are_shared_and_survive_a_restart() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let limits = "[policy.default]\nlimits = []\n";
    let nodes = started(&redis, &NAMES, limits).unwrap();
    let set = |more: &[&str]| {
        let set = ["limit", "set", "--prefix", "198.18.0.0/24", "--per", "1s"];
        let arguments = [&set[..], &["--packets", "800"], more].concat();
        nodes[0].service().rlctl(&arguments).unwrap()
    };
    let alone = set(&["--scope", "cluster"]);
    assert!(alone.stderr.contains("on all nodes"), "{alone:?}");
    let bucket = ["--scope", "cluster", "--cluster", "--algorithm"];
    let bucket = set(&[&bucket[..], &["token-bucket"]].concat());
    assert!(bucket.stderr.contains("sliding-window"), "{bucket:?}");
    let said = set(&["--scope", "cluster", "--cluster"]);
    assert!(
        said.stdout.contains("shared by all nodes") && said.stdout.contains("on all nodes"),
        "{said:?}"
    );
    let sent = [Sent(1, Class::Udp, 1)];
    let is_there = |node: &Node| {
        let list = node.service().rlctl_ok(&["list", "limits"]).unwrap();
        list.contains("shared by all nodes")
    };
    let wait = || {
        wait_until("it is on all nodes", || nodes.iter().all(is_there));
        wait_for_all(&nodes).unwrap();
    };
    wait();
    nodes[1].service().stop("-TERM").unwrap();
    nodes[1].service().start().unwrap();
    wait();
    let expected = [Expected("after a restart", total, 800.0)];
    check_rates(&nodes, &sent, [100, 6_000], &expected);
    // Two nodes cannot share 1 packet, so a configuration of more nodes than it has packets is
    // refused while it holds.
    let one = ["limit", "set", "--packets", "1", "--per", "1s"];
    let one = [&one[..], &["--scope", "cluster", "--cluster"]].concat();
    let one = nodes[0].service().rlctl(&one).unwrap();
    assert!(one.stderr.contains("write at least 2"), "{one:?}");
}
