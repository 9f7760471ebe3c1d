//! A network namespace with a name, removed with all its interfaces.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::Path,
    process::Command,
    thread,
};

use anyhow::{Context, Result, anyhow};

use crate::process;

/// A switch of a namespace, below /proc/sys.
const IPV6_OFF: [&str; 2] = [
    "/proc/sys/net/ipv6/conf/all/disable_ipv6",
    "/proc/sys/net/ipv6/conf/default/disable_ipv6",
];

/// The namespace.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes it. Its own IPv6 is off: nothing is on its wires but what the demo sends.
    pub fn create(name: String) -> Result<Self> {
        process::output(ip().args(["netns", "add", &name]))?;
        let namespace = Self { name };
        namespace.inside(silence_ipv6)?;
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` on it.
    pub fn ip(&self, arguments: &[&str]) -> Result<String> {
        process::output(ip().args(["-netns", &self.name]).args(arguments))
    }

    /// Does `work` in it: what is opened or started there stays there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                work()
            });
            thread.join().map_err(|_| anyhow!("a thread panicked"))?
        })
    }

    /// Moves the calling thread, and no other, into it.
    fn enter(&self) -> Result<()> {
        let path = Path::new("/run/netns").join(&self.name);
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        // SAFETY: no pointers are passed.
        if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } < 0 {
            let error = io::Error::last_os_error();
            return Err(error).with_context(|| format!("entering {}", path.display()));
        }
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = process::output(ip().args(["netns", "delete", &self.name])) {
            eprintln!("warning: {error:#}");
        }
    }
}

/// A Ctrl-C, which goes to a whole process group, does not come between.
fn ip() -> Command {
    let mut ip = Command::new(process::find("ip").unwrap_or_else(|| "ip".into()));
    ip.process_group(0);
    ip
}

/// Turns IPv6 off, where the kernel has it.
fn silence_ipv6() -> Result<()> {
    for path in IPV6_OFF {
        match fs::write(path, "1") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("writing {path}"));
            }
            _ => {}
        }
    }
    Ok(())
}
