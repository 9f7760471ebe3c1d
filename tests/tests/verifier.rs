//! The verifier takes the program, with room to spare, whatever constants it is loaded with.

use std::collections::{BTreeMap, HashSet};

use aya_obj::{Object, generated::bpf_insn};
use ratelimit_common::{
    features::{Feature, Features},
    layout::{PROGRAM, PROGRAM_FRAGS, PROGRAM_TCX, clock, store},
    parse::{LinkLayer, Tunnels},
};
use ratelimit_daemon::loader::{LEAN_OBJECT, OBJECT, TCX_OBJECT};
use ratelimit_tests::{
    Program, packet,
    program::{Constants, has_tcx, source_masks},
    require_root,
};

/// The verifier gives up after a million, and every start waits until it has examined them.
const INSTRUCTIONS_MAX: u32 = 300_000;

#[test]
fn the_program_loads_with_every_combination_of_constants() {
    require_root!();
    check_all(clock::KERNEL);
}

#[test]
fn the_program_whose_time_tests_set_loads_with_every_combination_of_constants() {
    require_root!();
    check_all(clock::MANUAL);
}

fn check_all(clock: u32) {
    for features in [Features::ALL, Features::LEAN] {
        check_variants(clock, features);
    }
}

fn check_variants(clock: u32, features: Features) {
    for (interface, entry_point, link_layer, tunnels) in [
        (0, PROGRAM, LinkLayer::Ethernet, Tunnels::NONE),
        (1, PROGRAM, LinkLayer::Ethernet, packet::tunnels()),
        (31, PROGRAM_FRAGS, LinkLayer::Ethernet, packet::tunnels()),
        (u32::MAX, PROGRAM, LinkLayer::None, packet::tunnels()),
        (2, PROGRAM_TCX, LinkLayer::Ethernet, packet::tunnels()),
    ] {
        if entry_point == PROGRAM_TCX && !has_tcx() {
            continue;
        }
        for (ipv4, ipv6, words) in [(32, 64, 8), (24, 48, 1), (1, 128, 2)] {
            for store in [store::LRU, store::COMPACT] {
                let constants = Constants {
                    clock,
                    interface,
                    masks: source_masks(ipv4, ipv6),
                    sources: 1_024,
                    words,
                    store,
                    sets: 1_024,
                    entry_point,
                    has_next: entry_point == PROGRAM_FRAGS,
                    link_layer,
                    tunnels,
                    interruptible: ipv4 == 24,
                    features,
                    ..Constants::default()
                };
                check(&constants);
            }
        }
    }
}

/// The cost of a configuration with a single limit, a fixed window: bytes of instructions after the
/// verifier, bytes of machine code, and instructions that the verifier processes.
const ONE_LIMIT_MAX: [u32; 3] = [40_000, 22_000, 32_000];

#[test]
fn a_program_for_one_limit_has_the_code_for_one_limit() {
    require_root!();
    let samples = Features::NONE.with(Feature::Samples);
    println!("sampling, one limit: {:?}", sizes(samples));
    println!("all features: {:?}", sizes(Features::ALL));
    let sizes = sizes(Features::NONE);
    println!("one limit: {sizes:?}");
    for (size, most) in sizes.into_iter().zip(ONE_LIMIT_MAX) {
        assert!(size <= most, "{sizes:?}");
    }
}

/// Bytes translated, bytes of machine code, and instructions verified of a program in the `lru`
/// store.
fn sizes(features: Features) -> [u32; 3] {
    let constants = Constants {
        clock: clock::KERNEL,
        store: store::LRU,
        features,
        ..Constants::default()
    };
    let info = Program::load(&constants).unwrap().info().unwrap();
    [
        info.size_translated().unwrap(),
        info.size_jitted(),
        info.verified_instruction_count().unwrap(),
    ]
}

/// The verifier refuses more than 512 bytes of stack by itself.
fn check(constants: &Constants) {
    let program =
        Program::load(constants).unwrap_or_else(|error| panic!("{constants:?}: {error:?}"));
    let info = program.info().unwrap();
    let verified = info
        .verified_instruction_count()
        .expect("kernel 5.16 and later count them");
    println!(
        "verified {verified} instructions, compiled to {} bytes {constants:?}",
        info.size_jitted()
    );
    assert!(
        verified < INSTRUCTIONS_MAX,
        "{verified} instructions, {constants:?}"
    );
}

/// The most stack that a chain of calls takes. The kernel allows 512 bytes, so 96 are left, and 64
/// at TCX.
const STACK_MAX: u32 = 416;
const STACK_MAX_AT_TCX: u32 = 448;

#[test]
fn every_chain_of_calls_leaves_stack() {
    check_stacks("full", &OBJECT, STACK_MAX);
    check_stacks("lean", &LEAN_OBJECT, STACK_MAX);
    check_stacks("tcx", &TCX_OBJECT, STACK_MAX_AT_TCX);
}

fn check_stacks(object_name: &str, object: &[u8], most: u32) {
    let mut object = Object::parse(object).unwrap();
    let sections: HashSet<usize> = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    object.relocate_calls(&sections).unwrap();
    for (name, program) in &object.programs {
        let instructions = &object.functions[&program.function_key()].instructions;
        let functions = Functions::of(instructions);
        // Kernel 6.1 rounds up to 32 bytes, and takes 32 for a function without a stack. Newer ones
        // with a JIT take less (`round_up_stack_depth` of kernel/bpf/verifier.c).
        let bytes = functions.chain(0, &|stack| stack.max(1).next_multiple_of(32));
        println!("{object_name}, {name}: {bytes} bytes of stack");
        assert!(
            bytes > 32 && bytes <= most,
            "{object_name}, {name}: {bytes} bytes"
        );
    }
}

/// The functions of a linked program: where each begins, its stack in bytes, and those that it
/// calls.
struct Functions(BTreeMap<usize, (u32, HashSet<usize>)>);

impl Functions {
    fn of(instructions: &[bpf_insn]) -> Self {
        let target = |(index, instruction): (usize, &bpf_insn)| {
            let is_local = instruction.code == CALL && instruction.src_reg() == LOCAL;
            is_local.then(|| index.wrapping_add_signed(instruction.imm as isize + 1))
        };
        let calls: Vec<Option<usize>> = instructions.iter().enumerate().map(target).collect();
        let mut begins: Vec<usize> = calls.iter().flatten().copied().chain([0]).collect();
        begins.sort_unstable();
        begins.dedup();
        let ends = begins.iter().skip(1).copied().chain([instructions.len()]);
        let functions = begins.iter().zip(ends).map(|(&begin, end)| {
            let stack = stack(&instructions[begin..end]);
            (
                begin,
                (stack, calls[begin..end].iter().flatten().copied().collect()),
            )
        });
        Self(functions.collect())
    }

    /// The bytes of the deepest chain of calls from a function on (`check_max_stack_depth` of
    /// kernel/bpf/verifier.c).
    fn chain(&self, begin: usize, rounded: &impl Fn(u32) -> u32) -> u32 {
        let (stack, callees) = &self.0[&begin];
        let deepest = callees.iter().map(|callee| self.chain(*callee, rounded));
        rounded(*stack) + deepest.max().unwrap_or(0)
    }
}

const CALL: u8 = 0x85;
const LOCAL: u8 = 1;
const FRAME: u8 = 10;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;

/// The bytes behind the frame pointer that are read, written, or passed on.
fn stack(instructions: &[bpf_insn]) -> u32 {
    let below = |(index, instruction): (usize, &bpf_insn)| {
        let offset = match instruction.code & 7 {
            1 if instruction.src_reg() == FRAME => instruction.off.into(),
            2 | 3 if instruction.dst_reg() == FRAME => instruction.off.into(),
            7 if instruction.code == ADD => {
                let moved = instructions[..index].last().filter(|before| {
                    before.code == MOVE
                        && before.src_reg() == FRAME
                        && before.dst_reg() == instruction.dst_reg()
                });
                moved.map_or(0, |_| instruction.imm)
            }
            _ => 0,
        };
        offset.min(0).unsigned_abs()
    };
    instructions
        .iter()
        .enumerate()
        .map(below)
        .max()
        .unwrap_or(0)
}
