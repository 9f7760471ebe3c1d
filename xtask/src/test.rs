//! `cargo xtask test`: all tests, including those that need a kernel.
//!
//! A test that cannot run appends `SKIPPED: name: reason` to the file that `RATELIMIT_SKIPPED`
//! names, and passes. Skipped tests are listed at the end. In CI they are failures, unless the
//! kernel itself lacks the feature.

use std::{
    env, fs, io,
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, setup, workspace};

/// The tests that run once more where the state of sources is in a `compact` table, which
/// `RATELIMIT_STORE` asks for.
const ON_BOTH_STORES: [&str; 4] = ["exactness", "layers", "restart", "sliding_log"];

/// The tests that run on both stores with `--thorough`.
const ON_BOTH_STORES_THOROUGH: [&str; 11] = [
    "clock",
    "exactness",
    "interface_rules",
    "layers",
    "live",
    "new_sources",
    "reload",
    "restart",
    "shapes",
    "sliding_log",
    "wide",
];

/// The files of `tests/tests` that are programs of their own: other kernels run them.
const OWN_PROGRAMS: [&str; 4] = crate::kernels::TESTS;

/// The tests that `--thorough` runs once more with the server of Valkey, where setup could fetch
/// it. It has no TLS, and is no sentinel.
const WITH_VALKEY: [&str; 1] = ["cluster"];

/// The variable that limits how many tests Rust's test runner starts at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// Most tests of the kernel wait, for time to pass or for a daemon, and each has namespaces of its
/// own.
const TESTS_PER_CPU: usize = 2;

/// Reason of a test that no setup could make run.
const KERNEL_LACKS: &str = "kernel lacks";
/// Reason if setup could not download a dependency.
const UNREACHABLE: &str = "PyPI cannot be reached";

/// Runs every test, after installing what they need
#[derive(Args)]
pub struct Arguments {
    /// Fail when a test was skipped, unless the kernel lacks what it tests (the default where CI is
    /// set)
    #[arg(long)]
    no_skips: bool,
    /// Run the long tests, too: millions of packets, thousands of seeds, and every way to damage a
    /// database
    ///
    /// These are the tests that `cargo test` ignores. They are built with the optimization that
    /// they need.
    #[arg(long)]
    thorough: bool,
    /// Run the tests whose names contain one of these
    filter: Vec<String>,
}

/// Runs the tests. Its exit code is that of the first `cargo test` that failed.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let skipped_file = workspace::target_dir().join("skipped-tests");
    remove(&skipped_file)?;
    setup::everything(|| {
        // The tests of one package cannot ask cargo for the binaries of another.
        let mut binaries = arguments.cargo("build");
        process::run(binaries.args(["--bins", "--tests"]))
    })?;
    let on_both_stores: &[&str] = if arguments.thorough {
        &ON_BOTH_STORES_THOROUGH
    } else {
        &ON_BOTH_STORES
    };
    let mut on_compact = arguments.tests_of(on_both_stores, &skipped_file)?;
    on_compact.env("RATELIMIT_STORE", "compact");
    let mut passes = vec![arguments.tests(&skipped_file)?, on_compact];
    let mut skipped = String::new();
    if arguments.thorough {
        match setup::valkey_server() {
            Ok(server) => {
                let mut with_valkey = arguments.tests_of(&WITH_VALKEY, &skipped_file)?;
                with_valkey.env("RATELIMIT_STORE_SERVER", server);
                passes.push(with_valkey);
            }
            Err(error) => skipped = format!("SKIPPED: cluster with Valkey: {error:#}\n"),
        }
    }
    // All of them: else what fails in a later one hides behind the first.
    let mut failed = None;
    for pass in &mut passes {
        let status = process::status(pass)?;
        if !status.success() {
            failed = failed.or(Some(status));
        }
    }

    skipped += &read(&skipped_file)?;
    for line in skipped.lines() {
        eprintln!("{line}");
    }
    let may_skip = !arguments.no_skips && env::var_os("CI").is_none();
    if let Some(status) = failed {
        return Ok(process::exit_code(status));
    }
    let may = |line: &str| line.contains(KERNEL_LACKS) || line.contains(UNREACHABLE);
    if !may_skip && !skipped.lines().all(may) {
        eprintln!("error: tests were skipped that have to run here");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn tests(&self, skipped_file: &Path) -> Result<Command> {
        self.testing(&[], skipped_file)
    }

    /// The tests of some files of `tests/tests`.
    fn tests_of(&self, files: &[&str], skipped_file: &Path) -> Result<Command> {
        let own_programs = files.iter().filter(|file| OWN_PROGRAMS.contains(file));
        let programs: Vec<&str> = own_programs.copied().chain(["main"]).collect();
        let mut cargo = self.testing(&programs, skipped_file)?;
        // In the program that has most of the files, each is a module. Parts of names are skipped:
        // `sources` would take `new_sources` along.
        let is_wanted = |file: &String| files.iter().any(|it| it.ends_with(file.as_str()));
        for file in test_files()?.iter().filter(|file| !is_wanted(file)) {
            cargo.args(["--skip", &format!("{file}::")]);
        }
        Ok(cargo)
    }

    /// Runs these programs of tests, or all.
    fn testing(&self, programs: &[&str], skipped_file: &Path) -> Result<Command> {
        let mut cargo = self.cargo("test");
        cargo.arg("--no-fail-fast");
        for program in programs {
            cargo.args(["--test", program]);
        }
        cargo.env("RATELIMIT_SKIPPED", skipped_file);
        if env::var_os(THREADS).is_none() {
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            cargo.env(THREADS, (TESTS_PER_CPU * cpus).to_string());
        }
        if !process::is_root()? {
            run_as_root(&mut cargo);
        }
        cargo.arg("--").args(&self.filter);
        cargo.args(self.thorough.then_some("--include-ignored"));
        Ok(cargo)
    }

    /// A call of cargo for every package, so that it meets what the others have built: the features
    /// of a dependency are those that the packages of a call want.
    fn cargo(&self, command: &str) -> Command {
        let mut cargo = process::cargo();
        process::once(&mut cargo)
            .args([command, "--workspace"])
            .args(workspace::WITHOUT_BPF);
        if self.thorough {
            cargo.args(["--profile", "thorough"]);
        }
        cargo
    }
}

/// The names of the files and directories of `tests/tests`, without what they end in.
fn test_files() -> Result<Vec<String>> {
    let directory = workspace::root().join("tests/tests");
    let entries = fs::read_dir(&directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.with_context(|| format!("reading {}", directory.display()))?;
    let paths = entries.iter().map(fs::DirEntry::path);
    let names = paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    Ok(names.collect())
}

/// Builds as the user and runs as root, where that can be had; the tests themselves say what they
/// miss otherwise.
fn run_as_root(cargo: &mut Command) {
    if process::find("sudo").is_some() {
        let runner = r#"target."cfg(all())".runner = ["sudo", "--preserve-env"]"#;
        cargo.args(["--config", runner]);
    } else {
        eprintln!("test: not root, and no sudo: tests that need a kernel are skipped");
    }
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn read(file: &Path) -> Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        answer => answer.with_context(|| format!("reading {}", file.display())),
    }
}
