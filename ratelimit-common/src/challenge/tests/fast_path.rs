//! Quick decisions.

use core::num::NonZeroU32;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const MILLISECOND: u64 = SECOND / 1_000;

#[test]
fn a_syn_of_a_known_source_is_not_counted_until_connections_are_challenged_no_more() {
    let world = World::new(Some(3), 1_000);
    let verify = |lasts_ns| {
        let until = Instant::from_nanos(START + lasts_ns);
        world.verify(&SOURCE, Verified::here(until));
    };
    let passes = |after_ns| {
        let now = Instant::from_nanos(START + after_ns);
        world.passes(Traffic::Connections, &SOURCE, now)
    };
    let other = Ipv4::new([192, 0, 2, 2]);
    let answers = [0; 4].map(|_| world.judge(other, SYN, 7, START));
    assert_eq!(answers[2..], [Effect::Unasked, Effect::Challenged]);
    verify(60 * SECOND);
    assert!(!passes(0), "nobody has looked for it");
    for (at_ns, until_ns) in [(0, SECOND), (HOLD_NS - 2, HOLD_NS)] {
        assert_eq!(world.judge(SOURCE, SYN, 7, START + at_ns), Effect::Unasked);
        assert!(passes(at_ns) && passes(until_ns - 1) && !passes(until_ns));
    }
}

#[test]
fn a_query_of_a_known_source_is_not_counted_until_queries_are_challenged_no_more() {
    let over = NonZeroU32::new(3).unwrap();
    let world = querying_at([53, 0], Trigger::Never, Trigger::Over(over));
    let packet = packet(SOURCE, 17, &[0xc0, 1, 0, 53, 0, 8, 0, 0]);
    let frame = Cursor::new(&packet);
    let judge = |at_ns| {
        let now = Instant::from_nanos(at_ns);
        world.is_unchallenged(SOURCE, frame, now)
    };
    let passes = |at_ns| world.passes(Traffic::Queries, &SOURCE, Instant::from_nanos(at_ns));
    let answers = [0; 4].map(|_| world.ask(53, true, START));
    assert_eq!(answers[2..], [Effect::Unasked, Effect::Challenged]);
    world.verify(&SOURCE, Verified::here(Instant::from_nanos(2 * START)));
    for (at_ns, until_ns) in [(0, SECOND), (HOLD_NS - 2, HOLD_NS)] {
        let (at_ns, until_ns) = (START + at_ns, START + until_ns);
        assert!(!judge(at_ns), "nobody has looked for it");
        assert_eq!(world.ask(53, true, at_ns), Effect::Unasked);
        assert!(judge(at_ns));
        assert!(passes(at_ns) && passes(until_ns - 1) && !passes(until_ns));
    }
}

#[test]
fn a_syn_to_the_port_of_queries_is_judged_as_soon_as_these_are_challenged() {
    let [many, few] = [1_000, 3].map(|over| Trigger::Over(NonZeroU32::new(over).unwrap()));
    let world = querying_at([53, 0], many, few);
    let packet = packet(SOURCE, 6, &tcp_to(53, SYN, 7));
    let (frame, now) = (Cursor::new(&packet), Instant::from_nanos(START));
    let quick = || world.is_unchallenged(SOURCE, frame, now);
    assert!(!quick());
    assert_eq!(world.judge_at_length(SOURCE, frame, now), Effect::Unasked);
    assert!(quick());
    let answers = [0; 4].map(|_| world.ask(53, true, START));
    assert_eq!(answers[2..], [Effect::Unasked, Effect::Challenged]);
    assert!(!quick());
    assert_eq!(
        world.judge_at_length(SOURCE, frame, now),
        Effect::Challenged
    );
}

#[test]
fn queries_are_judged_as_soon_as_it_matters_who_sends_them() {
    let [few, many] = [1, 300].map(|over| Trigger::Over(NonZeroU32::new(over).unwrap()));
    let world = querying_at([53, 0], few, many);
    let world = world.by(|rules| rules.preferring_verified(true));
    let packet = packet(SOURCE, 17, &[0xc0, 1, 0, 53, 0, 8, 0, 0]);
    let (frame, now) = (Cursor::new(&packet), Instant::from_nanos(START));
    let quick = || world.is_unchallenged(SOURCE, frame, now);
    assert!(!quick());
    assert_eq!(world.ask(53, true, START), Effect::Unasked);
    assert!(quick());
    let other = Ipv4::new([192, 0, 2, 2]);
    let answers = [0; 2].map(|_| world.judge(other, SYN, 7, START));
    assert_eq!(answers, [Effect::Unasked, Effect::Challenged]);
    assert!(!quick());
    assert_eq!(world.ask(53, true, START), Effect::Unverified);
    assert!(!quick());
}

#[test]
fn while_queries_are_challenged_syns_to_other_ports_are_counted_whoever_connects_to_those() {
    let [many, few] = [12_800, 3].map(|over| Trigger::Over(NonZeroU32::new(over).unwrap()));
    let world = querying_at([53, 0], many, few);
    let now = Instant::from_nanos(START);
    let judge = |source, port| {
        let packet = packet(source, 6, &tcp_to(port, SYN, 7));
        let frame = Cursor::new(&packet);
        let is_unchallenged = world.is_unchallenged(source, frame, now);
        if !is_unchallenged {
            world.judge_at_length(source, frame, now);
        }
        is_unchallenged
    };
    let answers = [0; 4].map(|_| world.ask(53, true, START));
    assert_eq!(answers[3], Effect::Challenged);
    let [verified, other] = [3, 2].map(|host| Ipv4::new([192, 0, 2, host]));
    world.verify(&verified, Verified::here(Instant::from_nanos(2 * START)));
    assert!(!judge(other, 80));
    for port in [53, 80, 80] {
        assert_eq!(judge(verified, port), port == 80, "{port}");
        assert!(judge(other, 80));
    }
}

#[test]
fn a_cpu_that_knows_that_no_source_is_challenged_looks_again_after_a_millisecond() {
    let world = World::new(Some(3), 1_000);
    let world = world.by(|rules| rules.preferring_verified(true));
    let packet = packet(SOURCE, 6, &tcp(ACK, 7));
    let frame = Cursor::new(&packet);
    let judge = |after_ns| {
        let now = Instant::from_nanos(START + after_ns);
        let is_unchallenged = world.is_unchallenged(SOURCE, frame, now);
        if !is_unchallenged {
            world.judge_at_length(SOURCE, frame, now);
        }
        is_unchallenged
    };
    assert!(!judge(0), "nobody has looked");
    assert!(judge(0));
    // Another CPU turns the challenge on.
    let ends = Instant::from_nanos(START + SECOND);
    world.set_until(Traffic::Connections, ends);
    assert!(judge(MILLISECOND - 1));
    assert!(!judge(MILLISECOND));
    // A source known as verified is not looked up.
    world.verify(&SOURCE, Verified::here(ends));
    assert!(world.is_verified(&SOURCE, Instant::from_nanos(START)));
    assert!(judge(MILLISECOND));
}

#[test]
fn a_cpu_that_finds_that_another_one_challenges_takes_the_proof_at_once() {
    let world = World::new(Some(3), 1_000);
    let world = world.by(|rules| rules.asking_listeners(true));
    let judge = |flags| {
        let packet = packet(SOURCE, 6, &tcp(flags, TAKEN));
        let (frame, now) = (Cursor::new(&packet), Instant::from_nanos(START));
        if world.is_unchallenged(SOURCE, frame, now) {
            return Effect::Unasked;
        }
        world.judge_at_length(SOURCE, frame, now)
    };
    assert_eq!(judge(ACK), Effect::Unasked);
    world.set_until(Traffic::Connections, Instant::from_nanos(START + SECOND));
    assert_eq!(judge(ACK), Effect::Unasked, "it does not know");
    assert_eq!(judge(SYN), Effect::Challenged);
    assert_eq!(judge(ACK), Effect::Verified);
}

#[test]
fn of_segments_that_are_spared_none_opens_a_connection_or_may_prove_something() {
    let world = querying_at([53, 0], Trigger::Always, Trigger::Always);
    let now = Instant::from_nanos(START);
    for flags in 0..=u8::MAX {
        let packet = packet(SOURCE, 6, &tcp(flags, 7));
        let frame = Cursor::new(&packet);
        let is_asked = flags & (SYN | ACK | RST | FIN) == SYN || flags & RST != 0;
        assert_eq!(
            !world.is_unchallenged(SOURCE, frame, now),
            is_asked,
            "{flags:#x}"
        );
    }
}

#[test]
fn the_settings_say_which_packets_have_nothing_asked_of_them() {
    let (none, some) = (Targets::default(), |port| {
        let to = Ipv4::new([198, 51, 100, 7]);
        let targets = Targets::default().with(to, Ipv4::new([255; 4])).unwrap();
        targets.at_ports([port, 0, 0, 0, 0, 0, 0, 0])
    });
    let of = |ports, queries| querying_at(ports, Trigger::Always, queries).rules.unwrap();
    let connections = of([53, 5353], Trigger::Never);
    let [dns, all] = [[53, 0], [53, 5353]].map(|ports| of(ports, Trigger::Always));
    let at_port = none.at_ports([443, 0, 0, 0, 0, 0, 0, 0]);
    for (rules, expected) in [
        (connections, ["acknowledgements", "all but tcp"].as_slice()),
        (connections.asking_listeners(true), &["all but tcp"]),
        (
            connections.of_targets(at_port),
            &["targets", "acknowledgements", "all but tcp"],
        ),
        (
            connections.of_targets(some(0)),
            &["targets", "acknowledgements", "all but tcp"],
        ),
        (
            dns.of_targets(some(443)),
            &["targets", "acknowledgements", "all but tcp and dns"],
        ),
        (all, &["acknowledgements"]),
        (
            querying_at([53, 0], Trigger::Never, Trigger::Always)
                .rules
                .unwrap()
                .of_targets(none),
            &["targets", "acknowledgements", "all but tcp and dns"],
        ),
        (
            all.preferring_verified(true),
            &["acknowledgements", "prefers"],
        ),
    ] {
        let settings = rules.with_challenge_flags(Settings::default());
        let told = [
            (settings.has_challenge_targets(), "targets"),
            (settings.spares_acknowledgements(), "acknowledgements"),
            (settings.challenges_only_tcp(), "all but tcp"),
            (
                settings.challenges_only_tcp_and_dns(),
                "all but tcp and dns",
            ),
            (settings.prefers_verified(), "prefers"),
        ];
        let told = told.into_iter().filter(|(is_told, _)| *is_told);
        let told: Vec<_> = told.map(|(_, what)| what).collect();
        assert_eq!(told, expected, "{rules:?}");
    }
}

proptest! {
    /// A quick decision equals the full one, and takes as much from shared budgets. Only while
    /// challenges are paused, it may take from the CPU's drawn share where the full decision
    /// takes nothing.
    #[test]
    fn a_packet_is_judged_quickly_as_it_would_be_at_length(
        when in prop::array::uniform2(prop_oneof![
            Just(Trigger::Never), Just(Trigger::Always), prop_oneof![1u32..9, 300u32..400].prop_map(
                |over| Trigger::Over(NonZeroU32::new(over).unwrap())
            ),
        ]),
        other_port in prop_oneof![Just(0), Just(5353)],
        only_port in prop::option::of(prop_oneof![Just(80), Just(443)]),
        only_to in prop::option::of(prop_oneof![Just([198, 51, 100, 7]), Just([203, 0, 113, 7])]),
        [asks_listeners, prefers_verified, of_class]: [bool; 3],
        steps in prop::collection::vec(
            (
                0..PACKETS.len(), prop::sample::select(&PARTS), 0u8..4,
                prop::sample::select(&GAPS_NS),
            ), 1..60,
        ),
    ) {
        let worlds = [0; 2].map(|_| {
            let world = querying_at([53, other_port], when[0], when[1]);
            // A class of no packet.
            let classes = if of_class { ClassSet::from_bits(1) } else { ClassSet::ALL };
            let at_port = only_port.map_or_else(Targets::default, |port| {
                Targets::default().at_ports([port, 0, 0, 0, 0, 0, 0, 0])
            });
            let targets = only_to.map_or(at_port, |to| {
                at_port.with(Ipv4::new(to), Ipv4::new([255; 4])).unwrap()
            });
            world.by(|rules| {
                let rules = rules
                    .asking_listeners(asks_listeners)
                    .preferring_verified(prefers_verified);
                rules.of_targets(targets).of_classes(classes, false)
            })
        });
        let mut at_ns = START;
        for (kind, part, source, gap) in steps {
            at_ns += gap;
            let source = Ipv4::new([192, 0, 2, source]);
            let (protocol, header) = PACKETS[kind];
            let mut packet = packet(source, protocol, &header());
            packet[6..8].copy_from_slice(&part);
            let frame = Cursor::new(&packet);
            let now = Instant::from_nanos(at_ns);
            let [quick, whole] = &worlds;
            let answer = if quick.is_unchallenged(source, frame, now) {
                Effect::Unasked
            } else {
                quick.judge_at_length(source, frame, now)
            };
            prop_assert_eq!(answer, whole.judge_at_length(source, frame, now));
            prop_assert_eq!(quick.left(), whole.left());
        }
    }
}

/// The time until the next packet.
const GAPS_NS: [u64; 5] = [0, 0, MILLISECOND - 1, MILLISECOND, SECOND / 2];

/// The flags and the offset of packets: complete ones, a first fragment, and a later one.
const PARTS: [[u8; 2]; 4] = [[0, 0], [0x40, 0], [0x20, 0], [0, 1]];

/// A protocol, and the bytes behind the addresses.
type Packet = (u8, fn() -> Vec<u8>);

const PACKETS: [Packet; 12] = [
    (6, || tcp(SYN, 7)),
    (6, || tcp_to(53, SYN, 7)),
    (6, || tcp(ACK, TAKEN)),
    (6, || tcp(RST, 7)),
    (6, || tcp(SYN | ACK, 7)),
    (6, || tcp(FIN | ACK, TAKEN)),
    (6, || std::vec![0xc0, 1, 0, 80, 0, 0, 0, 0]),
    (17, || std::vec![0xc0, 1, 0, 53, 0, 8, 0, 0]),
    (17, || std::vec![0xc0, 1, 0x14, 0xe9, 0, 8, 0, 0]),
    (17, || std::vec![0xc0, 1, 0, 80, 0, 8, 0, 0]),
    (17, || std::vec![0xc0, 1, 0]),
    (1, || std::vec![8, 0, 0, 0]),
];
