//! That a source is verified is known to a CPU for a second: until it ends, or is taken out of the table.

use std::{net::Ipv4Addr, num::NonZeroU32, time::Duration};

use ratelimit_common::{
    DropReason, Instant, Ipv4, Settings, Unit, Verdict,
    challenge::{Rules, Verified, When},
};
use ratelimit_tests::{
    Frame, Scene,
    packet::SYN,
    pool::Pooled,
    program::{CONFORMING, Constants},
    require_root,
    scene::{Judge, limit},
};

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
fn a_source_that_is_known_is_so_until_its_end_and_longer_where_it_is_verified_again() {
    require_root!();
    let mut program = program();
    verify(&mut program, Some(SECOND / 2));
    assert_eq!(judge(&mut program, 0), CONFORMING);
    assert_eq!(judge(&mut program, SECOND / 2 - 1), CONFORMING);
    assert_eq!(judge(&mut program, SECOND / 2), CHALLENGED);
    verify(&mut program, Some(SECOND));
    assert_eq!(judge(&mut program, SECOND / 2), CONFORMING);
    assert_eq!(judge(&mut program, SECOND), CHALLENGED);
}

fn program() -> Pooled {
    let limits = [limit(1_000_000, Unit::Packets, Duration::from_secs(1))];
    let answers = NonZeroU32::new(1_000).unwrap();
    let rules = Rules::new(When::Always, Duration::from_mins(10), answers, 1).unwrap();
    let scene = Scene {
        settings: Settings::new(0, false).with_challenge(true),
        challenge: rules,
        ..Scene::limited(&limits)
    };
    Pooled::with(&Constants::default(), &scene).expect("the program loads")
}

/// Writes that the source is verified for so long after the start, or takes it out.
fn verify(program: &mut Pooled, lasts_ns: Option<u64>) {
    let verified = lasts_ns.map(|lasts_ns| Verified::here(at(lasts_ns)));
    let source = Ipv4::from(SOURCE);
    program.ipv4.set_verified(source, verified).unwrap();
}

fn judge(program: &mut Pooled, after_ns: u64) -> Verdict {
    let frame = Frame::ethernet().ipv4(SOURCE).tcp(80, SYN).pad_to(80);
    Judge::judge(&mut **program, &frame.build(), at(after_ns))
}

const fn at(after_ns: u64) -> Instant {
    Instant::from_nanos(START + after_ns)
}
