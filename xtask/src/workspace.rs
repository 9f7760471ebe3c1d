//! Paths in the workspace.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The packages that build for the BPF target only, as cargo leaves them out of the workspace.
pub const WITHOUT_BPF: [&str; 4] = [
    "--exclude",
    "ratelimit-ebpf",
    "--exclude",
    "ratelimit-bench-ebpf",
];

/// The target and the profile of BPF objects.
pub const BPF_TARGET: &str = "bpfel-unknown-none";
pub const BPF_PROFILE: &str = "bpf";

/// The root of the repository.
pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// The directory that cargo builds into.
pub fn target_dir() -> PathBuf {
    let chosen = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(chosen)
}

/// The programs that this repository installs for itself.
pub fn tools_dir() -> PathBuf {
    target_dir().join("tools")
}
