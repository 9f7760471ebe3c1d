//! A limit is a limit on any number of CPUs: not a packet more, not a packet less.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_common::{
    Family, Limit, Record, SourceKey, Unit,
    algorithm::{SlidingWindow, TokenBucket},
    layout,
};
use ratelimit_daemon::clock;
use ratelimit_tests::{
    Frame, Program, Scene,
    cpu::{self, Meeting},
    program::{Action, CONFORMING, Constants, has_records},
    require_cpus, require_root,
    scene::limit,
};

/// Most of the sources are new when both CPUs see them.
#[test]
fn two_cpus_are_admitted_exactly_what_a_limit_holds() {
    require_root!();
    require_cpus!(2);
    let month = Duration::from_hours(31 * 24);
    // No token flows in while the test runs.
    let bucket = TokenBucket::new(1, month, 100).unwrap();
    let sliding = SlidingWindow::new(100, WINDOW).unwrap();
    for (limit, sources, amount) in [
        (limit(1, Unit::Packets, WINDOW), 10_000, 1),
        (limit(3, Unit::Packets, WINDOW), 10_000, 3),
        (limit(100, Unit::Packets, WINDOW), 400, 100),
        (Limit::new(sliding, Unit::Packets), 400, 100),
        (Limit::new(bucket, Unit::Packets), 400, 100),
    ] {
        let program = program(&[limit], ROOM);
        for frame in [ipv4_frame, ipv6_frame] {
            let admitted = race(&program, sources, amount, |_, source| frame(source, 60));
            let wrong = admitted.iter().find(|sum| sum.packets != amount as u64);
            assert!(wrong.is_none(), "{limit:?}: {wrong:?}");
        }
        is_every_packet_counted(&program, (2 * sources * 2 * amount) as u64);
    }
}

#[test]
fn two_cpus_take_each_token_that_flows_in_and_no_other() {
    const PACKETS: u32 = 1_000_000;
    const RATE: u64 = 100_000;
    require_root!();
    if !has_records() {
        return;
    }
    require_cpus!(2);
    let second = Duration::from_secs(1);
    // Filled in ten minutes, and empty at the start: it is never full.
    let bucket = TokenBucket::new(RATE, second, 600 * RATE).unwrap();
    let mut program = program(&[Limit::new(bucket, Unit::Packets)], ROOM);
    let frame = ipv4_frame(1, 60);
    let key = SourceKey::new(Ipv4Addr::from(0x0a00_0001).into(), 0);
    let start = clock::now();
    let empty = bucket.step(0, start, 600 * RATE).unwrap();
    let mut record = Record::default();
    record.words[0] = empty;
    program.ipv4.set_record(&key, &record).unwrap();

    cpu::on_two(|_| program.run_often(&frame, PACKETS).unwrap());

    let elapsed_ns = clock::now().as_nanos() - start.as_nanos();
    let admitted = program.counter(Family::Ipv4, CONFORMING).unwrap().packets;
    let most = elapsed_ns * RATE / 1_000_000_000;
    assert!(admitted <= most, "{admitted} of {most}");
    let (_, record) = program.ipv4.records().unwrap()[0];
    // The same rate in a bucket that has room for all of them: the words mean the same.
    let larger = TokenBucket::new(RATE, second, 900 * RATE).unwrap();
    let charged = larger.step(empty, start, admitted).unwrap();
    assert_eq!(record.words[0], charged, "{admitted} were admitted");
    // Every token was taken: at the time of a packet that was refused there was none.
    let (_, refusals) = program.ipv4.refusals().unwrap()[0];
    let refused_at = ratelimit_common::Instant::from_nanos(refusals.last_ns);
    assert_eq!(bucket.used(record.words[0], refused_at), 600 * RATE);
    is_every_packet_counted(&program, 2 * u64::from(PACKETS));
}

#[test]
fn two_cpus_in_the_kernels_own_loop_are_admitted_exactly_the_limit() {
    const AMOUNT: u32 = 200_000;
    require_root!();
    require_cpus!(2);
    let program = program(&[limit(AMOUNT.into(), Unit::Packets, WINDOW)], ROOM);
    for round in 1..=5 {
        let frame = ipv4_frame(round, 60);
        cpu::on_two(|_| {
            program.run_often(&frame, AMOUNT).unwrap();
        });
        let conforming = program.counter(Family::Ipv4, CONFORMING).unwrap().packets;
        assert_eq!(conforming, u64::from(AMOUNT) * round as u64);
    }
    is_every_packet_counted(&program, u64::from(AMOUNT) * 10);
}

#[test]
fn a_limit_of_bytes_is_used_up_to_the_last_packet_that_fits() {
    const AMOUNT: u64 = 40_000;
    require_root!();
    require_cpus!(2);
    let program = program(&[limit(AMOUNT, Unit::Bytes, WINDOW)], ROOM);
    let sizes = [100, 700];
    let admitted = race(&program, 200, 400, |cpu, source| {
        ipv4_frame(source, sizes[cpu])
    });
    for sum in admitted {
        assert!((AMOUNT - 99..=AMOUNT).contains(&sum.bytes), "{sum:?}");
    }
}

#[test]
fn of_several_limits_none_is_exceeded_and_at_most_a_packet_a_cpu_is_lost() {
    require_root!();
    require_cpus!(2);
    let limits = [
        limit(62, Unit::Packets, WINDOW),
        limit(6_000, Unit::Bytes, WINDOW),
        limit(61, Unit::Packets, 2 * WINDOW),
        limit(60, Unit::Packets, 3 * WINDOW),
    ];
    let program = program(&limits, ROOM);
    let admitted = race(&program, 2_000, 50, |_, source| ipv4_frame(source, 100));
    for sum in &admitted {
        assert!((58..=60).contains(&sum.packets), "{sum:?}");
    }
}

#[test]
fn every_refusal_is_counted() {
    const ROUNDS: usize = 2_000;
    require_root!();
    require_cpus!(2);
    let program = program(&[limit(3, Unit::Packets, WINDOW)], ROOM);
    race(&program, ROUNDS, 5, |_, source| ipv4_frame(source, 60));
    let refused = program.ipv4.refusals().unwrap();
    assert_eq!(refused.len(), ROUNDS);
    assert!(refused.iter().all(|(_, refusals)| refusals.packets == 7));
}

#[test]
fn more_sources_than_have_room_are_judged_and_counted_all_the_same() {
    const ROUNDS: usize = 20_000;
    require_root!();
    if !has_records() {
        return;
    }
    require_cpus!(2);
    let program = program(&[limit(3, Unit::Packets, WINDOW)], 1_024);
    race(&program, ROUNDS, 3, |_, source| ipv6_frame(source, 60));
    is_every_packet_counted(&program, 6 * ROUNDS as u64);
    let conforming = program.counter(Family::Ipv6, CONFORMING).unwrap().packets;
    assert!(conforming >= ROUNDS as u64, "{conforming}");
    assert!(program.ipv6.records().unwrap().len() <= 1_024);
}

/// Longer than any race takes.
const WINDOW: Duration = Duration::from_mins(1);
/// More than the sources of any race.
const ROOM: u32 = 1 << 17;

/// The packets admitted from one source.
#[derive(Clone, Copy, Debug, Default)]
struct Admitted {
    packets: u64,
    bytes: u64,
}

/// A program on the kernel's clock, under which every source has these limits.
fn program(limits: &[Limit], sources: u32) -> Program {
    let constants = Constants {
        clock: layout::clock::KERNEL,
        sources,
        ..Constants::default()
    };
    let mut program = Program::load(&constants).expect("the program loads");
    Scene::limited(limits).set_up(&mut program).unwrap();
    program
}

/// Two CPUs send `packets` packets each of every one of `sources` sources, of each source at the
/// same time.
fn race(
    program: &Program,
    sources: usize,
    packets: usize,
    frame: impl Fn(usize, usize) -> Vec<u8> + Sync,
) -> Vec<Admitted> {
    let starting = Meeting::default();
    let [mut left, right] = cpu::on_two(|cpu| {
        (0..sources)
            .map(|source| {
                let frame = frame(cpu, source);
                starting.meet(source);
                let passed = (0..packets)
                    .filter(|_| program.run(&frame).unwrap() == Action::Pass)
                    .count() as u64;
                Admitted {
                    packets: passed,
                    bytes: passed * frame.len() as u64,
                }
            })
            .collect::<Vec<_>>()
    });
    for (sum, other) in left.iter_mut().zip(right) {
        sum.packets += other.packets;
        sum.bytes += other.bytes;
    }
    left
}

fn is_every_packet_counted(program: &Program, sent: u64) {
    let counters = program.counters().unwrap();
    let counted: u64 = counters.iter().map(|(_, counter)| counter.packets).sum();
    assert_eq!(counted, sent, "{counters:?}");
}

fn ipv4_frame(source: usize, bytes: usize) -> Vec<u8> {
    let source = u32::try_from(source).unwrap();
    let address = Ipv4Addr::from(0x0a00_0000 + source);
    Frame::ethernet()
        .ipv4(address)
        .udp(53)
        .pad_to(bytes)
        .build()
}

fn ipv6_frame(source: usize, bytes: usize) -> Vec<u8> {
    let address = Ipv6Addr::from((0x2001_0db8 << 96) + ((source as u128) << 64) + 1);
    Frame::ethernet()
        .ipv6(address)
        .udp(53)
        .pad_to(bytes)
        .build()
}
