//! The harness: a program that draws a source, writes it into the packet, and calls the program
//! under test.

use std::{fs, mem::MaybeUninit, sync::Barrier, thread};

use anyhow::{Context, Result, anyhow, ensure};
use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray, PerCpuValues, ProgramArray},
    programs::{ProgramFd, TestRun, TestRunOptions, Xdp},
    util::nr_cpus,
};
use ratelimit_tests::cpu;

use crate::draw::Draw;

/// The harness, with the program under test at its end.
pub struct Harness {
    ebpf: Ebpf,
    draws: PerCpuArray<MapData, Draw>,
    /// Holds the program under test.
    _next: ProgramArray<MapData>,
}

/// The measurements of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The time of the CPU for all packets, in nanoseconds.
    pub nanos: f64,
    /// The action for the last packet.
    pub action: u32,
    /// The time in which the CPU did something else, in nanoseconds.
    pub waited_nanos: f64,
}

impl Harness {
    /// The baseline: an empty program at the end.
    pub fn empty(object: &[u8]) -> Result<Self> {
        let mut ebpf = load(object)?;
        let pass = xdp(&mut ebpf, "pass")?;
        pass.load().context("loading `pass`")?;
        let program = pass.fd()?.try_clone()?;
        Self::with(ebpf, &program)
    }

    /// The harness around `program`.
    pub fn around(object: &[u8], program: &ProgramFd) -> Result<Self> {
        Self::with(load(object)?, program)
    }

    fn with(mut ebpf: Ebpf, program: &ProgramFd) -> Result<Self> {
        xdp(&mut ebpf, "draw")?.load().context("loading `draw`")?;
        let map = ebpf.take_map("NEXT").context("no map NEXT")?;
        let mut next = ProgramArray::try_from(map)?;
        next.set(0, program, 0)
            .context("putting the program under test into its place")?;
        let draws = ebpf.take_map("DRAW").context("no map DRAW")?.try_into()?;
        Ok(Self {
            ebpf,
            draws,
            _next: next,
        })
    }

    /// Sets what each CPU draws.
    pub fn set_draws(&mut self, draw: impl Fn(usize) -> Draw) -> Result<()> {
        let cpus = nr_cpus().map_err(|(file, error)| anyhow!(error).context(file))?;
        let draws = PerCpuValues::try_from((0..cpus).map(draw).collect::<Vec<_>>())?;
        Ok(self.draws.set(0, draws, 0)?)
    }

    /// Runs `packets` packets on whichever CPU this thread is.
    pub fn run_here(&self, frame: &[u8], packets: u32) -> Result<Run> {
        let program = self.ebpf.program("draw").context("no program `draw`")?;
        run(program.try_into()?, frame, packets)
    }

    /// Runs `packets` packets on each of the first `cpus` CPUs at once.
    pub fn run(&self, frame: &[u8], packets: u32, cpus: usize) -> Result<Vec<Run>> {
        let program = self.ebpf.program("draw").context("no program `draw`")?;
        let program: &Xdp = program.try_into()?;
        let barrier = Barrier::new(cpus);
        let run = |cpu| {
            cpu::pin(cpu);
            come_first()?;
            barrier.wait();
            run(program, frame, packets)
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..cpus).map(|cpu| scope.spawn(move || run(cpu))).collect();
            let join =
                |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("it does not panic");
            threads.into_iter().map(join).collect()
        })
    }
}

/// Measures the time of this thread, which runs nothing else, and does not count while it is
/// preempted. The kernel reports only whole nanoseconds per packet, a tenth of the smallest figure.
fn run(program: &Xdp, frame: &[u8], packets: u32) -> Result<Run> {
    let options = TestRunOptions {
        data_in: Some(frame),
        repeat: packets,
        ..TestRunOptions::default()
    };
    let (start, waited) = (thread_nanos()?, waited_nanos()?);
    let answer = program.test_run(options)?;
    Ok(Run {
        nanos: thread_nanos()? - start,
        action: answer.return_value,
        waited_nanos: waited_nanos()? - waited,
    })
}

/// Lets other programs wait for this thread where they share its CPU: their traces in the caches
/// are no part of a figure.
pub fn come_first() -> Result<()> {
    // SAFETY: takes no pointers; 0 is this thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    ensure!(result == 0, "raising the priority of a thread");
    Ok(())
}

/// The time that this thread could have run and did not.
fn waited_nanos() -> Result<f64> {
    const PATH: &str = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(PATH).with_context(|| format!("reading {PATH}"))?;
    let waited = text.split_whitespace().nth(1);
    waited
        .and_then(|nanos| nanos.parse().ok())
        .with_context(|| format!("{PATH} says {text:?}"))
}

/// The time that this thread was on a CPU for.
pub fn thread_nanos() -> Result<f64> {
    cpu_nanos(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time that this thread, or this process, was on CPUs for.
#[expect(clippy::cast_precision_loss, reason = "days are exact")]
pub fn cpu_nanos(clock: libc::clockid_t) -> Result<f64> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes the time there.
    let result = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    ensure!(result == 0, "reading the time of a thread or process");
    // SAFETY: the kernel wrote it.
    let time = unsafe { time.assume_init() };
    Ok(time.tv_sec as f64 * 1e9 + time.tv_nsec as f64)
}

fn load(object: &[u8]) -> Result<Ebpf> {
    EbpfLoader::new()
        .load(object)
        .context("reading the harness")
}

/// A program of the harness.
pub fn xdp<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    let program = ebpf
        .program_mut(name)
        .with_context(|| format!("the harness has no program `{name}`"))?;
    Ok(program.try_into()?)
}
