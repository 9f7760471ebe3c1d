//! Drops the privileges of the process permanently: [`keep_for_loading`] in the loader, [`give_up`]
//! in the daemon.

use std::io;

use anyhow::{Context, bail, ensure};
use caps::{CapSet, Capability, CapsHashSet};
use tracing::warn;

use crate::{seccomp, user::User};

/// Capabilities needed to load and attach a program.
const NEEDED: [Capability; 2] = [Capability::CAP_BPF, Capability::CAP_NET_ADMIN];
/// Capabilities kept for loading.
const KEPT: [Capability; 3] = [
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
];

/// Makes sure that programs can be loaded and attached.
pub fn require() -> anyhow::Result<()> {
    let effective = read(CapSet::Effective)?;
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
            "missing {}: run ratelimitd as root, or with AmbientCapabilities=CAP_BPF CAP_NET_ADMIN \
             CAP_PERFMON in its unit",
            missing.join(" and ")
        );
    }
    if !has(Capability::CAP_PERFMON) {
        warn!("missing CAP_PERFMON: the program is about 45 % slower without it");
    }
    Ok(())
}

/// Keeps the capabilities for loading, and drops all others.
pub fn keep_for_loading() -> anyhow::Result<()> {
    let permitted = read(CapSet::Permitted)?;
    let kept = KEPT.into_iter().filter(|kept| permitted.contains(kept));
    let kept: CapsHashSet = kept.collect();
    limit_bounding_set(&KEPT)?;
    keep(&kept)?;
    forbid_new_privileges()?;
    // Protects its memory from other processes, also of the same user.
    set(libc::PR_SET_DUMPABLE, 0).context("closing the memory of the loader")?;
    seccomp::enter_loader().context("entering seccomp")
}

/// Becomes `user`, without any capability, in this thread and those that it starts from then on.
///
/// # Errors
///
/// When the kernel refuses, or something could be got back.
pub fn give_up(user: &User) -> anyhow::Result<()> {
    limit_bounding_set(&[])?;
    user.become_for_good()?;
    keep(&CapsHashSet::new())?;
    forbid_new_privileges()?;
    let left = read(CapSet::Permitted)?;
    ensure!(left.is_empty(), "remaining capabilities: {left:?}");
    seccomp::enter_daemon().context("entering seccomp")
}

fn read(set: CapSet) -> anyhow::Result<CapsHashSet> {
    caps::read(None, set).context("reading the capabilities of the process")
}

fn keep(kept: &CapsHashSet) -> anyhow::Result<()> {
    let none = CapsHashSet::new();
    for (set, kept) in [
        (CapSet::Ambient, &none),
        (CapSet::Inheritable, &none),
        (CapSet::Effective, kept),
        (CapSet::Permitted, kept),
    ] {
        caps::set(None, set, kept).with_context(|| format!("giving up {set:?} capabilities"))?;
    }
    Ok(())
}

/// Limits what executed programs can regain. This requires `CAP_SETPCAP`, which only root has; for
/// a process started as another user, systemd does it with `CapabilityBoundingSet`.
fn limit_bounding_set(kept: &[Capability]) -> anyhow::Result<()> {
    if !read(CapSet::Effective)?.contains(&Capability::CAP_SETPCAP) {
        return Ok(());
    }
    for number in 0..u64::BITS {
        let is_kept = kept.iter().any(|kept| u32::from(kept.index()) == number);
        // SAFETY: it takes no pointers. The kernel returns 1 if the set has it, and an error for an
        // unknown number.
        let has = unsafe { libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0) } == 1;
        if has && !is_kept {
            set(libc::PR_CAPBSET_DROP, number).context("emptying the bounding set")?;
        }
    }
    Ok(())
}

fn forbid_new_privileges() -> anyhow::Result<()> {
    set(libc::PR_SET_NO_NEW_PRIVS, 1).context("forbidding new privileges")
}

fn set(option: i32, value: u32) -> io::Result<()> {
    // SAFETY: none of these options takes a pointer.
    match unsafe { libc::prctl(option, libc::c_ulong::from(value), 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
