//! How many CPUs this machine has.

use std::io;

/// Those included that may come while it runs: the kernel numbers per-CPU values by them.
pub fn possible() -> anyhow::Result<u32> {
    let count = aya::util::nr_cpus().map_err(uncounted)?;
    Ok(u32::try_from(count)?)
}

/// Those that run.
pub fn online() -> anyhow::Result<u32> {
    let online = aya::util::online_cpus().map_err(uncounted)?;
    Ok(u32::try_from(online.len())?)
}

fn uncounted((path, error): (&str, io::Error)) -> anyhow::Error {
    anyhow::Error::from(error).context(format!("counting the CPUs in {path}"))
}
