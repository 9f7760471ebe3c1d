//! Servers of Debian's packages, on the CPU of the host.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ratelimit_tests::{debian, lab::Namespace};

use crate::placement::HOST;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server of a Debian package. It ends when this is dropped.
pub struct Server(Child);

impl Server {
    /// Starts `directory/package` of that package.
    pub fn start(
        namespace: &Namespace,
        directory: &str,
        package: &str,
        arguments: &[&str],
    ) -> Result<Self> {
        let unpacked = debian::directory(package);
        let child = Command::new("ip")
            .args(["netns", "exec", namespace.name(), "taskset", "-c"])
            .arg(HOST.to_string())
            .arg(unpacked.join(directory).join(package))
            .args(arguments)
            .env("LD_LIBRARY_PATH", unpacked.join("usr/lib/x86_64-linux-gnu"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Self(child.with_context(|| format!("running {package}"))?))
    }

    /// Its process: each program on the way has become the next one.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(id) = self.0.id().try_into() {
            // SAFETY: takes no pointers; the child was not waited for, so the number is its.
            unsafe { libc::kill(id, libc::SIGTERM) };
        }
        // The only possible error is that the server has ended.
        let _ = self.0.wait();
    }
}

/// Returns a configuration of nginx: a single process, so that none is left behind.
pub fn nginx(directory: &Path, http: &str) -> String {
    let path = directory.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary
        .map(|kind| format!("{kind}_temp_path {path}/{kind};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid {path}/nginx.pid;\nerror_log {path}/nginx.log;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\naccess_log off;\n{temporary}{http}\n}}\n"
    )
}

/// Writes a file, and returns its path.
pub fn write(directory: &Path, name: &str, text: &str) -> Result<String> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.display().to_string())
}

/// Waits until it is there.
pub fn wait_for(is_there: impl Fn() -> bool, what: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_there() {
        ensure!(Instant::now() < deadline, "{what} does not answer");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
