//! Atomic access to map memory.
//!
//! On the BPF target `AtomicU64::compare_exchange` and `fetch_add` do not exist and atomic loads do
//! not compile. The instructions `BPF_CMPXCHG` and `BPF_XADD` do (kernel 5.12, commit
//! 5ffa25502b5a): by assembly, and by the intrinsic of `fetch_add`. Aligned words are read and
//! written whole, so volatile access serves for the rest.

use core::{
    arch::asm,
    intrinsics::{AtomicOrdering, atomic_or, atomic_xadd},
};

/// Reads a word that other CPUs change.
///
/// # Safety
///
/// `word` points into a live map value and is aligned.
#[inline(always)]
pub unsafe fn load(word: *const u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { word.read_volatile() }
}

/// Replaces `current` by `new`, or returns the current word.
///
/// # Safety
///
/// `word` points into a live map value and is aligned.
#[inline(always)]
pub unsafe fn compare_exchange(word: *mut u64, current: u64, new: u64) -> Result<(), u64> {
    let actual: u64;
    // SAFETY: the caller's. For the intrinsic LLVM works out a truth value before it branches by
    // it, which takes four instructions.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({0} + 0, r0, {1})",
            in(reg) word,
            in(reg) new,
            inout("r0") current => actual,
            options(nostack, preserves_flags),
        );
    }
    if actual == current {
        Ok(())
    } else {
        Err(actual)
    }
}

/// Reads a word that other CPUs change, before all later reads: atomic operations that return the
/// previous value are full barriers.
///
/// # Safety
///
/// `word` points into a live map value and is aligned.
#[inline(always)]
pub unsafe fn load_first(word: *mut u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(word, 0) }
}

/// Adds to a word.
///
/// # Safety
///
/// `word` points into a live map value and is aligned.
#[inline(always)]
pub unsafe fn add(word: *mut u64, count: u64) {
    // SAFETY: the caller's. Without use of the word before, it is the instruction that answers
    // nothing.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(word, count) };
}

/// Sets bits of a word.
///
/// # Safety
///
/// `word` points into a live map value and is aligned.
#[inline(always)]
pub unsafe fn or(word: *mut u64, bits: u64) {
    // SAFETY: the caller's. Without use of the word before, as above.
    unsafe { atomic_or::<u64, u64, { AtomicOrdering::SeqCst }>(word, bits) };
}
