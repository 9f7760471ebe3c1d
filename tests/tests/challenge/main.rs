//! Sources that prove themselves: real network stacks connect during a flood of forged SYNs, of
//! which none reaches the server.

mod begins_and_ends;
mod crowd;
mod of_cpu;
mod other_rules;
mod stacks;
mod syncookie;
mod targets;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use aya::programs::xdp::XdpMode;
use ratelimit_tests::{
    Lab, PATIENCE, Program, Scene, forged,
    lab::{INTERFACE, Namespace, Sender},
    packet::SYN,
    program::Constants,
};

const PORT: u16 = 8080;
const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];
const FAR: [&str; 2] = ["10.77.0.2", "fd77::2"];
/// Before the network stack a program sends back over veth as it does over other drivers.
const GENERIC: &str = "[[interface]]\nname = \"rl0\"\nmode = \"generic\"\n";
const ALWAYS: &str = "[policy.default]\nlimits = []\n[challenge.tcp]\nwhen = \"always\"\n";

/// Sends one forged SYN from each of `count` sources.
fn burst(lab: &Lab, count: u32) {
    let sender = Sender::new(&lab.far).unwrap();
    for number in 0..count {
        sender.send(&forged(number, NEAR[0])).unwrap();
    }
}

fn lab() -> Lab {
    let lab = Lab::new().unwrap();
    lab.add_addresses(
        &["10.77.0.1/24", "fd77::1/64"],
        &["10.77.0.2/24", "fd77::2/64"],
    )
    .unwrap();
    // That of the frames of forged sources.
    let address = ["link", "set", INTERFACE, "address", "02:00:00:00:00:02"];
    lab.near.ip(&address).unwrap();
    // With a short queue, the first hundred unexpected connections are noticed.
    sysctl(&lab.near, "net/core/somaxconn", "64");
    // Forged sources are elsewhere, and a gateway is protected.
    for (family, gateway) in [("-4", "10.77.0.3"), ("-6", "fd77::3")] {
        let neighbour = [
            "neighbour",
            "add",
            gateway,
            "lladdr",
            "02:00:00:00:00:03",
            "dev",
            INTERFACE,
        ];
        lab.near.ip(&[&[family], &neighbour[..]].concat()).unwrap();
        lab.near
            .ip(&[family, "route", "add", "default", "via", gateway])
            .unwrap();
    }
    lab
}

/// A program that lets everything pass on the far end: without one, veth leaves what a program
/// sends back where it is.
fn polled(lab: &Lab) -> Program {
    let mut program = Program::load(&Constants::default()).unwrap();
    Scene::default().set_up(&mut program).unwrap();
    let xdp = program.xdp_mut();
    lab.far
        .enter(|| xdp.attach(INTERFACE, XdpMode::Driver).map(drop))
        .unwrap();
    program
}

fn generic(toml: &str) -> String {
    format!("{toml}{GENERIC}")
}

fn sysctl(namespace: &Namespace, name: &str, value: &str) {
    let path = format!("/proc/sys/{name}");
    namespace.enter(|| fs::write(path, value)).unwrap();
}

/// A SYN of a forged source to the server.
fn forged(number: u32, near: IpAddr) -> Vec<u8> {
    forged::frame(number, near).tcp(PORT, SYN).build_to(near)
}

/// Does something while forged SYNs come.
fn flooded(lab: &Lab, near: IpAddr, work: impl FnOnce()) {
    forged::flooded(lab, |number| forged(number, near), work);
}

/// A server that sends back what it gets.
struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicU64>,
}

impl Server {
    fn new(lab: &Lab, near: IpAddr) -> Self {
        Self::on(&lab.near, near)
    }

    fn on(namespace: &Namespace, near: IpAddr) -> Self {
        let address = SocketAddr::new(near, PORT);
        let listener = namespace.enter(|| TcpListener::bind(address)).unwrap();
        let accepted = Arc::new(AtomicU64::default());
        let counter = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counter.fetch_add(1, Relaxed);
                thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut bytes) {
                        stream.write_all(&bytes[..count]).unwrap();
                    }
                });
            }
        });
        Self { address, accepted }
    }

    /// The number of accepted connections.
    fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }
}

/// A connection of the far end, over which something was exchanged.
fn connect(lab: &Lab, near: IpAddr) -> TcpStream {
    let address = SocketAddr::new(near, PORT);
    let stream = lab
        .far
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE));
    let mut stream = stream.unwrap();
    exchange(&mut stream, &[7]);
    stream
}

fn exchange(stream: &mut TcpStream, sent: &[u8]) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent).unwrap();
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, sent);
}

/// The kernel's counts of requested connections.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Listening {
    opened: u64,
    drops: u64,
    overflows: u64,
    /// Cookies that the stack sent by itself.
    cookies: u64,
    /// Cookies that came back to it.
    taken: u64,
}

impl Listening {
    fn of(namespace: &Namespace) -> Self {
        let read = |path: &'static str| namespace.enter(move || fs::read_to_string(path)).unwrap();
        let (netstat, snmp) = (
            read("/proc/thread-self/net/netstat"),
            read("/proc/thread-self/net/snmp"),
        );
        Self {
            opened: counter(&snmp, "Tcp:", "PassiveOpens"),
            drops: counter(&netstat, "TcpExt:", "ListenDrops"),
            overflows: counter(&netstat, "TcpExt:", "ListenOverflows"),
            cookies: counter(&netstat, "TcpExt:", "SyncookiesSent"),
            taken: counter(&netstat, "TcpExt:", "SyncookiesRecv"),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            opened: self.opened - before.opened,
            drops: self.drops - before.drops,
            overflows: self.overflows - before.overflows,
            cookies: self.cookies - before.cookies,
            taken: self.taken - before.taken,
        }
    }
}

fn counter(text: &str, line: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|it| it.starts_with(line));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split_whitespace().position(|it| it == name).unwrap();
    values
        .split_whitespace()
        .nth(place)
        .unwrap()
        .parse()
        .unwrap()
}
