//! Real network stacks on a VLAN prove themselves: the answers carry the tag of the question.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener},
    num::NonZeroU32,
    thread,
    time::Duration,
};

use aya::programs::xdp::XdpMode;
use ratelimit_common::{
    DropReason, Family, PassReason, Settings, Verdict,
    challenge::{Rules, Trigger},
};
use ratelimit_tests::{
    Lab, PATIENCE, Program, Scene,
    lab::{INTERFACE, Namespace},
    program::Constants,
    require_command, require_root, skip,
};
use tokio::{net::TcpSocket, runtime::Builder, time};

const PORT: u16 = 8080;
const VLAN: &str = "rl0.5";

/// The clients with their addresses, their servers' addresses, and their properties.
const CLIENTS: [Client; 4] = [
    client("10.78.0.10", "10.78.0.1", true, false),
    client("10.78.0.11", "10.78.0.1", false, true),
    client("fd78:0:0:a::2", "fd78:0:0:1::1", true, true),
    client("fd78:0:0:b::2", "fd78:0:0:1::1", false, false),
];

#[derive(Clone, Copy, Debug)]
struct Client {
    far: &'static str,
    near: &'static str,
    has_timestamps: bool,
    has_small_segments: bool,
}

const fn client(
    far: &'static str,
    near: &'static str,
    has_timestamps: bool,
    has_small_segments: bool,
) -> Client {
    Client {
        far,
        near,
        has_timestamps,
        has_small_segments,
    }
}

#[test]
fn clients_on_a_vlan_are_challenged_once_and_connect() {
    require_root!();
    require_command!("ethtool");
    let lab = Lab::new().unwrap();
    let add = [
        "link", "add", "link", INTERFACE, "name", VLAN, "type", "vlan", "id", "5",
    ];
    if lab.near.ip(&add).is_err() {
        skip::kernel_lacks("8021q");
        return;
    }
    lab.far.ip(&add).unwrap();
    // A tag that the driver is to write is not in the frame yet.
    for namespace in [&lab.near, &lab.far] {
        let offload = ["-K", INTERFACE, "txvlan", "off", "rxvlan", "off"];
        namespace.run("ethtool", &offload).unwrap();
        namespace.ip(&["link", "set", VLAN, "up"]).unwrap();
        set(namespace, "net/ipv6/conf/rl0.5/disable_ipv6", "0");
    }
    for (namespace, addresses) in [
        (&lab.near, CLIENTS.map(|it| it.near)),
        (&lab.far, CLIENTS.map(|it| it.far)),
    ] {
        for address in addresses {
            let length = if address.contains(':') { "48" } else { "24" };
            let address = format!("{address}/{length}");
            let nodad: &[&str] = if length == "48" { &["nodad"] } else { &[] };
            let replace = ["address", "replace", &address, "dev", VLAN];
            namespace.ip(&[&replace, nodad].concat()).unwrap();
        }
    }
    let program = challenging(&lab);
    for near in [CLIENTS[0].near, CLIENTS[2].near] {
        serve(&lab, near.parse().unwrap());
    }
    for client in CLIENTS {
        let word = |is_on| if is_on { "1" } else { "0" };
        set(
            &lab.far,
            "net/ipv4/tcp_timestamps",
            word(client.has_timestamps),
        );
        let is_ipv6 = client.far.contains(':');
        let (family, name, network) = if is_ipv6 {
            (Family::Ipv6, "-6", "fd78::/48")
        } else {
            (Family::Ipv4, "-4", "10.78.0.0/24")
        };
        let segments = if client.has_small_segments {
            "200"
        } else {
            "1400"
        };
        // In place of that of the address, which has this metric.
        let metric = if is_ipv6 { "256" } else { "0" };
        let route = [name, "route", "replace", network, "dev", VLAN];
        let segments = ["metric", metric, "advmss", segments];
        lab.far.ip(&[&route[..], &segments].concat()).unwrap();
        let count = |verdict| program.counter(family, verdict).unwrap().packets;
        let counts = || {
            [
                count(Verdict::Drop(DropReason::Challenged)),
                count(Verdict::Pass(PassReason::Verified)),
            ]
        };
        let before = counts();
        for _ in 0..3 {
            exchange(&lab, client);
        }
        let added: Vec<_> = counts().iter().zip(before).map(|(it, b)| it - b).collect();
        assert_eq!(added, [1, 1], "{client:?}");
    }
}

/// Returns a program before the network stack that challenges all clients.
fn challenging(lab: &Lab) -> Program {
    let mut program = Program::load(&Constants::default()).unwrap();
    let lasts = Duration::from_mins(10);
    let answers = NonZeroU32::new(1_000).unwrap();
    let scene = Scene {
        settings: Settings::default().with_challenge(true),
        challenge: Rules::new(Trigger::Always, lasts, answers, 1).unwrap(),
        ..Scene::default()
    };
    scene.set_up(&mut program).unwrap();
    let xdp = program.xdp_mut();
    lab.near
        .enter(|| xdp.attach(INTERFACE, XdpMode::Skb).map(drop))
        .unwrap();
    program
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

/// A connection of a client, over which a byte comes back.
fn exchange(lab: &Lab, client: Client) {
    let from = SocketAddr::new(client.far.parse().unwrap(), 0);
    let to = SocketAddr::new(client.near.parse().unwrap(), PORT);
    let connect = async {
        let socket = if from.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        };
        let socket = socket.unwrap();
        socket.bind(from).unwrap();
        let stream = time::timeout(PATIENCE, socket.connect(to)).await;
        stream.unwrap().unwrap().into_std().unwrap()
    };
    let mut stream = lab.far.enter(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(connect)
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[7]).unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [7]);
}

fn set(namespace: &Namespace, name: &str, value: &str) {
    let path = format!("/proc/sys/{name}");
    namespace.enter(|| std::fs::write(path, value)).unwrap();
}
