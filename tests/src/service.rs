//! `ratelimitd` and `rlctl` as they are installed: the binaries, in the near namespace of a lab.

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use ratelimit_core::api::StatsRow;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::{
    PATIENCE,
    lab::{INTERFACE, Lab},
    waiting,
};

/// The log line of a daemon that repairs the kernel's tables.
const REPAIR: &str = "repaired the kernel tables";

/// A daemon with paths of its own, on the near end of a lab.
pub struct Service {
    directory: TempDir,
    pins: PathBuf,
    namespace: String,
    child: Option<Child>,
    /// The user that the daemon is to become; the one that it chooses where it is empty.
    pub user: &'static str,
    /// The client of an SSH session, as sshd passes it to `rlctl`: `192.0.2.9 51514 192.0.2.1 22`.
    pub ssh_connection: String,
    /// The user who ran `sudo rlctl`.
    pub sudo_user: String,
    /// The socket of systemd for the state of the daemon.
    pub notify_socket: Option<PathBuf>,
    /// Whether the test changes the kernel's tables itself. Where it does not, a daemon that
    /// repairs something has made a mistake before.
    pub is_tampered_with: bool,
}

/// The output of `rlctl`.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Service {
    /// A service that does not run yet, with the configuration `toml`. Interface, paths and metrics
    /// are its own.
    pub fn new(lab: &Lab, toml: &str) -> Result<Self> {
        static SERVICES: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "rltest-{}-{}",
            std::process::id(),
            SERVICES.fetch_add(1, Relaxed)
        );
        let service = Self {
            directory: tempfile::tempdir()?,
            pins: Path::new("/sys/fs/bpf").join(unique),
            namespace: format!("/run/netns/{}", lab.near.name()),
            child: None,
            user: "",
            ssh_connection: String::new(),
            sudo_user: String::new(),
            notify_socket: None,
            is_tampered_with: false,
        };
        // The daemon reads its files with the rights of its own user.
        fs::set_permissions(service.directory.path(), fs::Permissions::from_mode(0o755))?;
        service.configure(toml)?;
        // The metrics are served on the loopback interface.
        lab.near.ip(&["link", "set", "lo", "up"])?;
        Ok(service)
    }

    /// A lab, and a service that runs in it.
    pub fn in_lab(toml: &str) -> Result<(Lab, Self)> {
        let lab = Lab::new()?;
        let service = Self::started(&lab, toml)?;
        Ok((lab, service))
    }

    /// A service that runs.
    pub fn started(lab: &Lab, toml: &str) -> Result<Self> {
        let mut service = Self::new(lab, toml)?;
        service.start()?;
        Ok(service)
    }

    /// Replaces the configuration file. Adds the interface and paths if they are missing.
    pub fn configure(&self, toml: &str) -> Result<()> {
        let mut own = toml.to_owned();
        own.push_str("\n[paths]\n");
        for (key, path) in [
            ("pins", self.pins.clone()),
            ("state", self.path("state")),
            ("runtime", self.path("run")),
        ] {
            writeln!(own, "{key} = \"{}\"", path.display())?;
        }
        if let (Ok(store), false) = (env::var("RATELIMIT_STORE"), toml.contains("store = ")) {
            let store = format!("store = \"{store}\"");
            if own.contains("[source]\n") {
                own = own.replace("[source]\n", &format!("[source]\n{store}\n"));
            } else {
                writeln!(own, "[source]\n{store}")?;
            }
        }
        if !toml.contains("[[interface]]") {
            writeln!(own, "[[interface]]\nname = \"{INTERFACE}\"")?;
        }
        fs::write(self.config(), own).context("writing the configuration")
    }

    /// Replaces the configuration file, and has it read again; answers what `rlctl` said.
    pub fn reload(&self, toml: &str) -> Result<String> {
        self.configure(toml)?;
        self.rlctl_ok(&["reload"])
    }

    /// The path of the configuration file.
    pub fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// The directory of pins.
    pub fn pins(&self) -> &Path {
        &self.pins
    }

    /// Starts the daemon, and waits until it takes commands.
    pub fn start(&mut self) -> Result<()> {
        self.begin()?;
        let deadline = Instant::now() + PATIENCE;
        let socket = self.path("run/control.sock");
        // It listens last. A program that asks again and again would take the time that the
        // verifier needs.
        let listens = || UnixStream::connect(&socket).is_ok();
        // 6: it answers, and an interface is not there.
        while !(listens() && matches!(self.rlctl(&["status"])?.code, 0 | 6)) {
            let child = self.child.as_mut().expect("it was just spawned");
            if let Some(status) = child.try_wait()? {
                self.child = None;
                bail!("ratelimitd ended with {status}: {}", self.log());
            }
            ensure!(
                Instant::now() < deadline,
                "ratelimitd does not respond: {}",
                self.log()
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Starts the daemon, without waiting for it.
    pub fn begin(&mut self) -> Result<()> {
        self.child = Some(self.spawn()?);
        Ok(())
    }

    /// Starts a daemon that is expected to refuse, and answers what it said.
    pub fn refusal(&self) -> Result<String> {
        let mut child = self.spawn()?;
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
                bail!("ratelimitd did not refuse: {}", self.log());
            }
            thread::sleep(Duration::from_millis(10));
        }
        ensure!(
            !child.wait()?.success(),
            "ratelimitd ended in success: {}",
            self.log()
        );
        Ok(self.log())
    }

    /// Sends a signal: `-KILL`, `-HUP`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let id = self.pid()?.to_string();
        let status = Command::new("kill").args([signal, &id]).status()?;
        ensure!(status.success(), "kill {signal} {id}: {status}");
        Ok(())
    }

    /// Sends a signal and waits for the end.
    pub fn stop(&mut self, signal: &str) -> Result<()> {
        self.signal(signal)?;
        if let Some(mut child) = self.child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// Runs `rlctl`.
    pub fn rlctl(&self, arguments: &[&str]) -> Result<Said> {
        let socket = self.path("run/control.sock");
        let output = self
            .inside(&binary("rlctl"))
            .arg("--socket")
            .arg(socket)
            .args(arguments)
            .env("NO_COLOR", "1")
            // Whoever runs the tests over SSH is not to be protected from them.
            .env("SSH_CONNECTION", &self.ssh_connection)
            .env("SUDO_USER", &self.sudo_user)
            .output()
            .context("running rlctl")?;
        Ok(Said::from(output))
    }

    /// Runs `rlctl` on its own terminal with keyboard input; both streams are one there.
    pub fn rlctl_on_terminal(&self, arguments: &[&str], typed: &str) -> Result<Said> {
        let rlctl = binary("rlctl").display().to_string();
        let socket = self.path("run/control.sock").display().to_string();
        let words = [&[rlctl.as_str(), "--socket", &socket], arguments].concat();
        let mut child = self
            .inside(Path::new("script"))
            .args([
                "--quiet",
                "--return",
                "--command",
                &words.join(" "),
                "/dev/null",
            ])
            .env("NO_COLOR", "1")
            .env("SSH_CONNECTION", &self.ssh_connection)
            .env("SUDO_USER", &self.sudo_user)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("running rlctl on a terminal")?;
        let mut stdin = child.stdin.take().context("stdin is a pipe")?;
        stdin.write_all(typed.as_bytes())?;
        let output = child.wait_with_output()?;
        Ok(Said::from(output))
    }

    /// Runs `rlctl`, which must succeed, and answers what it printed.
    pub fn rlctl_ok(&self, arguments: &[&str]) -> Result<String> {
        let said = self.rlctl(arguments)?;
        ensure!(said.code == 0, "rlctl {}: {said:?}", arguments.join(" "));
        Ok(said.stdout)
    }

    /// The response to `GET path` on the metrics listener, head and body.
    pub fn get(&self, path: &str, accept: &str) -> Result<String> {
        let url = format!("http://127.0.0.1:9798{path}");
        let output = self
            .inside(Path::new("curl"))
            .args(["--silent", "--include", "--max-time", "10", "--header"])
            .arg(format!("Accept: {accept}"))
            .arg(url)
            .output()
            .context("running curl")?;
        ensure!(output.status.success(), "curl {path}: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The response to `GET /metrics`, head and body.
    pub fn metrics(&self) -> Result<String> {
        self.get("/metrics", "text/plain")
    }

    /// The packets with a verdict so far.
    pub fn packets(&self, action: &str, reason: &str) -> Result<u64> {
        let rows: Vec<StatsRow> = self.json(&["stats"])?;
        let rows = rows.into_iter();
        let rows = rows.filter(|row| row.action == action && row.reason == reason);
        Ok(rows.map(|row| row.packets).sum())
    }

    /// The number of packets that were judged since the daemon started.
    pub fn received(&self) -> Result<u64> {
        let rows: Vec<StatsRow> = self.json(&["stats"])?;
        Ok(rows.iter().map(|row| row.packets).sum())
    }

    /// The output of `rlctl --json`, whatever its exit code. For the status of a busy daemon, the
    /// command is repeated: on a loaded machine it takes seconds to replace a program.
    pub fn json<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T> {
        const ATTEMPTS: usize = 10;
        let ask = || self.rlctl(&[&["--json"], arguments].concat());
        let mut said = ask()?;
        let may_ask_again = |said: &Said| {
            arguments.first() == Some(&"status")
                && said.stderr.contains("it is busy with many requests")
        };
        for _ in 1..ATTEMPTS {
            if !may_ask_again(&said) {
                break;
            }
            said = ask()?;
        }
        serde_json::from_str(&said.stdout).with_context(|| format!("{arguments:?}: {said:?}"))
    }

    /// Waits until something is so, and answers how long that took.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl FnMut() -> bool) -> Duration {
        waiting::until(is_so, || format!("{what}: {}", self.log()))
    }

    /// Asks until there is an answer.
    #[track_caller]
    pub fn wait_for<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        waiting::answer(ask, || format!("{what}: {}", self.log()))
    }

    /// Returns a command in the namespace of the daemon, with the host's bpffs.
    pub fn inside(&self, program: &Path) -> Command {
        // Not `ip netns exec`, which hides the bpffs behind its own /sys. A fork of this process
        // would copy its page tables.
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.namespace))
            .arg(program);
        command
    }

    /// The file of the network namespace that it is in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A file of this service.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The process of the daemon.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("it does not run")?.id())
    }

    /// Returns a value of the daemon's memory from the kernel, in bytes: `VmRSS`, `VmHWM`.
    pub fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
        let kibibytes: u64 = kibibytes.context("no such line")?.parse()?;
        Ok(kibibytes << 10)
    }

    /// Waits until the log has a line with `part`.
    #[track_caller]
    pub fn wait_for_log(&self, part: &str) -> Result<()> {
        self.wait_until(part, || self.log().contains(part));
        Ok(())
    }

    /// Waits until an event of the last minutes has `part`, and answers them all.
    #[track_caller]
    pub fn wait_for_event(&self, part: &str) -> String {
        self.wait_for(part, || {
            let events = self.rlctl_ok(&["events", "--since", "5m"]).ok()?;
            events.contains(part).then_some(events)
        })
    }

    /// Returns the daemon's log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn spawn(&self) -> Result<Child> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))?;
        let mut command = self.inside(&binary("ratelimitd"));
        command.arg("--config").arg(self.config());
        if !self.user.is_empty() {
            command.args(["--user", self.user]);
        }
        if let Some(socket) = &self.notify_socket {
            command.env("NOTIFY_SOCKET", socket);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("running ratelimitd")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.child.is_some() {
            // A panic may have come first; what fails here is a process left behind.
            let _ = self.stop("-KILL");
        }
        let _ = fs::remove_dir_all(&self.pins);
        if self.is_tampered_with || thread::panicking() {
            return;
        }
        let log = self.log();
        let mut repairs = log.lines().filter(|line| line.contains(REPAIR));
        assert_eq!(
            repairs.next(),
            None,
            "the daemon wrote other tables than it intended: {log}"
        );
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A binary of this workspace, built in the same profile as the program that runs.
pub fn binary(name: &str) -> PathBuf {
    let this = env::current_exe().expect("a process knows its program");
    let mut directories = this.ancestors().skip(1);
    let directory = directories
        .find(|directory| !directory.ends_with("deps"))
        .expect("programs stand in the directory of their profile");
    let binary = directory.join(name);
    assert!(
        binary.exists(),
        "{} is not built: run `cargo xtask test`",
        binary.display()
    );
    binary
}
