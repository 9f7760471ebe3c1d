//! The second allowance: established connections survive while their address is forged above its
//! limit.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    num::NonZeroU32,
    thread,
    time::Duration,
};

use ratelimit_common::{
    DropReason, Instant as At, PassReason, Policy, Settings, Unit, Verdict, layout::store,
    new_sources::Budget, settings::OverBudget,
};
use ratelimit_core::{api::StatsRow, memory_tables::MemoryTables};
use ratelimit_tests::{
    Frame, Lab, Scene,
    forged::flooded,
    packet::ACK,
    pool::Pooled,
    program::{CONFORMING, Constants, LIMITED},
    require_root,
    scene::{Judge, limit},
    service::Service,
    wait_for,
};

const ESTABLISHED: Verdict = Verdict::Pass(PassReason::Established);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 8080;
const TCP: u8 = 6;

/// A limit that a forger exceeds forty times, and a connection never does.
const LIMITS: &str = "limits = [{ packets = 100, per = \"1s\" }]";
/// The round trips of an undisturbed connection, and the time between them: they go on for longer
/// than a window.
const UNDISTURBED: usize = 60;
const PAUSE: Duration = Duration::from_millis(25);
/// The time after which a connection counts as lost. All that is sent in it is lost, many times
/// over.
const LOST: Duration = Duration::from_secs(5);

#[test]
fn an_established_connection_outlives_a_flood_that_forges_its_address() {
    require_root!();
    let trips = |store: &str, established: &str| {
        let toml =
            format!("[source]\nstore = \"{store}\"\n[policy.default]\n{LIMITS}\n{established}");
        trips_in_a_flood(&toml)
    };
    let (without, _) = trips("lru", "");
    assert!(without < UNDISTURBED / 4, "{without} round trips");
    for (store, established) in [
        ("lru", "established = [{ packets = 200, per = \"1s\" }]"),
        ("compact", "established = true"),
    ] {
        let (with, counted) = trips(store, established);
        assert_eq!(with, UNDISTURBED, "{store}");
        // Each round trip is at least one packet to this host. Those at the beginning of a window
        // are within the limit.
        assert!(
            counted >= UNDISTURBED as u64 / 2,
            "{store}: {counted} packets"
        );
    }
}

/// The round trips over a connection while its address is forged, and the packets that passed
/// within the second allowance.
fn trips_in_a_flood(toml: &str) -> (usize, u64) {
    let lab = Lab::new().unwrap();
    lab.add_addresses(&["10.77.0.1/24"], &["10.77.0.2/24"])
        .unwrap();
    let service = Service::started(&lab, toml).unwrap();
    let listener = lab.near.enter(|| TcpListener::bind((NEAR, PORT))).unwrap();
    let connect = || TcpStream::connect_timeout(&(NEAR, PORT).into(), Duration::from_secs(3));
    let mut stream = wait_for("a connection", || lab.far.enter(connect).ok());
    let (mut peer, _) = listener.accept().unwrap();
    for end in [&stream, &peer] {
        end.set_nodelay(true).unwrap();
    }
    thread::spawn(move || {
        let mut byte = [0];
        while peer.read_exact(&mut byte).is_ok() && peer.write_all(&byte).is_ok() {}
    });
    stream.set_read_timeout(Some(LOST)).unwrap();
    let forged = Frame::ethernet().ipv4(FAR).udp(53).pad_to(60).build();
    let mut trips = 0;
    flooded(
        &lab,
        |_| forged.clone(),
        || {
            // The flood has used up the window that began before it.
            thread::sleep(Duration::from_millis(200));
            while trips < UNDISTURBED {
                let mut byte = [7];
                if stream.write_all(&byte).is_err() || stream.read_exact(&mut byte).is_err() {
                    break;
                }
                trips += 1;
                thread::sleep(PAUSE);
            }
        },
    );
    let stats: Vec<StatsRow> = service.json(&["stats"]).unwrap();
    let passed = stats.iter().filter(|row| row.reason == "established");
    (trips, passed.map(|row| row.packets).sum())
}

/// The amounts of the limit and of the second allowance.
const AMOUNTS: [u64; 2] = [2, 3];

/// A connection of this host with itself, over the interface that packets of `BPF_PROG_TEST_RUN`
/// come from.
struct Connection {
    _ends: [TcpStream; 2],
    peer: SocketAddr,
    own: SocketAddr,
}

impl Connection {
    fn open(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let own = listener.local_addr().unwrap();
        let stream = TcpStream::connect(own).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        Self {
            _ends: [stream, accepted],
            peer,
            own,
        }
    }

    /// A packet of its peer, from this port.
    fn packet_from(&self, port: u16) -> Vec<u8> {
        let mut header = [0; 20];
        header[..2].copy_from_slice(&port.to_be_bytes());
        header[2..4].copy_from_slice(&self.own.port().to_be_bytes());
        header[12..14].copy_from_slice(&[5 << 4, ACK]);
        let frame = Frame::ethernet().ip(self.peer.ip());
        frame.protocol(TCP, &header).build_to(self.own.ip())
    }

    fn packet(&self) -> Vec<u8> {
        self.packet_from(self.peer.port())
    }

    fn datagram(&self) -> Vec<u8> {
        Frame::ethernet()
            .ip(self.peer.ip())
            .udp(self.own.port())
            .build_to(self.own.ip())
    }
}

fn scene(settings: Settings) -> Scene {
    let limits = AMOUNTS.map(|amount| limit(amount, Unit::Packets, Duration::from_secs(9)));
    let [own, second] = [(limits[0], 1), (limits[1], 2)]
        .map(|(limit, scope)| Policy::new(&[limit], scope, false).unwrap());
    Scene {
        settings: settings.with_established(),
        policies: vec![own.with_established(1), second.for_established()],
        ..Scene::default()
    }
}

/// Has the host and the kernel judge the same packets, in both stores and families.
fn check(settings: Settings, judge: impl Fn(&Connection, &mut dyn FnMut(&[u8]) -> Verdict)) {
    for address in [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ] {
        let connection = Connection::open(address);
        for store in [store::LRU, store::COMPACT] {
            let constants = Constants {
                store,
                sets: 256,
                ..Constants::default()
            };
            let scene = scene(settings).in_sets(8);
            let mut host = scene.in_memory(&constants);
            host.connect(connection.peer, connection.own);
            let mut kernel = Pooled::with(&constants, &scene).unwrap();
            let now = At::from_nanos(1 << 40);
            judge(&connection, &mut |frame| {
                let verdict = Judge::judge(&mut host as &mut MemoryTables, frame, now);
                assert_eq!(kernel.judge(frame, now), verdict, "{address} {store}");
                verdict
            });
        }
    }
}

#[test]
fn only_packets_of_the_connection_pass_within_the_second_allowance() {
    require_root!();
    check(Settings::default(), |connection, judge| {
        let (packet, datagram) = (connection.packet(), connection.datagram());
        let guessed = connection.packet_from(connection.peer.port() ^ 1);
        for _ in 0..AMOUNTS[0] {
            assert_eq!(judge(&packet), CONFORMING);
        }
        for _ in 0..AMOUNTS[1] {
            assert_eq!(judge(&datagram), LIMITED);
            assert_eq!(judge(&guessed), LIMITED);
            assert_eq!(judge(&packet), ESTABLISHED);
        }
        for packet in [&packet, &datagram, &guessed] {
            assert_eq!(judge(packet), LIMITED);
        }
    });
}

/// The budget is spent by forged sources, and would refuse the state of the second allowance.
#[test]
fn the_second_allowance_asks_for_no_budget_for_new_sources() {
    require_root!();
    let connection = Connection::open(Ipv4Addr::LOCALHOST.into());
    let settings = Settings::default().with_new_sources(OverBudget::Drop);
    let mut scene = scene(settings);
    scene.new_sources = Budget::new(NonZeroU32::MIN, Duration::from_mins(1), 1).unwrap();
    let mut kernel = Pooled::with(&Constants::default(), &scene).unwrap();
    let now = At::from_nanos(1 << 40);
    for _ in 0..AMOUNTS[0] {
        assert_eq!(kernel.judge(&connection.packet(), now), CONFORMING);
    }
    let other = Frame::ethernet().ipv4(FAR).udp(53).pad_to(60).build();
    let spent = Verdict::Drop(DropReason::NewSources);
    assert_eq!(
        kernel.judge(&other, now),
        spent,
        "no state for another source"
    );
    assert_eq!(kernel.judge(&connection.packet(), now), ESTABLISHED);
}

/// A packet that the policy denies is also denied on connections.
#[test]
fn a_limit_without_room_for_any_packet_has_no_second_allowance() {
    require_root!();
    let connection = Connection::open(Ipv4Addr::LOCALHOST.into());
    let mut scene = scene(Settings::default());
    let denying = limit(1, Unit::Bytes, Duration::from_hours(1));
    let denying = Policy::new(&[denying], 3, false).unwrap();
    assert!(denying.denies(0));
    scene.policies[0] = denying.with_established(1);
    let mut kernel = Pooled::with(&Constants::default(), &scene).unwrap();
    let now = At::from_nanos(1 << 40);
    assert_eq!(kernel.judge(&connection.packet(), now), LIMITED);
}
