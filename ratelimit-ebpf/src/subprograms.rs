//! What the program does in subprograms.
//!
//! A function that BTF calls global is verified by itself, once, and not along every path that leads to it (kernel commit
//! 51c39bb1d5d1). Its memory is described by the types of its arguments (commit e5069b9c23b3), which may be null. And its
//! stack is its own. It takes at most five numbers and answers one: each is here beside the function that packs them.

mod bans;
mod challenge;
mod classes;
mod destinations;
mod entry_counters;
mod established;
mod events;
mod family;
mod headers;
mod layers;
mod leases;
mod logs;
mod neighbours;
mod new_sources;
mod node;
mod source_limits;
mod strikes;
mod words;

use core::{arch::asm, ptr};

use ratelimit_common::{
    Address, Arrival, ClassSet, DropReason, Instant, Policy, Settings, charge::Outcome,
};

pub use self::{
    bans::*, challenge::*, classes::*, destinations::*, entry_counters::*, established::*,
    events::*, family::*, headers::*, layers::*, leases::*, logs::*, neighbours::*, new_sources::*,
    node::*, source_limits::*, strikes::*, words::*,
};

/// The settings of a packet stand above its size, and its classes above them.
const SETTINGS_SHIFT: u32 = 24;
const CLASSES_SHIFT: u32 = 32;

/// No buffer is as long.
const BYTES: u32 = (1 << SETTINGS_SHIFT) - 1;

/// The size of a packet, what limits ask of its settings, and its classes, in one argument.
#[inline(always)]
fn pack(arrival: &Arrival) -> u64 {
    u64::from(arrival.classes.bits()) << CLASSES_SHIFT
        | u64::from(arrival.settings.of_limits()) << SETTINGS_SHIFT
        | u64::from(arrival.bytes & BYTES)
}

#[inline(always)]
fn unpack(at_ns: u64, packet: u64) -> Arrival {
    Arrival {
        at: Instant::from_nanos(at_ns),
        bytes: packet as u32 & BYTES,
        classes: ClassSet::from_bits((packet >> CLASSES_SHIFT) as u32),
        settings: Settings::from_limits((packet >> SETTINGS_SHIFT) as u8),
    }
}

/// The refusal of a subprogram that was given nothing, which does not happen: the verifier asks for it.
const NOTHING: u64 = Outcome::refused(DropReason::NoState, 0).to_bits() as u64;

#[inline(always)]
fn encode(outcome: Outcome) -> u64 {
    outcome.to_bits().into()
}

/// An answer of which the compiler knows as little as the verifier, which does not look from one subprogram into another.
/// Else it would leave out the comparisons that the verifier wants to see.
#[inline(always)]
pub fn unknown(mut answer: u64) -> u64 {
    // SAFETY: a register moved to itself. Without an instruction, two lines of the source would be at the same one, which the
    // kernel refuses.
    unsafe { asm!("{0} = {0}", inout(reg) answer, options(pure, nomem, nostack, preserves_flags)) };
    answer
}

/// A reference of which the compiler does not know what it reads.
#[inline(always)]
pub fn again<T>(value: &T) -> &T {
    // SAFETY: it is the same reference.
    unsafe { &*unknown_pointer(ptr::from_ref(value).cast_mut()) }
}

/// A pointer of which the compiler does not know where it comes from.
#[inline(always)]
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is read or written by way of it there"
)]
pub fn unknown_pointer<T>(mut pointer: *mut T) -> *mut T {
    // SAFETY: a register moved to itself.
    unsafe {
        asm!("{0} = {0}", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

/// The same number, of which the verifier forgets what it knows: two exclusive ors with a time that it does not know. Else it follows each
/// outcome of its own to the end of the program, and kernel 6.1 gives up.
#[inline(always)]
pub fn forgotten(mut number: u64, time: Instant) -> u64 {
    // SAFETY: registers alone.
    unsafe {
        asm!(
            "{0} ^= {1}",
            "{0} ^= {1}",
            inout(reg) number,
            in(reg) time.as_nanos(),
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    number
}

#[inline(always)]
fn decode(answer: u64) -> Outcome {
    Outcome::from_bits(unknown(answer) as u32)
}

/// A source on the stack of the subprogram: kernel 6.1 takes no key of a map from the memory of an argument.
#[inline(always)]
pub fn on_stack<A: Address>(source: &A) -> A {
    // SAFETY: the reference is valid. Volatile, as the compiler would take the memory that was copied instead of the copy.
    unsafe { ptr::from_ref(source).read_volatile() }
}

/// What the verifier knows as a pointer that may be null.
#[inline(always)]
fn nullable(policy: Option<&Policy>) -> *const Policy {
    policy.map_or(ptr::null(), ptr::from_ref)
}
