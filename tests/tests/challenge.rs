//! Sources that prove themselves: real network stacks connect during a flood of forged SYNs, of which none reaches the server.

use std::{
    cell::Cell,
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    num::NonZeroU32,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use aya::programs::xdp::XdpMode;
use ratelimit_common::{
    self as common, BanBudget, BanBudgets, BanRule, ClassSet, DropReason, PassReason, Policy,
    Settings, Unit, Verdict,
    challenge::{Rules, When},
    layout::VERIFIED_MAX,
    parse::LinkLayer,
};
use ratelimit_core::api::{Check, Status};
use ratelimit_tests::{
    Frame, Lab, PATIENCE, Program, Scene, forged,
    lab::{INTERFACE, Namespace, OWN_PACKETS, Sender},
    packet::{ACK, RST, SYN},
    program::{Action, Constants},
    proof, require_root,
    scene::limit,
    service::Service,
    skip, wait_until,
};
use tokio::{net::TcpSocket, runtime::Builder};

const PORT: u16 = 8080;
const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];
const FAR: [&str; 2] = ["10.77.0.2", "fd77::2"];
/// Before the network stack a program sends back over veth as it does over other drivers.
const GENERIC: &str = "[[interface]]\nname = \"rl0\"\nmode = \"generic\"\n";
const ALWAYS: &str = "[policy.default]\nlimits = []\n[challenge.tcp]\nwhen = \"always\"\n";
/// Packets of the limit of the node.
const LIMIT: u64 = 2_000;
/// Clients, the connections of each, and the threads that open them.
const CROWD: u32 = 250;
const CONNECTIONS: u32 = 4;
const THREADS: u32 = 8;
/// How long each connection of a crowd may take, with all that is exchanged.
const PATIENCE_OF_CLIENTS: Duration = Duration::from_secs(3);

/// How the clients of a crowd differ. In all cases together each two of these meet in each way.
#[derive(Clone, Copy, Debug)]
struct Case {
    is_ipv6: bool,
    way: &'static str,
    has_timestamps: bool,
    has_small_segments: bool,
}

impl Case {
    fn is_native(self) -> bool {
        self.is_ipv6 ^ (self.way == "syncookie")
    }
}

/// The cases: half of all that there are of five properties, of which two are told by the others.
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
fn thousands_of_clients_connect_during_a_forged_flood_of_which_nothing_reaches_the_server() {
    require_root!();
    for case in cases() {
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
        let toml = format!("{ALWAYS}way = \"{}\"\n{mode}", case.way);
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
        // The stack was asked for connections by the crowd, and by nobody else. Of the cookies it sent itself all but the one
        // of each client that verified it.
        let opened = u64::from(CROWD * CONNECTIONS);
        let (cookies, taken) = match case.way {
            "syncookie" => (opened - u64::from(CROWD), opened),
            _ => (0, 0),
        };
        assert_eq!(server.accepted(), opened, "{case:?}");
        let counted = Listening::of(&lab.near).since(&before);
        // The kernel counts a connection twice where its acknowledgement and its first bytes meet on two CPUs.
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
}

/// Gives the far end an address for each client, of an IPv6 network of its own, and their stack the properties of a case.
fn crowd_lives_behind(lab: &Lab, case: Case) {
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

fn client(near: IpAddr, number: u32) -> IpAddr {
    match near {
        IpAddr::V4(_) => Ipv4Addr::from(0x0a4e_0000 + number).into(),
        IpAddr::V6(_) => Ipv6Addr::from(0xfd78 << 112 | u128::from(number) << 64 | 1).into(),
    }
}

/// A connection of a client, over which several segments were exchanged, all of it within its patience.
async fn connect_from(client: IpAddr, near: IpAddr) -> TcpStream {
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

#[test]
fn connections_by_syncookie_have_the_options_of_those_that_the_listener_opens_by_its_own_cookies() {
    require_root!();
    for is_ipv6 in [false, true] {
        let near = NEAR[usize::from(is_ipv6)];
        let lab = lab();
        if !lab
            .near
            .enter(|| fs::exists("/proc/sys/net/core/rmem_max"))
            .unwrap()
        {
            return skip::kernel_lacks("net.core.rmem_max in network namespaces");
        }
        let case = Case {
            is_ipv6,
            way: "syncookie",
            has_timestamps: true,
            has_small_segments: false,
        };
        crowd_lives_behind(&lab, case);
        sysctl(&lab.near, "net/ipv4/tcp_syncookies", "2");
        sysctl(&lab.near, "net/ipv4/tcp_timestamps", "2");
        let server = Server::new(&lab, near);
        let mut numbers = 1..=CROWD;
        // Of a connection of a client that was not there before.
        let mut options = || {
            let client = client(near, numbers.next().unwrap());
            let before = Listening::of(&lab.near);
            let mut stream = lab.far.enter(|| {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(connect_from(client, near))
            });
            for _ in 0..16 {
                exchange(&mut stream, &vec![7; 60_000]);
            }
            let counted = Listening::of(&lab.near).since(&before);
            assert_eq!((counted.opened, counted.taken), (1, 1), "{counted:?}");
            (options_of(&lab.near, client), counted.cookies)
        };
        let clients = [
            ("tcp_timestamps", ["0", "1"]),
            ("tcp_sack", ["0", "1"]),
            ("tcp_window_scaling", ["0", "1"]),
        ];
        let mut all_options = |pause: Duration| {
            let mut all = vec![options()];
            for (name, [off, on]) in clients {
                sysctl(&lab.far, &format!("net/ipv4/{name}"), off);
                all.push(options());
                sysctl(&lab.far, &format!("net/ipv4/{name}"), on);
            }
            for (name, [off, on]) in &clients[1..] {
                sysctl(&lab.near, &format!("net/ipv4/{name}"), off);
                thread::sleep(pause);
                all.push(options());
                sysctl(&lab.near, &format!("net/ipv4/{name}"), on);
            }
            all
        };
        let of_listener = all_options(Duration::ZERO);
        assert!(of_listener.iter().all(|(_, cookies)| *cookies == 1));
        let has_all = |options: &[String]| {
            let mut options = options.iter();
            options.len() == 3 && options.any(|it| it.starts_with("wscale:"))
        };
        let (first, _) = &of_listener[0];
        assert!(has_all(first), "{first:?}");

        let toml = |scaling| {
            generic(&format!(
                "{ALWAYS}way = \"syncookie\"\nwindow_scaling = {scaling}\n"
            ))
        };
        let service = Service::started(&lab, &toml(true)).unwrap();
        // A daemon follows the settings of listeners within a second.
        let of_program = all_options(Duration::from_millis(1_200));
        for ((own, _), (ours, cookies)) in of_listener.iter().zip(of_program) {
            assert_eq!((own, 0), (&ours, cookies), "{near}");
        }
        service.configure(&toml(false)).unwrap();
        service.rlctl_ok(&["reload"]).unwrap();
        let without_scale = ["ts", "sack"].map(str::to_owned);
        assert_eq!(options(), (without_scale.to_vec(), 0));
        // With a number added that nobody knows, the segment size is left.
        sysctl(&lab.near, "net/ipv4/tcp_timestamps", "1");
        thread::sleep(Duration::from_millis(1_200));
        assert_eq!(options(), (vec![], 0));
        assert_eq!(
            u64::try_from(of_listener.len() * 2 + 2).unwrap(),
            server.accepted()
        );
    }
}

/// The options of the connection of a client at this host: `ts`, `sack`, and both scales of windows.
fn options_of(namespace: &Namespace, client: IpAddr) -> Vec<String> {
    let client = match client {
        IpAddr::V4(client) => client.to_string(),
        IpAddr::V6(client) => format!("[{client}]"),
    };
    let words = ["-tinoH", "state", "established", "dst", &client];
    let said = namespace.enter(|| Command::new("ss").args(words).output());
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    let words = said.split_whitespace();
    let is_option = |word: &&str| matches!(*word, "ts" | "sack") || word.starts_with("wscale:");
    words.filter(is_option).map(str::to_owned).collect()
}

#[test]
fn where_no_listener_gives_a_cookie_sources_prove_themselves_by_a_reset() {
    require_root!();
    let lab = lab();
    let service =
        Service::started(&lab, &generic(&format!("{ALWAYS}way = \"syncookie\"\n"))).unwrap();
    service
        .wait_for_log("net.ipv4.tcp_syncookies is not 2")
        .unwrap();
    // Nobody listens: the stack says so when the source is verified.
    let address = SocketAddr::new(NEAR[0], PORT);
    let refused = lab
        .far
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        status.contains("challenged always by syncookie"),
        "{status}"
    );
}

#[test]
fn a_challenge_by_cookies_is_refused_where_the_kernel_gives_none() {
    require_root!();
    let lab = lab();
    sysctl(&lab.near, "net/ipv4/tcp_syncookies", "0");
    let toml = generic(&format!("{ALWAYS}way = \"syncookie\"\n"));
    let refusal = Service::new(&lab, &toml).unwrap().refusal().unwrap();
    for part in [
        "net.ipv4.tcp_syncookies is 0",
        "net.ipv4.tcp_syncookies = 2",
        "way = \"rst\"",
    ] {
        assert!(refusal.contains(part), "{refusal}");
    }
    let service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    service.configure(&toml).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert!(
        said.code != 0 && said.stderr.contains("tcp_syncookies is 0"),
        "{said:?}"
    );
}

#[test]
fn who_is_verified_is_challenged_again_when_that_ends() {
    require_root!();
    let lab = lab();
    let toml = format!("{ALWAYS}for = \"1s\"\n{GENERIC}");
    let service = Service::started(&lab, &toml).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    for verified in 1..=2 {
        connect(&lab, NEAR[0]);
        connect(&lab, NEAR[0]);
        assert_eq!(service.packets("pass", "verified").unwrap(), verified);
        thread::sleep(Duration::from_millis(1_200));
    }
}

#[test]
fn the_answers_of_rlctl_say_who_is_challenged() {
    require_root!();
    let lab = lab();
    let service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    let check = || service.rlctl_ok(&["check", FAR[0]]).unwrap();
    assert!(
        check().contains("not verified: its SYNs are challenged"),
        "{}",
        check()
    );
    connect(&lab, NEAR[0]);
    assert!(
        check().contains("verified: its SYNs are not challenged until"),
        "{}",
        check()
    );
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        status.contains("TCP sources are challenged always by rst; verified for 10m"),
        "{status}"
    );
    let metrics = service.metrics().unwrap();
    assert!(
        metrics.contains("\nratelimit_challenge_on 1\n"),
        "{metrics}"
    );
}

#[test]
fn nobody_is_challenged_before_too_many_ask_and_it_says_since_when() {
    require_root!();
    let lab = lab();
    let toml = generic(&ALWAYS.replace("always", "over 500 syn/s"));
    let service = Service::started(&lab, &toml).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    let status = || {
        service
            .json::<Status>(&["status"])
            .unwrap()
            .challenge
            .unwrap()
    };
    assert!(!status().is_on && status().since.is_none());
    flooded(&lab, NEAR[0], || {
        wait_until("it is on", || status().is_on);
        connect(&lab, NEAR[0]);
    });
    assert!(status().since.is_some());
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    let check: Check = service.json(&["check", FAR[0]]).unwrap();
    assert!(check.challenge.unwrap().verified_until.is_some());
    let events = || service.rlctl_ok(&["events", "--since", "5m"]).unwrap();
    let began = "challenge is on, over 500 syn/s: TCP sources that are not verified are challenged";
    wait_until("the event", || events().contains(began));
    let ended = "challenge is off: nobody is challenged any more";
    wait_until("it ends", || events().contains(ended));
}

#[test]
fn where_destinations_and_ports_are_named_connections_to_others_are_neither_challenged_nor_counted()
{
    require_root!();
    let lab = lab();
    lab.add_addresses(&["10.77.0.5/24"], &[]).unwrap();
    let other: IpAddr = Ipv4Addr::new(10, 77, 0, 5).into();
    let _servers = [NEAR[0], other].map(|near| Server::new(&lab, near));
    let toml = |when: &str, keys: &str| {
        let section = ALWAYS.replace("always", when);
        generic(&format!(
            "{section}destinations = [\"10.77.0.5\"]\n{keys}\n"
        ))
    };
    let observing = format!("observe = true\n{}", toml("always", ""));
    let service = Service::started(&lab, &observing).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("observe", "challenged").unwrap(), 0);
    connect(&lab, other);
    assert_eq!(service.packets("observe", "challenged").unwrap(), 1);
    // A flood of others is none.
    let reloaded = service.reload(&toml("over 500 syn/s", "")).unwrap();
    let told = "over 500 syn/s to 10.77.0.5, by rst";
    assert!(reloaded.contains(told), "{reloaded}");
    flooded(&lab, NEAR[0], || thread::sleep(Duration::from_secs(2)));
    let status = || service.rlctl_ok(&["status"]).unwrap();
    assert!(status().contains("at this moment"), "{}", status());
    flooded(&lab, other, || {
        wait_until("it is on", || !status().contains("at this moment"));
        connect(&lab, NEAR[0]);
        assert_eq!(service.packets("pass", "verified").unwrap(), 0);
        connect(&lab, other);
    });
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    // What is asked about counts.
    service
        .reload(&toml("always", "ports = [443, 8080]"))
        .unwrap();
    let check = |to: &[&str]| {
        let question = [&["check", "192.0.2.1"], to].concat();
        service.rlctl(&question).unwrap().stdout
    };
    let yes = "its SYNs to 10.77.0.5, ports 443, 8080 are challenged";
    let no = "its SYNs are not challenged at this moment; only those to 10.77.0.5, ports 443, 8080 ever are";
    let tcp = ["--proto", "tcp", "--dport"];
    for (to, expected) in [
        (vec![], yes),
        (vec!["--to", "10.77.0.5"], yes),
        (vec!["--to", "10.77.0.1"], no),
        ([&["--to", "10.77.0.5"], &tcp[..], &["8080"]].concat(), yes),
        ([&["--to", "10.77.0.5"], &tcp[..], &["80"]].concat(), no),
    ] {
        let reported = check(&to);
        assert!(reported.contains(expected), "{to:?}: {reported}");
    }
    // Another port than those, from a source that is not verified.
    service.reload(&toml("always", "ports = [443]")).unwrap();
    let challenged = service.packets("drop", "challenged").unwrap();
    sender_syn(&lab, other);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(service.packets("drop", "challenged").unwrap(), challenged);
    service.reload(&toml("always", "ports = [8080]")).unwrap();
    sender_syn(&lab, other);
    let is_counted = || service.packets("drop", "challenged").unwrap() == challenged + 1;
    wait_until("it is challenged", is_counted);
}

/// The pair test of classes with a reload, a dry run, the answers of `rlctl`, a simulation and a limit that counts the same class.
#[test]
fn where_classes_are_named_other_syns_are_neither_challenged_nor_counted() {
    require_root!();
    let lab = lab();
    let _server = Server::new(&lab, NEAR[0]);
    // What Linux sends has options, the forged ones have none.
    let toml = |when: &str, classes: &str| {
        let section = ALWAYS.replace("always", when);
        generic(&format!(
            "{section}classes = [{classes}]\n\
             [class.plain]\nprotocol = \"tcp\"\nlength = \"40-44\"\n\
             [class.service]\ndestination_ports = [{PORT}]\n"
        ))
    };
    let observing = format!("observe = true\n{}", toml("always", "\"plain\""));
    let service = Service::started(&lab, &observing).unwrap();
    let packets = |action, reason| service.packets(action, reason).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(packets("observe", "challenged"), 0);
    sender_syn(&lab, NEAR[0]);
    let is_counted = || packets("observe", "challenged") == 1;
    wait_until("it is counted, of both kinds", is_counted);
    // A flood of another class is none.
    let reloaded = service.reload(&toml("over 500 syn/s", "\"tcp-invalid\", \"plain\""));
    assert!(reloaded.is_err(), "{reloaded:?}");
    let flags = "\n[class.urgent]\ntcp = \"syn,urg / syn,ack,urg\"\n";
    let urgent = toml("over 500 syn/s", "\"urgent\"") + flags;
    let reloaded = service.reload(&urgent).unwrap();
    let told = "over 500 syn/s of class urgent, by rst";
    assert!(reloaded.contains(told), "{reloaded}");
    let status = || service.rlctl_ok(&["status"]).unwrap();
    flooded(&lab, NEAR[0], || thread::sleep(Duration::from_secs(2)));
    assert!(status().contains("at this moment"), "{}", status());
    service
        .reload(&toml("over 500 syn/s", "\"plain\""))
        .unwrap();
    flooded(&lab, NEAR[0], || {
        wait_until("it is on", || !status().contains("at this moment"));
        // A client whose SYNs are not of the class passes while others are challenged, and proves nothing.
        connect(&lab, NEAR[0]);
    });
    assert_eq!(packets("pass", "verified"), 0);
    assert!(packets("drop", "challenged") > 0);
    // The class of its port, which a limit counts too.
    let limited = toml("always", "\"plain\", \"service\"").replace(
        "limits = []",
        "limits = [{ packets = 1_000, per = \"1s\", match = \"service\" }]",
    );
    service.reload(&limited).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(packets("pass", "verified"), 1);
    let check = |port: &str| {
        let question = ["check", "192.0.2.1", "--proto", "tcp", "--dport", port];
        service.rlctl(&question).unwrap().stdout
    };
    let yes = "its SYNs of classes plain, service are challenged";
    assert!(check("8080").contains(yes), "{}", check("8080"));
    service.reload(&toml("always", "\"service\"")).unwrap();
    assert!(check("8080").contains("its SYNs of class service are challenged"));
    let no = "its SYNs are not challenged at this moment; only those of class service ever are";
    assert!(check("443").contains(no), "{}", check("443"));
    // What becomes of a SYN is said first.
    let verified = NEAR[0].to_string();
    for (address, port, code, said) in [
        ("192.0.2.1", "8080", 3, "are dropped (challenged)"),
        ("192.0.2.1", "443", 0, "pass"),
        (verified.as_str(), "8080", 0, "pass"),
    ] {
        let question = [
            "check", address, "--proto", "tcp", "--flags", "syn", "--dport", port,
        ];
        let answer = service.rlctl(&question).unwrap();
        assert_eq!(answer.code, code, "{answer:?}");
        let first = answer.stdout.lines().next().unwrap();
        assert!(first.contains(said), "{first}");
    }
    // A class that is gone while it is named changes nothing.
    let gone = toml("always", "\"service\"").replace("[class.service]", "[class.other-name]");
    let refused = service.reload(&gone).unwrap_err().to_string();
    assert!(refused.contains("there is no class `service`"), "{refused}");
    let challenged = packets("drop", "challenged");
    sender_syn(&lab, NEAR[0]);
    let is_challenged = || packets("drop", "challenged") == challenged + 1;
    wait_until("it is challenged still", is_challenged);
}

/// A forged SYN to the server.
fn sender_syn(lab: &Lab, near: IpAddr) {
    let sender = Sender::new(&lab.far).unwrap();
    sender.send(&forged(1, near)).unwrap();
}

#[test]
fn allowed_sources_and_connections_that_stand_are_not_challenged_and_banned_ones_not_answered() {
    require_root!();
    let lab = lab();
    let plain = generic(&ALWAYS.replace("always", "never"));
    let service = Service::started(&lab, &plain).unwrap();
    let server = Server::new(&lab, NEAR[0]);
    let mut standing = connect(&lab, NEAR[0]);
    service.reload(&generic(ALWAYS)).unwrap();
    exchange(&mut standing, &[7]);
    service.rlctl_ok(&["allow", "add", FAR[0]]).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    service.rlctl_ok(&["allow", "rm", FAR[0]]).unwrap();
    service.rlctl_ok(&["ban", FAR[0]]).unwrap();
    let address = server.address;
    let refused = lab
        .far
        .enter(|| TcpStream::connect_timeout(&address, Duration::from_millis(300)));
    assert!(refused.is_err());
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    service.rlctl_ok(&["unban", FAR[0]]).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    // And off again, under way.
    service.reload(&plain).unwrap();
    let challenged = service.packets("drop", "challenged").unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), challenged);
}

/// The pair test of the challenge, the limit by source and that of the node.
#[test]
fn a_verified_source_is_served_when_a_flood_of_others_has_spent_its_part_of_the_limit_of_the_node()
{
    require_root!();
    let toml = |prefer: &str| {
        let source = "limits = [{ packets = 300, per = \"1h\" }]";
        generic(&format!(
            "[policy.default]\n{source}\n[challenge.tcp]\nwhen = \"always\"\n\
             [node]\n{prefer}\nlimits = [{{ packets = {LIMIT}, per = \"1h\" }}]\n"
        ))
    };
    let lab = lab();
    let service = Service::started(&lab, &toml("prefer = \"verified\"")).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    let mut verified = connect(&lab, NEAR[0]);
    let sender = Sender::new(&lab.far).unwrap();
    let refused = || service.packets("drop", "node-limited").unwrap();
    let numbers = Cell::new(0x6000_0000);
    let flood = || {
        let enough = refused() + 1_000;
        let is_spent = || {
            let judged = service.received().unwrap() + 200;
            for _ in 0..200 {
                let source = Ipv4Addr::from(numbers.replace(numbers.get() + 1));
                sender.send(&datagram(source)).unwrap();
            }
            wait_until("all were judged", || service.received().unwrap() >= judged);
            refused() >= enough
        };
        wait_until("the flood is refused", is_spent);
    };
    // The second half of the limit is for verified sources.
    flood();
    let passed = service.packets("pass", "conforming").unwrap();
    assert!(passed <= LIMIT / 2 + LIMIT / 128, "{passed}");
    let before = refused();
    for _ in 0..20 {
        exchange(&mut verified, &[7]);
    }
    connect(&lab, NEAR[0]);
    assert_eq!(refused(), before);
    let check = |address: &str| service.rlctl(&["check", address]).unwrap().stdout;
    let forged = check("96.0.0.1");
    assert!(forged.contains("node-limited"), "{forged}");
    let kept = "its SYNs are challenged; of the limits of the node a half is kept from it";
    assert!(forged.contains(kept), "{forged}");
    let far = check(FAR[0]);
    assert!(far.contains("conforming"), "{far}");
    let status = service.rlctl_ok(&["status"]).unwrap();
    let preferred = "verified sources draw first from the limits of the node";
    assert!(status.contains(preferred), "{status}");
    // Whoever is verified has its own limit, and leaves the others what is beyond it.
    let far: Ipv4Addr = FAR[0].parse().unwrap();
    let is_limited = || {
        for _ in 0..100 {
            sender.send(&datagram(far)).unwrap();
        }
        service.packets("drop", "limited").unwrap() >= 100
    };
    wait_until("its own limit holds", is_limited);
    assert!(service.packets("pass", "conforming").unwrap() < LIMIT);
    // Without the preference the flood takes what is left.
    service.reload(&toml("")).unwrap();
    flood();
    let far = check(FAR[1]);
    assert!(far.contains("node-limited"), "{far}");
    let passed = service.packets("pass", "conforming").unwrap();
    assert!(passed > LIMIT - LIMIT / 64, "{passed}");
}

#[test]
fn a_dry_run_answers_nothing() {
    require_root!();
    let lab = lab();
    let service = Service::started(&lab, &format!("observe = true\n{}", generic(ALWAYS))).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("observe", "challenged").unwrap(), 1);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
}

#[test]
fn where_no_proof_comes_back_it_is_told_until_one_does() {
    require_root!();
    let lab = lab();
    // The other end of the veth takes nothing of what a program sends back.
    let toml = format!("{ALWAYS}back_off = \"3s\"\n");
    let service = Service::started(&lab, &toml).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    let status = || service.rlctl_ok(&["status"]).unwrap();
    let told = "nobody who is challenged proves itself";
    let metric = |value: &str| {
        let metrics = service.metrics().unwrap();
        metrics.contains(&format!("\nratelimit_challenge_unanswered {value}\n"))
    };
    flooded(&lab, NEAR[0], || {
        let address = SocketAddr::new(NEAR[0], PORT);
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(2));
        assert!(lab.far.enter(connect).is_err());
        assert!(!status().contains(told) && metric("0"));
        wait_until("it is told", || status().contains(told));
        assert!(metric("1"));
        // It backs off, and tries again.
        let suspended = "the challenge is suspended until";
        wait_until("it is suspended", || status().contains(suspended));
        self::connect(&lab, NEAR[0]);
        assert_eq!(service.packets("pass", "verified").unwrap(), 0);
        wait_until("it is tried again", || !status().contains(suspended));
        assert!(status().contains(told));
        let challenged = service.packets("drop", "challenged").unwrap();
        wait_until("it is tried again", || {
            service.packets("drop", "challenged").unwrap() > challenged
        });
    });
    service.wait_for_log(told).unwrap();
    let events = service.rlctl_ok(&["events", "--since", "5m"]).unwrap();
    assert!(events.contains(told), "{events}");
    let suspended = "challenge is suspended until";
    assert!(events.contains(suspended), "{events}");
    let _polled = polled(&lab);
    connect(&lab, NEAR[0]);
    wait_until("it is over", || !status().contains(told));
    assert!(metric("0"));
}

#[test]
fn where_everything_passes_or_one_interface_is_a_dry_run_nothing_is_answered() {
    require_root!();
    let lab = lab();
    let service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    service
        .rlctl_ok(&["pass-all", "on", "--for", "1m"])
        .unwrap();
    connect(&lab, NEAR[0]);
    service.rlctl_ok(&["pass-all", "off"]).unwrap();
    let observing = format!("{}observe = true\n", generic(ALWAYS));
    service.reload(&observing).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("observe", "challenged").unwrap(), 1);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    service.reload(&generic(ALWAYS)).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 1);
}

#[test]
fn who_is_challenged_takes_nothing_of_the_budget_for_new_sources() {
    require_root!();
    let toml = |when: &str| {
        generic(&format!(
            "[source]\nnew_sources = {{ count = 50, per = \"1h\", over_budget = \"drop\" }}\n\
             [policy.default]\nlimits = [{{ packets = 1_000, per = \"1h\" }}]\n\
             [challenge.tcp]\nwhen = \"{when}\"\n"
        ))
    };
    for when in ["always", "never"] {
        let lab = lab();
        let service = Service::started(&lab, &toml(when)).unwrap();
        let _server = Server::new(&lab, NEAR[0]);
        burst(&lab, 1_000);
        let refused = service.packets("drop", "new-sources").unwrap();
        if when == "always" {
            connect(&lab, NEAR[0]);
            assert_eq!(
                (refused, service.packets("pass", "verified").unwrap()),
                (0, 1)
            );
        } else {
            assert!(refused > 800, "{refused}");
        }
    }
}

/// Also where the policy bans sources that may be forged: by what an attacker sends in its name, a client would be kept out.
#[test]
fn who_has_to_prove_itself_is_not_banned_for_what_is_asked_in_its_name_over_the_budget() {
    let now = common::Instant::from_nanos(1 << 40);
    let rules = |connections| {
        let lasts = Duration::from_mins(10);
        let rules = Rules::new(connections, lasts, NonZeroU32::MIN, 1).unwrap();
        let rules = rules.asking_queries(When::Always, [53, 0, 0, 0, 0, 0, 0, 0], 1);
        rules.unwrap()
    };
    let second = Duration::from_secs(1);
    let rule = BanRule::new(NonZeroU32::MIN, second, second * 600);
    let policy = Policy::new(&[limit(1, Unit::Packets, second * 60)], 0, false).unwrap();
    let many = NonZeroU32::new(1_000).unwrap();
    let scene = |challenge| Scene {
        settings: Settings::default().with_detection().with_challenge(true),
        policies: vec![policy.with_ban(rule.unwrap().for_unverified())],
        detection_limit: BanBudgets {
            verified: BanBudget::per_minute(many),
            unverified: BanBudget::per_minute(many),
        },
        challenge,
        ..Scene::default()
    };
    let [banned, limited] = [DropReason::Banned, DropReason::Limited].map(Verdict::Drop);
    let datagram = |number, near, port| forged::frame(number, near).udp(port).build_to(near);
    for near in NEAR {
        for (challenge, frame, expected) in [
            (rules(When::Always), forged(1, near), limited),
            (rules(When::Never), forged(2, near), banned),
            (rules(When::Always), datagram(3, near, 53), limited),
            (rules(When::Always), datagram(4, near, 54), banned),
            (
                rules(When::Never).of_classes(ClassSet::NONE, false),
                forged(5, near),
                banned,
            ),
            (
                rules(When::Always).of_classes(ClassSet::NONE, false),
                forged(6, near),
                banned,
            ),
        ] {
            for mut judge in scene(challenge).judges(&Constants::default()) {
                let verdicts: Vec<_> = (0..9).map(|_| judge.judge(&frame, now)).collect();
                assert_eq!(
                    verdicts[8],
                    expected,
                    "{} {near}: {verdicts:?}",
                    judge.name()
                );
            }
        }
    }
}

#[test]
fn beyond_the_answers_of_a_second_requests_are_judged_as_without_a_challenge() {
    require_root!();
    let lab = lab();
    let toml = generic(&format!("{ALWAYS}answers = 100\n"));
    let service = Service::started(&lab, &toml).unwrap();
    let answered = |work: &dyn Fn()| {
        let before = service.packets("drop", "challenged").unwrap();
        let start = Instant::now();
        work();
        let seconds = start.elapsed().as_secs() + 2;
        (
            service.packets("drop", "challenged").unwrap() - before,
            seconds,
        )
    };
    let (count, seconds) = answered(&|| burst(&lab, 2_000));
    assert!((100..=100 * seconds).contains(&count), "{count}");
    let passed = service.packets("pass", "unlimited").unwrap();
    // A host sends a few packets of its own.
    assert!(
        (2_000..2_020).contains(&(passed + count)),
        "{passed} {count}"
    );
    let unanswered = || {
        let status: Status = service.json(&["status"]).unwrap();
        status.challenge.unwrap().unanswered_packets
    };
    assert_eq!(unanswered(), 2_000 - count);
    let said = service.rlctl_ok(&["status"]).unwrap();
    assert!(said.contains("without an answer in all"), "{said}");
    // Nobody gets more than eight in a second.
    thread::sleep(Duration::from_secs(1));
    let (count, seconds) = answered(&|| {
        let sender = Sender::new(&lab.far).unwrap();
        for _ in 0..500 {
            sender.send(&forged(1, NEAR[0])).unwrap();
        }
    });
    assert!((8..=8 * seconds).contains(&count), "{count}");
    let metrics = service.metrics().unwrap();
    let counter = format!("ratelimit_challenge_over_budget_total {}", unanswered());
    assert!(metrics.contains(&counter), "{metrics}");
}

#[test]
fn a_listener_whose_queue_is_full_gives_cookies_where_the_kernel_has_them_on_demand() {
    require_root!();
    let lab = lab();
    sysctl(&lab.near, "net/ipv4/tcp_syncookies", "1");
    // These are never challenged, and fill the queue.
    let toml =
        format!("{ALWAYS}way = \"syncookie\"\n{GENERIC}[allow]\nsources = [\"96.0.0.0/4\"]\n");
    let service = Service::started(&lab, &toml).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    burst(&lab, 1_000);
    let before = Listening::of(&lab.near);
    assert!(before.cookies > 0, "the queue is full: {before:?}");
    connect(&lab, NEAR[0]);
    let expected = Listening {
        opened: 1,
        taken: 1,
        ..Listening::default()
    };
    // The stack itself sent no cookie: the program did.
    assert_eq!(Listening::of(&lab.near).since(&before), expected);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
}

#[test]
fn who_connects_through_this_host_proves_itself_by_a_reset() {
    require_root!();
    let lab = lab();
    let behind = Namespace::of("behind").unwrap();
    let ip = |namespace: &Namespace, words: &str| {
        namespace.ip(&words.split(' ').collect::<Vec<_>>()).unwrap()
    };
    let pair = format!(
        "link add rl1 type veth peer name {INTERFACE} netns {}",
        behind.name()
    );
    ip(&lab.near, &pair);
    ip(&lab.near, "link set rl1 up");
    ip(&lab.near, "address add 10.79.0.1/24 dev rl1");
    ip(&behind, "link set rl0 up");
    ip(&behind, "address add 10.79.0.2/24 dev rl0");
    ip(&behind, "route add default via 10.79.0.1");
    ip(&lab.far, "route add 10.79.0.0/24 via 10.77.0.1");
    sysctl(&lab.near, "net/ipv4/ip_forward", "1");
    let server = "10.79.0.2".parse().unwrap();
    let service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    let _server = Server::on(&behind, server);
    let before = Listening::of(&behind);
    flooded(&lab, server, || {
        for _ in 0..20 {
            connect(&lab, server);
        }
        thread::sleep(Duration::from_millis(100));
    });
    let expected = Listening {
        opened: 20,
        ..Listening::default()
    };
    assert_eq!(Listening::of(&behind).since(&before), expected);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    assert!(service.packets("drop", "challenged").unwrap() > 100);
}

/// The requests of stacks as they are, with what stands in their options, and whether their resets acknowledge too.
const STACKS: [(&str, u8, &[u8], u8); 7] = [
    (
        "Linux",
        SYN,
        &[
            2, 4, 5, 180, 4, 2, 8, 10, 0, 1, 2, 3, 0, 0, 0, 0, 1, 3, 3, 7,
        ],
        RST,
    ),
    (
        "Windows",
        SYN | ECE_CWR,
        &[2, 4, 5, 180, 1, 3, 3, 8, 1, 1, 4, 2],
        RST,
    ),
    (
        "macOS",
        SYN | ECE_CWR,
        &[
            2, 4, 5, 180, 1, 3, 3, 6, 1, 1, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0, 4, 2, 0, 0,
        ],
        RST,
    ),
    (
        "FreeBSD",
        SYN,
        &[
            2, 4, 5, 180, 1, 3, 3, 6, 4, 2, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0,
        ],
        RST,
    ),
    (
        "OpenBSD",
        SYN,
        &[
            2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 6, 1, 1, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0,
        ],
        RST,
    ),
    ("lwIP", SYN, &[2, 4, 2, 24], RST | ACK),
    ("a scanner without options", SYN, &[], RST | ACK),
];
/// Both flags of ECN.
const ECE_CWR: u8 = 0xc0;

#[test]
fn the_requests_of_other_stacks_are_answered_and_their_resets_are_proofs() {
    require_root!();
    let program = challenging();
    let mut now = common::Instant::from_nanos(1 << 40);
    for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
        for (number, (stack, flags, options, reset)) in (0..).zip(STACKS) {
            // Later, nobody is verified any more.
            now = common::Instant::from_nanos(now.as_nanos() + 3_600_000_000_000);
            program.set_clock(now).unwrap();
            let mut header = [0; 20];
            header[..8].copy_from_slice(&[200, number, 0, 80, 1, 2, 3, 4]);
            header[12] = u8::try_from(5 + options.len() / 4).unwrap() << 4;
            header[13] = flags;
            let frame = tags
                .iter()
                .fold(Frame::ethernet(), |frame, tag| frame.vlan(*tag, 7));
            let source = Ipv4Addr::new(192, 0, 2, number);
            let question = frame
                .ipv4(source)
                .protocol(6, &header)
                .payload(options)
                .pad_to(60)
                .build();
            let answer = program.answer(&question).unwrap().expect(stack);
            assert!(answer.len() <= question.len(), "{stack}");
            let front = 12 + 4 * tags.len();
            assert_eq!(
                answer[12..front + 2],
                question[12..front + 2],
                "{stack}: through its VLANs"
            );
            let expected = proof::answer(&question, LinkLayer::Ethernet, now).unwrap();
            assert_eq!(answer[..expected.len()], expected, "{stack}");
            let mut proof = proof::of(&question, LinkLayer::Ethernet, now).unwrap();
            let flags = proof.len() - 7;
            proof[flags] = reset;
            let judge = |frame: &[u8]| program.judge(frame).unwrap().1;
            assert_eq!(
                judge(&proof),
                Verdict::Pass(PassReason::Verified),
                "{stack}"
            );
            assert_eq!(
                judge(&question),
                Verdict::Pass(PassReason::Unlimited),
                "{stack}"
            );
        }
    }
}

#[test]
fn where_too_many_are_verified_those_that_were_seen_last_stay_so() {
    require_root!();
    let program = challenging();
    let now = common::Instant::from_nanos(1 << 40);
    program.set_clock(now).unwrap();
    let question = |number: u32| {
        let source = Ipv4Addr::from(0x0a00_0000 + number);
        Frame::ethernet().ipv4(source).tcp(PORT, SYN).build()
    };
    let many = VERIFIED_MAX + VERIFIED_MAX / 4;
    for number in 0..many {
        let proof = proof::of(&question(number), LinkLayer::Ethernet, now).unwrap();
        assert_eq!(program.run(&proof).unwrap(), Action::Pass);
        // The first one comes again and again.
        if number % 1_000 == 0 {
            let answer = program.answer(&question(0)).unwrap();
            assert_eq!(answer, None, "{number}");
        }
    }
    let verified = |numbers: std::ops::Range<u32>| {
        let answers = numbers.map(|number| program.answer(&question(number)).unwrap());
        answers.filter(Option::is_none).count()
    };
    assert_eq!(verified(many - 1_000..many), 1_000);
    assert!(verified(0..1_000) < 1_000);
}

/// A program without a daemon that challenges all sources.
fn challenging() -> Program {
    let mut program = Program::load(&Constants::default()).unwrap();
    let answers = NonZeroU32::new(1 << 20).unwrap();
    let scene = Scene {
        settings: Settings::default().with_challenge(true),
        challenge: Rules::new(When::Always, Duration::from_mins(10), answers, 2).unwrap(),
        ..Scene::limited(&[])
    };
    scene.set_up(&mut program).unwrap();
    program
}

/// Sends forged SYNs, one from each of so many sources.
fn burst(lab: &Lab, count: u32) {
    let sender = Sender::new(&lab.far).unwrap();
    for number in 0..count {
        sender.send(&forged(number, NEAR[0])).unwrap();
    }
}

#[test]
fn the_kernel_goes_on_when_the_daemon_is_killed() {
    require_root!();
    let lab = lab();
    let mut service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    service.stop("-KILL").unwrap();
    let before = Listening::of(&lab.near);
    flooded(&lab, NEAR[0], || {
        connect(&lab, NEAR[0]);
        thread::sleep(Duration::from_millis(200));
    });
    let opened = Listening {
        opened: 1,
        ..Listening::default()
    };
    assert_eq!(Listening::of(&lab.near).since(&before), opened);
    service.start().unwrap();
    // Who was verified is so after the start as well.
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
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
    // A short queue tells of the first hundred that should not be in it.
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

/// A program that lets everything pass on the far end: without one, veth leaves what a program sends back where it is.
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

/// A datagram to a port at which nobody listens.
fn datagram(source: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet().ipv4(source).udp(PORT).build()
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

    /// How many connections it has taken.
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

/// What the kernel counts of connections that it was asked for.
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
