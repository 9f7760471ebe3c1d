//! `rlctl demo`: the limiter on real packets between two network namespaces of its own.
//!
//! It only uses what a user has: a configuration file, `rlctl`, and the packets that arrive. The
//! namespaces have no names and end with the process.

mod network;
mod traffic;

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use ratelimit_core::api::Status;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use self::{
    network::{INTERFACE, Network},
    traffic::{Figure, Flow, Receiver},
};
use crate::{
    client::Client,
    clock,
    exit_code::ExitCode,
    failure::Failure,
    output::{BAD, GOOD, Output, say, styled},
    report::Report,
    table::Table,
};

const POLICIES: &str = r#"
[policy.default]
limits = [{ packets = 100, per = "1s" }]

[policy.partner]
sources = ["203.0.113.0/24"]
limits = [{ bytes = "50kB", per = "1s", algorithm = "fixed-window" }]

[allow]
sources = ["192.0.2.10"]
"#;
/// The time for which all sources send. The last window is half over by then and full for every
/// source that exceeds its limit.
const DURATION: Duration = Duration::from_millis(3600);
/// The source that is banned, and how long it sends in each step: fewer packets than its limit.
const BANNED: &str = "198.51.100.7";
const BAN: Duration = Duration::from_millis(100);
const START_MAX: Duration = Duration::from_mins(1);
const STOP_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Runs the demo. It fails if a source got more or less through than its limit says.
pub fn run(output: &Output) -> Result<Report, Failure> {
    // SAFETY: takes no pointers.
    if unsafe { libc::geteuid() } != 0 {
        let error = "the demo makes network namespaces and loads a BPF program, which needs root";
        return Err(Failure::new(ExitCode::NoPermission, error).hint("sudo rlctl demo"));
    }
    show(output).map_err(|error| Failure::refused(format!("the demo failed: {error:#}")))
}

fn show(output: &Output) -> Result<Report> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let network = Network::new()?;
    let toml = format!("[[interface]]\nname = \"{INTERFACE}\"\n{POLICIES}");
    output.progress(&format!(
        "Two network namespaces; ratelimitd runs in one of them with this configuration:\n\n{toml}"
    ));
    let daemon = Daemon::start(&network, &toml, &interrupted)?;
    let mut receiver = Receiver::new(&network)?;
    let flows = traffic::flows();
    output.progress(&format!(
        "\n{} sources send for {:.1} s from the other one.\n",
        flows.len(),
        DURATION.as_secs_f64()
    ));
    let mut figures = traffic::send(&network, &mut receiver, &flows, DURATION, &interrupted)?;
    output.progress(&table(&figures).to_string());

    let banned = [Flow::steady(BANNED, 400)];
    for (words, is_banned) in [
        (
            &["ban", BANNED, "--for", "10m", "--reason", "demo"][..],
            true,
        ),
        (&["unban", BANNED], false),
    ] {
        daemon.rlctl(words, output)?;
        for mut figure in traffic::send(&network, &mut receiver, &banned, BAN, &interrupted)? {
            let expected = if is_banned { 0 } else { figure.sent };
            figure.expected = expected..=expected;
            let Figure { sent, arrived, .. } = figure;
            let mark = mark(&figure);
            output.progress(&format!("{sent} packets sent, {arrived} arrived  {mark}"));
            figures.push(figure);
        }
    }
    daemon.rlctl(&["stats"], output)?;
    drop(daemon);
    let wrong = figures.iter().filter(|it| !it.is_right());
    let wrong: Vec<String> = wrong
        .map(|it| {
            let (source, sent, arrived) = (&it.source, it.sent, it.arrived);
            format!(
                "{arrived} of {sent} packets of {source} arrived, {}",
                plain_mark(it)
            )
        })
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    let all = figures.len();
    let text = format!("\nAll {all} counts match the limits. Everything is removed again.");
    Ok(Report::from_json(json!({ "figures": figures }), text))
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new("SOURCE | TRAFFIC | LIMIT | >SENT | >ARRIVED | ");
    for it in figures {
        table.row([
            it.source.clone(),
            it.traffic.clone(),
            it.limit.clone(),
            it.sent.to_string(),
            it.arrived.to_string(),
            plain_mark(it),
        ]);
    }
    table
}

fn mark(figure: &Figure) -> String {
    let style = if figure.is_right() { GOOD } else { BAD };
    styled(style, &plain_mark(figure))
}

fn plain_mark(figure: &Figure) -> String {
    let (start, end) = (figure.expected.start(), figure.expected.end());
    if figure.is_right() {
        "ok".to_owned()
    } else {
        format!("expected {start} to {end}")
    }
}

/// A daemon with its own paths, which are removed when it is dropped.
struct Daemon {
    child: Child,
    directory: PathBuf,
    pins: PathBuf,
}

impl Daemon {
    fn start(network: &Network, toml: &str, interrupted: &AtomicBool) -> Result<Self> {
        let program = program()?;
        let name = format!("ratelimit-demo-{}", process::id());
        let (directory, pins) = (
            env::temp_dir().join(&name),
            Path::new("/sys/fs/bpf").join(&name),
        );
        // The daemon reads its files with the rights of its own user.
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
        let file = |name: &str| directory.join(name);
        let text = format!(
            "on_stop = \"detach\"\n\
             {toml}\n\
             [metrics]\n\
             listen = false\n\
             [paths]\n\
             pins = \"{}\"\n\
             state = \"{}\"\n\
             runtime = \"{}\"\n",
            pins.display(),
            file("state").display(),
            file("run").display()
        );
        fs::write(file("config.toml"), text)?;
        let log = fs::File::create(file("log"))?;
        let mut command = Command::new(&program);
        command.arg("--config").arg(file("config.toml"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = network.near.enter(|| command.spawn());
        let child = child.with_context(|| format!("starting {}", program.display()))?;
        let mut daemon = Self {
            child,
            directory,
            pins,
        };
        let client = Client::new(daemon.socket());
        let deadline = clock::monotonic() + START_MAX;
        let is_ready = |status: &Status| status.interfaces.iter().all(|it| it.attached);
        while !client.get("/v1/status").is_ok_and(|it| is_ready(&it.value)) {
            check(interrupted)?;
            let ended = daemon.child.try_wait()?.is_some();
            if ended || clock::monotonic() > deadline {
                let log = fs::read_to_string(daemon.directory.join("log")).unwrap_or_default();
                bail!("ratelimitd did not start: {}", log.trim());
            }
            thread::sleep(POLL);
        }
        Ok(daemon)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("run/control.sock")
    }

    /// Shows a command and its output.
    fn rlctl(&self, words: &[&str], output: &Output) -> Result<()> {
        output.progress(&format!("\n$ rlctl {}", words.join(" ")));
        let mut command = Command::new(env::current_exe()?);
        let said = command
            .arg("--socket")
            .arg(self.socket())
            .args(words)
            .output()?;
        let text = [said.stdout, said.stderr].concat();
        output.progress(String::from_utf8_lossy(&text).trim_end());
        ensure!(said.status.success(), "`rlctl {}` failed", words.join(" "));
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(id) = self.child.id().try_into() {
            // SAFETY: takes no pointers, and the child was not waited for.
            unsafe { libc::kill(id, SIGTERM) };
        }
        let deadline = clock::monotonic() + STOP_MAX;
        while matches!(self.child.try_wait(), Ok(None)) {
            if clock::monotonic() > deadline {
                let _ = self.child.kill();
            }
            thread::sleep(POLL);
        }
        for path in [&self.pins, &self.directory] {
            if let Err(error) = fs::remove_dir_all(path)
                && path.exists()
            {
                say(&format!("cannot remove {}: {error}", path.display()));
            }
        }
    }
}

/// The daemon beside this program, or the installed one.
fn program() -> Result<PathBuf> {
    let beside = env::current_exe()?.with_file_name("ratelimitd");
    let installed = PathBuf::from("/usr/sbin/ratelimitd");
    let mut programs = [beside, installed].into_iter();
    let program = programs.find(|it| it.is_file());
    program.context("there is no ratelimitd beside rlctl or in /usr/sbin")
}

/// Ends the demo, which removes everything, after Ctrl-C.
fn check(interrupted: &AtomicBool) -> Result<()> {
    ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
    Ok(())
}
