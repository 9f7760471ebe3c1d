//! Packages that are unpacked and not installed: what installs them would start their servers on this host, and register one
//! of them with a service on the net.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::say;
use crate::{process, workspace};

/// What the tests run beside the daemon.
const PACKAGES: [&str; 2] = ["crowdsec", "fail2ban"];

/// Downloads and unpacks the packages that an earlier run did not. The tests of one that cannot be had are skipped, and say so.
pub fn fetch_all() {
    let directory = workspace::tools_dir().join("debian");
    for package in PACKAGES {
        if let Err(error) = fetch(package, &directory) {
            say(&format!("{package} cannot be had: {error:#}"));
        }
    }
}

fn fetch(package: &str, directory: &Path) -> Result<()> {
    let unpacked = directory.join(package);
    if unpacked.is_dir() {
        return Ok(());
    }
    say(&format!("apt-get download {package}"));
    let download = directory.join(format!("{package}.part"));
    fs::create_dir_all(&download).with_context(|| format!("making {}", download.display()))?;
    let mut fetch = process::in_root("sh");
    fetch
        .current_dir(&download)
        .args(["-c", "apt-get download \"$0\" && dpkg-deb -x ./*.deb ."])
        .arg(package);
    process::output(&mut fetch)?;
    // It is there whole, or not at all.
    fs::rename(&download, &unpacked).with_context(|| format!("making {}", unpacked.display()))
}
