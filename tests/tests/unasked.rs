//! What nobody has asked for is named by the daemon within two seconds, also where it starts slowly; and what a socket waits for is
//! not.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant, SystemTime},
};

use ratelimit_core::{
    api::{AttackView, Status},
    detection::Kind,
};
use ratelimit_tests::{
    Frame, Lab,
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
    // Of a service that no list of ours knows.
    (
        Kind::Reflection,
        100,
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

#[test]
fn floods_of_every_kind_are_named_within_two_seconds() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, &toml()).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    // The daemon looks at what is configured each second.
    thread::sleep(SECOND + SECOND / 2);
    let (began, start) = (SystemTime::now(), Instant::now());
    let mut sent = [0; FLOODS.len()];
    while start.elapsed() < SECOND * 5 / 2 {
        for (flood, (_, per_second, forge, _)) in FLOODS.iter().enumerate() {
            while f64::from(sent[flood]) < start.elapsed().as_secs_f64() * f64::from(*per_second) {
                let frame = toward(forge(sent[flood]), u8::try_from(flood).unwrap());
                sender.send(&frame).unwrap();
                sent[flood] += 1;
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    let took = start.elapsed();
    let wanted = FLOODS.map(|(kind, _, _, subject)| (kind, subject.to_owned()));
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
        // The machine may be busy, and the floods slower than they should be.
        assert!(named.unwrap() <= took.max(2 * SECOND), "{attack:?}");
    }
}

/// A poller and a resolver have a socket for each answer. The same answers to ports without one are an attack.
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
        flood(45_161);
        let found = attacks(&service);
        assert_eq!(found.len(), 1, "{found:?}");
        let reported = (found[0].kind, found[0].subject.clone());
        let subject = format!("from port 161 to {near}");
        assert_eq!(reported, (Kind::Reflection, subject));
    }
}

/// Of a host that opens connections, and one that is asked for them.
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

fn attacks(service: &Service) -> Vec<AttackView> {
    let json = service.rlctl_ok(&["--json", "status"]).unwrap();
    serde_json::from_str::<Status>(&json).unwrap().attacks
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
    match near {
        IpAddr::V4(address) => {
            let mut frame = answer(client(number), 161, to).pad_to(1_400).build();
            frame[30..34].copy_from_slice(&address.octets());
            frame
        }
        IpAddr::V6(address) => {
            let number = u128::from(number.wrapping_mul(7919));
            let source = Ipv6Addr::from(0x2001_0db8 << 96 | number << 64);
            let frame = Frame::ethernet().ipv6(source);
            let mut frame = frame.protocol(17, &ports(161, to)).pad_to(1_400).build();
            frame[38..54].copy_from_slice(&address.octets());
            frame
        }
    }
}

/// The same frame of IPv4 to one of many hosts behind this one.
fn toward(mut frame: Vec<u8>, host: u8) -> Vec<u8> {
    frame[30..34].copy_from_slice(&[198, 51, 100, host]);
    frame
}

/// One of many addresses, far from each other.
fn client(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x6000_0000 | (number.wrapping_mul(65_537) & 0x0fff_ffff))
}
