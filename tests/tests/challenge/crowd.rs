//! Crowds of real clients connect while forged sources flood the server.

use std::time::{Duration, Instant};

use ratelimit_tests::{lab::OWN_PACKETS, require_root, service::Service};
use tokio::{net::TcpSocket, runtime::Builder};

use super::*;

/// Clients, the connections of each, and the threads that open them.
pub(super) const CROWD: u32 = 250;
const CONNECTIONS: u32 = 4;
const THREADS: u32 = 8;
/// The timeout of each connection of a crowd, with all that is exchanged.
const PATIENCE_OF_CLIENTS: Duration = Duration::from_secs(10);

/// The properties of the clients of a crowd. In all cases together, each pair of properties occurs
/// in each combination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) is_ipv6: bool,
    pub(super) way: &'static str,
    pub(super) has_timestamps: bool,
    pub(super) has_small_segments: bool,
}

impl Case {
    fn is_native(self) -> bool {
        self.is_ipv6 ^ (self.way == "syncookie")
    }
}

/// The cases: half of all combinations of five properties, two of which follow from the others.
fn cases() -> impl Iterator<Item = Case> {
    (0..8).map(|number| {
        let [is_ipv6, asks_listeners, has_timestamps] = [1, 2, 4].map(|bit| number & bit != 0);
        Case {
            is_ipv6,
            way: if asks_listeners { "syncookie" } else { "rst" },
            has_timestamps,
            has_small_segments: is_ipv6 ^ asks_listeners ^ has_timestamps,
        }
    })
}

#[test]
fn a_thousand_clients_connect_during_a_forged_flood_of_which_nothing_reaches_the_server() {
    require_root!();
    // Each property in both ways.
    for case in [0, 7].into_iter().filter_map(|number| cases().nth(number)) {
        check_case(case);
    }
}

#[test]
#[ignore = "thorough"]
fn thousands_of_clients_connect_during_a_forged_flood_whatever_their_stacks_do() {
    require_root!();
    cases().for_each(check_case);
}

/// Lets a crowd connect during a flood.
fn check_case(case: Case) {
    let near = NEAR[usize::from(case.is_ipv6)];
    let lab = lab();
    let _polled = case.is_native().then(|| polled(&lab));
    crowd_lives_behind(&lab, case);
    if case.way == "syncookie" {
        sysctl(&lab.near, "net/ipv4/tcp_syncookies", "2");
        let timestamps = if case.has_small_segments { "2" } else { "1" };
        sysctl(&lab.near, "net/ipv4/tcp_timestamps", timestamps);
    }
    let mode = if case.is_native() { "" } else { GENERIC };
    let toml = format!("{ALWAYS}method = \"{}\"\n{mode}", case.way);
    let service = Service::started(&lab, &toml).unwrap();
    let server = Server::new(&lab, near);
    let before = Listening::of(&lab.near);
    let received = lab.near.received().unwrap().packets;
    let sent = lab.far.received().unwrap().packets;
    flooded(&lab, near, || {
        crowd(&lab, near);
        // The flood was there.
        thread::sleep(Duration::from_millis(200));
    });
    // Only the crowd reached the stack with connection requests. The stack sent all cookies but the
    // one that verified each client.
    let opened = u64::from(CROWD * CONNECTIONS);
    let (cookies, taken) = match case.way {
        "syncookie" => (opened - u64::from(CROWD), opened),
        _ => (0, 0),
    };
    assert_eq!(server.accepted(), opened, "{case:?}");
    let counted = Listening::of(&lab.near).since(&before);
    // The kernel counts a connection twice where its acknowledgement and its first bytes meet on
    // two CPUs.
    let is_counted = |count, actual| (actual..=actual + actual / 100).contains(&count);
    assert!(
        is_counted(counted.opened, opened) && is_counted(counted.taken, taken),
        "{counted:?}, {case:?}"
    );
    assert_eq!(
        counted,
        Listening {
            opened: counted.opened,
            cookies,
            taken: counted.taken,
            ..Listening::default()
        },
        "{case:?}"
    );
    assert_eq!(
        service.packets("pass", "verified").unwrap(),
        u64::from(CROWD)
    );
    assert!(service.packets("drop", "challenged").unwrap() > u64::from(CROWD) + 100);
    let received = lab.near.received().unwrap().packets - received;
    let sent = lab.far.received().unwrap().packets - sent;
    assert!(
        sent <= received + OWN_PACKETS,
        "{sent} sent of {received}, {case:?}"
    );
}

/// Gives the far end an address for each client, of an IPv6 network of its own, and their stack the
/// properties of a case.
pub(super) fn crowd_lives_behind(lab: &Lab, case: Case) {
    let ip = |namespace: &Namespace, words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        namespace.ip(&words).unwrap();
    };
    let [local, route] = if case.is_ipv6 {
        [
            "-6 route add local fd78::/48 dev rl0",
            "-6 route add fd78::/48 via fd77::2",
        ]
    } else {
        [
            "route add local 10.78.0.0/24 dev rl0",
            "route add 10.78.0.0/24 via 10.77.0.2",
        ]
    };
    ip(&lab.far, local);
    sysctl(&lab.far, "net/ipv6/ip_nonlocal_bind", "1");
    ip(&lab.near, route);
    if case.has_small_segments {
        // As behind a link of 576 bytes; one of IPv6 has no less than 1280.
        ip(
            &lab.far,
            if case.is_ipv6 {
                "-6 route add fd77::1 dev rl0 advmss 1220"
            } else {
                "route add 10.77.0.1 dev rl0 advmss 536"
            },
        );
    }
    let timestamps = if case.has_timestamps { "1" } else { "0" };
    sysctl(&lab.far, "net/ipv4/tcp_timestamps", timestamps);
}

/// Opens connections of all clients, one after the other for each of them.
fn crowd(lab: &Lab, near: IpAddr) {
    thread::scope(|scope| {
        for first in 1..=THREADS {
            scope.spawn(move || {
                lab.far.enter(|| {
                    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                    let numbers = (first..=CROWD).step_by(THREADS as usize);
                    for number in numbers.flat_map(|number| [number; CONNECTIONS as usize]) {
                        runtime.block_on(connect_from(client(near, number), near));
                    }
                });
            });
        }
    });
}

pub(super) fn client(near: IpAddr, number: u32) -> IpAddr {
    match near {
        IpAddr::V4(_) => Ipv4Addr::from(0x0a4e_0000 + number).into(),
        IpAddr::V6(_) => Ipv6Addr::from(0xfd78 << 112 | u128::from(number) << 64 | 1).into(),
    }
}

/// A connection of a client, over which several segments were exchanged, all of it within its
/// patience.
pub(super) async fn connect_from(client: IpAddr, near: IpAddr) -> TcpStream {
    let start = Instant::now();
    let socket = match client {
        IpAddr::V4(_) => TcpSocket::new_v4(),
        IpAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.unwrap();
    socket.bind(SocketAddr::new(client, 0)).unwrap();
    let connected = socket.connect(SocketAddr::new(near, PORT));
    let connected = tokio::time::timeout(PATIENCE_OF_CLIENTS, connected).await;
    let stream = connected.unwrap_or_else(|_| panic!("{client} waits for too long"));
    let mut stream = stream.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    exchange(&mut stream, &[7; 2_000]);
    assert!(start.elapsed() < PATIENCE_OF_CLIENTS, "{client}");
    stream
}
