//! The file system in which BPF programs and maps are pinned.

use std::fs;

use anyhow::{Context, Result};

use super::say;
use crate::process;

const MOUNT_POINT: &str = "/sys/fs/bpf";

/// Mounts it where it is not.
pub fn mount() -> Result<()> {
    if is_mounted()? {
        return Ok(());
    }
    say(&format!("mounting bpffs on {MOUNT_POINT}"));
    process::as_root("mount")
        .and_then(|mut mount| process::run(mount.args(["-t", "bpf", "bpf", MOUNT_POINT])))
        .with_context(|| format!("mounting bpffs on {MOUNT_POINT}"))
}

fn is_mounted() -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("reading /proc/self/mounts")?;
    Ok(mounts.lines().any(|mount| {
        let mut fields = mount.split_ascii_whitespace().skip(1);
        (fields.next(), fields.next()) == (Some(MOUNT_POINT), Some("bpf"))
    }))
}
