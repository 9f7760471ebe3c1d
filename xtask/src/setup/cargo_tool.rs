//! Programs from crates.io, in the versions that this repository was tried with.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::say;
use crate::{process, workspace};

/// A program, and the crate that it is built from.
pub struct CargoTool {
    program: &'static str,
    krate: &'static str,
    version: &'static str,
}

/// Links the BPF object. 0.10 is for LLVM 22, which Rust 1.95 and 1.96 have: it loads the library
/// of the compiler.
pub const BPF_LINKER: CargoTool = CargoTool {
    program: "bpf-linker",
    krate: "bpf-linker",
    version: "0.10.0",
};

/// Checks the licences and the origin of what we depend on.
pub const CARGO_DENY: CargoTool = CargoTool {
    program: "cargo-deny",
    krate: "cargo-deny",
    version: "0.20.2",
};

impl CargoTool {
    /// Installs the program where the user's other cargo programs are, because a plain
    /// `cargo build` runs it too.
    pub fn install_for_user(&self) -> Result<()> {
        if self.find_in_path().is_some() {
            return Ok(());
        }
        self.install(&[])
    }

    /// Installs the program for this repository, unless it is there already, and answers where it
    /// is.
    pub fn install_here(&self) -> Result<PathBuf> {
        let tools = workspace::tools_dir();
        let ours = tools.join("bin").join(self.program);
        if let Some(program) = self.find_in_path() {
            return Ok(program);
        }
        if !self.is_right_version(&ours) {
            self.install(&["--root".as_ref(), tools.as_os_str()])?;
        }
        Ok(ours)
    }

    fn find_in_path(&self) -> Option<PathBuf> {
        process::find(self.program).filter(|program| self.is_right_version(program))
    }

    fn is_right_version(&self, program: &Path) -> bool {
        process::output(Command::new(program).arg("--version"))
            .is_ok_and(|answer| answer.split(' ').nth(1) == Some(self.version))
    }

    fn install(&self, arguments: &[&OsStr]) -> Result<()> {
        let Self { krate, version, .. } = self;
        say(&format!(
            "cargo install {krate} {version}, which takes half a minute or more"
        ));
        let mut cargo = process::cargo();
        cargo
            .args(["install", "--locked", krate, "--version", version])
            // Unoptimized, it takes a fraction of the time to build, and at most a second longer to
            // run.
            .arg("--debug")
            .args(arguments)
            // A target directory that was chosen for this repository would keep what the program
            // was built from.
            .env_remove("CARGO_TARGET_DIR")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        process::run(&mut cargo)
            .with_context(|| format!("installing {krate} {version} from crates.io"))
    }
}
