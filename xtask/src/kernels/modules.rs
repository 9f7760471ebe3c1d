//! Modules of a kernel that tests need, as an archive behind that of the guest: the kernel unpacks
//! one after the other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{image, initramfs};
use crate::process;

/// The modules in load order. Modules that are built into a kernel have no file.
const MODULES: [&str; 6] = [
    "net/llc/llc.ko",
    "net/802/stp.ko",
    "net/802/garp.ko",
    "net/802/mrp.ko",
    "net/8021q/8021q.ko",
    "drivers/net/veth.ko",
];

/// The archive of the guest, and behind it the modules of the kernel in `package`, which was
/// unpacked into `directory`.
pub fn behind(guest: &Path, package: &str, directory: &Path) -> Result<PathBuf> {
    let root = directory.join("modules");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("emptying {}", root.display()))?;
    }
    let place = root.join("modules");
    fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
    let kernel = image::modules(package, directory);
    for (number, module) in MODULES.into_iter().enumerate() {
        let path = kernel.join(module);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let copied = place.join(format!("{number}-{name}"));
        let mut copy = process::in_root("sh");
        copy.args([
            "-c",
            "if test -f \"$0\"; then cp \"$0\" \"$1\"; elif test -f \"$0.xz\"; then xz -dc \
             \"$0.xz\" > \"$1\"; fi",
        ])
        .args([&path, &copied]);
        process::output(&mut copy)?;
    }
    let modules = initramfs::pack(&root, &directory.join("modules.cpio"))?;
    let both = directory.join(format!("{package}.initramfs"));
    let mut join = process::in_root("sh");
    join.args(["-c", "cat \"$0\" \"$1\" > \"$2\""])
        .args([guest, &modules, &both]);
    process::output(&mut join)?;
    Ok(both)
}
