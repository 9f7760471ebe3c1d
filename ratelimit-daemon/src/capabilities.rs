//! The capabilities of the process: what loading needs, and giving them all up afterwards.
//!
//! Maps are changed through descriptors that the process already has, which needs none (kernel 6.0, commit c8644cd0efe7).

use anyhow::{Context, bail};
use caps::{CapSet, Capability};
use tracing::{info, warn};

const NEEDED: [Capability; 2] = [Capability::CAP_BPF, Capability::CAP_NET_ADMIN];

/// Makes sure that programs can be loaded and attached.
///
/// # Errors
///
/// What is missing, and how to get it.
pub fn require() -> anyhow::Result<()> {
    let effective =
        caps::read(None, CapSet::Effective).context("reading the capabilities of the process")?;
    // CAP_SYS_ADMIN contains CAP_BPF and CAP_PERFMON.
    let has = |capability| {
        effective.contains(&capability) || effective.contains(&Capability::CAP_SYS_ADMIN)
    };
    let missing: Vec<String> = NEEDED
        .into_iter()
        .filter(|needed| !has(*needed))
        .map(|needed| needed.to_string())
        .collect();
    if !missing.is_empty() {
        bail!(
            "missing {}: run ratelimitd as root, or with AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_PERFMON in its unit",
            missing.join(" and ")
        );
    }
    if !has(Capability::CAP_PERFMON) {
        warn!("missing CAP_PERFMON: the kernel makes the program about 45 % slower without it");
    }
    Ok(())
}

/// Gives up every capability, for this thread and those that it starts from now on.
///
/// # Errors
///
/// When the kernel refuses.
pub fn drop_all() -> anyhow::Result<()> {
    for set in [
        CapSet::Ambient,
        CapSet::Inheritable,
        CapSet::Effective,
        CapSet::Permitted,
    ] {
        caps::clear(None, set).with_context(|| format!("giving up the {set:?} capabilities"))?;
    }
    info!("gave up all capabilities");
    Ok(())
}
