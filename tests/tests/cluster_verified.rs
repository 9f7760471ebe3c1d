//! Three daemons and a real Redis: a client that proved itself on one node is not challenged on the others.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use jiff::SignedDuration;
use ratelimit_core::api::{ChallengeStatus, Check, SourceChallenge, Status};
use ratelimit_tests::{
    Lab, PATIENCE,
    cluster::{Node, configuration, wait_for_all},
    redis::Redis,
    require_package, require_root, wait_until,
};
use tokio::{net::TcpSocket, runtime::Builder};

const PORT: u16 = 8080;
/// The servers of each node, and the client of each: it has the same addresses everywhere, as one that is routed to another node.
const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];
const FAR: [&str; 2] = ["10.77.0.2", "fd77::2"];
const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
/// It is told within a second, and takes another until it is in the kernels of the others.
const SOON: Duration = Duration::from_secs(3);

fn toml(redis: &Redis, name: &str, keys: &str) -> String {
    let toml = format!(
        "[policy.default]\nlimits = []\n[challenge.tcp]\nwhen = \"always\"\n{keys}\n\
         [[interface]]\nname = \"rl0\"\nmode = \"generic\"\n"
    );
    configuration(redis, name, NAMES.len(), &toml)
}

fn nodes(redis: &Redis) -> Vec<Node> {
    let nodes = NAMES.map(|name| {
        let lab = Lab::new().unwrap();
        let addresses = [
            &["10.77.0.1/24", "fd77::1/64"],
            &["10.77.0.2/24", "fd77::2/64"],
        ];
        lab.add_addresses(addresses[0], addresses[1]).unwrap();
        for near in NEAR {
            serve(&lab, near);
        }
        Node::started_in(lab, &toml(redis, name, "")).unwrap()
    });
    let nodes = Vec::from(nodes);
    wait_for_all(&nodes).unwrap();
    nodes
}

/// A server that sends back a byte.
fn serve(lab: &Lab, near: IpAddr) {
    let listener = lab.near.enter(|| TcpListener::bind((near, PORT))).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut byte) = (stream.unwrap(), [0]);
            let _ = stream
                .read_exact(&mut byte)
                .and_then(|()| stream.write_all(&byte));
        }
    });
}

/// A client connects to a node, and exchanges something with its server.
fn connect(node: &Node, near: IpAddr) {
    let address = SocketAddr::new(near, PORT);
    let stream = node
        .lab
        .far
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE));
    let (mut stream, mut byte) = (stream.unwrap(), [0]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[7]).unwrap();
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [7]);
}

fn status(node: &Node) -> Status {
    node.service().json(&["status"]).unwrap()
}

fn challenge(node: &Node) -> ChallengeStatus {
    status(node).challenge.unwrap()
}

fn source(node: &Node, address: &str) -> SourceChallenge {
    let check: Check = node.service().json(&["check", address]).unwrap();
    check.challenge.unwrap()
}

/// Packets of a node that were answered in place of its server.
fn challenged(node: &Node) -> u64 {
    node.service().packets("drop", "challenged").unwrap()
}

#[test]
fn a_client_that_proved_itself_on_one_node_is_challenged_on_no_other_unless_that_is_configured() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let nodes = nodes(&redis);
    for (near, far) in NEAR.into_iter().zip(FAR) {
        connect(&nodes[0], near);
        let proved = source(&nodes[0], far);
        assert!(!proved.verified_by_peer, "{proved:?}");
        for node in &nodes[1..] {
            let after = wait_until("it is told", || source(node, far).verified_until.is_some());
            println!("{far} is verified on another node {after:?} later");
            let taken = source(node, far);
            assert!(taken.verified_by_peer, "{taken:?}");
            // For what is left of the time, and no longer.
            let apart = taken
                .verified_until
                .unwrap()
                .duration_since(proved.verified_until.unwrap());
            assert!(apart.abs() <= SignedDuration::from_secs(1), "{apart:?}");
            connect(node, near);
            assert_eq!(challenged(node), 0, "{far}");
            let check = node.service().rlctl(&["check", far]).unwrap().stdout;
            assert!(
                check.contains("verified by another node of the cluster"),
                "{check}"
            );
        }
    }
    assert_eq!(challenged(&nodes[0]), 2);
    wait_until("they are counted", || {
        challenge(&nodes[0]).verified_here == 2
    });
    wait_until("they are counted", || {
        challenge(&nodes[1]).verified_by_peers == 2
    });
    // Nobody says again what it was told.
    let clusters = || nodes.iter().map(|node| status(node).cluster.unwrap());
    let told: Vec<_> = clusters()
        .map(|it| (it.verified_told, it.verified_taken))
        .collect();
    assert_eq!(told, [(2, 0), (0, 2), (0, 2)]);
    let metrics = nodes[1].service().metrics().unwrap();
    for line in [
        "ratelimit_challenge_verified_sources{by=\"cluster\"} 2",
        "ratelimit_cluster_verified_total{what=\"taken\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let text = nodes[1].service().rlctl_ok(&["status"]).unwrap();
    let line = "2 sources verified, 2 of them by other cluster nodes";
    assert!(text.contains(line), "{text}");

    // A node that keeps to itself tells nobody, and is told of nobody.
    nodes[2]
        .service()
        .reload(&toml(&redis, NAMES[2], "scope = \"node\""))
        .unwrap();
    for (node, source) in [(0, 10), (2, 11)] {
        let far = [format!("10.77.0.{source}/24")];
        nodes[node].lab.add_addresses(&[], &[&far[0]]).unwrap();
        let address = SocketAddr::new(NEAR[0], PORT);
        let far = SocketAddr::from((Ipv4Addr::new(10, 77, 0, source), 0));
        nodes[node].lab.far.enter(|| {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(far).unwrap();
                socket.connect(address).await.unwrap();
            });
        });
    }
    wait_until("who shares is told", || {
        source(&nodes[1], "10.77.0.10").verified_until.is_some()
    });
    thread::sleep(SOON);
    assert_eq!(source(&nodes[2], "10.77.0.10").verified_until, None);
    assert_eq!(source(&nodes[1], "10.77.0.11").verified_until, None);
    assert_eq!(source(&nodes[0], "10.77.0.11").verified_until, None);
    let denied = status(&nodes[2]).cluster.unwrap().verified_denied;
    assert_eq!(denied, 1);
}
