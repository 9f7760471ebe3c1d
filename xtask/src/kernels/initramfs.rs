//! The initramfs of the guest: a shell, test programs, and their libraries.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::guest_program::GuestProgram;
use crate::process;

/// Runs the programs one after the other, says of each that it passed and skipped nothing, and
/// turns the machine off.
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

/// The shell, and what tests of networks run that busybox has not, with the directories where they
/// are looked for.
const TOOLS: [(&str, &str); 3] = [("bin", "busybox"), ("tools", "ip"), ("tools", "ethtool")];

/// Builds the archive and returns its path. Each program gets these arguments; other files are at
/// the root.
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
    for (place, tool) in TOOLS {
        let path = process::find(tool).with_context(|| format!("there is no {tool}"))?;
        add(&path, &root.join(place).join(tool), &root)?;
    }
    write_init(&root.join("init"), arguments)?;
    pack(&root, &directory.join("initramfs"))
}

/// Copies a program and its libraries: Debian's busybox is dynamic, that of busybox-static is not.
fn add(program: &Path, to: &Path, root: &Path) -> Result<()> {
    copy(program, to)?;
    copy_libraries(program, root)
}

fn copy_libraries(program: &Path, root: &Path) -> Result<()> {
    for library in libraries(program)? {
        let place = root.join(library.strip_prefix("/").unwrap_or(&library));
        make(place.parent().unwrap_or(root))?;
        copy(&library, &place)?;
    }
    Ok(())
}

/// The libraries of a program, its loader included: whatever `ldd` names by a path. It fails on a
/// static program, which has none.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let mut ldd = process::in_root("ldd");
    let output = ldd.arg(program).env("LC_ALL", "C").output()?;
    let [listing, error] = [output.stdout, output.stderr].map(String::from_utf8);
    let (listing, error) = (listing?, error?);
    let is_static = error.contains("not a dynamic executable");
    ensure!(
        output.status.success() || is_static,
        "ldd {}: {error}",
        program.display()
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_of_the_guest_comes_with_its_libraries() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        // The shell is dynamic on every distribution; a script behaves like a static program.
        add(Path::new("/bin/sh"), &root.join("sh"), root).unwrap();
        let script = root.join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        add(&script, &root.join("copy"), root).unwrap();
        let libraries = libraries(Path::new("/bin/sh")).unwrap();
        assert!(!libraries.is_empty());
        for library in libraries {
            let copied = root.join(library.strip_prefix("/").unwrap());
            assert!(copied.is_file(), "{}", copied.display());
        }
    }
}
