//! Measures reads while packets are judged: the busiest of a million sources, and a scrape of
//! Prometheus; and the resources of an idle daemon.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratelimit_core::ip_family::IpFamily;
use ratelimit_tests::{Lab, cpu, service::Service};

use crate::{
    catalog,
    harness::Harness,
    installation::{Installation, Running},
    machine::cpu_seconds,
    scenario::Scenario,
    statistics::Spread,
    store::Store,
    traffic::{Sources, Traffic},
};

/// Packets that bring nearly all of a million sources into the store: of each 8 by expectation.
const FILL: u32 = 8 << 20;
/// Packets of which the time is taken at once.
const BATCH: u32 = 10_000;
/// The duration of a round of reads.
const ROUND: Duration = Duration::from_millis(500);
const ROUNDS: usize = 15;
/// The CPU that judges packets, and the one that reads.
const JUDGE: usize = 0;
const READER: usize = 1;
/// A daemon that has started has nothing left to do after so long.
const SETTLE: Duration = Duration::from_secs(5);
const WATCH: Duration = Duration::from_secs(30);

/// The bans whose time is measured, and the pause between two.
const BANS: usize = 1_000;
const BETWEEN: Duration = Duration::from_millis(2);
/// The first of the addresses that are banned: none of the million.
const FIRST: u32 = 0x0b00_0000;

type Read = fn(&Running) -> Result<()>;

/// Measures with each store, and prints a line for each figure.
pub fn measure(object: &[u8], lab: &Lab) -> Result<()> {
    for store in Store::ALL {
        idle(store, lab)?;
        let toml = catalog::policy(catalog::WIDE);
        let scenario = Scenario::new(store, "reads", toml).capacity(catalog::ROOMY);
        let mut installation = Installation::new(lab, &scenario)?;
        let mut harness = Harness::around(object, installation.program())?;
        let traffic = Traffic::new(IpFamily::V4, Sources::Million);
        harness.set_draws(|cpu| traffic.draw(cpu))?;
        let frame = traffic.frame();
        harness.run_here(&frame, FILL)?;
        let reads: [(&str, Read); 2] = [
            ("the 100 busiest of a million sources", Running::top),
            ("a scrape with a million sources", Running::scrape),
        ];
        for (what, read) in reads {
            let what = format!("{}: {what}", store.label());
            on_one_cpu(&mut installation, |running| {
                beside_packets(&what, &harness, &frame, || read(running))
            })?;
        }
        installation.run(|running| bans_beside(store, running))?;
    }
    Ok(())
}

/// Bans while nothing else happens, and while the busiest sources are read again and again.
fn bans_beside(store: Store, running: &Running) -> Result<()> {
    let report = |when: &str, first| -> Result<()> {
        let [median, most, slowest] = bans(running, first)?;
        println!(
            "{}: one ban {when}: median {median} us, 99 % within {most} us, the slowest {slowest} \
             us",
            store.label()
        );
        Ok(())
    };
    report("with a million sources", FIRST)?;
    let is_done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let reads = scope.spawn(|| {
            while !is_done.load(Relaxed) {
                running.top()?;
            }
            anyhow::Ok(())
        });
        let answer = report("while the 100 busiest of them are read", FIRST + (1 << 16));
        is_done.store(true, Relaxed);
        reads.join().expect("it does not panic")?;
        answer
    })
}

/// Measures single bans in microseconds: the median, the 99th percentile, and the slowest.
fn bans(running: &Running, first: u32) -> Result<[u128; 3]> {
    let mut micros = Vec::with_capacity(BANS);
    for address in (first..).take(BANS) {
        thread::sleep(BETWEEN);
        let start = Instant::now();
        running.ban(IpAddr::V4(Ipv4Addr::from_bits(address)).into())?;
        micros.push(start.elapsed().as_micros());
    }
    micros.sort_unstable();
    Ok([BANS / 2, BANS * 99 / 100, BANS - 1].map(|index| micros[index]))
}

/// Runs the control plane with all of its threads on the CPU that reads.
fn on_one_cpu(
    installation: &mut Installation,
    work: impl FnOnce(&Running) -> Result<()> + Send,
) -> Result<()> {
    let run = || {
        cpu::pin(READER);
        installation.run(work)
    };
    thread::scope(|scope| scope.spawn(run).join().expect("it does not panic"))
}

/// Reads on one CPU, with and without packets on the other, and reports the duration and the
/// slowdown of packets.
fn beside_packets(
    what: &str,
    harness: &Harness,
    frame: &[u8],
    mut read: impl FnMut() -> Result<()> + Send,
) -> Result<()> {
    let (mut millis, mut slowdowns) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let quiet = packets_while(harness, frame, || {
            thread::sleep(ROUND);
            Ok(())
        })?;
        let busy = packets_while(harness, frame, || {
            let start = Instant::now();
            while start.elapsed() < ROUND {
                let start = Instant::now();
                read()?;
                millis.push(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok(())
        })?;
        slowdowns.push(busy / quiet * 100.0 - 100.0);
    }
    println!(
        "{what}: {:.2} ms; packets meanwhile {:+.1} % (medians of {} and {ROUNDS})",
        median(&millis)?,
        median(&slowdowns)?,
        millis.len()
    );
    Ok(())
}

/// Returns the time of a packet while something runs on the other CPU, in nanoseconds: the median
/// of batches.
fn packets_while(
    harness: &Harness,
    frame: &[u8],
    work: impl FnOnce() -> Result<()> + Send,
) -> Result<f64> {
    let is_done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let work = scope.spawn(move || {
            cpu::pin(READER);
            let answer = work();
            is_done.store(true, Relaxed);
            answer
        });
        let packets = scope.spawn(move || -> Result<f64> {
            cpu::pin(JUDGE);
            let mut nanos = vec![];
            while !is_done.load(Relaxed) {
                nanos.push(harness.run_here(frame, BATCH)?.nanos / f64::from(BATCH));
            }
            median(&nanos)
        });
        work.join().expect("it does not panic")?;
        packets.join().expect("it does not panic")
    })
}

fn median(figures: &[f64]) -> Result<f64> {
    let spread = Spread::of(figures).context("nothing was measured")?;
    Ok(spread.median)
}

/// Measures an installed daemon while nothing happens.
fn idle(store: Store, lab: &Lab) -> Result<()> {
    let toml = format!(
        "[source]\n{}\n{}",
        store.toml(),
        catalog::policy(catalog::WIDE)
    );
    let service = Service::started(lab, &toml)?;
    thread::sleep(SETTLE);
    let pid = service.pid()?;
    let before = cpu_seconds(pid)?;
    let start = Instant::now();
    thread::sleep(WATCH);
    let share = (cpu_seconds(pid)? - before) / start.elapsed().as_secs_f64() * 100.0;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.map(|kib| kib.trim().to_owned()).unwrap_or_default()
    };
    println!(
        "{}: an idle daemon: {share:.2} % of a CPU, {} resident, {} of them its own",
        store.label(),
        kib("VmRSS:"),
        kib("RssAnon:")
    );
    Ok(())
}
