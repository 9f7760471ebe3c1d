//! The control plane at size: how long a million prefixes take into the kernel, a start with a
//! million bans, one ban. Also what the daemon's part costs in memory, and whether packets are
//! slower while a list is replaced.

mod api;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratelimit_core::{ip_family::IpFamily, prefix::Prefix};
use ratelimit_tests::Lab;

use crate::{
    catalog,
    harness::{Harness, cpu_nanos, thread_nanos},
    installation::Installation,
    lists,
    scenario::Scenario,
    store::Store,
    traffic::{Sources, Traffic},
};

const MILLION: usize = 1_000_000;
/// Programs that ban over the API at the same time.
const CLIENTS: [u32; 3] = [1, 16, 64];
/// Bans one by one, and those of them whose time is given.
const SINGLE: u32 = 100_000;
const TIMED: usize = 1_000;
/// The longest time in which the kernel frees a list of a million.
const FREED: Duration = Duration::from_secs(5);
/// The first of the addresses that are banned one by one.
const FIRST: u32 = 0x0b00_0000;
/// Packets of which the mean is taken while a list is replaced.
const BATCH: u32 = 1_000;
/// Seconds of which the mean is taken.
const SECONDS: u32 = 100;
/// The list that is replaced.
const LIST: &str = "big";

/// Measures, and prints a line for each figure.
pub fn measure(object: &[u8], lab: &Lab) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("list.txt");
    let [first, second] = [7, 8].map(|seed| lists::addresses(seed, MILLION));
    write(&file, &first[..1])?;
    let toml = format!(
        "{}\n[list.{LIST}]\nfile = \"{}\"\nallow_wide = true",
        catalog::policy(catalog::WIDE),
        file.display()
    );
    let scenario = Scenario::new(Store::ALL[0], "control", toml);
    let mut installation = Installation::new(lab, &scenario)?;
    seconds("a second of an idle daemon", &mut installation)?;
    singles(&mut installation)?;
    let before = resident_bytes()?;
    write(&file, &first)?;
    timed("a list of a million addresses, file to kernel", || {
        installation.reload()
    })?;
    report_memory("a million entries of a list", before)?;
    seconds("a second of comparing a million entries", &mut installation)?;
    write(&file, &second)?;
    replace(object, &mut installation)?;
    write(&file, &first[..1])?;
    timed("a list of a million taken away", || installation.reload())?;
    bans(lab, installation)
}

/// A million bans in the database, and a start with them.
fn bans(lab: &Lab, mut installation: Installation) -> Result<()> {
    let before = resident_bytes()?;
    let prefixes = lists::random(IpFamily::V4, MILLION);
    timed("a million bans in one request", || {
        installation.ban(prefixes, 86_400.0)
    })?;
    report_memory("a million bans", before)?;
    installation.stop();
    timed("a start with a million bans that the kernel holds", || {
        installation.start(lab)
    })?;
    installation.detach()?;
    installation.stop();
    // The kernel frees the previous content concurrently, which does not happen after a boot.
    thread::sleep(FREED);
    timed("a start with a million bans after a reboot", || {
        installation.start(lab)
    })
}

/// Measures the periodic work of each second while nothing happens.
fn seconds(what: &str, installation: &mut Installation) -> Result<()> {
    let start = thread_nanos()?;
    (0..SECONDS).for_each(|_| installation.tick());
    let millis = (thread_nanos()? - start) / 1e6 / f64::from(SECONDS);
    println!("{what}: {millis:.2} ms on a CPU");
    Ok(())
}

fn singles(installation: &mut Installation) -> Result<()> {
    let address = |number: u32| Prefix::from(IpAddr::V4(Ipv4Addr::from_bits(FIRST + number)));
    let mut nanos = Vec::with_capacity(TIMED);
    let start = (Instant::now(), process_nanos()?);
    for number in 0..SINGLE {
        let before = Instant::now();
        installation.ban(vec![address(number)], 3_600.0)?;
        if nanos.len() < TIMED {
            nanos.push(before.elapsed().as_nanos());
        }
    }
    report_time("100,000 bans one by one", start)?;
    nanos.sort_unstable();
    println!(
        "one ban: median {} us, 99 % within {} us",
        nanos[TIMED / 2] / 1_000,
        nanos[TIMED * 99 / 100] / 1_000
    );
    let prefixes = || (0..SINGLE).map(address).collect();
    installation.unban(prefixes())?;
    for clients in CLIENTS {
        api::measure(installation, clients, FIRST, SINGLE)?;
        installation.unban(prefixes())?;
    }
    Ok(())
}

/// Replaces the list while packets are judged on another CPU, and reports the slowest of their
/// batches.
fn replace(object: &[u8], installation: &mut Installation) -> Result<()> {
    let mut harness = Harness::around(object, installation.program())?;
    let traffic = Traffic::new(IpFamily::V4, Sources::Many);
    harness.set_draws(|cpu| traffic.draw(cpu))?;
    let frame = traffic.frame();
    let is_done = AtomicBool::new(false);
    let slowest = |harness: &Harness| -> Result<(f64, f64, f64)> {
        let mut batches = vec![];
        while !is_done.load(Relaxed) {
            let run = harness.run_here(&frame, BATCH)?;
            batches.push(run.nanos / f64::from(BATCH));
        }
        batches.sort_unstable_by(f64::total_cmp);
        let median = batches.get(batches.len() / 2).copied();
        Ok((
            median.unwrap_or_default(),
            batches.last().copied().unwrap_or_default(),
            thread_nanos()?,
        ))
    };
    thread::scope(|scope| {
        let packets = scope.spawn(|| slowest(&harness));
        let start = (Instant::now(), process_nanos()?);
        let answer = installation.reload();
        let wall = start.0.elapsed();
        is_done.store(true, Relaxed);
        let (median, slowest, of_packets) = packets.join().expect("it does not panic")?;
        let cpu = process_nanos()? - start.1 - of_packets;
        report("a list of a million replaced by another", wall, cpu);
        println!(
            "meanwhile a packet took {median:.0} ns, in the slowest {BATCH} of them {slowest:.0} ns"
        );
        answer
    })
}

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = (Instant::now(), process_nanos()?);
    let answer = work().with_context(|| what.to_owned())?;
    report_time(what, start)?;
    Ok(answer)
}

fn report_time(what: &str, start: (Instant, f64)) -> Result<()> {
    report(what, start.0.elapsed(), process_nanos()? - start.1);
    Ok(())
}

/// The time on the clock, and what CPUs spent on it: other programs may have had the rest, and
/// several threads worked at a time.
fn report(what: &str, wall: Duration, cpu_nanos: f64) {
    let (wall, cpu) = (wall.as_secs_f64(), cpu_nanos / 1e9);
    println!("{what}: {wall:.2} s, {cpu:.2} s on CPUs");
}

fn process_nanos() -> Result<f64> {
    cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn report_memory(what: &str, before: u64) -> Result<()> {
    let more = resident_bytes()?.saturating_sub(before) >> 20;
    println!("{what}: {more} MiB more in this process");
    Ok(())
}

/// The memory of this process without files.
fn resident_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: u64 = kib.context("the kernel tells no RssAnon")?.parse()?;
    Ok(kib << 10)
}

fn write(path: &Path, prefixes: &[Prefix]) -> Result<()> {
    let lines: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
    Ok(fs::write(path, lines.join("\n") + "\n")?)
}
