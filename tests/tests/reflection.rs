//! The daemon names unrequested traffic within two seconds, even if it starts slowly, and does not
//! name traffic with a waiting socket.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{Read, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant, SystemTime},
};

use ratelimit_core::{
    api::{AttackView, Status},
    detection::Kind,
};
use ratelimit_tests::{
    Frame, Lab, forged,
    lab::Sender,
    packet::{ACK, Ipv4Options, RST, SYN},
    require_root,
    service::Service,
};

const SECOND: Duration = Duration::from_secs(1);
const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];

/// Makes the frame of a flood, by its number.
type Forge = fn(u32) -> Vec<u8>;

/// Each flood, how fast it is, and its name.
const FLOODS: [(Kind, u32, Forge, &str); 8] = [
    (
        Kind::SynAckReflection,
        150,
        |number| {
            whole(
                Frame::ethernet()
                    .ipv4(client(number))
                    .tcp(40_000, SYN | ACK),
            )
        },
        "to 198.51.100.0",
    ),
    (
        Kind::RstFlood,
        150,
        |number| whole(Frame::ethernet().ipv4(client(number)).tcp(80, RST)),
        "to 198.51.100.1",
    ),
    (
        Kind::IcmpFlood,
        1_500,
        |number| whole(Frame::ethernet().ipv4(client(number)).icmp(8)),
        "to 198.51.100.2",
    ),
    (
        Kind::IcmpFlood,
        150,
        |number| {
            let frame = Frame::ethernet().ipv4(client(number)).icmp(8);
            frame.pad_to(1_400).build()
        },
        "to 198.51.100.3",
    ),
    (
        Kind::UdpFlood,
        1_500,
        |number| {
            let port = u16::try_from(number * 31_337 % 65_521).unwrap();
            whole(Frame::ethernet().ipv4(client(7)).udp(port))
        },
        "to 198.51.100.4",
    ),
    (
        Kind::FragmentFlood,
        150,
        |number| {
            let options = Ipv4Options::fragment(1_480, true);
            let frame = Frame::ethernet().ipv4_with(client(number), &options);
            frame.protocol(17, &[7; 64]).pad_to(600).build()
        },
        "to 198.51.100.5",
    ),
    // A service that is on none of our lists. Next to the others, about two packets in five are
    // sampled, and 40 servers per second are required.
    (
        Kind::Reflection,
        200,
        |number| answer(client(number), 47_123, 33_000).pad_to(900).build(),
        "from port 47123 to 198.51.100.6",
    ),
    (
        Kind::Reflection,
        1_500,
        |number| answer(client(number), 161, 33_000).pad_to(120).build(),
        "from port 161 to 198.51.100.7",
    ),
];

/// Floods of this host: what would be ordinary behind it.
const FLOODS_HERE: [(Kind, u32, Forge, &str); 5] = [
    (
        Kind::SynAckReflection,
        1_000,
        |number| {
            let frame = Frame::ethernet().ipv4(client(number % 3));
            whole(frame.tcp(40_000, SYN | ACK))
        },
        "to 10.77.1.0",
    ),
    (
        Kind::UdpFlood,
        1_500,
        |_| whole(Frame::ethernet().ipv4(client(7)).udp(80)),
        "to 10.77.1.1",
    ),
    (
        Kind::Reflection,
        150,
        |number| {
            answer(client(number % 3), 11_211, 40_000)
                .pad_to(1_400)
                .build()
        },
        "from port 11211 to 10.77.1.2",
    ),
    (
        Kind::AckFlood,
        1_500,
        |number| whole(Frame::ethernet().ipv4(client(number)).tcp(80, ACK)),
        "to 10.77.1.3",
    ),
    (
        Kind::ProtocolFlood,
        1_500,
        |number| whole(Frame::ethernet().ipv4(client(number)).protocol(47, &[0; 4])),
        "to 10.77.1.4",
    ),
];

#[test]
fn floods_of_every_kind_are_named_within_two_seconds() {
    require_root!();
    let lab = Lab::new().unwrap();
    are_named(&lab, &FLOODS, [198, 51, 100]);
}

#[test]
fn floods_of_this_host_are_named_within_two_seconds() {
    require_root!();
    let lab = Lab::new().unwrap();
    let own: Vec<_> = (0..FLOODS_HERE.len())
        .map(|last| format!("10.77.1.{last}/32"))
        .collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    lab.add_addresses(&own, &[]).unwrap();
    are_named(&lab, &FLOODS_HERE, [10, 77, 1]);
}

/// Sends floods at once, each to a host of its own in a /24, and waits until they are named.
fn are_named<const N: usize>(lab: &Lab, floods: &[(Kind, u32, Forge, &str); N], network: [u8; 3]) {
    let service = Service::started(lab, &toml()).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    // The daemon checks what is configured each second.
    thread::sleep(SECOND + SECOND / 2);
    let (began, start) = (SystemTime::now(), Instant::now());
    let mut sent = [0; N];
    while start.elapsed() < SECOND * 5 / 2 {
        for (flood, (_, per_second, forge, _)) in floods.iter().enumerate() {
            while f64::from(sent[flood]) < start.elapsed().as_secs_f64() * f64::from(*per_second) {
                let host = u8::try_from(flood).unwrap();
                let frame = toward(forge(sent[flood]), network, host);
                sender.send(&frame).unwrap();
                sent[flood] += 1;
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    let took = start.elapsed();
    let wanted = floods.map(|(kind, _, _, subject)| (kind, subject.to_owned()));
    let wanted = BTreeSet::from(wanted);
    let reported = |attacks: &[AttackView]| -> BTreeSet<_> {
        let attacks = attacks.iter();
        attacks
            .map(|attack| (attack.kind, attack.subject.clone()))
            .collect()
    };
    let mut found = attacks(&service);
    while reported(&found).len() < wanted.len() && start.elapsed() < took + 5 * SECOND {
        thread::sleep(Duration::from_millis(50));
        found = attacks(&service);
    }
    assert_eq!(reported(&found), wanted, "{found:#?}");
    for attack in found {
        let named = SystemTime::from(attack.since).duration_since(began);
        // The machine may be busy, and the floods slower than they should be. The second window
        // ends a little after two seconds.
        assert!(
            named.unwrap() <= took.max(2 * SECOND + SECOND / 2),
            "{attack:?}"
        );
    }
}

/// A poller and a resolver have a socket for each answer. The same answers to ports without one are
/// an attack.
#[test]
fn answers_that_a_socket_waits_for_are_not_named_and_the_same_to_another_port_are() {
    require_root!();
    for near in NEAR {
        let lab = Lab::new().unwrap();
        let ends = ["10.77.0.1/24", "fd77::1/64"];
        lab.add_addresses(&ends, &["10.77.0.2/24", "fd77::2/64"])
            .unwrap();
        let service = Service::started(&lab, &toml()).unwrap();
        let sender = Sender::new(&lab.far).unwrap();
        let bind = || UdpSocket::bind(SocketAddr::new(near, 45_161)).unwrap();
        let socket = lab.near.enter(bind);
        thread::sleep(SECOND + SECOND / 2);
        let flood = |to| {
            let start = Instant::now();
            for number in 0_u32.. {
                if start.elapsed() >= 2 * SECOND {
                    break;
                }
                for number in number * 10..number * 10 + 10 {
                    sender.send(&answer_to(near, number, to)).unwrap();
                }
                thread::sleep(Duration::from_millis(4));
            }
        };
        flood(45_161);
        thread::sleep(SECOND + SECOND / 5);
        assert_eq!(attacks(&service), [], "{near}");
        drop(socket);
        let found = service.wait_for("an attack", || {
            flood(45_161);
            Some(attacks(&service)).filter(|found| !found.is_empty())
        });
        assert_eq!(found.len(), 1, "{found:?}");
        let reported = (found[0].kind, found[0].subject.clone());
        let subject = format!("from port 161 to {near}");
        assert_eq!(reported, (Kind::Reflection, subject));
    }
}

/// A host that opens connections, and one that accepts them.
#[test]
fn new_connections_are_not_named_whoever_opens_them() {
    const CONNECTIONS: usize = 1_600;
    require_root!();
    let lab = Lab::new().unwrap();
    lab.add_addresses(&["10.77.0.1/24"], &["10.77.0.2/24"])
        .unwrap();
    let service = Service::started(&lab, &toml()).unwrap();
    thread::sleep(SECOND + SECOND / 2);
    for (server, client, address) in [
        (&lab.far, &lab.near, "10.77.0.2:8080"),
        (&lab.near, &lab.far, "10.77.0.1:8080"),
    ] {
        let listener = server.enter(|| TcpListener::bind(address)).unwrap();
        thread::scope(|scope| {
            let accept = || (0..CONNECTIONS).for_each(|_| drop(listener.accept().unwrap()));
            scope.spawn(accept);
            client.enter(|| {
                for _ in 0..CONNECTIONS {
                    TcpStream::connect(address).unwrap();
                }
            });
        });
        thread::sleep(SECOND + SECOND / 5);
        assert_eq!(attacks(&service), [], "{address}");
    }
}

/// A download by TCP and one as QUIC makes it, both of which their clients end in the middle, and a
/// resolver with a socket for each question.
#[test]
fn ordinary_transfers_are_not_named_nor_what_comes_after_their_end() {
    const SERVER: &str = "10.77.0.2";
    const PACKETS_MIN: u64 = 4_000;
    require_root!();
    let lab = Lab::new().unwrap();
    lab.add_addresses(&["10.77.0.1/24"], &["10.77.0.2/24"])
        .unwrap();
    let service = Service::started(&lab, &toml()).unwrap();
    let (far, near) = (&lab.far, &lab.near);
    let listener = far.enter(|| TcpListener::bind((SERVER, 443))).unwrap();
    let [quic, names] =
        [443, 53].map(|port| far.enter(|| UdpSocket::bind((SERVER, port))).unwrap());
    for socket in [&quic, &names] {
        socket.set_read_timeout(Some(5 * SECOND)).unwrap();
    }
    thread::sleep(SECOND + SECOND / 2);
    let before = near.received().unwrap().packets;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            let bytes = vec![7; 1 << 16];
            while stream.write_all(&bytes).is_ok() {}
        });
        scope.spawn(|| {
            let client = quic.recv_from(&mut [0; 64]).unwrap().1;
            // It learns late that the socket is closed. On a busy machine it is slower, and sends
            // as much.
            for _ in 0..400 {
                for _ in 0..20 {
                    let _ = quic.send_to(&[7; 1_200], client);
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        scope.spawn(|| {
            let mut question = [0; 64];
            while let Ok((length, client)) = names.recv_from(&mut question) {
                if length == 1 {
                    break;
                }
                names.send_to(&[7; 300], client).unwrap();
            }
        });
        near.enter(|| {
            let start = Instant::now();
            let mut stream = TcpStream::connect((SERVER, 443)).unwrap();
            let mut download = Some(UdpSocket::bind(("10.77.0.1", 0)).unwrap());
            download
                .as_ref()
                .unwrap()
                .send_to(&[7; 60], (SERVER, 443))
                .unwrap();
            let mut buffer = [0; 1 << 14];
            while start.elapsed() < SECOND * 3 / 2 {
                let resolver = UdpSocket::bind(("10.77.0.1", 0)).unwrap();
                resolver.send_to(&[7; 40], (SERVER, 53)).unwrap();
                resolver.recv_from(&mut buffer).unwrap();
                stream.read_exact(&mut buffer).unwrap();
                if start.elapsed() >= SECOND {
                    download = None;
                }
            }
            drop(download);
            // Unread data resets the connection, and the rest has no receiver.
            drop(stream);
            let end = UdpSocket::bind(("10.77.0.1", 0)).unwrap();
            end.send_to(&[7], (SERVER, 53)).unwrap();
        });
    });
    thread::sleep(SECOND + SECOND / 5);
    let received = near.received().unwrap().packets - before;
    assert!(received >= PACKETS_MIN, "{received}");
    assert_eq!(attacks(&service), []);
}

fn attacks(service: &Service) -> Vec<AttackView> {
    service.json::<Status>(&["status"]).unwrap().attacks
}

/// Nothing is limited, and everything is looked for.
fn toml() -> String {
    let mut toml = "[policy.default]\nlimits = []\n".to_owned();
    for kind in Kind::ALL {
        writeln!(toml, "[detection.{}]", kind.key()).unwrap();
    }
    toml
}

fn whole(frame: Frame) -> Vec<u8> {
    frame.pad_to(60).build()
}

/// A datagram from a port to another.
fn answer(source: Ipv4Addr, from: u16, to: u16) -> Frame {
    Frame::ethernet()
        .ipv4(source)
        .protocol(17, &ports(from, to))
}

fn ports(from: u16, to: u16) -> [u8; 8] {
    let ([a, b], [c, d]) = (from.to_be_bytes(), to.to_be_bytes());
    [a, b, c, d, 0, 8, 0, 0]
}

/// A large answer of one of many SNMP agents.
fn answer_to(near: IpAddr, number: u32, to: u16) -> Vec<u8> {
    let frame = forged::frame(number, near).protocol(17, &ports(161, to));
    frame.pad_to(1_400).build_to(near)
}

/// Returns the IPv4 frame with a destination in another network.
fn toward(mut frame: Vec<u8>, [a, b, c]: [u8; 3], host: u8) -> Vec<u8> {
    frame[30..34].copy_from_slice(&[a, b, c, host]);
    frame
}

/// Returns one of many addresses, spread widely.
fn client(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x6000_0000 | (number.wrapping_mul(65_537) & 0x0fff_ffff))
}
