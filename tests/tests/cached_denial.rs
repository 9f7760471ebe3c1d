//! A source that its only limit has refused is refused by the word that was kept, as long as that
//! word has no room, and no longer.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_common::{
    DropReason, Instant, Limit, ListEntry, Policy, Record, SourceKey, Unit, Verdict,
    algorithm::{Algorithm, SlidingWindow, TokenBucket},
    refused::may_refuse,
};
use ratelimit_core::prefix::Prefix;
use ratelimit_tests::{
    Frame, Program, Scene, cpu,
    pool::Pooled,
    program::{CONFORMING, Constants, has_records},
    require_root,
    scene::{Judge, limit},
};

const LIMITED: Verdict = Verdict::Drop(DropReason::Limited);
const SOURCES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, 0)),
];
const SECOND: Duration = Duration::from_secs(1);
/// A time at which words that were kept may refuse.
const START: u64 = (1 << 40) + (1 << 12);
/// A time, a little later, at which they may not.
const ASKED: u64 = (1 << 40) + (1 << 16);
/// The packets of a limit.
const AMOUNT: u64 = 2;

#[test]
fn a_source_that_was_refused_is_refused_without_a_look_at_its_state() {
    require_root!();
    assert!(may_refuse(at(START)) && !may_refuse(at(ASKED)));
    if !has_records() {
        return;
    }
    for limit in limits() {
        for source in SOURCES {
            let mut program = program(limit);
            use_up(&mut program, source);
            forget(&mut program, source);
            assert_eq!(judge(&mut program, source, START + 1), LIMITED);
            let asked = judge(&mut program, source, ASKED);
            assert_eq!(asked, CONFORMING, "the state that there is not was asked");
            assert_eq!(judge(&mut program, source, ASKED + 1), CONFORMING);
        }
    }
}

#[test]
fn a_word_refuses_until_it_has_room_to_the_nanosecond() {
    require_root!();
    for limit in limits() {
        for source in SOURCES {
            let mut program = program(limit);
            use_up(&mut program, source);
            let word = (0..AMOUNT).fold(0, |word, _| step(limit, word, START).unwrap());
            let room = START + limit.algorithm().room_in_ns(word, at(START), 1);
            assert!(may_refuse(at(room - 1)), "it is the word that is asked");
            assert_eq!(judge(&mut program, source, room - 1), LIMITED);
            assert_eq!(judge(&mut program, source, room), CONFORMING, "{limit:?}");
        }
    }
}

#[test]
fn a_limit_that_was_raised_holds_at_once() {
    require_root!();
    for source in SOURCES {
        let mut program = program(fixed_window(AMOUNT));
        use_up(&mut program, source);
        program
            .set_policy(0, &policy(fixed_window(AMOUNT + 1), 0))
            .unwrap();
        assert_eq!(judge(&mut program, source, START), CONFORMING);
        assert_eq!(judge(&mut program, source, START), LIMITED);
    }
}

#[test]
fn a_source_has_room_under_another_policy() {
    require_root!();
    for source in SOURCES {
        let mut program = program(fixed_window(AMOUNT));
        program
            .set_policy(1, &policy(fixed_window(AMOUNT), 7))
            .unwrap();
        use_up(&mut program, source);
        let host = Prefix::around(source, if source.is_ipv4() { 32 } else { 128 }).unwrap();
        program
            .set_list_entry(host, ListEntry::new(false, None, Some(1)))
            .unwrap();
        use_up(&mut program, source);
        program.set_list_entry(host, ListEntry::default()).unwrap();
        assert_eq!(judge(&mut program, source, START), LIMITED);
    }
}

#[test]
fn a_packet_that_still_fits_passes_though_a_longer_one_was_refused() {
    require_root!();
    let bytes = |amount| limit(amount, Unit::Bytes, SECOND);
    for source in SOURCES {
        let mut program = program(bytes(1_000));
        let verdicts = [900, 200, 200, 100, 60]
            .map(|bytes| Judge::judge(&mut program, &frame(source, bytes), at(START)));
        assert_eq!(
            verdicts,
            [CONFORMING, LIMITED, LIMITED, CONFORMING, LIMITED]
        );
    }
}

fn limits() -> [Limit; 3] {
    let sliding = SlidingWindow::new(AMOUNT, SECOND).unwrap();
    let bucket = TokenBucket::new(AMOUNT, SECOND, AMOUNT).unwrap();
    [
        fixed_window(AMOUNT),
        Limit::new(sliding, Unit::Packets),
        Limit::new(bucket, Unit::Packets),
    ]
}

fn fixed_window(amount: u64) -> Limit {
    limit(amount, Unit::Packets, SECOND)
}

fn step(limit: Limit, word: u64, now: u64) -> Option<u64> {
    let algorithm: Algorithm = limit.algorithm();
    algorithm.step(word, at(now), 1).ok()
}

fn policy(limit: Limit, scope: u32) -> Policy {
    Policy::new(&[limit], scope, false).unwrap()
}

/// The program on one CPU, which alone knows what it has refused.
fn program(limit: Limit) -> Pooled {
    cpu::pin(0);
    Pooled::with(&Constants::default(), &Scene::limited(&[limit])).unwrap()
}

/// Sends what the limit admits, and two packets more.
fn use_up(program: &mut Program, source: IpAddr) {
    for _ in 0..AMOUNT {
        assert_eq!(judge(program, source, START), CONFORMING);
    }
    for _ in 0..2 {
        assert_eq!(judge(program, source, START), LIMITED);
    }
}

/// Empties the state of a source behind the back of the CPUs, as an eviction does.
fn forget(program: &mut Program, source: IpAddr) {
    let empty = Record::default();
    match source {
        IpAddr::V4(address) => {
            let key = SourceKey::new(address.into(), 0);
            program.ipv4.set_record(&key, &empty)
        }
        IpAddr::V6(address) => {
            let key = SourceKey::new(address.into(), 0);
            program.ipv6.set_record(&key, &empty)
        }
    }
    .unwrap();
}

fn judge(program: &mut Program, source: IpAddr, now: u64) -> Verdict {
    Judge::judge(program, &frame(source, 80), at(now))
}

fn frame(source: IpAddr, bytes: usize) -> Vec<u8> {
    let frame = match source {
        IpAddr::V4(address) => Frame::ethernet().ipv4(address),
        IpAddr::V6(address) => Frame::ethernet().ipv6(address),
    };
    frame.udp(53).pad_to(bytes).build()
}

const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}
