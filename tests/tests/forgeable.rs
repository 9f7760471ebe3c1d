//! Whether a source may be forged is seen from real TCP connections: its packet must be one of an
//! established connection.

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    num::NonZeroU32,
    thread,
    time::Duration,
};

use aya::programs::xdp::XdpMode;
use ratelimit_common::{
    Address, BanBudget, BanBudgets, BanRule, Ipv4, Ipv6, Policy, PolicyBan, Settings, Unit,
    layout::clock, policy_ban::BanResult, strikes::CONFIRMATIONS,
};
use ratelimit_tests::{
    Frame, Lab, Program, Scene,
    lab::{INTERFACE, Sender},
    packet::{ACK, SYN},
    program::Constants,
    require_root,
    scene::limit,
    wait_for, wait_until,
};

const MODES: [XdpMode; 2] = [XdpMode::Driver, XdpMode::Skb];
const PORT: u16 = 8080;
/// The packets of each source that pass during the test.
const LIMIT: u64 = 40;
const AFTER: u64 = 3;

#[test]
fn a_source_that_continues_over_an_established_connection_is_banned() {
    require_root!();
    for mode in MODES {
        for [near, far] in ENDS {
            let lab = connected_lab();
            let program = attached(&lab, mode);
            let listener = listen(&lab, near);
            let mut stream = connect(&lab, near);
            let (mut peer, from) = listener.accept().unwrap();
            assert_eq!(from.ip(), far);
            // Each packet is answered until the limit is reached; then they are sent again and
            // again.
            peer.set_nonblocking(true).unwrap();
            wait_until("a ban", || {
                let _ = stream.write(&[7; 100]);
                let _ = peer.read(&mut [0; 4096]);
                results(&program)[0] > 0
            });
            assert_eq!(results(&program), [1, 0, 0, 0], "{mode:?} {far}");
            assert_eq!(banned(&program), [source(far)]);
        }
    }
}

#[test]
fn a_source_without_a_connection_is_never_banned() {
    require_root!();
    for mode in MODES {
        let lab = connected_lab();
        let program = attached(&lab, mode);
        let [near, _] = ENDS[0];
        // A socket that listens is no connection.
        let _listener = listen(&lab, near);
        let sender = Sender::new(&lab.far).unwrap();
        let forged = |host| Frame::ethernet().ipv4([10, 77, 0, host].into());
        let frames = [
            forged(66).udp(53).pad_to(60).build(),
            forged(67).tcp(PORT, SYN).pad_to(60).build(),
            forged(68).tcp(PORT, ACK).pad_to(60).build(),
        ];
        for frame in &frames {
            for _ in 0..LIMIT + 2 * AFTER {
                sender.send(frame).unwrap();
            }
        }
        wait_until("six results", || results(&program)[1] >= 6);
        assert_eq!(results(&program), [0, 6, 0, 0]);
        assert_eq!(banned(&program), Vec::<IpAddr>::new());
    }
}

#[test]
fn a_forged_packet_of_somebody_elses_address_does_not_ban_the_connected_client() {
    require_root!();
    for mode in MODES {
        let lab = connected_lab();
        let program = attached(&lab, mode);
        let [near, far] = ENDS[0];
        let listener = listen(&lab, near);
        let mut stream = connect(&lab, near);
        let (mut peer, _) = listener.accept().unwrap();
        let IpAddr::V4(victim) = far else {
            unreachable!()
        };
        let sender = Sender::new(&lab.far).unwrap();
        // The ports of the connection are not those of the frames.
        for frame in [
            Frame::ethernet().ipv4(victim).udp(PORT),
            Frame::ethernet().ipv4(victim).tcp(PORT, ACK),
        ] {
            let frame = frame.pad_to(60).build();
            for _ in 0..LIMIT + AFTER {
                sender.send(&frame).unwrap();
            }
        }
        assert_eq!(results(&program)[0], 0);
        assert!(results(&program)[1] > 0);
        assert_eq!(banned(&program), Vec::<IpAddr>::new());
        drop(program);
        stream.write_all(b"still here").unwrap();
        let mut text = [0; 10];
        peer.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still here");
    }
}

/// A forger who tries ports occasionally hits those of a connection. A single hit bans nothing,
/// even if it is the strike with which a ban is due.
#[test]
fn a_strike_that_hits_the_ports_of_a_connection_by_chance_bans_no_source() {
    require_root!();
    for mode in MODES {
        let lab = connected_lab();
        let program = attached(&lab, mode);
        let [near, far] = ENDS[0];
        let listener = listen(&lab, near);
        let stream = connect(&lab, near);
        let (_peer, from) = listener.accept().unwrap();
        let IpAddr::V4(victim) = far else {
            unreachable!()
        };
        let packet = |port: u16| {
            let mut header = [0; 20];
            header[..2].copy_from_slice(&port.to_be_bytes());
            header[2..4].copy_from_slice(&PORT.to_be_bytes());
            header[12..14].copy_from_slice(&[5 << 4, ACK]);
            let frame = Frame::ethernet().ipv4(victim).protocol(6, &header);
            frame.build_to(near)
        };
        let (missed, hit) = (packet(from.port() ^ 1), packet(from.port()));
        let sender = Sender::new(&lab.far).unwrap();
        // The handshake has used some of the limit. After a result, the count restarts.
        wait_until("a result", || {
            sender.send(&missed).unwrap();
            thread::sleep(Duration::from_millis(5));
            results(&program)[1] == 1
        });
        // With the strike that a ban takes, with the one behind it, and with all but the last of
        // those that confirm it.
        for hits in 1..CONFIRMATIONS {
            for _ in 0..10 {
                for _ in 1..AFTER {
                    sender.send(&missed).unwrap();
                }
                for _ in 0..hits {
                    sender.send(&hit).unwrap();
                }
                sender.send(&missed).unwrap();
            }
        }
        wait_until("21 results", || results(&program)[1] >= 21);
        assert_eq!(results(&program), [0, 21, 0, 0], "{mode:?}");
        assert_eq!(banned(&program), Vec::<IpAddr>::new());
        for _ in 0..AFTER + u64::from(CONFIRMATIONS) {
            sender.send(&hit).unwrap();
        }
        wait_until("a ban", || banned(&program) == [far]);
        drop(stream);
    }
}

/// The addresses of both ends, by family.
const ENDS: [[IpAddr; 2]; 2] = [
    [
        IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 1)),
        IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 2)),
    ],
    [
        IpAddr::V6(std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
        IpAddr::V6(std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)),
    ],
];

/// A lab whose ends have addresses.
fn connected_lab() -> Lab {
    let lab = Lab::new().unwrap();
    let ends = [0, 1].map(|end| {
        let [ipv4, ipv6] = ENDS.map(|ends| ends[end]);
        [format!("{ipv4}/24"), format!("{ipv6}/64")]
    });
    let [near, far] = ends
        .each_ref()
        .map(|ends| ends.each_ref().map(String::as_str));
    lab.add_addresses(&near, &far).unwrap();
    lab
}

fn attached(lab: &Lab, mode: XdpMode) -> Program {
    let constants = Constants {
        clock: clock::KERNEL,
        ..Constants::default()
    };
    let mut program = Program::load(&constants).expect("the program loads");
    let minute = Duration::from_mins(1);
    let after = NonZeroU32::new(u32::try_from(AFTER).unwrap()).unwrap();
    let rule = BanRule::new(after, minute, minute).unwrap();
    let limits = [limit(LIMIT, Unit::Packets, 10 * minute)];
    let scene = Scene {
        settings: Settings::default().with_policy_bans(),
        policies: vec![Policy::new(&limits, 0, false).unwrap().with_ban(rule)],
        // As when forged sources have used up all of theirs.
        ban_budgets: BanBudgets {
            established: BanBudget::per_minute(NonZeroU32::new(1000).unwrap()),
            ..BanBudgets::default()
        },
        ..Scene::default()
    };
    scene.set_up(&mut program).unwrap();
    let xdp = program.xdp_mut();
    lab.near
        .enter(|| xdp.attach(INTERFACE, mode))
        .expect("the program attaches");
    program
}

fn listen(lab: &Lab, near: IpAddr) -> TcpListener {
    lab.near
        .enter(|| TcpListener::bind(SocketAddr::new(near, PORT)))
        .unwrap()
}

/// Connects, in a moment: an address of IPv6 may take one to be ready.
fn connect(lab: &Lab, near: IpAddr) -> TcpStream {
    let address = SocketAddr::new(near, PORT);
    let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(3));
    let stream = wait_for("a connection", || lab.far.enter(connect).ok());
    stream.set_nodelay(true).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

fn results(program: &Program) -> [u64; BanResult::ALL.len()] {
    program.tally().unwrap().results
}

fn banned(program: &Program) -> Vec<IpAddr> {
    let octets = |octets: [u8; 16]| IpAddr::from(octets).to_canonical();
    let ipv4 = program.ipv4.bans().unwrap().into_iter();
    let ipv4 = ipv4.map(|(source, _): (Ipv4, PolicyBan)| octets(source.octets()));
    let ipv6 = program.ipv6.bans().unwrap().into_iter();
    let ipv6 = ipv6.map(|(source, _): (Ipv6, PolicyBan)| octets(source.octets()));
    ipv4.chain(ipv6).collect()
}

/// The source that an address belongs to.
fn source(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
    }
}
