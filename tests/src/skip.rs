//! A test that cannot run here says so, and is counted: CI compares the count with what may be
//! skipped.

use std::{
    env,
    fs::OpenOptions,
    io::{Write, stderr},
    thread,
};

/// The file that skipped tests are appended to, one a line.
pub const FILE: &str = "RATELIMIT_SKIPPED";

/// Leaves the test that does not run as root.
#[macro_export]
macro_rules! require_root {
    () => {
        if !$crate::skip::is_root() {
            $crate::skip::report("needs root");
            return;
        }
    };
}

/// Leaves the test that has fewer CPUs than it asks for.
#[macro_export]
macro_rules! require_cpus {
    ($count:expr) => {
        if $crate::cpu::count() < $count {
            $crate::skip::report(concat!("needs ", $count, " CPUs"));
            return;
        }
    };
}

/// Leaves the test that has no program of this name to run.
#[macro_export]
macro_rules! require_command {
    ($name:literal) => {
        if !$crate::skip::has_command($name) {
            $crate::skip::report(concat!("needs the program ", $name));
            return;
        }
    };
}

/// Leaves the test that has no such file: a device, for example.
#[macro_export]
macro_rules! require_file {
    ($path:literal) => {
        if !std::path::Path::new($path).exists() {
            $crate::skip::report(concat!("needs ", $path));
            return;
        }
    };
}

/// Whether a program of this name can be run.
pub fn has_command(name: &str) -> bool {
    let directories = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&directories).any(|directory| directory.join(name).is_file())
}

/// Whether programs can be loaded and namespaces made.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Says that the test of this thread did not run because of the kernel, which no setup could mend.
/// `cargo xtask test` knows the words.
pub fn kernel_lacks(what: &str) {
    report(&format!("kernel lacks {what}"));
}

/// Says that the test of this thread did not run.
pub fn report(reason: &str) {
    let thread = thread::current();
    let line = format!("SKIPPED: {}: {reason}", thread.name().unwrap_or("a test"));
    // Not `eprintln!`, which the test runner keeps to itself when a test passes.
    let _ = writeln!(stderr(), "{line}");
    if let Some(path) = env::var_os(FILE) {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}"))
            .expect("the list of skipped tests can be written");
    }
}
