//! Packages that are unpacked and not installed: what installs them would start their servers on
//! this host, and register one of them with a service on the net.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::say;
use crate::{process, workspace};

/// Packages that the tests run next to the daemon.
const PACKAGES: [&[&str]; 6] = [
    &["crowdsec"],
    &["fail2ban"],
    REDIS,
    NGINX,
    &["caddy"],
    HAPROXY,
];
/// With libraries that no other package installs.
const NGINX: &[&str] = &["nginx", "libpcre2-8-0"];
const HAPROXY: &[&str] = &[
    "haproxy",
    "liblua5.3-0",
    "libopentracing-c-wrapper0",
    "libopentracing1",
    "libpcre2-8-0",
];
/// With its client, and libraries that no other package installs.
const REDIS: &[&str] = &[
    "redis-server",
    "redis-tools",
    "libatomic1",
    "libjemalloc2",
    "liblzf1",
];

/// Servers for the floods, with libraries that no other package installs.
const SERVERS: [&[&str]; 2] = [
    NGINX,
    &["nsd", "libevent-2.1-7", "libfstrm0", "libprotobuf-c1"],
];

/// Downloads and unpacks the packages that an earlier run did not. The tests of one that cannot be
/// had are skipped, and say so.
pub fn fetch_all() {
    for packages in PACKAGES {
        if let Err(error) = fetch(packages, &directory()) {
            say(&format!("{} cannot be had: {error:#}", packages.join(" ")));
        }
    }
}

/// Downloads and unpacks Redis, where an earlier run did not.
pub fn fetch_redis() -> Result<()> {
    fetch(REDIS, &directory()).context("a demo of a cluster needs Redis")
}

/// Downloads and unpacks the servers that floods are sent at, where an earlier run did not.
pub fn fetch_servers() -> Result<()> {
    fetch_each(&SERVERS).context("users need servers")
}

/// Downloads and unpacks the programs that limit keys, where an earlier run did not.
pub fn fetch_key_limiters() -> Result<()> {
    fetch_each(&[NGINX, HAPROXY, REDIS]).context("the benchmark compares with them")
}

fn fetch_each(packages: &[&[&str]]) -> Result<()> {
    let mut packages = packages.iter();
    packages.try_for_each(|packages| fetch(packages, &directory()))
}

fn directory() -> PathBuf {
    workspace::tools_dir().join("debian")
}

/// Puts what packages have into one directory, which has the name of the first of them.
fn fetch(packages: &[&str], directory: &Path) -> Result<()> {
    let package = packages.first().context("a directory has a package")?;
    let unpacked = directory.join(package);
    if unpacked.is_dir() {
        return Ok(());
    }
    say(&format!("apt-get download {}", packages.join(" ")));
    let download = directory.join(format!("{package}.part"));
    fs::create_dir_all(&download).with_context(|| format!("making {}", download.display()))?;
    let mut fetch = process::in_root("sh");
    fetch
        .current_dir(&download)
        .args([
            "-c",
            "apt-get download \"$@\" && for file in ./*.deb; do dpkg-deb -x \"$file\" . || exit 1; \
             done",
            "fetch",
        ])
        .args(packages);
    process::output(&mut fetch)?;
    // It is there whole, or not at all.
    fs::rename(&download, &unpacked).with_context(|| format!("making {}", unpacked.display()))
}
