//! Refusals are sampled: not every packet causes an event, and lost ones are counted.

use std::{net::Ipv4Addr, time::Duration};

use ratelimit_common::{
    Address, DropReason, Family, Instant, Ipv4, Unit,
    event::{DropEvent, INTERVAL_NS},
    layout::link_layer,
};
use ratelimit_tests::{
    Program, Scene, cpu,
    packet::datagram,
    program::{Constants, Events, LIMITED},
    require_root,
    scene::limit,
};

#[test]
fn a_cpu_sends_at_most_100_events_a_second() {
    const SECONDS: u64 = 3;
    require_root!();
    let (mut program, mut ring) = limited(&Constants::default());
    let refused = refuse(&mut program, SECONDS * 10_000, 100_000);
    let events = ring.drain().len() as u64;
    assert_eq!(refused, SECONDS * 10_000);
    assert_eq!(events, SECONDS * 100);
    assert_eq!(sent_and_lost(&program), (events, 0));
}

#[test]
fn an_event_says_who_was_refused_where_and_why() {
    require_root!();
    let constants = Constants {
        interface: 7,
        ..Constants::default()
    };
    let (mut program, mut ring) = limited(&constants);
    refuse(&mut program, 1, 0);
    let [event] = ring.drain()[..] else {
        panic!("one event");
    };
    assert_eq!(event.frame(), &datagram(SOURCE)[..event.frame().len()]);
    let expected = DropEvent {
        at_ns: START.as_nanos(),
        source: Ipv4::from(SOURCE).octets(),
        interface: 7,
        family: Family::Ipv4 as u8,
        reason: DropReason::Limited as u8,
        limit: 1,
        reserved: 0,
        frame_bytes: u32::try_from(datagram(SOURCE).len()).unwrap(),
        link_layer: link_layer::ETHERNET,
        front: event.front,
    };
    assert_eq!(event, expected);
}

#[test]
fn events_that_find_the_ring_full_are_counted() {
    const REFUSALS: u64 = 1_000;
    require_root!();
    let constants = Constants {
        events_bytes: 4_096,
        ..Constants::default()
    };
    let (mut program, mut ring) = limited(&constants);
    assert_eq!(refuse(&mut program, REFUSALS, INTERVAL_NS), REFUSALS);
    let sent = ring.drain().len() as u64;
    assert!((15..=4_096 / 168).contains(&sent), "{sent} events fit");
    assert_eq!(sent_and_lost(&program), (sent, REFUSALS - sent));
    program.set_clock(Instant::from_nanos(u64::MAX)).unwrap();
    program.run(&datagram(SOURCE)).unwrap();
    assert_eq!(ring.drain().len(), 1, "there is room again");
}

const SOURCE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const START: Instant = Instant::from_nanos(1 << 40);

/// A program whose second limit refuses everything, and its ring. Events are sampled by CPU: this
/// thread stays on one.
fn limited(constants: &Constants) -> (Program, Events) {
    cpu::pin(0);
    let mut program = Program::load(constants).expect("the program loads");
    let window = Duration::from_secs(1);
    let limits = [
        limit(1_000_000, Unit::Packets, window),
        limit(1, Unit::Bytes, window),
    ];
    Scene::limited(&limits).set_up(&mut program).unwrap();
    let ring = program.take_events().unwrap();
    (program, ring)
}

/// Sends packets at intervals; answers how many were refused.
fn refuse(program: &mut Program, packets: u64, interval_ns: u64) -> u64 {
    for packet in 0..packets {
        let now = START.as_nanos() + packet * interval_ns;
        program.set_clock(Instant::from_nanos(now)).unwrap();
        program.run(&datagram(SOURCE)).unwrap();
    }
    program.counter(Family::Ipv4, LIMITED).unwrap().packets
}

fn sent_and_lost(program: &Program) -> (u64, u64) {
    let samplers = program.samplers().unwrap();
    samplers.iter().fold((0, 0), |(sent, lost), sampler| {
        (sent + sampler.sent, lost + sampler.lost)
    })
}
