//! A frame that does not fit into one page is judged by its front and counted by its whole length.

use std::{net::Ipv4Addr, time::Duration};

use ratelimit_common::{Family, Instant, Limit, Unit, layout};
use ratelimit_tests::{
    Frame, Program, Scene,
    program::{CONFORMING, Constants, LIMITED},
    require_root,
    scene::limit,
};

#[test]
fn every_length_is_counted_as_it_is() {
    require_root!();
    let program = program(u64::from(u32::MAX));
    // `judge` compares the bytes that were counted with the length of the frame.
    for bytes in (42..9_100)
        .step_by(7)
        .chain([3_520, 3_521, 4_096, 9_000, 9_014, 9_216])
    {
        assert_eq!(
            program.judge(&frame(bytes)).unwrap(),
            (Family::Ipv4, CONFORMING),
            "{bytes} bytes"
        );
    }
}

#[test]
fn a_limit_of_bytes_is_charged_the_whole_length() {
    require_root!();
    let program = program(5 * 9_000 + 41);
    for expected in [CONFORMING; 5].into_iter().chain([LIMITED]) {
        assert_eq!(program.judge(&frame(9_000)).unwrap().1, expected);
    }
    assert_eq!(program.judge(&frame(42)).unwrap().1, LIMITED);
    let (_, record) = program.ipv4.records().unwrap()[0];
    let used = limit_of(5 * 9_000 + 41)
        .algorithm()
        .used(record.words[0], NOW);
    assert_eq!(used, 45_000);
}

const NOW: Instant = Instant::from_nanos(0);

fn program(amount: u64) -> Program {
    let constants = Constants {
        entry_point: layout::PROGRAM_FRAGS,
        ..Constants::default()
    };
    let mut program = Program::load(&constants).expect("the program loads");
    Scene::limited(&[limit_of(amount)])
        .set_up(&mut program)
        .unwrap();
    program
}

fn limit_of(amount: u64) -> Limit {
    limit(amount, Unit::Bytes, Duration::from_mins(1))
}

fn frame(bytes: usize) -> Vec<u8> {
    Frame::ethernet()
        .ipv4(Ipv4Addr::new(203, 0, 113, 77))
        .udp(53)
        .pad_to(bytes)
        .build()
}
