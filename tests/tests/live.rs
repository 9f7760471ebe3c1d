//! The program on a real interface: frames of every shape over a veth pair, in the driver and
//! before the network stack.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use aya::programs::xdp::XdpMode;
use ratelimit_common::{
    Instant, ListEntry, Unit,
    layout::{self, Counter, clock},
};
use ratelimit_tests::{
    Lab, Program, Scene,
    lab::{INTERFACE, Receiver, Sender},
    packet::ETHERNET_BYTES,
    packet::datagram,
    program::Constants,
    require_root,
    scene::{banned_until, limit},
    shapes::{self, Class, Shaped},
    wait_until,
};

#[test]
fn only_neighbour_discovery_of_a_banned_source_arrives() {
    require_root!();
    for mode in MODES {
        check(mode, banned_until(u64::MAX), |class| {
            class == Class::NeighbourDiscovery
        });
    }
}

#[test]
fn all_packets_of_an_allowed_source_arrive() {
    require_root!();
    for mode in MODES {
        let until = Some(Instant::from_nanos(u64::MAX));
        check(mode, ListEntry::new(true, until, None), |_| true);
    }
}

#[test]
fn exactly_the_limit_of_a_limited_source_arrives() {
    const AMOUNT: u64 = 50;
    require_root!();
    for mode in MODES {
        let lab = Lab::jumbo().unwrap();
        let window = Duration::from_mins(1);
        let program = attached(
            &lab,
            mode,
            &Scene::limited(&[limit(AMOUNT, Unit::Packets, window)]),
        );
        let mut receiver = Receiver::new(&lab.near).unwrap();
        let frame = datagram(IPV4);
        let second = Duration::from_secs(1);
        let sent = Sender::new(&lab.far)
            .unwrap()
            .send_at_rate(&frame, 500, second)
            .unwrap();
        wait_until("all of it", || total(&program).packets == sent);
        assert_eq!(sent, 500);
        assert_eq!(receiver.count(LATE).unwrap(), AMOUNT, "{mode:?}");
    }
}

const IPV4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 0x77);
/// The longest time until a frame that passed arrives.
const LATE: Duration = Duration::from_millis(500);
/// The wait for a frame that should not have passed; one that takes longer is found at the end.
const SOON: Duration = Duration::from_millis(5);
const MODES: [XdpMode; 2] = [XdpMode::Driver, XdpMode::Skb];

/// Sends a frame of every shape through a program whose lists say `entry`.
fn check(mode: XdpMode, entry: ListEntry, arrives: fn(Class) -> bool) {
    let lab = Lab::jumbo().unwrap();
    let scene = Scene::default().with("203.0.113.0/24", entry);
    let program = attached(&lab, mode, &scene.with("2001:db8:7:7::/64", entry));
    let before = lab.near.received().unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    let mut receiver = Receiver::new(&lab.near).unwrap();
    let mut sent = Counter::default();
    for Shaped { name, class, frame } in shapes::all(IPV4, IPV6) {
        sender.send(&frame).unwrap();
        sent.packets += 1;
        sent.bytes += frame.len() as u64;
        wait_until(name, || total(&program) == sent);
        let patience = if arrives(class) { LATE } else { SOON };
        let is_there = receiver.next(patience).unwrap().is_some();
        assert_eq!(is_there, arrives(class), "{mode:?}: {name} arrives");
    }
    assert_eq!(
        receiver.count(LATE).unwrap(),
        0,
        "no frame arrives late or twice"
    );
    let shown = lab.near.received().unwrap();
    assert_eq!(shown.packets - before.packets, sent.packets);
    let bytes = shown.bytes - before.bytes + uncounted_bytes(mode) * sent.packets;
    assert_eq!(bytes, sent.bytes, "{mode:?}");
}

/// The bytes of each packet that the interface does not count: the queue of a veth in native mode
/// counts packets after the Ethernet header was removed (`veth_xdp_rcv`). Network cards count it,
/// as veth does in generic mode.
fn uncounted_bytes(mode: XdpMode) -> u64 {
    if mode == XdpMode::Driver {
        ETHERNET_BYTES as u64
    } else {
        0
    }
}

fn attached(lab: &Lab, mode: XdpMode, scene: &Scene) -> Program {
    let constants = Constants {
        clock: clock::KERNEL,
        entry_point: layout::PROGRAM_FRAGS,
        ..Constants::default()
    };
    let mut program = Program::load(&constants).expect("the program loads");
    scene.set_up(&mut program).unwrap();
    lab.near
        .enter(|| program.xdp_mut().attach(INTERFACE, mode))
        .expect("the program can be attached");
    program
}

/// Returns the counters so far.
fn total(program: &Program) -> Counter {
    let counters = program.counters().unwrap();
    counters
        .iter()
        .fold(Counter::default(), |sum, (_, counter)| Counter {
            packets: sum.packets + counter.packets,
            bytes: sum.bytes + counter.bytes,
        })
}
