//! Three daemons in three namespaces and a real Redis: what one of them bans, the kernels of the
//! others drop.

use std::time::Instant;

use ratelimit_core::{
    api::{Ban, ClusterStatus, NodeState, NodeView, Status},
    origin::Origin,
};
use ratelimit_tests::{
    Frame, Lab,
    cluster::{campaign::Deadlines, losses::Losses},
    redis::Redis,
    require_package, require_root,
    service::Service,
    waiting,
};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const ONE: &str = "203.0.113.9";
const OTHER: &str = "203.0.113.10";

struct Node {
    lab: Lab,
    service: Service,
}

impl Node {
    fn new(redis: &Redis, name: &str, secret: &str) -> Self {
        let lab = Lab::new().unwrap();
        let service = Service::new(&lab, &toml(redis, name, secret)).unwrap();
        Self { lab, service }
    }

    fn started(redis: &Redis, name: &str) -> Self {
        let mut node = Self::new(redis, name, SECRET);
        node.service.start().unwrap();
        node
    }

    /// Whether the kernel lets a packet of `source` through.
    fn passes(&self, source: &str) -> bool {
        let frame = Frame::ethernet().ipv4(source.parse().unwrap());
        let frame = frame.udp(53).pad_to(70).build();
        self.lab.passes(&frame).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> String {
        self.service.rlctl_ok(arguments).unwrap()
    }

    fn bans(&self) -> Vec<Ban> {
        serde_json::from_str(&self.run(&["--json", "list", "bans"])).unwrap()
    }

    fn status(&self) -> ClusterStatus {
        let status: Status = self.service.json(&["status"]).unwrap();
        status.cluster.unwrap()
    }

    fn refused(&self, reason: &str) -> u64 {
        self.status()
            .refused
            .get(reason)
            .copied()
            .unwrap_or_default()
    }

    fn alive(&self) -> usize {
        let nodes = self.status().nodes;
        let is_well = |node: &&NodeView| matches!(node.state, NodeState::Here | NodeState::Alive);
        nodes.iter().filter(is_well).count()
    }

    #[track_caller]
    fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let failure = || format!("{what}: {:?} {}", self.status(), self.service.log());
        waiting::until(|| is_so(self), failure);
    }
}

fn toml(redis: &Redis, name: &str, secret: &str) -> String {
    let socket = redis.socket();
    let socket = socket.display();
    format!(
        "[policy.default]\n\
         limits = []\n\
         [cluster]\n\
         url = \"{socket}\"\n\
         node = \"{name}\"\n\
         secret = \"{secret}\"\n"
    )
}

/// Nodes that hear each other.
fn three(redis: &Redis) -> [Node; 3] {
    let nodes = ["edge-1", "edge-2", "edge-3"].map(|name| Node::started(redis, name));
    for node in &nodes {
        node.wait_for("all nodes", |node| node.alive() == 3);
    }
    nodes
}

#[test]
fn a_ban_of_one_node_is_enforced_on_all_until_any_of_them_ends_it() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = three(&redis);
    nodes[0].run(&["ban", ONE, "--for", "1h", "--reason", "scanner"]);
    nodes[0].run(&["ban", OTHER, "--for", "1h"]);
    for node in &nodes {
        node.wait_for("the ban", |node| !node.passes(ONE) && !node.passes(OTHER));
    }
    let bans = nodes[1].bans();
    let ban = bans.iter().find(|ban| ban.prefix == ONE.parse().unwrap());
    let ban = ban.unwrap();
    assert_eq!(ban.origin, Origin::cluster("edge-1"));
    assert_eq!(ban.reason.as_deref(), Some("scanner"));
    let check = nodes[2].service.rlctl(&["check", ONE]).unwrap();
    assert!(
        check.stdout.contains("node edge-1 of the cluster"),
        "{check:?}"
    );
    let is_told = |line: &str| {
        let parts = [ONE, "node edge-1", "scanner"];
        parts.into_iter().all(|part| line.contains(part))
    };
    nodes[1].service.wait_until("the event", || {
        let events = nodes[1].run(&["events", "--since", "5m"]);
        events.lines().any(is_told)
    });
    let table = nodes[2].run(&["cluster", "status"]);
    assert!(
        table.contains("edge-1") && table.contains("this node"),
        "{table}"
    );

    // A node other than the one that banned ends this ban everywhere, and no other.
    nodes[2].run(&["unban", ONE]);
    for node in &nodes {
        node.wait_for("the end of the ban", |node| node.passes(ONE));
        assert!(!node.passes(OTHER));
    }
    // A restarted node still has it, and does not restate lifted bans.
    let [mut first, second, third] = nodes;
    first.service.stop("-TERM").unwrap();
    first.service.start().unwrap();
    first.wait_for("all nodes", |node| node.alive() == 3);
    assert!(first.passes(ONE) && !first.passes(OTHER));
    assert!(second.passes(ONE) && !second.passes(OTHER));
    // Without the cluster, the bans of other nodes end.
    third
        .service
        .reload("[policy.default]\nlimits = []\n")
        .unwrap();
    third
        .service
        .wait_until("the end of what others banned", || third.passes(OTHER));
    assert!(!second.passes(OTHER));
    first.run(&["unban", OTHER]);
    second.wait_for("the end of the other ban", |node| node.passes(OTHER));
}

#[test]
fn a_node_that_joins_late_and_a_store_that_lost_everything_are_caught_up_with() {
    require_root!();
    require_package!("redis-server");
    let mut redis = Redis::started().unwrap();
    let first = Node::started(&redis, "edge-1");
    let bans: Vec<String> = (0..2_000)
        .map(|it| format!("198.18.{}.{}", it / 250, it % 250))
        .collect();
    let words: Vec<&str> = bans.iter().map(String::as_str).collect();
    first.run(&[&["ban", "--for", "1h", ONE], &words[..]].concat());
    let second = Node::started(&redis, "edge-2");
    second.wait_for("what was banned before it came", |node| {
        node.bans().len() == 2_001
    });
    assert!(!second.passes(ONE));

    let before = Losses::of(&second.service).unwrap();
    redis.kill().unwrap();
    second.wait_for("the loss", |node| node.status().connected == Some(false));
    second.tells_of_a_loss_after(&before);
    let reported = second.service.rlctl(&["status"]).unwrap().stdout;
    assert!(
        reported.contains("no store") && reported.contains("failure of cluster"),
        "{reported}"
    );
    let metrics = second.service.metrics().unwrap();
    assert!(
        metrics.contains("ratelimit_cluster_connected 0"),
        "{metrics}"
    );
    // No ban is lost, and new bans are shared when the store is back, which is then empty.
    assert!(!second.passes(ONE));
    first.run(&["ban", OTHER, "--for", "1h"]);
    assert!(second.passes(OTHER));
    redis.start().unwrap();
    second.wait_for("what was banned meanwhile", |node| !node.passes(OTHER));
    assert!(!second.passes(ONE));
    second.wait_for("the store", |node| node.status().connected == Some(true));
    // It has all of it again.
    let third = Node::started(&redis, "edge-3");
    third.wait_for("all bans", |node| node.bans().len() == 2_002);
}

#[test]
fn a_store_that_hangs_is_reported_and_nothing_opens() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let [first, second, _third] = three(&redis);
    first.run(&["ban", ONE, "--for", "1h"]);
    second.wait_for("the ban", |node| !node.passes(ONE));
    let before = Losses::of(&second.service).unwrap();
    redis.signal("-STOP").unwrap();
    second.wait_for("the loss", |node| node.status().connected == Some(false));
    second.tells_of_a_loss_after(&before);
    assert!(!second.passes(ONE));
    redis.signal("-CONT").unwrap();
    second.wait_for("the store", |node| node.status().connected == Some(true));
    second.run(&["unban", ONE]);
    first.wait_for("the end of the ban", |node| node.passes(ONE));

    // A store that answers but accepts nothing counts as lost.
    let before = Losses::of(&second.service).unwrap();
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    second.wait_for("the loss", |node| node.status().connected == Some(false));
    second.tells_of_a_loss_after(&before);
    let error = second.status().error.unwrap();
    assert!(error.contains("OOM"), "{error}");
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    second.wait_for("the store", |node| node.status().connected == Some(true));
    redis.cli(&["FLUSHALL"]).unwrap();
    first.run(&["ban", OTHER, "--for", "1h"]);
    second.wait_for("a ban after the flush", |node| !node.passes(OTHER));
}

#[test]
fn what_is_forged_replayed_or_too_long_is_refused_and_said() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let node = Node::started(&redis, "edge-1");
    let mut stranger = Node::new(
        &redis,
        "edge-2",
        "another secret of this length".replace(' ', "-").as_str(),
    );
    stranger.service.start().unwrap();
    stranger.run(&["ban", ONE, "--for", "1h"]);
    node.wait_for("the refusal of another secret", |node| {
        node.refused("wrong-signature") > 0
    });
    let refusal = node.status().refusal.unwrap();
    assert!(
        refusal.contains("compare the `secret` of `edge-2`"),
        "{refusal}"
    );
    redis.publish(b"something else").unwrap();
    node.wait_for("the refusal of something else", |node| {
        node.refused("foreign") > 0
    });
    redis.publish(&vec![b'R'; 600 * 1024]).unwrap();
    node.wait_for("the refusal of what is too long", |node| {
        node.refused("oversized") > 0
    });
    assert!(node.passes(ONE) && node.bans().is_empty());
    drop(stranger);

    // A genuine message that is stored again is accepted only once.
    let sender = Node::started(&redis, "edge-3");
    node.wait_for("the sender", |node| node.alive() >= 2);
    sender.run(&["ban", ONE, "--for", "1h"]);
    node.wait_for("the ban", |node| !node.passes(ONE));
    let message = redis.last_of("edge-3").unwrap().remove(0);
    redis.publish(&message).unwrap();
    node.wait_for("the refusal of a replay", |node| {
        node.refused("replayed") > 0
    });
    let reported = node.run(&["cluster", "status"]);
    assert!(
        reported.contains("refused") && reported.contains("replayed"),
        "{reported}"
    );
}

#[test]
fn what_is_protected_or_allowed_stays_open_and_a_revoked_node_bans_no_source() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = three(&redis);
    nodes[1].run(&["allow", "add", ONE]);
    nodes[0].run(&["ban", ONE, OTHER, "--for", "1h"]);
    nodes[2].wait_for("both bans", |node| !node.passes(ONE) && !node.passes(OTHER));
    nodes[1].wait_for("the other ban", |node| !node.passes(OTHER));
    assert!(nodes[1].passes(ONE));
    assert!(nodes[1].status().denied > 0);

    nodes[2].run(&["cluster", "revoke", "edge-1"]);
    for node in &nodes[1..] {
        node.wait_for("the revocation", |node| {
            node.passes(ONE) && node.passes(OTHER)
        });
        node.wait_for("its refusals", |node| node.refused("revoked") > 0);
    }
    assert!(!nodes[0].passes(OTHER), "it goes on by itself");
    let own = nodes[2]
        .service
        .rlctl(&["cluster", "revoke", "edge-3"])
        .unwrap();
    assert_eq!(own.code, 1, "{own:?}");
    nodes[2].run(&["cluster", "revoke", "edge-1", "--undo"]);
    nodes[2].wait_for("the ban again", |node| !node.passes(OTHER));
}

#[test]
fn a_prefix_that_is_too_wide_and_what_another_node_protects_stay_open_there() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = ["edge-1", "edge-2"].map(|name| {
        let mut node = Node::new(&redis, name, SECRET);
        let protects = format!(
            "{}[protected]\nsources = [\"{ONE}\"]\n",
            toml(&redis, name, SECRET)
        );
        node.service.configure(&protects).unwrap();
        node.service.start().unwrap();
        node
    });
    for node in &nodes {
        node.wait_for("all nodes", |node| node.alive() == 2);
    }
    let wide = "198.18.0.1";
    nodes[0].run(&["ban", "198.0.0.0/7", "--force", "--for", "1h"]);
    nodes[0].run(&["ban", ONE, "--force", "--for", "1h"]);
    nodes[0].run(&["ban", OTHER, "--for", "1h"]);
    assert!(!nodes[0].passes(wide) && !nodes[0].passes(ONE));
    nodes[1].wait_for("the ban that it takes", |node| !node.passes(OTHER));
    assert!(nodes[1].passes(wide) && nodes[1].passes(ONE));
    assert_eq!(nodes[1].bans().len(), 1, "{:?}", nodes[1].bans());
    assert!(nodes[1].status().denied >= 2, "{:?}", nodes[1].status());
    let metrics = nodes[1].service.metrics().unwrap();
    let denied = metrics
        .lines()
        .find_map(|it| it.strip_prefix("ratelimit_cluster_denied_total "));
    assert!(denied.unwrap().parse::<u64>().unwrap() >= 2, "{metrics}");
}

impl Node {
    /// Checks that status, metrics and log report a further loss.
    fn tells_of_a_loss_after(&self, before: &Losses) {
        let look = || Losses::of(&self.service);
        let until = Instant::now() + Deadlines::BUSY.told;
        let told = before.wait_for_more(look, until).unwrap();
        assert!(told, "{before:?} and {:?}", look());
    }
}
