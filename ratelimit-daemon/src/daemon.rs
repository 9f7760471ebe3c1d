//! The life of `ratelimitd`: build, run until it is stopped, drain.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow};
use ratelimit_core::{
    api::ReloadRequest,
    config::{Config, OnStop},
};
use sd_notify::NotifyState;
use tokio::{
    net::UnixSocket,
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    clock,
    control::{
        self, Controller, Handle, ListFile, OWN_WORK, PINS,
        commands::{
            CompareOn, Detach, DueLists, EndTrial, IsTrialOver, Reload, SampleTraffic, Stop,
            TakeList, TakeSnapshot, Tick,
        },
    },
    datapath::Rings,
    directories, heap,
    http::{self, ControlApi},
    loader::{self, Remote},
    lock::Lock,
    private, privileges, process,
    protected::Protected,
    recording::{self, Recorder},
    rtnetlink::Watch,
    systemd,
    tasks::{cluster, crowdsec, events, keys, links, protected, samples, tcp_connections, traffic},
    traffic_log::TrafficLog,
    user::User,
};

/// The time that pending requests get after a stop.
const GRACE: Duration = Duration::from_secs(5);
/// Clients that may wait to be taken.
const BACKLOG: u32 = 1024;
/// The interval for removing expired bans, and for comparing the kernel's tables with the intent.
const TICK: Duration = Duration::from_secs(1);

/// The runtime of everything but the controller. It has one thread: two would wake each other for
/// every few requests, which costs a quarter of the time of 100,000 bans over the API. Long
/// operations run on other threads.
pub fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build();
    runtime.context("starting the runtime")
}

/// Everything that needs capabilities, done; nothing runs yet.
pub struct Daemon {
    enforcing: Enforcing,
    loading: loader::Process,
    watch: Watch,
    links: Watch,
    control: UnixSocket,
    metrics: control::Listeners,
    keys: control::Listeners,
    config: Config,
    state_directory: PathBuf,
    socket: PathBuf,
    _lock: Lock,
}

/// A controller of the kernel's tables, which are filled, and the rings to read.
struct Enforcing {
    controller: Controller,
    rings: Rings,
}

impl Enforcing {
    /// Applies a configuration, except for its interfaces.
    fn of(start: &control::Start, loader: &Remote, protected: &Protected) -> anyhow::Result<Self> {
        let config = &start.config;
        let (store, fallback) = control::open_store(&config.paths.state, &config.paths.runtime)?;
        let opened = control::open_kernel(config, &store, Box::new(loader.clone()))?;
        let mut controller =
            Controller::new(config.clone(), store, opened.datapath, protected.clone())?;
        controller.fallback(fallback);
        controller.note_reset(opened.usage_reset);
        let rings = opened.rings;
        Ok(Self { controller, rings })
    }
}

impl Daemon {
    /// Becomes `user`, adopts pinned objects, fills the tables, and only then has the loader attach
    /// the program, so that the first packet meets every ban. The control socket is opened last: a
    /// client that can connect finds a working daemon.
    ///
    /// # Errors
    ///
    /// If something is missing or refused; nothing new stays attached.
    pub fn build(
        start: impl Into<control::Start>,
        user: &User,
        (mut loader, loading): (Remote, loader::Process),
    ) -> anyhow::Result<Self> {
        let mut start: control::Start = start.into();
        let paths = start.config.paths.clone();
        directories::prepare(&paths, user)?;
        process::raise_descriptor_limit();
        let lock = user.act(|| Lock::take(&paths.state, &paths.runtime))??;
        loader.hold(lock.share().context("sharing the lock")?)?;
        start.config = user.act(|| control::resume(start.config, &paths.state))?;
        let socket = paths.runtime.join("control.sock");
        let control = bind_control(&socket, user)?;
        privileges::give_up(user)?;
        info!(user = user.name(), "dropped all privileges");
        // It listens before it looks: nothing is missed in between.
        let watch = Watch::new(&protected::GROUPS)?;
        let links = Watch::new(&links::GROUPS)?;
        let protected = Protected::find();
        let enforcing = Enforcing::of(&start, &loader, &protected);
        let mut enforcing = enforcing.or_else(|error| {
            let before = start.before(&error);
            start = before.ok_or(error)?;
            Enforcing::of(&start, &loader, &protected)
        })?;
        let controller = &mut enforcing.controller;
        controller.note_start(start.texts, start.refused);
        controller.attach();
        let metrics = controller.serve_metrics();
        let keys = controller.serve_keys();
        heap::give_back();
        Ok(Self {
            enforcing,
            loading,
            watch,
            links,
            control,
            metrics,
            keys,
            config: start.config,
            state_directory: paths.state,
            socket,
            _lock: lock,
        })
    }

    /// Runs until SIGTERM or SIGINT.
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = runtime()?;
        let ended = runtime.block_on(self.serve());
        // A file or a directory that does not answer keeps its thread, and not the daemon.
        runtime.shutdown_background();
        ended
    }

    async fn serve(self) -> anyhow::Result<()> {
        let stop = CancellationToken::new();
        let Enforcing { controller, rings } = self.enforcing;
        let (controller, thread) = controller.spawn().context("starting the controller")?;
        let mut tasks = JoinSet::new();
        let control = self
            .control
            .listen(BACKLOG)
            .context("listening on the control socket")?;
        let address = control.local_addr()?;
        let socket = address.as_pathname().unwrap_or(Path::new("")).display();
        info!(%socket, "taking commands");
        let (history, history_ended) =
            TrafficLog::begin(self.state_directory).context("starting the history")?;
        tasks.spawn(until(&stop, OWN_WORK, self.loading.watch()));
        let (recorder, requests) = Recorder::new();
        tasks.spawn(recording::serve(rings.captures, requests, stop.clone()));
        let serve = http::serve_control(
            control,
            ControlApi::new(controller.clone(), recorder, history.clone()),
            stop.clone(),
        );
        tasks.spawn(async {
            serve.await;
            Ok(())
        });
        tasks.spawn(http::serve_metrics(
            self.metrics,
            controller.clone(),
            history.clone(),
            stop.clone(),
        ));
        let keys = controller.keys().clone();
        tasks.spawn(http::serve_keys(self.keys, keys, stop.clone()));
        let banned = keys::ban_clients(controller.clone());
        tasks.spawn(until(&stop, "a ban of a key space", banned));
        tasks.spawn(control::asked_as(
            "the counters, for the history",
            traffic::follow(history, controller.clone(), stop.clone()),
        ));
        let alive = || systemd::notify(NotifyState::Watchdog);
        let ticks = keep_time(controller.clone(), alive);
        tasks.spawn(until(&stop, "the tasks of each second", ticks));
        let current = protected::keep_current(self.watch, controller.clone());
        tasks.spawn(until(&stop, OWN_WORK, current));
        let attached = links::keep_attached(self.links, controller.clone());
        tasks.spawn(until(&stop, OWN_WORK, attached));
        tasks.spawn(until(&stop, OWN_WORK, keep_lists(controller.clone())));
        let snapshots = take_snapshots(controller.clone());
        tasks.spawn(until(&stop, "a snapshot of usage", snapshots));
        let trials = end_trials(controller.clone());
        tasks.spawn(until(&stop, "the end of a trial", trials));
        let reloads = reload_on_hangup(controller.clone());
        tasks.spawn(until(&stop, "a reload by SIGHUP", reloads));
        let decisions = crowdsec::follow(controller.clone());
        tasks.spawn(until(&stop, "decisions of CrowdSec", decisions));
        let shared = cluster::follow(controller.clone());
        tasks.spawn(until(&stop, "cluster messages", shared));
        let forwarded = events::forward_events(rings.events, controller.clone());
        tasks.spawn(until(&stop, OWN_WORK, forwarded));
        let detected = samples::follow(rings.samples, controller.clone());
        tasks.spawn(until(&stop, OWN_WORK, detected));
        let connected = tcp_connections::follow(controller.clone());
        tasks.spawn(until(&stop, OWN_WORK, connected));
        tasks.spawn(wait_for_signal(stop.clone()));
        drop(controller);
        // In the background: a router has a million routes.
        tokio::task::spawn_blocking(move || control::warn_of_elsewhere(&self.config));
        systemd::notify(NotifyState::Ready);
        info!("ready");

        let failed = first_failure(&mut tasks, &stop).await;
        systemd::notify(NotifyState::Stopping);
        drain(tasks).await;
        if timeout(GRACE, history_ended).await.is_err() {
            warn!("cannot write the last seconds of the history in time");
        }
        finish(thread, &self.socket)?;
        failed.map_or(Ok(()), Err)
    }
}

/// Runs a task until `stop`. Meanwhile `what` is reported as the activity that keeps the controller
/// busy.
fn until<T: Future<Output = anyhow::Result<()>>>(
    stop: &CancellationToken,
    what: &'static str,
    task: T,
) -> impl Future<Output = anyhow::Result<()>> + use<T> {
    let stop = stop.clone();
    control::asked_as(what, async move {
        stop.run_until_cancelled(task).await.unwrap_or(Ok(()))
    })
}

/// Waits until the daemon should stop, and returns the error of a task that ended it.
async fn first_failure(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    stop: &CancellationToken,
) -> Option<anyhow::Error> {
    let mut failed = None;
    while !stop.is_cancelled() {
        match tasks.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => failed = Some(error),
            Some(Err(error)) => failed = Some(anyhow!(error).context("a task failed")),
            None => break,
        }
        if failed.is_some() {
            stop.cancel();
        }
    }
    failed
}

async fn drain(mut tasks: JoinSet<anyhow::Result<()>>) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(GRACE, all).await.is_err() {
        warn!("aborted requests in progress");
    }
    tasks.shutdown().await;
}

fn finish(thread: thread::JoinHandle<Controller>, socket: &Path) -> anyhow::Result<()> {
    let mut controller = thread
        .join()
        .map_err(|_| anyhow!("the controller failed"))?;
    controller.run(Stop);
    controller.run(TakeSnapshot);
    // Samples have no reader any more.
    if let Err(error) = controller.run(SampleTraffic(false)) {
        warn!(%error, "packets are still sampled");
    }
    if let Err(error) = private::remove(socket) {
        // If the directory belongs to another user, the unused socket remains, and the next start
        // replaces it.
        warn!(
            error = format!("{error:#}"),
            "cannot remove the control socket"
        );
    }
    match controller.state.intent.config.on_stop {
        OnStop::Keep => {
            let links = &controller.interfaces.links;
            let is_pinned = controller.state.reports.troubles.of(PINS).is_none();
            let unenforced = links.unenforced();
            let unenforced = unenforced.iter().map(|it| it.interface.as_str());
            let unenforced: Vec<&str> = unenforced.collect();
            match (is_pinned, links.enforces_anywhere()) {
                (false, _) => warn!("stopped; nothing is enforced because the pins are missing"),
                (true, false) => warn!("stopped; nothing was attached"),
                (true, true) if unenforced.is_empty() => {
                    info!("stopped; the kernel continues to enforce");
                }
                (true, true) => {
                    warn!(not_on = ?unenforced, "stopped; the kernel continues to enforce on the \
                                                 other interfaces");
                }
            }
        }
        OnStop::Detach => {
            controller
                .run(Detach("on_stop".into()))
                .map_err(|refused| anyhow!(refused.error))?;
            info!("stopped and detached");
        }
    }
    Ok(())
}

/// Runs the periodic work of each second. `alive` is called after the controller completed it, so a
/// controller that hangs is noticed.
pub(crate) async fn keep_time(controller: Handle, alive: impl Fn()) -> anyhow::Result<()> {
    let mut tick = clock::ticks(TICK);
    loop {
        tick.tick().await;
        controller.call(Tick).await?;
        alive();
        while controller.call(CompareOn).await? {}
    }
}

/// Stores what sources have used, from time to time.
async fn take_snapshots(controller: Handle) -> anyhow::Result<()> {
    let mut tick = clock::ticks(TICK);
    let mut last = clock::monotonic();
    loop {
        tick.tick().await;
        let every = control::commands::snapshots_every(&controller).await?;
        if every.is_some_and(|every| clock::elapsed(last) >= every) {
            last = clock::monotonic();
            control::commands::take_snapshot(&controller).await?;
        }
    }
}

/// Reads lists again when they are due: their files beside the controller, each beside the others.
async fn keep_lists(controller: Handle) -> anyhow::Result<()> {
    let mut tick = clock::ticks(TICK);
    let mut reads = JoinSet::new();
    loop {
        tokio::select! {
            Some(read) = reads.join_next() => {
                read.context("reading a list")??;
                continue;
            }
            _ = tick.tick() => {}
        }
        for file in controller.call(DueLists).await? {
            let read = read_list(controller.clone(), file);
            reads.spawn(control::asked_as(
                "a list that was read from its file",
                read,
            ));
        }
    }
}

async fn read_list(controller: Handle, file: ListFile) -> anyhow::Result<()> {
    let read = tokio::task::spawn_blocking(move || {
        let reading = file.read();
        (file, reading)
    });
    let (file, reading) = read.await.context("reading a list")?;
    // The controller logs how it went.
    controller.call(TakeList { file, reading }).await?;
    Ok(())
}

/// Rolls back a trial that is not confirmed in time.
async fn end_trials(controller: Handle) -> anyhow::Result<()> {
    let mut tick = clock::ticks(TICK);
    loop {
        tick.tick().await;
        if controller.call(IsTrialOver).await?
            && let Ok(lists) = control::read_previous(&controller).await?
        {
            // The controller logs how it went.
            controller.call(EndTrial(lists)).await?;
        }
    }
}

async fn reload_on_hangup(controller: Handle) -> anyhow::Result<()> {
    let mut hangups = signal(SignalKind::hangup()).context("listening for SIGHUP")?;
    loop {
        hangups.recv().await;
        systemd::notify(NotifyState::Reloading);
        let candidate = control::read_files(&controller).await?;
        let reload = Reload {
            candidate,
            request: ReloadRequest::default(),
        };
        // The controller logs how it went.
        let _ = controller.call(reload).await?;
        systemd::notify(NotifyState::Ready);
    }
}

async fn wait_for_signal(stop: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        _ = terminate.recv() => info!("stopping at SIGTERM"),
        _ = interrupt.recv() => info!("stopping at SIGINT"),
    }
    stop.cancel();
    Ok(())
}

/// Binds the control socket, for root and the members of the user's group: of a user that is not
/// the daemon's alone, for root. A file that is there is from a daemon that was killed: this one
/// holds the lock.
fn bind_control(path: &Path, user: &User) -> anyhow::Result<UnixSocket> {
    private::remove(path)?;
    let binding = || format!("binding {}", path.display());
    let socket = UnixSocket::new_stream().with_context(binding)?;
    socket.bind(path).with_context(binding)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))
        .with_context(|| format!("setting the mode of {}", path.display()))?;
    if !user.is_shared() {
        user.own(path)
            .with_context(|| format!("giving {} to {}", path.display(), user.name()))?;
    }
    Ok(socket)
}
