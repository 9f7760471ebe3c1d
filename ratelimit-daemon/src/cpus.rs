//! The number of CPUs.

use std::io;

/// Includes CPUs that may be added at runtime, because the kernel numbers per-CPU values by them.
pub fn possible() -> anyhow::Result<u32> {
    let count = aya::util::nr_cpus().map_err(uncounted)?;
    Ok(u32::try_from(count)?)
}

/// Counts the CPUs that are online.
pub fn online() -> anyhow::Result<u32> {
    let online = aya::util::online_cpus().map_err(uncounted)?;
    Ok(u32::try_from(online.len())?)
}

fn uncounted((path, error): (&str, io::Error)) -> anyhow::Error {
    anyhow::Error::from(error).context(format!("counting the CPUs in {path}"))
}
