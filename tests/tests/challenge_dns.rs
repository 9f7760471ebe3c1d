//! Resolvers that prove themselves: that of the C library comes back over TCP during a flood of
//! forged queries, of which none reaches the server.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    num::NonZeroU32,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use ratelimit_common::{
    self as common, DropReason, PassReason, Settings, Verdict,
    challenge::{Rules, Trigger},
    parse::LinkLayer,
};
use ratelimit_core::api::{Check, Status};
use ratelimit_tests::{
    Frame, Lab, Program, Scene, forged,
    lab::{INTERFACE, OWN_PACKETS},
    packet::{SYN, VLAN},
    program::Constants,
    proof, require_root,
    service::Service,
    wait_until,
};

const PORT: u16 = 53;
const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];
const FAR: &str = "10.77.0.2";
/// Before the network stack a program sends back over veth as it does over other drivers.
const GENERIC: &str =
    "[[interface]]\nname = \"rl0\"\nmode = \"generic\"\n[policy.default]\nlimits = []\n";
const ALWAYS: &str = "[challenge.dns]\nwhen = \"always\"\n";
/// The address of every name.
const ANSWER: &str = "203.0.113.80";

/// A query for the address of `www.example.org`.
pub const QUERY: &[u8] =
    b"\x07\x09\x01\x00\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x01\0\x01";
/// The EDNS record of a sender, for 1,232 bytes.
const EXTENSIONS: &[u8] = &[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];

#[test]
fn the_resolver_of_the_c_library_comes_back_over_tcp_and_asks_by_datagrams_from_then_on() {
    require_root!();
    for (near, options) in [(NEAR[0], ""), (NEAR[1], "options edns0\n")] {
        let lab = lab();
        let service = Service::started(&lab, &format!("{GENERIC}{ALWAYS}")).unwrap();
        let server = Server::new(&lab, near);
        let received = lab.near.received().unwrap().packets;
        let sent = lab.far.received().unwrap().packets;
        flooded(&lab, near, || {
            assert_eq!(resolve(&lab, near, options, "one.example.org"), ANSWER);
            assert_eq!(server.asked(), [0, 1], "over TCP");
            for number in 0..3 {
                let name = format!("{number}.example.org");
                assert_eq!(resolve(&lab, near, options, &name), ANSWER);
            }
            thread::sleep(Duration::from_millis(200));
        });
        // Nothing of the flood came to the server.
        assert_eq!(server.asked(), [3, 1], "by datagrams");
        assert_eq!(service.packets("pass", "verified").unwrap(), 1);
        assert!(service.packets("drop", "challenged").unwrap() > 500);
        let received = lab.near.received().unwrap().packets - received;
        let sent = lab.far.received().unwrap().packets - sent;
        assert!(sent <= received + OWN_PACKETS, "{sent} sent of {received}");
        let check = |source| service.rlctl_ok(&["check", source]).unwrap();
        let far = if near.is_ipv4() { FAR } else { "fd77::2" };
        let verified = "verified: SYNs are not challenged until";
        assert!(check(far).contains(verified), "{}", check(far));
        let challenged = "DNS queries, and SYNs to the same ports, are challenged";
        assert!(check("192.0.2.1").contains(challenged));
        // `check` predicts the outcome of a query.
        for (source, action) in [
            (far, "pass"),
            ("192.0.2.1", "drop"),
            ("2001:db8::1", "drop"),
        ] {
            let question = ["check", source, "--proto", "udp", "--dport", "53"];
            let check: Check = service.json(&question).unwrap();
            assert_eq!(check.action, action, "{check:?}");
            let elsewhere: Check = service.json(&[&question[..5], &["54"]].concat()).unwrap();
            assert_eq!(elsewhere.action, "pass", "{elsewhere:?}");
        }
        let status = service.rlctl_ok(&["status"]).unwrap();
        let told = "DNS clients: always challenged at port 53";
        assert!(status.contains(told), "{status}");
        let metrics = service.metrics().unwrap();
        assert!(
            metrics.contains("\nratelimit_challenge_dns_on 1\n"),
            "{metrics}"
        );
    }
}

#[test]
fn no_source_is_challenged_before_too_many_datagrams_come_and_it_says_since_when() {
    require_root!();
    let lab = lab();
    let toml = ALWAYS.replace("always", "over 500 packets/s");
    let service = Service::started(&lab, &format!("{GENERIC}{toml}")).unwrap();
    let server = Server::new(&lab, NEAR[0]);
    assert_eq!(resolve(&lab, NEAR[0], "", "before.example.org"), ANSWER);
    assert_eq!(server.asked(), [1, 0]);
    let status = || {
        let status: Status = service.json(&["status"]).unwrap();
        status.challenge.unwrap()
    };
    assert!(!status().dns.unwrap().is_on);
    flooded(&lab, NEAR[0], || {
        wait_until("it is on", || status().dns.unwrap().is_on);
        let asked = server.asked()[1];
        assert_eq!(resolve(&lab, NEAR[0], "", "during.example.org"), ANSWER);
        assert_eq!(server.asked()[1], asked + 1, "over TCP");
        assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    });
    // Connections are none of it.
    assert!(!status().is_on && status().when == "never");
    let events = || service.rlctl_ok(&["events", "--since", "5m"]).unwrap();
    for told in [
        "challenge is on (over 500 packets/s): unverified DNS clients are challenged",
        "challenge of DNS clients is off",
    ] {
        wait_until(told, || events().contains(told));
    }
}

#[test]
fn the_program_answers_a_query_as_the_host_would_and_what_is_none_continues() {
    require_root!();
    let mut program = Program::load(&Constants::default()).unwrap();
    let answers = NonZeroU32::new(1 << 20).unwrap();
    let rules = Rules::new(Trigger::Never, Duration::from_mins(10), answers, 2).unwrap();
    let rules = rules.asking_queries(Trigger::Always, [53, 5353, 0, 0, 0, 0, 0, 0], 2);
    let scene = Scene {
        settings: Settings::default().with_challenge(true),
        challenge: rules.unwrap(),
        ..Scene::limited(&[])
    };
    scene.set_up(&mut program).unwrap();
    let now = common::Instant::from_nanos(1 << 40);
    program.set_clock(now).unwrap();
    let mut extended = [QUERY, EXTENSIONS].concat();
    extended[11] = 1;
    let mut longest = QUERY[..12].to_vec();
    longest.extend([1, b'a'].repeat(127));
    longest.extend([0, 0, 1, 0, 1]);
    for number in 0..2_u16 {
        let frame = |tags: u16, is_ipv6: bool, port, message: &[u8]| {
            let tags = (0..tags).map(|tag| 7 + tag);
            let frame = tags.fold(Frame::ethernet(), |frame, tag| frame.vlan(VLAN, tag));
            let frame = if is_ipv6 {
                frame.ipv6(Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 1))
            } else {
                frame.ipv4(Ipv4Addr::from(0x6000_0000 + u32::from(number)))
            };
            frame.datagram(port, message).build()
        };
        for is_ipv6 in [false, true] {
            for (tags, port, message) in [(0, 53, QUERY), (1, 5353, &extended), (2, 53, &longest)] {
                let question = frame(tags, is_ipv6, port, message);
                let answer = program.answer(&question).unwrap().expect("it is answered");
                assert!(answer.len() <= question.len());
                let expected = proof::answer_to_query(&question, LinkLayer::Ethernet).unwrap();
                assert_eq!(answer[..expected.len()], expected);
            }
            let cut = &QUERY[..QUERY.len() - 1];
            let mut said = QUERY.to_vec();
            said[2] |= 0x80;
            for (port, message) in [(53, cut), (53, &said), (54, QUERY), (53, &[])] {
                let question = frame(0, is_ipv6, port, message);
                assert_eq!(
                    program.answer(&question).unwrap(),
                    None,
                    "{port} {message:?}"
                );
            }
        }
    }
    // A client that passes the challenge at such a port is verified for its queries, and one that
    // connects elsewhere is not challenged.
    let source = Ipv4Addr::new(192, 0, 2, 9);
    let query = Frame::ethernet().ipv4(source).datagram(53, QUERY).build();
    let question = Frame::ethernet().ipv4(source).tcp(53, SYN).build();
    let judge = |frame: &[u8]| program.judge(frame).unwrap().1;
    assert_eq!(judge(&query), Verdict::Drop(DropReason::Challenged));
    let elsewhere = Frame::ethernet().ipv4(source).tcp(80, SYN).build();
    assert_eq!(judge(&elsewhere), Verdict::Pass(PassReason::Unlimited));
    let proof = proof::of(&question, LinkLayer::Ethernet, now).unwrap();
    assert_eq!(judge(&question), Verdict::Drop(DropReason::Challenged));
    assert_eq!(judge(&proof), Verdict::Pass(PassReason::Verified));
    for frame in [&query, &question] {
        assert_eq!(judge(frame), Verdict::Pass(PassReason::Unlimited));
    }
}

fn lab() -> Lab {
    let lab = Lab::new().unwrap();
    lab.add_addresses(
        &["10.77.0.1/24", "fd77::1/64"],
        &["10.77.0.2/24", "fd77::2/64"],
    )
    .unwrap();
    // That of the frames of forged sources, to which there is a way.
    let address = ["link", "set", INTERFACE, "address", "02:00:00:00:00:02"];
    lab.near.ip(&address).unwrap();
    for (family, gateway) in [("-4", "10.77.0.3"), ("-6", "fd77::3")] {
        let neighbour =
            format!("{family} neighbour add {gateway} lladdr 02:00:00:00:00:03 dev rl0");
        let route = format!("{family} route add default via {gateway}");
        for words in [neighbour, route] {
            lab.near.ip(&words.split(' ').collect::<Vec<_>>()).unwrap();
        }
    }
    lab
}

/// Returns the address of a name according to the C library, with this as the only server.
fn resolve(lab: &Lab, server: IpAddr, options: &str, name: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("resolv.conf");
    fs::write(&file, format!("nameserver {server}\n{options}")).unwrap();
    let file = file.to_str().unwrap();
    // The namespace of `ip netns exec` has mounts of its own.
    let script = format!("mount --bind {file} /etc/resolv.conf && getent ahostsv4 {name}");
    let said = lab.far.run("sh", &["-c", &script]).unwrap();
    let address = said.split_whitespace().next();
    address.unwrap_or_default().to_owned()
}

/// A server that says one address for each name, and counts who asked by a datagram, and over TCP.
struct Server {
    asked: Arc<Mutex<[u64; 2]>>,
}

impl Server {
    fn new(lab: &Lab, near: IpAddr) -> Self {
        let address = SocketAddr::new(near, PORT);
        let bind = || (UdpSocket::bind(address), TcpListener::bind(address));
        let (socket, listener) = lab.near.enter(bind);
        let (socket, listener) = (socket.unwrap(), listener.unwrap());
        let asked = Arc::new(Mutex::new([0; 2]));
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            let mut bytes = [0; 1_500];
            while let Ok((count, from)) = socket.recv_from(&mut bytes) {
                counted.lock().unwrap()[0] += 1;
                let _ = socket.send_to(&answer(&bytes[..count]), from);
            }
        });
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut question).unwrap();
                counted.lock().unwrap()[1] += 1;
                let answer = answer(&question);
                let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length, &answer[..]].concat()).unwrap();
            }
        });
        Self { asked }
    }

    /// The numbers of queries by datagram, and over TCP.
    fn asked(&self) -> [u64; 2] {
        *self.asked.lock().unwrap()
    }
}

/// The answer to a question: one address, which may be had from here for an hour.
fn answer(question: &[u8]) -> Vec<u8> {
    let name = question[12..].iter().position(|byte| *byte == 0).unwrap();
    let mut answer = question[..12 + name + 5].to_vec();
    answer[2..12].copy_from_slice(&[0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    let address: Ipv4Addr = ANSWER.parse().unwrap();
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4]);
    answer.extend(address.octets());
    answer
}

/// A query of a forged source to the server.
fn forged(number: u32, near: IpAddr) -> Vec<u8> {
    let frame = forged::frame(number, near).datagram(PORT, QUERY);
    frame.build_to(near)
}

/// Does something while forged queries come.
fn flooded(lab: &Lab, near: IpAddr, work: impl FnOnce()) {
    forged::flooded(lab, |number| forged(number, near), work);
}
