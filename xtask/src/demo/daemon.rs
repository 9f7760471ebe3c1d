//! `ratelimitd` in the host's namespace, stopped with the demo.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    interrupt,
    lab::{self, INTERFACE, Lab},
    plan,
    rlctl::Rlctl,
    scratch::Scratch,
};

/// Where it serves metrics, in its namespace.
pub const METRICS: &str = "127.0.0.1:9798";

const BPFFS: &str = "/sys/fs/bpf";
const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// The daemon, and the files that it makes.
pub struct Daemon {
    child: Child,
    log: PathBuf,
    files: Scratch,
    _pins: Scratch,
}

impl Daemon {
    /// Starts it.
    pub fn start(program: &Path, lab: &Lab, files: Scratch) -> Result<Self> {
        let pins = Scratch::create(Path::new(BPFFS).join(lab::name("pins")))?;
        let file = files.path().join("config.toml");
        fs::write(&file, configuration(&pins, &files))
            .with_context(|| format!("writing {}", file.display()))?;
        let log = files.path().join("log");
        let stderr = File::create(&log).with_context(|| format!("making {}", log.display()))?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&file);
        // Ctrl-C goes to a whole process group; this one is stopped by its guard.
        command.process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let child = lab.host.inside(|| {
            let child = command.spawn();
            child.with_context(|| format!("starting {}", program.display()))
        })?;
        Ok(Self {
            child,
            log,
            files,
            _pins: pins,
        })
    }

    /// Where it takes commands.
    pub fn socket(&self) -> PathBuf {
        self.files.path().join("run/control.sock")
    }

    /// Returns when it answers, and so when the limits hold: in which mode it is attached.
    pub fn wait_until_ready(&mut self, rlctl: &Rlctl) -> Result<String> {
        let deadline = Instant::now() + START_MAX;
        loop {
            interrupt::check()?;
            if let Some(mode) = rlctl.attach_mode()? {
                return Ok(mode);
            }
            if let Some(status) = self.child.try_wait().context("looking at ratelimitd")? {
                bail!("ratelimitd ended with {status}:\n{}", self.log());
            }
            if Instant::now() > deadline {
                bail!("ratelimitd does not answer:\n{}", self.log());
            }
            thread::sleep(POLL);
        }
    }

    /// Stops it, and fails when it does not end as it should.
    pub fn stop(mut self) -> Result<()> {
        let status = self.end().context("stopping ratelimitd")?;
        if !status.success() {
            bail!("ratelimitd ended with {status}:\n{}", self.log());
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let process = self.child.id().try_into().map_err(io::Error::other)?;
        // SAFETY: no pointers are passed; the process was not waited for, so its number is still its own.
        unsafe { libc::kill(process, libc::SIGTERM) };
        let deadline = Instant::now() + STOP_MAX;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
        self.child.kill()?;
        self.child.wait()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|error| format!("no log: {error}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("warning: stopping ratelimitd: {error}");
        }
    }
}

/// What the user is shown, and where this daemon keeps its things.
fn configuration(pins: &Scratch, files: &Scratch) -> String {
    let (pins, files) = (pins.path().display(), files.path().display());
    format!(
        "on_stop = \"detach\"\n\n{}\n[metrics]\nlisten = \"{METRICS}\"\n\n\
        [paths]\npins = \"{pins}\"\nstate = \"{files}/state\"\nruntime = \"{files}/run\"\n",
        shown_configuration()
    )
}

/// The part of the configuration that matters to a user.
pub fn shown_configuration() -> String {
    format!(
        "[[interface]]\nname = \"{INTERFACE}\"\n\n{}",
        plan::POLICIES
    )
}
