//! Where a thread runs.

use std::thread;

/// How many CPUs this process may use.
#[must_use]
pub fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps this thread on one CPU.
pub fn pin(cpu: usize) {
    // SAFETY: an empty set is a valid one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes into the set, and checks the number.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set outlives the call; 0 is this thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(result, 0, "CPU {cpu} may be used");
}
