//! The product as it is installed: its object, loaded and filled by its own control plane, on an
//! interface of a lab.

use std::{
    fmt::Write,
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use anyhow::{Context, Result, anyhow, ensure};
use aya::{
    maps::{HashMap, Map, MapData},
    programs::{ProgramFd, links::FdLink, links::PinnedLink, loaded_programs},
};
use ratelimit_common::{Instant, Ipv4, challenge::Verified, layout::VERSION};
use ratelimit_core::{
    api::{AllowRequest, BanRequest, Refused, ReloadRequest, StatsRow, UnbanRequest},
    config,
    exposition::Format,
    prefix::Prefix,
};
use ratelimit_daemon::{
    control::{
        Candidate, Controller, Handle, Store,
        commands::{Allow, Ban, CompareOn, Detach, Reload, Tick, Unban},
        open_kernel, queries,
    },
    daemon,
    http::{ControlApi, serve_control},
    loader::{Local, Pins},
    metrics,
    protected::Protected,
    recording::Recorder,
    traffic_log::TrafficLog,
};
use ratelimit_tests::lab::{INTERFACE, Lab};
use tempfile::TempDir;
use tokio::{net::UnixListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

use crate::scenario::Scenario;

/// The author of changes.
const AUTHOR: &str = "bench";
/// The configuration file.
const CONFIG: &str = "config.toml";

/// An installation, which goes when this is dropped.
pub struct Installation {
    /// Missing only while it is stopped.
    controller: Option<Controller>,
    program: ProgramFd,
    pins: PathBuf,
    directory: TempDir,
}

impl Installation {
    /// Installs `scenario` on the near interface of `lab`.
    pub fn new(lab: &Lab, scenario: &Scenario) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let pins = pins();
        let path = directory.path().join(CONFIG);
        let toml = toml(scenario, directory.path(), &pins)?;
        fs::write(&path, toml).context("writing the configuration")?;
        let mut controller = start(lab, directory.path())?;
        fill(&mut controller, scenario)?;
        ensure_counted(&controller, scenario)?;
        verify(&pins, scenario)?;
        lab.near.enter(|| controller.attach());
        let unenforced = controller.unenforced();
        ensure!(unenforced.is_empty(), "not attached: {unenforced:?}");
        let program = attached_program(&pins)?;
        Ok(Self {
            controller: Some(controller),
            program,
            pins,
            directory,
        })
    }

    /// Stops it. The program stays on its interface.
    pub fn stop(&mut self) {
        self.controller = None;
    }

    /// Starts it again.
    pub fn start(&mut self, lab: &Lab) -> Result<()> {
        self.controller = Some(start(lab, self.directory.path())?);
        Ok(())
    }

    /// Takes the program off its interface, and with it everything in the kernel.
    pub fn detach(&mut self) -> Result<()> {
        let author = AUTHOR.into();
        let detached = self.controller().run(Detach(author));
        detached.map_err(refused).map(drop)
    }

    /// Bans prefixes for a number of seconds.
    pub fn ban(&mut self, prefixes: Vec<Prefix>, seconds: f64) -> Result<()> {
        let request = BanRequest {
            prefixes,
            seconds: Some(seconds),
            ..BanRequest::default()
        };
        self.controller()
            .run(Ban(request, AUTHOR.into()))
            .map_err(refused)
            .map(drop)
    }

    /// Ends bans.
    pub fn unban(&mut self, prefixes: Vec<Prefix>) -> Result<()> {
        let request = UnbanRequest {
            prefixes,
            ..UnbanRequest::default()
        };
        self.controller()
            .run(Unban(request, AUTHOR.into()))
            .map_err(refused)
            .map(drop)
    }

    /// Runs the control plane on its threads, as the daemon does, while `work` runs.
    pub fn run<T>(&mut self, work: impl FnOnce(&Running) -> Result<T>) -> Result<T> {
        let controller = self.controller.take().context("it did not start")?;
        let (handle, thread) = controller.spawn()?;
        let runtime = daemon::runtime()?;
        let answer = work(&Running { handle, runtime });
        let controller = thread.join().expect("the controller does not panic");
        self.controller = Some(controller);
        answer
    }

    /// Serves the control API while `work` runs, which gets the socket.
    pub fn serve<T>(&mut self, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let directory = self.directory.path().to_owned();
        let socket = directory.join("control.sock");
        let answer = self.run(|Running { handle, runtime }| {
            let stop = CancellationToken::new();
            let listener = {
                let _inside = runtime.enter();
                UnixListener::bind(&socket)?
            };
            let (recorder, _requests) = Recorder::new();
            let (history, _ended) = TrafficLog::begin(directory.clone())?;
            let api = ControlApi::new(handle.clone(), recorder, history);
            let server = runtime.spawn(serve_control(listener, api, stop.clone()));
            let answer = work(&socket);
            stop.cancel();
            runtime.block_on(server)?;
            answer
        });
        fs::remove_file(&socket)?;
        answer
    }

    /// Does what is due each second.
    pub fn tick(&mut self) {
        let controller = self.controller();
        controller.run(Tick);
        while controller.run(CompareOn) {}
    }

    /// Reads the configuration and the lists that it names.
    pub fn reload(&mut self) -> Result<()> {
        let path = self.directory.path().join(CONFIG);
        let candidate = Candidate::of_files(&path);
        let reload = Reload {
            candidate,
            request: ReloadRequest::default(),
        };
        let reloaded = self.controller().run(reload);
        reloaded.map_err(refused).map(drop)
    }

    fn controller(&mut self) -> &mut Controller {
        self.controller
            .as_mut()
            .expect("it is there but while it is stopped")
    }

    /// The program that is on the interface.
    pub const fn program(&self) -> &ProgramFd {
        &self.program
    }

    /// The packets that got a verdict for `reason` so far, and all packets.
    pub fn packets(&self, reason: &str) -> Result<(u64, u64)> {
        Ok((self.sum(|row| row.reason == reason)?, self.sum(|_| true)?))
    }

    /// The packets that were dropped so far, for any reason.
    pub fn dropped(&self) -> Result<u64> {
        self.sum(|row| row.action == "drop")
    }

    fn sum(&self, is_counted: impl Fn(&StatsRow) -> bool) -> Result<u64> {
        let controller = self.controller.as_ref().context("it did not start")?;
        let rows = queries::stats(&controller.state).map_err(refused)?;
        let counted = rows.iter().filter(|row| is_counted(row));
        Ok(counted.map(|row| row.packets).sum())
    }
}

/// The control plane while it runs.
pub struct Running {
    handle: Handle,
    runtime: Runtime,
}

impl Running {
    /// Reads the 100 busiest sources.
    pub fn top(&self) -> Result<()> {
        let top = self
            .runtime
            .block_on(queries::top(&self.handle, 100, Vec::new()))?;
        top.map_err(refused).map(drop)
    }

    /// Writes the page of metrics.
    pub fn scrape(&self) -> Result<()> {
        let snapshot = self.runtime.block_on(queries::scrape(&self.handle))?;
        let snapshot = snapshot.map_err(refused)?;
        black_box(metrics::render(&snapshot, Format::OpenMetrics));
        Ok(())
    }

    /// Bans a prefix for an hour.
    pub fn ban(&self, prefix: Prefix) -> Result<()> {
        let request = BanRequest {
            prefixes: vec![prefix],
            seconds: Some(3_600.0),
            ..BanRequest::default()
        };
        let author = AUTHOR.into();
        let ban = Ban(request, author);
        let banned = self.runtime.block_on(self.handle.call_grouped(ban))?;
        banned.0.map_err(refused).map(drop)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            eprintln!("warning: {}: {error:#}", self.pins.display());
        }
    }
}

/// Does what the daemon does before it attaches the program.
fn start(lab: &Lab, directory: &Path) -> Result<Controller> {
    let config = config::load(&directory.join(CONFIG))?;
    let store = Store::open(directory)?;
    lab.near.enter(|| {
        let kernel = open_kernel(&config, &store, Box::new(Local::default()))?;
        Controller::new(config, store, kernel.datapath, Protected::default())
    })
}

/// Pins that no other installation has.
fn pins() -> PathBuf {
    static INSTALLATIONS: AtomicU32 = AtomicU32::new(0);
    let number = INSTALLATIONS.fetch_add(1, Relaxed);
    format!("/sys/fs/bpf/rlbench-{}-{number}", std::process::id()).into()
}

fn toml(scenario: &Scenario, directory: &Path, pins: &Path) -> Result<String> {
    let mut toml = format!("[source]\n{}\n", scenario.store.toml());
    if let Some(capacity) = scenario.capacity {
        writeln!(toml, "capacity = {capacity}")?;
    }
    writeln!(toml, "{}", scenario.new_sources.toml(scenario.store))?;
    writeln!(toml, "{}", scenario.toml)?;
    writeln!(
        toml,
        "[[interface]]\nname = \"{INTERFACE}\"\nmode = \"{}\"",
        scenario.mode
    )?;
    writeln!(toml, "[metrics]\nlisten = false\n[paths]")?;
    writeln!(toml, "pins = \"{}\"", pins.display())?;
    for key in ["state", "runtime"] {
        writeln!(toml, "{key} = \"{}\"", directory.display())?;
    }
    Ok(toml)
}

fn fill(controller: &mut Controller, scenario: &Scenario) -> Result<()> {
    let prefixes = scenario.all_bans();
    if !prefixes.is_empty() {
        let request = BanRequest {
            prefixes,
            force: true,
            ..BanRequest::default()
        };
        let author = AUTHOR.into();
        let banned = controller.run(Ban(request, author));
        banned.map_err(refused)?;
    }
    if !scenario.allows.is_empty() {
        let request = AllowRequest {
            prefixes: scenario.allows.clone(),
            ..AllowRequest::default()
        };
        controller
            .run(Allow(request, AUTHOR.into()))
            .map_err(refused)?;
    }
    Ok(())
}

/// Ensures that packets are counted for an entry exactly where the scenario says so.
fn ensure_counted(controller: &Controller, scenario: &Scenario) -> Result<()> {
    let Some((prefix, is_wanted)) = scenario.counted else {
        return Ok(());
    };
    let bans = queries::all_bans(controller).into_iter();
    let allows = queries::allows(&controller.state).into_iter();
    let mut counters = bans
        .map(|ban| (ban.prefix, ban.counter))
        .chain(allows.map(|allow| (allow.prefix, allow.counter)));
    let (_, counter) = counters
        .find(|(listed, _)| *listed == prefix)
        .with_context(|| format!("{prefix} is on no list"))?;
    let is_counted = counter.packets.is_some();
    ensure!(is_counted == is_wanted, "{prefix}: counted: {is_counted}");
    Ok(())
}

/// Has sources known as verified, whose proof no bench sends.
fn verify(pins: &Path, scenario: &Scenario) -> Result<()> {
    if scenario.verified.is_empty() {
        return Ok(());
    }
    let layout = pins.join(format!("v{VERSION}"));
    let path = layout.join("maps").join("VERIFIED_V4");
    let map = MapData::from_pin(path).and_then(Map::from_map_data);
    let map = map.context("opening the map of verified sources")?;
    let mut map: HashMap<_, Ipv4, u64> = map.try_into()?;
    for source in &scenario.verified {
        let verified = Verified::here(Instant::from_nanos(u64::MAX));
        map.insert(Ipv4::from(*source), verified.to_bits(), 0)?;
    }
    Ok(())
}

fn attached_program(pins: &Path) -> Result<ProgramFd> {
    let links = Pins::open(pins)?.all_links()?;
    let [link] = &links[..] else {
        return Err(anyhow!(
            "{} links are pinned in {}",
            links.len(),
            pins.display()
        ));
    };
    let pinned = PinnedLink::from_pin(&link.path).context("opening the pinned link")?;
    let id = FdLink::from(pinned)
        .info()
        .context("reading the pinned link")?
        .program_id();
    let mut programs = loaded_programs().flatten();
    let program = programs
        .find(|program| program.id() == id)
        .context("the program is gone")?;
    program.fd().context("opening the program")
}

fn refused(refused: Refused) -> anyhow::Error {
    anyhow!(refused.error)
}
