//! `cargo xtask check`: format, lints, documentation, dependencies, spelling, prose, width, and the
//! files in `contrib` for other tools. Every check runs, whatever the others found.

use std::{
    env,
    ffi::OsStr,
    fs, io, iter,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{
    process,
    setup::{self, ARM64, CARGO_DENY},
    workspace,
};

mod prose;
mod width;

/// Checks format, lints, documentation, dependencies, spelling and prose
#[derive(Args)]
pub struct Arguments {
    /// Check prose and the width of lines only, which takes a second
    #[arg(long)]
    prose: bool,
}

/// Runs every check, and names those that failed.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut failed = if arguments.prose {
        Vec::new()
    } else {
        run_all(all()?)?
    };
    eprintln!("check: prose");
    if !prose::is_natural()? {
        failed.push("prose");
    }
    eprintln!("check: width");
    if !width::is_kept()? {
        failed.push("width");
    }
    Ok(report(&failed))
}

/// The checks that are programs of others.
fn all() -> Result<Vec<(&'static str, Command)>> {
    setup::build()?;
    let cargo_deny = CARGO_DENY.install_here()?;

    let mut checks = vec![
        ("format", format()),
        ("format of the stages", format_stages()?),
        ("clippy", clippy()),
        ("types of the fuzz targets", fuzz_targets()),
        ("documentation", documentation()),
        ("dependencies", dependencies(&cargo_deny)),
    ];
    if setup::usual_compiler_has_sources() {
        checks.push(("clippy of the BPF programs", clippy_bpf("log")));
        checks.push(("clippy of the program for TCX", clippy_bpf("tcx")));
    } else {
        // Clippy is part of a compiler, and reads only the core library that the same one built.
        skip(
            "clippy of the BPF programs",
            "it needs rust-src of the usual compiler",
        );
    }
    match setup::install_arm64() {
        Ok(()) => checks.push(("types on arm64", arm64())),
        Err(error) => skip("types on arm64", &format!("{error:#}")),
    }
    match fetch_advisories(&cargo_deny) {
        Ok(()) => checks.push(("advisories", advisories(&cargo_deny))),
        Err(error) => {
            let error = error.to_string();
            let last_line = error.lines().next_back().unwrap_or_default();
            skip("advisories", &format!("no database: {last_line}"));
        }
    }
    match setup::python() {
        Ok(programs) => {
            checks.push(("spelling", process::in_root(programs.join("typos"))));
            checks.extend(contrib(&programs));
        }
        Err(error) => skip(
            "spelling, container file, DaemonSet and Ansible role",
            &format!("{error:#}"),
        ),
    }
    Ok(checks)
}

/// The names of the checks that failed.
fn run_all(checks: Vec<(&'static str, Command)>) -> Result<Vec<&'static str>> {
    let mut failed = Vec::new();
    for (name, mut command) in checks {
        eprintln!("check: {name}");
        if !process::status(&mut command)?.success() {
            failed.push(name);
        }
    }
    Ok(failed)
}

fn report(failed: &[&str]) -> ExitCode {
    if failed.is_empty() {
        eprintln!("check: all passed");
        return ExitCode::SUCCESS;
    }
    eprintln!("check: failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// The files of the repository that match a pattern.
fn tracked<T: AsRef<OsStr>>(patterns: &[T]) -> Result<Vec<String>> {
    let files = process::output(process::in_root("git").arg("ls-files").args(patterns))?;
    Ok(files.lines().map(str::to_owned).collect())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(workspace::root().join(path)).with_context(|| path.to_owned())
}

fn skip(name: &str, why: &str) {
    eprintln!("check: skipped: {name}: {why}");
}

fn format() -> Command {
    let mut cargo = process::cargo();
    cargo.args(["fmt", "--all", "--check"]);
    cargo
}

/// The stages of the packet decision, which a macro names: `cargo fmt` does not find them.
fn format_stages() -> Result<Command> {
    let directory = workspace::root().join("ratelimit-common/src/pipeline");
    let entries = fs::read_dir(&directory)?.collect::<io::Result<Vec<_>>>()?;
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--check"]);
    rustfmt.args(entries.iter().map(fs::DirEntry::path));
    Ok(rustfmt)
}

fn clippy() -> Command {
    let mut cargo = process::cargo();
    cargo
        .args(["clippy", "--workspace"])
        .args(workspace::WITHOUT_BPF)
        .args(["--all-targets", "--", "--deny", "warnings"]);
    cargo
}

/// The BPF programs are linted for their own target, as they build for no other, with a feature of
/// `ratelimit-ebpf`.
fn clippy_bpf(feature: &str) -> Command {
    let features =
        format!("ratelimit-bench-ebpf/program,ratelimit-ebpf/program,ratelimit-ebpf/{feature}");
    let mut cargo = process::cargo_for_bpf("clippy");
    cargo
        .args(["--package", "ratelimit-ebpf"])
        .args(["--package", "ratelimit-bench-ebpf"])
        .args(["--features", &features, "--", "--deny", "warnings"]);
    cargo
}

/// Checks the types of the fuzz targets, which no other build includes. That of the database is
/// left out, as it would check the daemon again. Nothing is linked, so libFuzzer is not built.
fn fuzz_targets() -> Command {
    let mut cargo = process::cargo();
    cargo
        .args(["check", "--manifest-path", "fuzz/Cargo.toml"])
        .arg("--target-dir")
        .arg(workspace::target_dir())
        .env("CUSTOM_LIBFUZZER_PATH", "/dev/null");
    cargo
}

/// Checks the types of daemon and command line for arm64. Build scripts of dependencies compile C,
/// which nothing is linked with, so no compiler for arm64 is needed: `true` succeeds in its place.
fn arm64() -> Command {
    let mut cargo = process::cargo();
    cargo.args(["check", "--target", ARM64]).args([
        "--package",
        "ratelimit-daemon",
        "--package",
        "rlctl",
    ]);
    for tool in ["CC", "AR"] {
        cargo.env(format!("{tool}_{}", ARM64.replace('-', "_")), "true");
    }
    cargo
}

/// Private items too: most of a binary is private, and its links are read in the source.
fn documentation() -> Command {
    let mut cargo = process::cargo();
    cargo
        .args(["doc", "--workspace"])
        .args(workspace::WITHOUT_BPF)
        .args(["--no-deps", "--document-private-items"])
        .env("RUSTDOCFLAGS", "--deny warnings");
    cargo
}

fn dependencies(cargo_deny: &Path) -> Command {
    let mut deny = process::in_root(cargo_deny);
    deny.args(["check", "licenses", "bans", "sources"]);
    deny
}

fn advisories(cargo_deny: &Path) -> Command {
    let mut deny = process::in_root(cargo_deny);
    deny.args(["check", "--disable-fetch", "advisories"]);
    deny
}

/// Fetches the database of advisories, which is in a git repository and not on crates.io.
fn fetch_advisories(cargo_deny: &Path) -> Result<()> {
    process::output(process::in_root(cargo_deny).args(["fetch", "db"])).map(drop)
}

/// Checks installed files with the tools that read them.
fn contrib(programs: &Path) -> [(&'static str, Command); 3] {
    let mut hadolint = process::in_root(programs.join("hadolint"));
    hadolint.arg("contrib/container/Containerfile");
    let mut kubernetes = process::in_root(programs.join("kubernetes-validate"));
    kubernetes.args(["--strict", "--quiet", "contrib/kubernetes/daemonset.yaml"]);
    let mut ansible = process::in_root(programs.join("ansible-lint"));
    // It runs `ansible-playbook --syntax-check` from the same directory.
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(iter::once(programs.to_owned()).chain(env::split_paths(&path)));
    ansible
        .args(["--offline", "--strict", "--profile", "production", "-q"])
        .arg("contrib/ansible")
        .env("PATH", path.expect("no directory of PATH has a colon"));
    [
        ("container file", hadolint),
        ("DaemonSet", kubernetes),
        ("Ansible role", ansible),
    ]
}
