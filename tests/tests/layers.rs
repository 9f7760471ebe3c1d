//! Limits of classes, of the wider prefixes around a source, and of the node: in the kernel, and on
//! the host.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_common::{
    ClassSet, DropReason, Family, Instant, Limit, Policy, Settings, Unit, Verdict,
    aggregate::{Aggregate, Aggregates},
    algorithm::{Algorithm, FixedWindow, SlidingWindow, TokenBucket},
    class::Property,
    node::{self, Share},
    parse::transport::Kind,
};
use ratelimit_core::class_tables::ClassTables;
use ratelimit_tests::{
    Frame, Program, Scene, cpu,
    pool::Pooled,
    program::{Action, CONFORMING, Constants, LIMITED},
    require_cpus, require_root,
    scene::{Judge, limit, of_kind},
};

const SECOND: Duration = Duration::from_secs(1);
const AGGREGATE_LIMITED: Verdict = Verdict::Drop(DropReason::AggregateLimited);
const NODE_LIMITED: Verdict = Verdict::Drop(DropReason::NodeLimited);
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

#[test]
fn a_limit_of_a_class_counts_its_packets_alone() {
    let class = ClassSet::one(0).unwrap();
    let mut classes = ClassTables::default();
    classes.add(class, of_kind(Kind::is_syn));
    let scene = Scene {
        settings: Settings::new(0, false).with_classes(),
        policies: vec![policy(&[packets(3), packets(1).for_classes(class)])],
        classes,
        ..Scene::default()
    };
    let [syn, ack] = [SYN, ACK].map(|flags| Frame::ethernet().ipv4(source(1)).tcp(443, flags));
    each_judge(&scene, |judge| {
        check(judge, &syn, CONFORMING);
        check(judge, &syn, LIMITED);
        check(judge, &ack, CONFORMING);
        check(judge, &ack, CONFORMING);
        check(judge, &ack, LIMITED);
    });
}

#[test]
fn a_source_is_unlimited_for_packets_that_no_limit_counts() {
    let nothing = ClassSet::one(0).unwrap();
    let mut classes = ClassTables::default();
    classes.add(nothing, |_, _| false);
    let scene = Scene {
        settings: Settings::new(0, false).with_classes(),
        policies: vec![policy(&[packets(1).for_classes(nothing)])],
        classes,
        ..Scene::default()
    };
    let frame = Frame::ethernet().ipv4(source(1)).udp(53);
    each_judge(&scene, |judge| {
        for _ in 0..3 {
            let unlimited = Verdict::Pass(ratelimit_common::PassReason::Unlimited);
            check(judge, &frame, unlimited);
        }
    });
}

#[test]
fn what_belongs_to_none_of_its_classes_is_of_the_others() {
    let dns = ClassSet::one(0).unwrap();
    let mut classes = ClassTables::default();
    let is_udp = of_kind(|kind| kind.protocol() == 17);
    classes.add(dns, |property, value| match property {
        Property::DestinationPort => value == 53,
        _ => is_udp(property, value),
    });
    let scene = Scene {
        settings: Settings::new(0, false).with_classes(),
        policies: vec![policy(&[
            packets(2).for_classes(dns),
            packets(1).for_classes(dns.none_of()),
        ])],
        classes,
        ..Scene::default()
    };
    let [dns, web] = [53, 443].map(|port| Frame::ethernet().ipv6(source_v6(0, 1)).udp(port));
    each_judge(&scene, |judge| {
        check(judge, &web, CONFORMING);
        check(judge, &web, LIMITED);
        check(judge, &dns, CONFORMING);
        check(judge, &dns, CONFORMING);
        check(judge, &dns, LIMITED);
    });
}

#[test]
fn a_flood_that_rotates_inside_a_subnet_is_limited_as_one() {
    let scene = Scene {
        settings: Settings::new(0, false).with_aggregates(),
        policies: vec![
            policy(&[packets(100)]),
            scoped(&[packets(5)], 1),
            scoped(&[packets(7)], 2),
        ],
        aggregates: [aggregates(&[(24, 1)]), aggregates(&[(56, 1), (48, 2)])],
        ..Scene::default()
    };
    each_judge(&scene, |judge| {
        for last in 0..20 {
            let frame = Frame::ethernet().ipv4(source(last)).udp(53);
            let expected = if last < 5 {
                CONFORMING
            } else {
                AGGREGATE_LIMITED
            };
            check(judge, &frame, expected);
        }
        let beside = Frame::ethernet()
            .ipv4(Ipv4Addr::new(203, 0, 114, 1))
            .udp(53);
        check(judge, &beside, CONFORMING);
        // Five /64s of one /56, then two more of the /48 around it.
        for last in 0..20 {
            let frame = Frame::ethernet().ipv6(source_v6(0, last)).udp(53);
            let expected = if last < 5 {
                CONFORMING
            } else {
                AGGREGATE_LIMITED
            };
            check(judge, &frame, expected);
        }
        for last in 0..4 {
            let frame = Frame::ethernet().ipv6(source_v6(1, last)).udp(53);
            let expected = if last < 2 {
                CONFORMING
            } else {
                AGGREGATE_LIMITED
            };
            check(judge, &frame, expected);
        }
    });
}

#[test]
fn a_packet_that_a_wider_limit_refuses_is_charged_to_none() {
    let scene = Scene {
        settings: Settings::new(0, false).with_aggregates().with_node(2),
        policies: vec![
            policy(&[packets(4)]),
            scoped(&[packets(3)], 1),
            scoped(&[packets(2)], 2),
        ],
        aggregates: [aggregates(&[(24, 1)]), Aggregates::default()],
        ..Scene::default()
    };
    let frame = Frame::ethernet().ipv4(source(1)).udp(53);
    each_judge(&scene, |judge| {
        check_at(judge, &frame, 0, CONFORMING);
        check_at(judge, &frame, 1, CONFORMING);
        for _ in 0..10 {
            check_at(judge, &frame, 2, NODE_LIMITED);
        }
    });
    // The node alone has a new window: of the four and the three that the others admit, two are
    // used.
    let longer = Scene {
        policies: vec![
            policy(&[limit(4, Unit::Packets, 10 * SECOND)]),
            scoped(&[limit(3, Unit::Packets, 10 * SECOND)], 1),
            scoped(&[packets(2)], 2),
        ],
        ..scene
    };
    each_judge(&longer, |judge| {
        for (at, expected) in [
            (0, CONFORMING),
            (0, CONFORMING),
            (0, NODE_LIMITED),
            (1_000_000_000, CONFORMING),
            (1_000_000_000, AGGREGATE_LIMITED),
            (1_000_000_000, AGGREGATE_LIMITED),
            (2_000_000_000, AGGREGATE_LIMITED),
        ] {
            check_at(judge, &frame, at, expected);
        }
    });
}

#[test]
fn a_dry_run_of_a_prefix_is_reported_and_the_node_still_refuses() {
    let observed = Verdict::Observe(DropReason::AggregateLimited);
    let scene = Scene {
        settings: Settings::new(0, false).with_aggregates().with_node(2),
        policies: vec![
            policy(&[packets(100)]),
            Policy::new(&[packets(1)], 1, true).unwrap(),
            scoped(&[packets(3)], 2),
        ],
        aggregates: [aggregates(&[(24, 1)]), Aggregates::default()],
        ..Scene::default()
    };
    let frame = Frame::ethernet().ipv4(source(1)).udp(53);
    each_judge(&scene, |judge| {
        for expected in [CONFORMING, observed, observed, NODE_LIMITED] {
            check(judge, &frame, expected);
        }
    });
}

#[test]
fn a_packet_that_a_dry_run_would_refuse_is_charged_to_none_of_its_limits() {
    let class = ClassSet::one(0).unwrap();
    let mut classes = ClassTables::default();
    classes.add(class, of_kind(Kind::is_syn));
    let limits = [packets(10), packets(1).for_classes(class)];
    let frames = [SYN, ACK].map(|flags| Frame::ethernet().ipv4(source(1)).tcp(443, flags));
    for observe in [false, true] {
        let node = Policy::new(&limits, 1, observe).unwrap();
        let scene = Scene {
            settings: Settings::new(0, false).with_classes().with_node(1),
            policies: vec![policy(&[]), node.in_shares(node::share_shift(2))],
            classes: classes.clone(),
            ..Scene::default()
        };
        let refused = if observe {
            NODE_LIMITED.observed()
        } else {
            NODE_LIMITED
        };
        each_judge(&scene, |judge| {
            let [syn, ack] = &frames;
            check(judge, syn, CONFORMING);
            for _ in 1..10 {
                check(judge, syn, refused);
            }
            for _ in 0..9 {
                check(judge, ack, CONFORMING);
            }
            check(judge, ack, refused);
        });
    }
}

/// One layer, of a source, a prefix or the node, is full; the others have room.
#[test]
fn a_dry_run_would_drop_what_is_dropped_when_it_is_enforced() {
    let mut drops = 0;
    for seed in 0..if cfg!(debug_assertions) { 60 } else { 2_000 } {
        let mut rng = fastrand::Rng::with_seed(seed);
        let limits: Vec<Limit> = (0..rng.usize(1..=4))
            .map(|_| random_limit(&mut rng))
            .collect();
        let layer = rng.usize(..3);
        let scene = |observe| {
            let scoped = |index: usize| {
                let roomy = [packets(1 << 20)];
                let (limits, observe) = if index == layer {
                    (&limits[..], observe)
                } else {
                    (&roomy[..], false)
                };
                Policy::new(limits, u32::try_from(index).unwrap(), observe).unwrap()
            };
            Scene {
                settings: Settings::new(0, false)
                    .with_classes()
                    .with_aggregates()
                    .with_node(2),
                policies: vec![
                    scoped(0),
                    scoped(1).for_prefixes(),
                    scoped(2).in_shares(node::share_shift(2)),
                ],
                classes: classes_of_flags(),
                aggregates: [aggregates(&[(24, 1)]), Aggregates::default()],
                ..Scene::default()
            }
        };
        let constants = Constants::default();
        let mut judges = [false, true].map(|observe| scene(observe).in_memory(&constants));
        let mut now_ns = rng.u64(..1 << 50);
        for _ in 0..200 {
            let bits = rng.u8(1..30);
            now_ns += rng.u64(..1 << bits);
            let frame = Frame::ethernet().ipv4(source(rng.u8(..4)));
            let frame = frame.tcp(443, *rng.choice(&[SYN, ACK]).unwrap());
            let frame = frame.pad_to(rng.usize(60..1_500)).build();
            let [enforced, observed] = judges
                .each_mut()
                .map(|judge| judge.judge(&frame, Instant::from_nanos(now_ns)));
            assert_eq!(enforced.observed(), observed, "seed {seed}, layer {layer}");
            drops += u64::from(enforced != observed);
        }
    }
    assert!(drops > 1_000, "{drops}");
}

fn random_limit(rng: &mut fastrand::Rng) -> Limit {
    let (amount, unit) = if rng.bool() {
        (rng.u64(1..50), Unit::Packets)
    } else {
        (rng.u64(1_000..50_000), Unit::Bytes)
    };
    let algorithm: Algorithm = match rng.u8(..3) {
        0 => FixedWindow::new(amount, SECOND).unwrap().into(),
        1 => SlidingWindow::new(amount, SECOND).unwrap().into(),
        _ => TokenBucket::new(amount, SECOND, amount).unwrap().into(),
    };
    let limit = Limit::new(algorithm, unit);
    if rng.bool() {
        limit.for_classes(ClassSet::one(rng.usize(..2)).unwrap())
    } else {
        limit
    }
}

/// SYNs, and the others.
fn classes_of_flags() -> ClassTables {
    let mut classes = ClassTables::default();
    classes.add(ClassSet::one(0).unwrap(), of_kind(Kind::is_syn));
    let is_other = |kind: Kind| !kind.is_syn();
    classes.add(ClassSet::one(1).unwrap(), of_kind(is_other));
    classes
}

#[test]
fn neighbours_and_the_node_are_no_fault_of_a_source() {
    require_root!();
    let scene = Scene {
        settings: Settings::new(0, false).with_aggregates(),
        policies: vec![policy(&[packets(100)]), scoped(&[packets(1)], 1)],
        aggregates: [aggregates(&[(24, 1)]), Aggregates::default()],
        ..Scene::default()
    };
    let mut program = Program::load(&Constants::default()).unwrap();
    scene.set_up(&mut program).unwrap();
    let frame = Frame::ethernet().ipv4(source(1)).udp(53).build();
    program.run_often(&frame, 10).unwrap();
    assert_eq!(program.ipv4.refusals().unwrap(), []);
}

#[test]
fn an_allowed_source_meets_no_limit_at_all() {
    let allowed = ratelimit_common::ListEntry::new(true, None, None);
    let scene = Scene {
        settings: Settings::new(0, false).with_aggregates().with_node(1),
        policies: vec![policy(&[packets(1)]), scoped(&[packets(1)], 1)],
        aggregates: [aggregates(&[(24, 1)]), Aggregates::default()],
        ..Scene::default()
    }
    .with("203.0.113.1", allowed);
    let frame = Frame::ethernet().ipv4(source(1)).udp(53);
    each_judge(&scene, |judge| {
        for _ in 0..3 {
            check(
                judge,
                &frame,
                Verdict::Pass(ratelimit_common::PassReason::Allowed),
            );
        }
    });
}

#[test]
fn the_node_admits_its_limit_to_the_last_packet_on_one_cpu() {
    for amount in [1, 2, 100, 255, 256, 257, 1_000] {
        let scene = node_scene(amount, 2);
        each_judge(&scene, |judge| {
            for window in 0..3 {
                let at = window * 1_000_000_000;
                let frame = |n: u64| Frame::ethernet().ipv4(any_source(n)).udp(53);
                for n in 0..amount {
                    check_at(judge, &frame(n), at, CONFORMING);
                }
                check_at(judge, &frame(amount), at, NODE_LIMITED);
            }
        });
    }
}

/// The drawn share of a CPU is for all sources, whether the node has one limit or several.
#[test]
fn what_a_source_sends_over_its_limit_spends_nothing_of_the_node() {
    const AMOUNT: u64 = 2_560;
    const OF_SOURCE: u64 = 10;
    for limits in [1, 2] {
        let mut scene = node_scene(AMOUNT, 2);
        let shift = node::share_shift(2);
        scene.policies[0] = policy(&[packets(OF_SOURCE)]);
        scene.policies[1] = scoped(&vec![packets(AMOUNT); limits], 1).in_shares(shift);
        each_judge(&scene, |judge| {
            let frame = |n: u64| Frame::ethernet().ipv4(any_source(n / OF_SOURCE)).udp(53);
            for n in 0..AMOUNT {
                check(judge, &frame(n), CONFORMING);
                if n % 20 == 10 {
                    for _ in 0..AMOUNT >> shift {
                        check(judge, &frame(0), LIMITED);
                    }
                }
            }
            check(
                judge,
                &Frame::ethernet().ipv4(source(1)).udp(53),
                NODE_LIMITED,
            );
        });
    }
}

/// CPUs read their clocks some time before they reach the word, and with the coarse clock all
/// packets of a tick have one time.
#[test]
fn packets_from_before_the_window_opened_cost_the_node_no_shares() {
    const AMOUNT: u64 = 1_000;
    const OPENED_NS: u64 = 4_500;
    let scene = node_scene(AMOUNT, 2);
    each_judge(&scene, |judge| {
        let frame = |n: u64| Frame::ethernet().ipv4(any_source(n)).udp(53);
        check_at(judge, &frame(0), OPENED_NS, CONFORMING);
        for n in 1..AMOUNT {
            check_at(judge, &frame(n), 0, CONFORMING);
        }
        check_at(judge, &frame(AMOUNT), 0, NODE_LIMITED);
        check_at(judge, &frame(AMOUNT), OPENED_NS, NODE_LIMITED);
    });
}

#[test]
fn what_is_left_of_a_share_is_not_lost_to_a_frame_that_does_not_fit_into_it() {
    const FRAMES: u64 = 1_000;
    const BYTES: u64 = 1_000;
    let limits = [limit(FRAMES * BYTES, Unit::Bytes, SECOND)];
    let mut scene = node_scene(1, 2);
    // A share is 3,906 bytes: three frames, and most of a fourth.
    scene.policies[1] = scoped(&limits, 1).in_shares(node::share_shift(2));
    each_judge(&scene, |judge| {
        let frame = |n| Frame::ethernet().ipv4(any_source(n)).udp(53).pad_to(1_000);
        for n in 0..FRAMES {
            check(judge, &frame(n), CONFORMING);
        }
        check(judge, &frame(FRAMES), NODE_LIMITED);
    });
}

#[test]
fn two_cpus_are_admitted_no_more_than_the_node_and_hardly_less() {
    const AMOUNT: u64 = 200_000;
    require_root!();
    require_cpus!(2);
    let mut program = Program::load(&Constants::default()).unwrap();
    node_scene(AMOUNT, 2).set_up(&mut program).unwrap();
    program.set_clock(Instant::from_nanos(1 << 40)).unwrap();
    let frames = [1, 2].map(|last| Frame::ethernet().ipv4(source(last)).udp(53).build());
    let answers = std::thread::scope(|scope| {
        let run = |cpu: usize| {
            cpu::pin(cpu);
            program.run_often(&frames[cpu], 150_000).unwrap()
        };
        [scope.spawn(move || run(0)), scope.spawn(move || run(1))]
            .map(|thread| thread.join().unwrap())
    });
    assert!(answers.contains(&Action::Drop), "the limit was reached");
    let admitted = program.counter(Family::Ipv4, CONFORMING).unwrap().packets;
    let refused = program.counter(Family::Ipv4, NODE_LIMITED).unwrap().packets;
    let bound = AMOUNT / node::SHARES_PART;
    println!("{admitted} of {AMOUNT} admitted, {refused} refused");
    assert!(admitted <= AMOUNT, "{admitted}");
    assert!(admitted >= AMOUNT - bound, "{admitted}");
}

/// Two of them could spend the same share: in a real-time kernel each draws what it costs.
#[test]
fn packets_that_may_interrupt_each_other_keep_no_shares_of_the_node() {
    const AMOUNT: u64 = 200_000;
    require_root!();
    for (interruptible, drawn) in [(false, AMOUNT >> 8), (true, 3)] {
        let constants = Constants {
            interruptible,
            ..Constants::default()
        };
        let mut program = Program::load(&constants).unwrap();
        node_scene(AMOUNT, 2).set_up(&mut program).unwrap();
        let at = Instant::from_nanos(1 << 40);
        program.set_clock(at).unwrap();
        cpu::pin(0);
        let frame = Frame::ethernet().ipv4(source(1)).udp(53).build();
        for _ in 0..3 {
            assert_eq!(program.run(&frame).unwrap(), Action::Pass);
        }
        let word = program.totals().unwrap()[1].words[0];
        let used = packets(AMOUNT).algorithm().used(word, at);
        assert_eq!(used, drawn, "interruptible: {interruptible}");
        let shares = program.shares(1).unwrap();
        let is_kept = shares.iter().any(|shares| shares[0] != Share::default());
        assert_eq!(is_kept, !interruptible);
    }
}

/// A scene in which every source has room, and the node has a policy for this many CPUs.
fn node_scene(amount: u64, cpus: u32) -> Scene {
    Scene {
        settings: Settings::new(0, false).with_node(1),
        policies: vec![
            policy(&[packets(1 << 26)]),
            scoped(&[packets(amount)], 1).in_shares(node::share_shift(cpus)),
        ],
        ..Scene::default()
    }
}

fn packets(amount: u64) -> Limit {
    limit(amount, Unit::Packets, SECOND)
}

fn policy(limits: &[Limit]) -> Policy {
    scoped(limits, 0)
}

fn scoped(limits: &[Limit], scope: u32) -> Policy {
    Policy::new(limits, scope, false).expect("a policy has at most 8 limits")
}

fn aggregates(levels: &[(u8, u16)]) -> Aggregates {
    let level = |&(prefix, policy)| Aggregate { prefix, policy };
    let levels: Vec<Aggregate> = levels.iter().map(level).collect();
    Aggregates::new(&levels).expect("a family has at most two")
}

fn source(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, last)
}

fn any_source(n: u64) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 | u32::try_from(n % 1000).unwrap())
}

/// A /64 of one of two /56s of a /48.
fn source_v6(subnet: u16, last: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 7, subnet << 8 | u16::from(last), 0, 0, 0, 1)
}

/// Lets the kernel judge, where it can, and the host.
fn each_judge(scene: &Scene, packets: impl Fn(&mut dyn Judge)) {
    let constants = Constants::default();
    packets(&mut scene.in_memory(&constants));
    require_root!();
    cpu::pin(0);
    packets(&mut Pooled::with(&constants, scene).unwrap());
}

fn check(judge: &mut dyn Judge, frame: &Frame, expected: Verdict) {
    check_at(judge, frame, 0, expected);
}

fn check_at(judge: &mut dyn Judge, frame: &Frame, at_ns: u64, expected: Verdict) {
    let now = Instant::from_nanos((1 << 40) + at_ns);
    let verdict = judge.judge(&frame.clone().build(), now);
    assert_eq!(verdict, expected, "{} at {at_ns} ns", judge.name());
}
