//! The machine that figures come from.

use std::{fmt, fs, time::Duration};

use anyhow::{Context, Result, bail};
use ratelimit_tests::cpu;
use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// The name of the processor.
    pub processor: String,
    /// The CPUs that may be used.
    pub cpus: usize,
    /// The release of its kernel.
    pub kernel: String,
    /// Whether it is a virtual one.
    pub is_virtual: bool,
}

impl Machine {
    /// This one.
    pub fn this() -> Result<Self> {
        let cpuinfo = read("/proc/cpuinfo")?;
        let value = |key| {
            let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        Ok(Self {
            processor: value("model name").unwrap_or_else(|| "an unnamed processor".to_owned()),
            cpus: cpu::count(),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            is_virtual: value("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_virtual {
            " of a virtual machine"
        } else {
            ""
        };
        write!(
            f,
            "{}, {} CPUs{kind}, Linux {}",
            self.processor, self.cpus, self.kernel
        )
    }
}

/// Returns how long a CPU was idle since boot.
pub fn idle(cpu: usize) -> Result<Duration> {
    let stat = read("/proc/stat")?;
    let prefix = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&prefix));
    // proc_stat(5), in hundredths of a second (USER_HZ). Only idle times are measured; the others
    // are what the CPU did at ticks.
    let fields: Option<Vec<u64>> = line.and_then(|line| {
        let fields = line.split_whitespace().skip(3).take(2);
        fields.map(|field| field.parse().ok()).collect()
    });
    match fields.as_deref() {
        Some([idle, iowait]) => Ok(Duration::from_millis((idle + iowait) * 10)),
        _ => bail!("/proc/stat says {stat}"),
    }
}

/// The time that all threads of a process were on CPUs for.
#[expect(clippy::cast_precision_loss, reason = "days are exact")]
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text.split_whitespace().next();
        nanos += first
            .context("schedstat has no figure")?
            .parse::<u64>()
            .context("reading schedstat")?;
    }
    Ok(nanos as f64 / 1e9)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}
