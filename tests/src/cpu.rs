//! The CPU of a thread, and two threads that run at once.

use std::{
    hint::spin_loop,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// The number of CPUs that this process may use.
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

/// Does the work on two CPUs; one pair of workers at a time, as pairs would only wait for each
/// other.
pub fn on_two<T: Send>(work: impl Fn(usize) -> T + Sync) -> [T; 2] {
    static CPUS: Mutex<()> = Mutex::new(());
    let _both = CPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let pinned = |cpu| {
        pin(cpu);
        work(cpu)
    };
    thread::scope(|scope| {
        let workers = [0, 1].map(|cpu| scope.spawn(move || pinned(cpu)));
        workers.map(|worker| worker.join().expect("the worker does not panic"))
    })
}

/// The place where two workers wait for each other, again and again.
#[derive(Debug, Default)]
pub struct Meeting(AtomicUsize);

impl Meeting {
    /// Longer than any work between two meetings takes.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Waits for the other CPU to come here for the `round`th time: busily, as waking up takes
    /// longer than a race.
    pub fn meet(&self, round: usize) {
        const SPINS: usize = 10_000;
        self.0.fetch_add(1, SeqCst);
        let start = Instant::now();
        let is_alone = || self.0.load(SeqCst) < 2 * (round + 1);
        while is_alone() {
            for _ in 0..SPINS {
                if !is_alone() {
                    return;
                }
                spin_loop();
            }
            // Something else runs on the other CPU, or its worker has panicked.
            assert!(
                start.elapsed() < Self::PATIENCE,
                "the other CPU does not come"
            );
            thread::yield_now();
        }
    }
}
