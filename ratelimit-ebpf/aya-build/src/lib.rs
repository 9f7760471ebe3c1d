//! Replaces the crate `aya-build`. The build scripts of `aya-ebpf` call one function of it. The
//! rest starts cargo and reads its messages, which needs 20 crates: a third of the build time of
//! the BPF object.

use std::{env, error::Error};

/// The result of the functions.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Tells rustc for which architecture of the host `aya-ebpf` reads registers, as `bpf_target_arch`.
///
/// A `--cfg bpf_target_arch` on the command line has priority, then the variable
/// `AYA_BPF_TARGET_ARCH`, then the host.
pub fn emit_bpf_target_arch_cfg() -> Result<()> {
    const CHOSEN: &str = "AYA_BPF_TARGET_ARCH";
    println!("cargo::rustc-check-cfg=cfg(bpf_target_arch, values(any()))");
    println!("cargo::rerun-if-env-changed={CHOSEN}");
    if env::var_os("CARGO_CFG_BPF_TARGET_ARCH").is_none() {
        let host = env::var("HOST")?;
        let architecture = host.split('-').next().unwrap_or(&host);
        let architecture = env::var(CHOSEN).unwrap_or_else(|_| architecture.to_owned());
        println!("cargo::rustc-cfg=bpf_target_arch=\"{architecture}\"");
    }
    Ok(())
}
