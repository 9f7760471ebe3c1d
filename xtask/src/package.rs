//! `cargo xtask package`: a package for Debian, and an archive with static binaries for every other
//! Linux.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{process, setup, workspace};

const PROGRAMS: [&str; 2] = ["ratelimitd", "rlctl"];
/// The profile of both, and the directory that cargo names after it.
const PROFILE: &str = "dist";
/// The target whose C library is linked into the program.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// Makes a package for Debian in `target/package`
///
/// It is checked by lintian, and installed by `apt install ./target/package/ratelimit_*.deb`.
#[derive(Args)]
pub struct Arguments {
    /// Make an archive with static binaries for any Linux instead, after the demo ran with them
    #[arg(long = "static")]
    is_static: bool,
}

/// Makes one of them.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::package()?;
    let packages = workspace::target_dir().join("package");
    fs::create_dir_all(&packages).with_context(|| format!("making {}", packages.display()))?;
    if arguments.is_static {
        archive(&packages)
    } else {
        debian(&packages)
    }
}

fn debian(packages: &Path) -> Result<()> {
    build(&[])?;
    let mut pack = process::in_root("contrib/debian/build.sh");
    pack.arg(workspace::target_dir().join(PROFILE));
    let package = process::output(pack.arg(packages).arg(env!("CARGO_PKG_VERSION")))?;
    let mut lintian = process::in_root("lintian");
    process::run(lintian.args(["--allow-root", "--fail-on", "error,warning", &package]))?;
    println!("{package}");
    Ok(())
}

fn archive(packages: &Path) -> Result<()> {
    process::run(process::in_root("rustup").args(["target", "add", STATIC]))?;
    build(&["--target", STATIC])?;
    let file = packages.join(format!(
        "ratelimit-{}-{STATIC}.tar.gz",
        env!("CARGO_PKG_VERSION")
    ));
    let binaries = workspace::target_dir().join(STATIC).join(PROFILE);
    try_out(&binaries)?;
    let mut pack = process::in_root("tar");
    pack.args(["--create", "--gzip", "--file"])
        .arg(&file)
        .args(["--owner=0", "--group=0", "--transform=s,^,ratelimit/,"])
        .args(["README.md", "LICENSE-MIT", "LICENSE-APACHE", "contrib"])
        .arg("--directory")
        .arg(binaries);
    process::run(pack.args(PROGRAMS))?;
    println!("{}", file.display());
    Ok(())
}

/// Ensures that the programs ask the host for no library, and limit packets as they do elsewhere:
/// the C library decides which system calls are made.
fn try_out(binaries: &Path) -> Result<()> {
    for name in PROGRAMS {
        let program = binaries.join(name);
        let mut readelf = process::in_root("readelf");
        readelf.args(["--wide", "--program-headers", "--dynamic"]);
        let headers = process::output(readelf.arg(&program))?;
        let is_static = !headers.contains("INTERP") && !headers.contains("(NEEDED)");
        ensure!(is_static, "{} is not static:\n{headers}", program.display());
        let version = process::output(process::in_root(&program).arg("--version"))?;
        let expected = format!("{name} {}", env!("CARGO_PKG_VERSION"));
        ensure!(version.starts_with(&expected), "not {expected}: {version}");
    }
    let mut check = process::in_root(binaries.join("rlctl"));
    process::run(check.args(["config", "check", "contrib/config.toml"]))?;
    // It runs the ratelimitd beside it.
    let mut demo = process::as_root(&binaries.join("rlctl").to_string_lossy())?;
    process::run(demo.arg("demo"))
}

fn build(arguments: &[&str]) -> Result<()> {
    let mut build = process::cargo();
    build.args(["build", "--profile", PROFILE, "--bins"]).args([
        "--package",
        "ratelimit-daemon",
        "--package",
        "rlctl",
    ]);
    process::run(build.args(arguments))
}
