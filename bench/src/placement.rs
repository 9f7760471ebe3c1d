//! Where things run: the world on one CPU, the host on the other.

use std::{collections::BTreeSet, fs, process::Command};

use anyhow::{Context, Result, ensure};
use ratelimit_tests::lab::{INTERFACE, Namespace};

/// The CPU of the flood and the users.
pub const WORLD: usize = 0;
/// The CPU of the limiter and the servers.
pub const HOST: usize = 1;

/// Moves the receive processing of an interface to a CPU: its queues are polled by threads
/// (threaded NAPI), with an XDP program and without one. veth would poll on the CPU that sends.
/// These threads come before other processes, as the soft interrupts of a card do: a server gets
/// what they leave.
pub fn receive_on(namespace: &Namespace, cpu: usize) -> Result<()> {
    // Else segments that the stack has not cut yet would not be queued.
    for feature in [["tso", "off"], ["gro", "on"]] {
        namespace.run("ethtool", &[&["-K", INTERFACE][..], &feature].concat())?;
    }
    let before = pollers()?;
    let threaded = format!("echo 1 > /sys/class/net/{INTERFACE}/threaded");
    namespace.run("sh", &["-c", &threaded])?;
    let pollers: Vec<u32> = pollers()?.difference(&before).copied().collect();
    ensure!(!pollers.is_empty(), "no thread polls {INTERFACE}");
    for poller in pollers {
        keep_on(cpu, poller)?;
        put_first(poller)?;
    }
    Ok(())
}

/// Lets a thread run before all that is not put first, as soon as it has work.
fn put_first(thread: u32) -> Result<()> {
    let thread = thread.try_into()?;
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: only reads the parameters.
    let result =
        unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &raw const parameters) };
    ensure!(
        result == 0,
        "making a thread a real-time one: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// Keeps a process on a CPU, and its later threads.
pub fn keep_on(cpu: usize, process: u32) -> Result<()> {
    let arguments = ["-a", "-c", "-p", &cpu.to_string(), &process.to_string()].map(str::to_owned);
    let said = Command::new("taskset").args(arguments).output();
    let said = said.context("running taskset")?;
    let error = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "taskset: {error}");
    Ok(())
}

/// The threads of the kernel that poll interfaces of this name.
fn pollers() -> Result<BTreeSet<u32>> {
    let prefix = format!("napi/{INTERFACE}-");
    let mut pollers = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        // A process may end meanwhile.
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with(&prefix)
            && let Some(id) = entry.file_name().to_str()
        {
            pollers.insert(id.parse()?);
        }
    }
    Ok(pollers)
}
