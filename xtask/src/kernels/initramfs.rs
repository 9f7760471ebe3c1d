//! What the guest has in place of a disk: a shell, programs such as tests, and the libraries that they are linked with.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::guest_program::GuestProgram;
use crate::process;

/// Runs the programs one after the other, says of each that it passed and skipped nothing, and turns the machine off.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/tools:/bin RATELIMIT_BPF_LOG=off
ln -s /run /var/run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs tmp /tmp
for module in /modules/*; do insmod $module; done
ip link set lo up
export RATELIMIT_SKIPPED=/tmp/skipped
for test in /tests/*; do
    rm -f $RATELIMIT_SKIPPED
    $test ARGUMENTS 2>&1 && test ! -e $RATELIMIT_SKIPPED && echo "PASSED ${test#/tests/}"
done
poweroff -f
"#;

const DIRECTORIES: [&str; 9] = [
    "bin", "dev", "proc", "run", "sys", "tests", "tmp", "tools", "var",
];

/// What tests of networks run, and busybox has not.
const TOOLS: [&str; 2] = ["ip", "ethtool"];

/// Packs the archive, and answers where it is. Each of the programs gets these arguments. What else they read lies at the root.
pub fn build(
    directory: &Path,
    programs: &[GuestProgram],
    arguments: &str,
    files: &[&Path],
) -> Result<PathBuf> {
    let root = directory.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("emptying {}", root.display()))?;
    }
    for name in DIRECTORIES {
        make(&root.join(name))?;
    }
    let busybox = process::find("busybox").context("there is no busybox")?;
    copy(&busybox, &root.join("bin/busybox"))?;
    for program in programs {
        let mut strip = process::in_root("strip");
        strip
            .arg("-o")
            .arg(root.join("tests").join(&program.name))
            .arg(&program.path);
        process::output(&mut strip)?;
        copy_libraries(&program.path, &root)?;
    }
    for file in files {
        copy(file, &root.join(file.file_name().unwrap_or_default()))?;
    }
    for tool in TOOLS {
        let path = process::find(tool).with_context(|| format!("there is no {tool}"))?;
        copy(&path, &root.join("tools").join(tool))?;
        copy_libraries(&path, &root)?;
    }
    write_init(&root.join("init"), arguments)?;
    pack(&root, &directory.join("initramfs"))
}

fn copy_libraries(program: &Path, root: &Path) -> Result<()> {
    for library in libraries(program)? {
        let place = root.join(library.strip_prefix("/").unwrap_or(&library));
        make(place.parent().unwrap_or(root))?;
        copy(&library, &place)?;
    }
    Ok(())
}

/// The libraries of a program, its loader included: whatever `ldd` names by a path.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let listing = process::output(process::in_root("ldd").arg(program))?;
    let words = listing.split_whitespace();
    Ok(words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

fn write_init(file: &Path, arguments: &str) -> Result<()> {
    fs::write(file, INIT.replace("ARGUMENTS", arguments))
        .and_then(|()| fs::set_permissions(file, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("writing {}", file.display()))
}

pub fn pack(root: &Path, archive: &Path) -> Result<PathBuf> {
    let mut cpio = process::in_root("sh");
    cpio.current_dir(root)
        .args(["-c", "find . | cpio --quiet -o -H newc > \"$0\""])
        .arg(archive);
    process::output(&mut cpio)?;
    Ok(archive.to_owned())
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}
