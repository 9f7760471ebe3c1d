//! Debian's kernels: those for virtual machines, which have drivers for little and start fast, and
//! the real-time ones.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::process;

const PREFIX: &str = "linux-image-";

/// The package of the newest kernel of `series`; `None` when apt knows none.
pub fn newest(series: &str) -> Result<Option<String>> {
    let real_time = series.strip_suffix("-rt");
    let (series, suffix) = real_time.map_or((series, "-cloud-amd64"), |it| (it, "-rt-amd64"));
    let mut search = process::in_root("apt-cache");
    search.args(["pkgnames", &format!("{PREFIX}{series}.")]);
    let names = process::output(&mut search)?;
    let mut candidates: Vec<&str> = names
        .lines()
        .filter(|name| name.ends_with(suffix))
        .collect();
    candidates.sort_by_key(|name| version(name));
    // apt's lists may still name kernels that are no longer available; skip those.
    for name in candidates.into_iter().rev() {
        let mut show = process::in_root("apt-cache");
        show.args(["show", "--no-all-versions", name]);
        if process::output(&mut show).is_ok_and(|text| text.contains("Filename: ")) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// The image of the kernel in `package`, which is downloaded unless an earlier run did.
pub fn fetch(package: &str, directory: &Path) -> Result<PathBuf> {
    let release = package.strip_prefix(PREFIX).unwrap_or(package);
    let unpacked = directory.join(package);
    let image = unpacked.join("boot").join(format!("vmlinuz-{release}"));
    if image.is_file() {
        return Ok(image);
    }
    let download = directory.join("download");
    fs::create_dir_all(&download).with_context(|| format!("making {}", download.display()))?;
    let mut fetch = process::in_root("sh");
    fetch
        .current_dir(&download)
        .args([
            "-c",
            "apt-get download \"$0\" && dpkg-deb -x ./*.deb \"$1\"",
        ])
        .args([Path::new(package), &unpacked]);
    process::output(&mut fetch)?;
    fs::remove_dir_all(&download).with_context(|| format!("emptying {}", download.display()))?;
    Ok(image)
}

/// The directory with the modules of the kernel in `package` once it was fetched.
pub fn modules(package: &str, directory: &Path) -> PathBuf {
    let release = package.strip_prefix(PREFIX).unwrap_or(package);
    let modules = Path::new("lib/modules").join(release).join("kernel");
    directory.join(package).join(modules)
}

/// The numbers in a name, by which kernels are sorted.
fn version(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}
