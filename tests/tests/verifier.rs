//! The verifier takes the program, with room to spare, whatever constants it is loaded with.

use ratelimit_common::{
    layout::{clock, store},
    parse::LinkLayer,
};
use ratelimit_tests::{
    Program,
    program::{Constants, source_masks},
    require_root,
};

/// The verifier gives up after a million. That of kernel 6.1 looks at four times as many as that of 6.18.
const INSTRUCTIONS_MAX: u32 = 900_000;

#[test]
fn the_program_loads_with_every_combination_of_constants() {
    require_root!();
    for clock in [clock::KERNEL, clock::MANUAL] {
        for (interface, frags, link_layer) in [
            (0, false, LinkLayer::Ethernet),
            (31, true, LinkLayer::Ethernet),
            (u32::MAX, false, LinkLayer::None),
        ] {
            for (ipv4, ipv6) in [(32, 64), (24, 48), (1, 128)] {
                for store in [store::LRU, store::COMPACT] {
                    let constants = Constants {
                        clock,
                        interface,
                        masks: source_masks(ipv4, ipv6),
                        sources: 1_024,
                        store,
                        sets: 1_024,
                        frags,
                        link_layer,
                        interruptible: ipv4 == 24,
                        ..Constants::default()
                    };
                    check(&constants);
                }
            }
        }
    }
}

/// The verifier refuses more than 512 bytes of stack by itself.
fn check(constants: &Constants) {
    let program =
        Program::load(constants).unwrap_or_else(|error| panic!("{constants:?}: {error:?}"));
    let info = program.xdp().info().unwrap();
    let verified = info
        .verified_instruction_count()
        .expect("kernel 5.16 and later count them");
    println!(
        "verified {verified} instructions, compiled to {} bytes",
        info.size_jitted()
    );
    assert!(
        verified < INSTRUCTIONS_MAX,
        "{verified} instructions, {constants:?}"
    );
}
