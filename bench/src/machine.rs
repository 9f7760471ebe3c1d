//! The machine that figures come from.

use std::{fmt, fs};

use anyhow::{Context, Result};
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

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}
