//! Programs from crates.io, in the versions that this repository was tried with.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::say;
use crate::process;

/// A program, and the crate that it is built from.
pub struct CargoTool {
    program: &'static str,
    krate: &'static str,
    version: &'static str,
}

/// Links the BPF object. 0.10 is for LLVM 22, which Rust 1.95 and 1.96 have: it loads the library of the compiler.
pub const BPF_LINKER: CargoTool = CargoTool {
    program: "bpf-linker",
    krate: "bpf-linker",
    version: "0.10.0",
};

impl CargoTool {
    /// Installs the program where the user's other cargo programs are, because a plain `cargo build` runs it too.
    pub fn install_for_user(&self) -> Result<()> {
        if self.find_in_path().is_some() {
            return Ok(());
        }
        self.install()
    }

    fn find_in_path(&self) -> Option<PathBuf> {
        process::find(self.program).filter(|program| self.is_right_version(program))
    }

    fn is_right_version(&self, program: &Path) -> bool {
        process::output(Command::new(program).arg("--version"))
            .is_ok_and(|answer| answer.split(' ').nth(1) == Some(self.version))
    }

    fn install(&self) -> Result<()> {
        let Self { krate, version, .. } = self;
        say(&format!(
            "cargo install {krate} {version}, which takes a minute or two"
        ));
        let mut cargo = process::cargo();
        cargo
            .args(["install", "--locked", krate, "--version", version])
            // A target directory that was chosen for this repository would keep what the program was built from.
            .env_remove("CARGO_TARGET_DIR")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        process::run(&mut cargo)
            .with_context(|| format!("installing {krate} {version} from crates.io"))
    }
}
