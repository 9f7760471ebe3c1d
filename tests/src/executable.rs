//! Programs that a test creates and then runs.
//!
//! Another process writes the file. If the test wrote it, a thread that forks at the same time
//! would pass the open file on to its child. Until the child calls `execve`, the kernel refuses to
//! run the program with `ETXTBSY`, "Text file busy".

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Copies a program. The copy has the mode `mode`, in octal digits.
pub fn copy(program: &Path, copy: &Path, mode: &str) -> Result<()> {
    install(program, copy, mode, "")
}

/// Writes a script that all users can run.
pub fn script(file: &Path, text: &str) -> Result<()> {
    install(Path::new("/dev/stdin"), file, "755", text)
}

fn install(from: &Path, to: &Path, mode: &str, stdin: &str) -> Result<()> {
    let mut install = Command::new("install")
        .args(["-m", mode])
        .args([from, to])
        .stdin(Stdio::piped())
        .spawn()
        .context("running install")?;
    // Dropped at the end of the statement, which is the end of the file for `install`.
    let written = install
        .stdin
        .take()
        .context("install has no stdin")?
        .write_all(stdin.as_bytes());
    let status = install.wait()?;
    ensure!(status.success(), "install {}: {status}", to.display());
    written.with_context(|| format!("writing {}", to.display()))
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        os::unix::process::CommandExt as _,
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        thread,
        time::Duration,
    };

    use super::*;

    /// A child that holds the files of this process for some time before it runs its program, as
    /// one does on a busy machine.
    fn slow_child() -> Command {
        let mut child = Command::new("/bin/true");
        let wait = || {
            thread::sleep(Duration::from_millis(2));
            io::Result::Ok(())
        };
        // SAFETY: it only sleeps.
        unsafe { child.pre_exec(wait) };
        child
    }

    #[test]
    fn what_was_just_made_runs_while_other_threads_fork() {
        let directory = tempfile::tempdir().unwrap();
        let (program, hook) = (directory.path().join("true"), directory.path().join("hook"));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        slow_child().status().unwrap();
                    }
                });
            }
            let ran = (0..50).try_for_each(|_| {
                copy(Path::new("/bin/true"), &program, "755")?;
                script(&hook, "#!/bin/sh\n")?;
                for made in [&program, &hook] {
                    let status = Command::new(made).status()?;
                    ensure!(status.success(), "{status}");
                }
                Ok(())
            });
            is_over.store(true, Relaxed);
            ran.unwrap();
        });
    }
}
