//! Allows and limits set with `--cluster` on one of three nodes are in force in the kernels of all.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use ratelimit_core::api::{Allow, Changed, PolicyView};
use ratelimit_tests::{
    Frame,
    cluster::{Node, configuration, started, wait_for_all},
    redis::Redis,
    require_package, require_root,
};

const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
const NO_LIMITS: &str = "[policy.default]\nlimits = []\n";
const ONE: &str = "203.0.113.9";
const TWO: &str = "203.0.113.10";
/// A node that started has read in this time what it stated itself, as the store has it.
const READ: Duration = Duration::from_secs(4);

/// Returns how many of a number of packets of a source the kernel passes.
fn admitted(node: &Node, source: &str, packets: usize) -> usize {
    let frame = Frame::ethernet().ipv4(source.parse().unwrap());
    let frame = frame.udp(53).pad_to(70).build();
    node.lab.passed(&frame, packets).unwrap()
}

fn passes(node: &Node, source: &str) -> bool {
    admitted(node, source, 1) == 1
}

fn run(node: &Node, arguments: &[&str]) -> String {
    node.service().rlctl_ok(arguments).unwrap()
}

/// The error message of `rlctl`, which must refuse the command.
fn refusal(node: &Node, arguments: &[&str]) -> String {
    let said = node.service().rlctl(arguments).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    said.stderr
}

fn allows(node: &Node) -> Vec<Allow> {
    serde_json::from_str(&run(node, &["--json", "list", "allows"])).unwrap()
}

/// The runtime limits of a prefix, as they are reported.
fn limits(node: &Node, prefix: &str) -> Option<PolicyView> {
    let policies: Vec<PolicyView> =
        serde_json::from_str(&run(node, &["--json", "list", "limits"])).unwrap();
    policies.into_iter().find(|it| it.name == prefix)
}

fn restart(node: &Node) {
    node.service().stop("-TERM").unwrap();
    node.service().start().unwrap();
}

#[test]
fn an_allow_of_all_nodes_opens_on_all_and_ends_on_all() {
    require_root!();
    require_package!("redis-server");
    let mut redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES, NO_LIMITS).unwrap();
    run(&nodes[0], &["ban", ONE, "--for", "1h"]);
    for node in &nodes {
        node.wait_until("the ban", || !passes(node, ONE));
    }
    let add = ["allow", "add", ONE, "--cluster", "--for", "1h"];
    let began = Instant::now();
    let said = run(&nodes[0], &[&add[..], &["--reason", "a partner"]].concat());
    assert!(said.contains("on all nodes"), "{said}");
    for node in &nodes {
        node.wait_until("the allow", || !allows(node).is_empty());
        println!("the allow is there after {:?}", began.elapsed());
        assert!(passes(node, ONE));
    }
    let allow = &allows(&nodes[1])[0];
    assert_eq!(allow.origin.to_string(), "cluster:edge-1");
    assert_eq!(allow.reason.as_deref(), Some("a partner"));
    for question in [&["check", ONE][..], &["list", "allows"]] {
        let said = run(&nodes[2], question);
        assert!(said.contains("edge-1"), "{question:?}: {said}");
    }
    nodes[2].service().wait_for_event("edge-1");
    let hint = refusal(&nodes[1], &["allow", "rm", ONE]);
    assert!(hint.contains("--cluster"), "{hint}");

    // A node keeps the statements of others over a restart, even if the store lost them.
    redis.kill().unwrap();
    restart(&nodes[0]);
    redis.start().unwrap();
    restart(&nodes[1]);
    wait_for_all(&nodes).unwrap();
    for node in &nodes {
        assert!(passes(node, ONE));
    }
    run(&nodes[2], &["allow", "rm", ONE, "--cluster"]);
    for node in &nodes {
        node.wait_until("the end of the allow", || allows(node).is_empty());
        node.wait_until("the ban beneath it", || !passes(node, ONE));
    }
    restart(&nodes[0]);
    wait_for_all(&nodes).unwrap();
    assert!(allows(&nodes[0]).is_empty(), "{:?}", allows(&nodes[0]));
}

/// Nothing is announced in the meantime, and without the table all of it ends.
#[test]
fn what_waits_for_the_store_and_what_ends_with_the_table_is_reported() {
    require_root!();
    require_package!("redis-server");
    let mut redis = Redis::started().unwrap();
    let node = Node::started(&redis, NAMES[0], 1, NO_LIMITS).unwrap();
    node.wait_until("the store", || {
        node.status().unwrap().connected == Some(true)
    });
    let set = [
        "limit",
        "set",
        "--cluster",
        "--packets",
        "4",
        "--per",
        "1h",
        "--prefix",
        ONE,
    ];
    let said = run(&node, &set);
    assert!(said.contains("on all nodes"), "{said}");
    redis.kill().unwrap();
    node.wait_until("no store", || {
        node.status().unwrap().connected == Some(false)
    });
    let waits = " here, and on other nodes when the cluster store returns";
    let remove = ["limit", "rm", "--cluster", "--prefix", ONE];
    for arguments in [&set[..], &["allow", "add", ONE, "--cluster"], &remove, &set] {
        let said = run(&node, arguments);
        assert!(said.contains(waits), "{arguments:?}: {said}");
    }
    let said = node.service().reload(NO_LIMITS).unwrap();
    let ends = "cluster: removed; bans of other nodes and cluster-wide allows and limits end\n";
    assert!(said.contains(ends), "{said}");
    assert!(allows(&node).is_empty() && limits(&node, ONE).is_none());
}

#[test]
fn an_allow_of_another_node_opens_neither_what_is_banned_for_good_nor_many_sources() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES[..2], NO_LIMITS).unwrap();
    run(&nodes[1], &["ban", "203.0.113.0/25", "--forever"]);
    nodes[0].wait_until("the ban", || !passes(&nodes[0], ONE));
    let wide = refusal(&nodes[0], &["allow", "add", "203.0.0.0/16", "--cluster"]);
    assert!(wide.contains("wider") && wide.contains("/24"), "{wide}");
    run(
        &nodes[0],
        &["allow", "add", ONE, "203.0.113.200", "--cluster"],
    );
    nodes[1].wait_until("the other allow", || allows(&nodes[1]).len() == 1);
    let reported = || run(&nodes[1], &["cluster", "status"]);
    nodes[1].wait_until("the refusal", || reported().contains("not in force here"));
    let refused = format!("the allow of {ONE}, set on edge-1: permanently banned here");
    assert!(reported().contains(&refused), "{}", reported());
    assert!(!passes(&nodes[1], ONE) && passes(&nodes[0], ONE));
    // It opens when that ban is over.
    run(&nodes[1], &["unban", "203.0.113.0/25"]);
    nodes[1].wait_until("the allow", || allows(&nodes[1]).len() == 2);
    assert!(!reported().contains("not in force here"), "{}", reported());
    // Allows of a revoked node do not apply.
    run(&nodes[1], &["cluster", "revoke", "edge-1"]);
    nodes[1].wait_until("the end of its allows", || allows(&nodes[1]).is_empty());
}

#[test]
fn limits_of_all_nodes_hold_on_all_and_survive_restarts() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES[..2], NO_LIMITS).unwrap();
    // The third does not know the class.
    let class = "[class.web]\nprotocol = \"tcp\"\ndestination_ports = [80]\n";
    for (node, name) in nodes.iter().zip(NAMES) {
        let toml = configuration(&redis, name, 3, &format!("{NO_LIMITS}{class}"));
        node.service().configure(&toml).unwrap();
        run(node, &["reload"]);
    }
    let third = Node::started(&redis, NAMES[2], 3, NO_LIMITS).unwrap();
    let prefix = "203.0.113.0/24";
    let set = |amount: &str, more: &[&str]| {
        let set = [
            "limit",
            "set",
            "--prefix",
            prefix,
            "--packets",
            amount,
            "--per",
            "1h",
        ];
        let said = run(&nodes[0], &[&set[..], &["--cluster"], more].concat());
        assert!(said.contains("on all nodes"), "{said}");
    };
    let is_so = |node: &Node, amount: u64| {
        let policy = limits(node, prefix);
        let is_it = |policy: PolicyView| {
            policy.origin.to_string() == "cluster:edge-1"
                && policy.limits[0]
                    .to_string()
                    .starts_with(&format!("{amount} "))
        };
        policy.is_some_and(is_it)
    };
    set("7", &[]);
    for node in nodes.iter().chain([&third]) {
        node.wait_until("the limits", || is_so(node, 7));
        assert_eq!(admitted(node, ONE, 20), 7);
    }
    // Other ones, also shorter, take their place.
    set("9", &["--for", "1h", "--reason", "a crawler"]);
    for node in nodes.iter().chain([&third]) {
        node.wait_until("the other limits", || is_so(node, 9));
    }
    restart(&nodes[1]);
    assert!(is_so(&nodes[1], 9), "{:?}", limits(&nodes[1], prefix));
    restart(&nodes[0]);
    assert!(is_so(&nodes[0], 9), "{:?}", limits(&nodes[0], prefix));
    // A crash right after a change does not undo it, nor does one between its two writes.
    let memory = nodes[0].service().path("state/cluster.json");
    let older = fs::read(&memory).unwrap();
    for (amount, is_older) in [(11, false), (13, true)] {
        set(&amount.to_string(), &[]);
        nodes[0].service().stop("-KILL").unwrap();
        if is_older {
            fs::write(&memory, &older).unwrap();
        }
        nodes[0].service().start().unwrap();
        assert!(is_so(&nodes[0], amount), "{:?}", limits(&nodes[0], prefix));
        for node in nodes.iter().chain([&third]) {
            node.wait_until("the limits of before the kill", || is_so(node, amount));
        }
        // Also when all have read what is in the store, and compared it.
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            assert!(is_so(&nodes[0], amount), "{:?}", limits(&nodes[0], prefix));
        }
    }
    let hint = refusal(&third, &["limit", "rm", "--prefix", prefix]);
    assert!(hint.contains("--cluster"), "{hint}");

    // Limits that one node cannot enforce are reported there, and are in force on the others.
    set("5", &["--match", "web", "--only"]);
    nodes[1].wait_until("the limits of a class", || is_so(&nodes[1], 5));
    let reported = || run(&third, &["cluster", "status"]);
    third.wait_until("the refusal", || reported().contains("not in force here"));
    let refused = format!("the limits of {prefix}, set on edge-1: ");
    assert!(
        reported().contains(&refused) && reported().contains("web"),
        "{}",
        reported()
    );

    run(&third, &["limit", "rm", "--prefix", prefix, "--cluster"]);
    for node in nodes.iter().chain([&third]) {
        node.wait_until("their end", || limits(node, prefix).is_none());
    }
    assert!(!reported().contains("not in force here"), "{}", reported());
    // Also the limits of the default policy.
    let default = ["limit", "set", "--packets", "3", "--per", "1h", "--cluster"];
    run(&third, &default);
    // Nothing is sent before: packets before and after the change are not told apart.
    nodes[0].wait_until("the default limits", || {
        limits(&nodes[0], "default").is_some_and(|policy| !policy.limits.is_empty())
    });
    assert_eq!(admitted(&nodes[0], "198.51.100.7", 9), 3);
    // Without the cluster they end.
    nodes[0].service().configure(NO_LIMITS).unwrap();
    run(&nodes[0], &["reload"]);
    nodes[0].wait_until("the end", || admitted(&nodes[0], "198.51.100.8", 9) == 9);
}

#[test]
fn what_a_host_lifts_while_it_is_no_node_stays_lifted_and_what_it_set_for_all_nodes_comes_back() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES[..2], NO_LIMITS).unwrap();
    let (other, node) = (&nodes[0], &nodes[1]);
    let limited = "198.51.100.9";
    run(node, &["ban", ONE]);
    run(node, &["ban", TWO]);
    let set = "limit set --packets 2 --per 1h --cluster --prefix";
    let words: Vec<&str> = set.split(' ').chain([limited]).collect();
    run(node, &words);
    other.wait_until("the bans and the limit", || {
        !passes(other, ONE) && !passes(other, TWO) && limits(other, limited).is_some()
    });
    // On trial without the cluster, which is taken back.
    node.service().configure(NO_LIMITS).unwrap();
    let file = node.service().config();
    run(node, &["apply", file.to_str().unwrap(), "--confirm", "5m"]);
    run(node, &["unban", ONE]);
    assert!(passes(node, ONE) && !passes(node, TWO));
    run(node, &["rollback"]);
    other.wait_until("the first ban ends", || passes(other, ONE));
    node.wait_until("the limit", || limits(node, limited).is_some());
    assert!(passes(node, ONE) && !passes(node, TWO) && !passes(other, TWO));
    // The same over starts of the daemon, with a file that was on no trial.
    let alone = format!("# alone\n{NO_LIMITS}");
    node.service().configure(&alone).unwrap();
    restart(node);
    run(node, &["unban", TWO]);
    assert!(passes(node, TWO) && !passes(other, TWO));
    let joined = configuration(&redis, NAMES[1], 2, NO_LIMITS);
    node.service().configure(&joined).unwrap();
    restart(node);
    other.wait_until("the second ban ends", || passes(other, TWO));
    assert!(passes(node, TWO));
}

/// Nodes that have a ban, an allow and limits of the second one.
fn with_all_of_the_second(redis: &Redis, prefix: &str) -> Vec<Node> {
    let nodes = started(redis, &NAMES[..2], NO_LIMITS).unwrap();
    run(&nodes[1], &["ban", ONE, "--for", "1h"]);
    run(
        &nodes[1],
        &["allow", "add", TWO, "--cluster", "--for", "1h"],
    );
    let limit = ["limit", "set", "--prefix", prefix, "--packets", "7"];
    run(
        &nodes[1],
        &[&limit[..], &["--per", "1h", "--cluster"]].concat(),
    );
    nodes[0].wait_until("all of them", || has_all(&nodes[0], prefix) == [true; 3]);
    nodes
}

/// Whether a ban, an allow and limits are here.
fn has_all(node: &Node, prefix: &str) -> [bool; 3] {
    let is_allowed = !allows(node).is_empty();
    [
        !passes(node, ONE),
        is_allowed,
        limits(node, prefix).is_some(),
    ]
}

fn end_all(node: &Node, prefix: &str) {
    run(node, &["unban", ONE]);
    run(node, &["allow", "rm", TWO, "--cluster"]);
    run(node, &["limit", "rm", "--prefix", prefix, "--cluster"]);
}

#[test]
fn what_is_ended_before_the_other_nodes_are_heard_ends_on_all() {
    require_root!();
    require_package!("redis-server");
    let mut redis = Redis::started().unwrap();
    let prefix = "198.51.100.0/24";
    let nodes = with_all_of_the_second(&redis, prefix);
    nodes[0].service().stop("-TERM").unwrap();
    redis.kill().unwrap();
    nodes[0].service().start().unwrap();
    assert_eq!(has_all(&nodes[0], prefix), [true; 3]);
    end_all(&nodes[0], prefix);
    redis.start().unwrap();
    wait_for_all(&nodes).unwrap();
    for node in &nodes {
        node.wait_until("their ends", || has_all(node, prefix) == [false; 3]);
    }
    let until = Instant::now() + READ;
    while Instant::now() < until {
        for node in &nodes {
            assert_eq!(
                has_all(node, prefix),
                [false; 3],
                "{}",
                node.service().log()
            );
        }
    }
}

#[test]
fn a_kill_right_after_an_unban_brings_no_ban_back() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES[..2], NO_LIMITS).unwrap();
    let memory = nodes[0].service().path("state/cluster.json");
    let memory = || fs::read_to_string(&memory).unwrap_or_default();
    run(&nodes[0], &["ban", ONE, "--for", "1h"]);
    nodes[0].wait_until("what is written down", || memory().contains(ONE));
    // It is written now and not again for a while.
    run(&nodes[0], &["ban", TWO, "--for", "1h"]);
    nodes[0].wait_until("what is written down", || memory().contains(TWO));
    run(&nodes[0], &["unban", ONE]);
    nodes[0].service().stop("-KILL").unwrap();
    let memory = memory();
    assert_eq!(memory.matches("\"lifts\": true").count(), 1, "{memory}");
}

#[test]
fn an_end_of_what_only_other_nodes_have_is_reported_once() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = started(&redis, &NAMES[..2], NO_LIMITS).unwrap();
    // They do not take effect on the first node.
    run(&nodes[0], &["allow", "add", ONE]);
    run(&nodes[0], &["ban", TWO, "--forever"]);
    run(&nodes[1], &["ban", ONE, "--for", "1h"]);
    run(&nodes[1], &["allow", "add", TWO, "--cluster"]);
    let has_heard = || {
        let nodes = nodes[0].status().unwrap().nodes;
        nodes.iter().any(|it| it.name == NAMES[1] && it.stated == 2)
    };
    nodes[0].wait_until("both", has_heard);
    assert!(passes(&nodes[0], ONE) && !passes(&nodes[0], TWO));
    let delete = |path: &str, prefix: &str| {
        let service = nodes[0].service();
        let output = service
            .inside(Path::new("curl"))
            .args(["--silent", "--unix-socket"])
            .arg(service.path("run/control.sock"))
            .args(["-X", "DELETE", "-H", "Content-Type: application/json"])
            .args([
                "-d",
                &format!("{{\"prefixes\":[\"{prefix}\",\"{prefix}\"]}}"),
            ])
            .arg(format!("http://localhost{path}"))
            .output()
            .unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str::<Changed>(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    };
    for (path, prefix) in [("/v1/bans", ONE), ("/v1/cluster/allows", TWO)] {
        let changed = delete(path, prefix);
        assert_eq!((changed.removed, changed.absent), (1, vec![]), "{path}");
    }
    nodes[1].wait_until("their ends", || {
        passes(&nodes[1], ONE) && allows(&nodes[1]).is_empty()
    });
}
