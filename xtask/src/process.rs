//! Running other programs, with errors that say which command failed and how.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Command, ExitCode, ExitStatus, Output, Stdio},
    thread,
};

use anyhow::{Context, Result, bail};

use crate::{setup, workspace};

/// The cargo that runs this, in the root of the repository.
pub fn cargo() -> Command {
    in_root(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A build that is not followed by another one after an edit, and of the BPF object that is
/// released: the demo and the tests share it.
pub fn once(cargo: &mut Command) -> &mut Command {
    cargo
        .env("CARGO_INCREMENTAL", "0")
        // A debug build has a log otherwise: `ratelimit-daemon/build.rs`.
        .env("RATELIMIT_BPF_LOG", "off")
}

/// `program`, in the root of the repository.
pub fn in_root(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    command
}

/// `program` as root: itself where this runs as root, through `sudo` otherwise.
pub fn as_root(program: &str) -> Result<Command> {
    if is_root()? {
        return Ok(Command::new(program));
    }
    if find("sudo").is_none() {
        bail!("this needs root, and there is no sudo");
    }
    let mut sudo = Command::new("sudo");
    sudo.arg(program);
    Ok(sudo)
}

/// Builds a program of the tests as it is released, and runs it as root: loading BPF is for root,
/// building is not. The exit code is the program's.
pub fn measured(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let mut build = cargo();
    build
        .args(["build", "--release", "--package", "ratelimit-tests"])
        .args(["--bin", program])
        // Measure the released BPF object, which has no log.
        .env("RATELIMIT_BPF_LOG", "off");
    run(&mut build)?;
    let binary = workspace::target_dir().join("release").join(program);
    let mut command = as_root(&binary.to_string_lossy())?;
    command.current_dir(workspace::root()).args(arguments);
    status(&mut command).map(exit_code)
}

/// Builds the daemon and `rlctl`, and a program of the tests with them.
pub fn build_with_daemon(program: Option<&str>) -> Result<()> {
    let mut build = cargo();
    let build = once(build.args([
        "build",
        "--package",
        "ratelimit-daemon",
        "--package",
        "rlctl",
    ]));
    build.args(["--bin", "ratelimitd", "--bin", "rlctl"]);
    if let Some(program) = program {
        build.args(["--package", "ratelimit-tests", "--bin", program]);
    }
    thread::scope(|scope| {
        scope.spawn(build_bpf_early);
        run(build)
    })
}

/// Cargo with a command for BPF programs. Their target comes without a built `core`.
pub fn cargo_for_bpf(command: &str) -> Command {
    let mut cargo = cargo();
    cargo
        .args([command, "--profile", workspace::BPF_PROFILE])
        .args(["--target", workspace::BPF_TARGET])
        .args(["-Z", "build-std=core"])
        .env("RUSTC_BOOTSTRAP", "1");
    cargo
}

/// Builds the BPF objects where the build script of the daemon will find them. Cargo runs that
/// script last, for most of a minute and beside an idle CPU. If this fails, the script says why.
fn build_bpf_early() {
    let directory = workspace::target_dir().join("debug/build/bpf-object");
    for (features, binaries) in [
        ("program", &["--bin", "ratelimit", "--bin", "entry"][..]),
        ("program,lean", &["--bin", "ratelimit"]),
        ("program,tcx", &["--bin", "ratelimit"]),
    ] {
        let mut cargo = cargo_for_bpf("build");
        cargo
            .args(["--quiet", "--package", "ratelimit-ebpf"])
            .args(["--features", features])
            .args(binaries)
            .env("RUSTC", setup::compiler_with_sources())
            .env("CARGO_TARGET_DIR", &directory)
            .env("CARGO_BUILD_BUILD_DIR", &directory)
            .stderr(Stdio::null());
        let _ = cargo.status();
    }
}

/// Whether this runs as root.
pub fn is_root() -> Result<bool> {
    let process = fs::metadata("/proc/self").context("reading /proc/self")?;
    Ok(process.uid() == 0)
}

/// Runs `command`, which writes to this process's terminal.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// Runs `command`, which writes to this process's terminal, and answers how it ended.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| cannot_run(command))
}

/// Runs `command` and returns its stdout. Errors contain its stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().with_context(|| cannot_run(command))?;
    if !status.success() {
        let stderr = String::from_utf8_lossy(&stderr);
        bail!(
            "`{}` failed: {status}\n{}",
            line(command),
            stderr.trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned())
}

/// The exit code of a program, as this one's.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Finds `program` in `PATH` and in the administrator's directories, which a user's `PATH` leaves
/// out.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

fn cannot_run(command: &Command) -> String {
    format!("running `{}`", line(command))
}

/// The command as one would type it.
fn line(command: &Command) -> String {
    [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
