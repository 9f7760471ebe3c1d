//! Knowledge of a CPU: which sources are verified, for a second, and that the SYNs and queries of
//! its drawn share need no lookup.

use std::{net::Ipv4Addr, num::NonZeroU32, time::Duration};

use ratelimit_common::{
    DropReason, Instant, Ipv4, Settings, Unit, Verdict,
    challenge::{Rules, Trigger, Verified},
    generation::Generation,
};
use ratelimit_tests::{
    Frame, Scene,
    packet::SYN,
    pool::Pooled,
    program::{CONFORMING, Constants},
    require_root,
    scene::{Judge, limit},
};

use crate::challenge_dns::QUERY;

const SOURCE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const CHALLENGED: Verdict = Verdict::Drop(DropReason::Challenged);
const START: u64 = 1 << 40;
const SECOND: u64 = 1_000_000_000;

#[test]
fn a_source_that_is_out_of_the_table_is_challenged_again_within_a_second() {
    require_root!();
    let mut program = program();
    assert_eq!(judge(&mut program, 0), CHALLENGED);
    verify(&mut program, Some(600 * SECOND));
    assert_eq!(judge(&mut program, 0), CONFORMING);
    verify(&mut program, None);
    assert_eq!(judge(&mut program, SECOND - 1), CONFORMING, "it is known");
    assert_eq!(judge(&mut program, SECOND), CHALLENGED);
}

#[test]
fn a_query_of_such_a_source_is_challenged_again_within_a_second_whichever_ports_serve_dns() {
    require_root!();
    for other in [0, 5353] {
        let ports = [53, other, 0, 0, 0, 0, 0, 0];
        let rules = rules(Trigger::Never).asking_queries(Trigger::Always, ports, 1);
        let mut program = challenging(&rules.unwrap());
        let query = Frame::ethernet().ipv4(SOURCE).datagram(53, QUERY).build();
        let judge =
            |program: &mut Pooled, after_ns| Judge::judge(&mut **program, &query, at(after_ns));
        assert_eq!(judge(&mut program, 0), CHALLENGED);
        verify(&mut program, Some(600 * SECOND));
        for _ in 0..3 {
            assert_eq!(judge(&mut program, 0), CONFORMING);
        }
        verify(&mut program, None);
        assert_eq!(judge(&mut program, SECOND - 1), CONFORMING, "it is known");
        assert_eq!(judge(&mut program, SECOND), CHALLENGED);
    }
}

#[test]
fn what_was_drawn_by_other_rules_is_not_passed() {
    require_root!();
    let many = Trigger::Over(NonZeroU32::new(100_000).unwrap());
    let mut program = challenging(&rules(many));
    for _ in 0..3 {
        assert_eq!(judge(&mut program, 0), CONFORMING);
    }
    program.set_challenge(rules(Trigger::Always)).unwrap();
    let settings = SETTINGS.in_generation(Generation::Second);
    program.set_settings(settings).unwrap();
    assert_eq!(judge(&mut program, 0), CHALLENGED);
}

#[test]
fn a_cpu_that_knew_that_no_source_is_challenged_does_so_from_the_first_query_over_the_rate_on() {
    require_root!();
    let three = Trigger::Over(NonZeroU32::new(3).unwrap());
    let rules = rules(Trigger::Never).asking_queries(three, [53, 0, 0, 0, 0, 0, 0, 0], 1);
    for interruptible in [false, true] {
        let constants = Constants {
            interruptible,
            ..Constants::default()
        };
        let mut program = with_constants(&constants, &rules.unwrap());
        assert_eq!(judge_at(&mut program, 53, 0), CONFORMING);
        let query = Frame::ethernet().ipv4(SOURCE).datagram(53, QUERY).build();
        let queries = [0; 4].map(|_| Judge::judge(&mut *program, &query, at(0)));
        assert_eq!(queries[2..], [CONFORMING, CHALLENGED]);
        let connections = [53, 80].map(|port| judge_at(&mut program, port, 0));
        assert_eq!(connections, [CHALLENGED, CONFORMING]);
    }
}

#[test]
fn where_packets_interrupt_each_other_nothing_is_known_besides_the_table() {
    require_root!();
    let interruptible = Constants {
        interruptible: true,
        ..Constants::default()
    };
    let mut program = with_constants(&interruptible, &rules(Trigger::Always));
    assert_eq!(judge(&mut program, 0), CHALLENGED);
    for _ in 0..3 {
        verify(&mut program, Some(600 * SECOND));
        assert_eq!(judge(&mut program, 0), CONFORMING);
        verify(&mut program, None);
        assert_eq!(judge(&mut program, 0), CHALLENGED);
    }
    let two = Trigger::Over(NonZeroU32::new(2).unwrap());
    let mut program = with_constants(&interruptible, &rules(two));
    let verdicts = [0; 3].map(|_| judge(&mut program, 0));
    assert_eq!(verdicts, [CONFORMING, CONFORMING, CHALLENGED]);
}

const SETTINGS: Settings = Settings::new(0, false).with_challenge(true);
const PORT: u16 = 80;

fn program() -> Pooled {
    challenging(&rules(Trigger::Always))
}

fn rules(when: Trigger) -> Rules {
    let answers = NonZeroU32::new(1_000).unwrap();
    Rules::new(when, Duration::from_mins(10), answers, 1).unwrap()
}

fn challenging(rules: &Rules) -> Pooled {
    with_constants(&Constants::default(), rules)
}

fn with_constants(constants: &Constants, rules: &Rules) -> Pooled {
    let limits = [limit(1_000_000, Unit::Packets, Duration::from_secs(1))];
    let scene = Scene {
        settings: SETTINGS,
        challenge: *rules,
        ..Scene::limited(&limits)
    };
    Pooled::with(constants, &scene).expect("the program loads")
}

/// Writes that the source is verified for so long after the start, or takes it out.
fn verify(program: &mut Pooled, lasts_ns: Option<u64>) {
    let verified = lasts_ns.map(|lasts_ns| Verified::here(at(lasts_ns)));
    let source = Ipv4::from(SOURCE);
    program.ipv4.set_verified(source, verified).unwrap();
}

fn judge(program: &mut Pooled, after_ns: u64) -> Verdict {
    judge_at(program, PORT, after_ns)
}

fn judge_at(program: &mut Pooled, port: u16, after_ns: u64) -> Verdict {
    let frame = Frame::ethernet().ipv4(SOURCE).tcp(port, SYN).pad_to(80);
    Judge::judge(&mut **program, &frame.build(), at(after_ns))
}

const fn at(after_ns: u64) -> Instant {
    Instant::from_nanos(START + after_ns)
}
