//! A machine that does not exist.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
};

use anyhow::{Context, Result};

use crate::process;

/// Seconds after which a machine that hangs is stopped.
const TIMEOUT: &str = "3600";

/// The clock source of the guest.
#[derive(Clone, Copy)]
pub enum Clock {
    /// The clock of this machine.
    Host,
    /// A nanosecond for each instruction, of one CPU. While it waits no time passes.
    Instructions,
}

impl Clock {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["-smp", "2"],
            Self::Instructions => &["-smp", "1", "-icount", "shift=0,sleep=off"],
        }
    }
}

/// Boots `kernel`, shows what it says, and answers which programs ended well.
pub fn run(kernel: &Path, initramfs: &Path, clock: Clock) -> Result<HashSet<String>> {
    let mut qemu = process::in_root("timeout");
    qemu.args([TIMEOUT, "qemu-system-x86_64"])
        // Emulated wherever it runs, so that a machine without KVM tests the same.
        .args(["-accel", "tcg,thread=single", "-cpu", "max"])
        .args(clock.arguments())
        .args(["-m", "3G", "-no-reboot"])
        .args(["-display", "none", "-nodefaults", "-serial", "stdio"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        // On a busy host, the kernel concludes that the timer does not work: it fires late, not
        // never.
        .args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut machine = qemu.spawn().context("running qemu-system-x86_64")?;
    let console = machine.stdout.take().context("qemu has no console")?;
    let mut passed = HashSet::new();
    for line in BufReader::new(console).split(b'\n') {
        let line = line.context("reading the console")?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        println!("{line}");
        if let Some(test) = line.strip_prefix("PASSED ") {
            passed.insert(test.to_owned());
        }
    }
    machine.wait().context("waiting for qemu-system-x86_64")?;
    Ok(passed)
}
