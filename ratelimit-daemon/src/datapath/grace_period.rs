//! A grace period (RCU): waiting for packets that are under way.

use std::{thread, time::Duration};

use rustix::thread::{MembarrierCommand, membarrier};

/// Far longer than the program takes for a packet, where the kernel does not say when all are done.
const LONG_ENOUGH: Duration = Duration::from_millis(20);

/// Waits until every packet that a program was judging when this was called has its verdict.
///
/// A program runs in an RCU section, and the kernel waits for those of all CPUs before it answers
/// (`kernel/sched/membarrier.c`).
pub fn wait() {
    if membarrier(MembarrierCommand::Global).is_err() {
        thread::sleep(LONG_ENOUGH);
    }
}

#[cfg(test)]
mod tests {
    use crate::clock;

    #[test]
    fn the_wait_is_short() {
        let before = clock::monotonic();
        super::wait();
        assert!(clock::elapsed(before).as_secs() < 5);
    }
}
