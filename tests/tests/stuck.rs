//! The controller is stuck: `status` and `/healthz` report its work, and systemd gets no signal
//! until it continues.

use std::{
    fs, io,
    net::Ipv4Addr,
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::Path,
    process::{Child, Command, Stdio},
    ptr,
    time::Duration,
};

use ratelimit_tests::{
    Lab, PATIENCE, require_command, require_root,
    service::{Service, binary},
    wait_until,
};

/// Several intervals of feeding the watchdog.
const SILENCE: Duration = Duration::from_secs(4);
const TRIES: usize = 20;

#[test]
fn what_a_stuck_controller_is_busy_with_is_reported_and_the_watchdog_is_not_fed() {
    require_root!();
    require_command!("curl");
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, "[policy.default]\nlimits = []\n").unwrap();
    let systemd = service.path("notify");
    let heard = UnixDatagram::bind(&systemd).unwrap();
    fs::set_permissions(&systemd, fs::Permissions::from_mode(0o666)).unwrap();
    service.notify_socket = Some(systemd);
    service.start().unwrap();
    wait_for(&heard, "READY=1");
    wait_for(&heard, "WATCHDOG=1");
    let (stopped, import) = stop_in_an_import(&service);

    let said = service.rlctl(&["status"]).unwrap();
    assert_ne!(said.code, 0, "{said:?}");
    assert!(
        said.stderr.contains("it is busy with POST /v1/import by ")
            && said.stderr.contains(" since 20"),
        "{said:?}"
    );
    let health = service.wait_for("a daemon that is not healthy", || {
        let health = service.get("/healthz", "text/plain").unwrap();
        health.starts_with("HTTP/1.1 503").then_some(health)
    });
    assert!(health.contains("busy with POST /v1/import by "), "{health}");
    while next(&heard, Duration::ZERO).is_some() {}
    assert_eq!(next(&heard, SILENCE), None);

    drop(stopped);
    wait_for(&heard, "WATCHDOG=1");
    assert!(import.wait_with_output().unwrap().status.success());
    assert_eq!(service.rlctl(&["status"]).unwrap().code, 0);
    let health = service.get("/healthz", "text/plain").unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
}

/// Commands that need no loader continue, and others are refused at once.
#[test]
fn a_stopped_loader_keeps_no_command_waiting_and_is_named() {
    require_root!();
    let (_lab, service) = Service::in_lab("[policy.default]\nlimits = []\n").unwrap();
    let daemon = service.pid().unwrap();
    let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
    let loader = children.trim();
    let send = |signal: &str| {
        let status = Command::new("kill").args([signal, loader]).status();
        assert!(status.unwrap().success());
    };
    send("-STOP");
    let way_out = format!("kill -CONT {loader}");
    let named = || {
        let said = service.rlctl(&["status"]).unwrap();
        (said.stdout + &said.stderr).contains(&way_out)
    };
    service.wait_until("the loader is named", named);
    service.rlctl_ok(&["ban", "192.0.2.1"]).unwrap();
    let said = service.rlctl(&["detach"]).unwrap();
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains(&way_out), "{said:?}");
    send("-CONT");
    service.wait_until("it goes on", || !named());
    service.rlctl_ok(&["detach"]).unwrap();
}

/// Stops the thread of the controller in the middle of an import, which may be over before: then it
/// is tried again with another one.
fn stop_in_an_import(service: &Service) -> (Stopped, Child) {
    for number in 0..TRIES {
        let file = service.path("long.txt");
        let first = 0x0a00_0000 + u32::try_from(number).unwrap() * 0x10_0000;
        let hosts = (0..100_000).map(|host| Ipv4Addr::from(first + 2 * host).to_string());
        fs::write(&file, hosts.collect::<Vec<_>>().join("\n")).unwrap();
        let mut import = service
            .inside(&binary("rlctl"))
            .arg("--socket")
            .arg(service.path("run/control.sock"))
            .args(["import", file.to_str().unwrap(), "--ban"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while progress(service).is_none_or(|it| it == 0) && import.try_wait().unwrap().is_none() {}
        let stopped = Stopped::new(service.pid().unwrap(), "controller").unwrap();
        if progress(service).is_some_and(|it| it > 0) {
            return (stopped, import);
        }
        drop(stopped);
        assert!(import.wait().unwrap().success());
    }
    panic!("each import was over before it was seen");
}

/// The total work of an import that is under way.
fn progress(service: &Service) -> Option<u64> {
    let output = service
        .inside(Path::new("curl"))
        .args(["--silent", "--unix-socket"])
        .arg(service.path("run/control.sock"))
        .arg("http://localhost/v1/progress")
        .output()
        .unwrap();
    let progress: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    progress["total"].as_u64()
}

#[track_caller]
fn wait_for(heard: &UnixDatagram, word: &str) {
    wait_until(word, || {
        next(heard, PATIENCE).is_some_and(|message| message.contains(word))
    });
}

/// The next message to systemd, of those that come within a time.
fn next(heard: &UnixDatagram, patience: Duration) -> Option<String> {
    heard.set_nonblocking(patience.is_zero()).unwrap();
    let patience = Some(patience).filter(|patience| !patience.is_zero());
    heard.set_read_timeout(patience).unwrap();
    let mut message = [0; 4096];
    let length = heard.recv(&mut message).ok()?;
    Some(String::from_utf8_lossy(&message[..length]).into_owned())
}

/// A thread of another process that is stopped, until this is dropped.
struct Stopped(libc::pid_t);

impl Stopped {
    fn new(process: u32, name: &str) -> io::Result<Self> {
        let tasks = fs::read_dir(format!("/proc/{process}/task"))?;
        let mut tasks = tasks.flatten().map(|task| task.path());
        let is_named = |task: &Path| {
            fs::read_to_string(task.join("comm")).is_ok_and(|it| it.trim_end() == name)
        };
        let task = tasks.find(|task| is_named(task)).unwrap();
        let thread = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
        trace(libc::PTRACE_SEIZE, thread)?;
        let stopped = Self(thread);
        trace(libc::PTRACE_INTERRUPT, thread)?;
        // SAFETY: a null status pointer is permitted.
        match unsafe { libc::waitpid(thread, ptr::null_mut(), libc::__WALL) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(stopped),
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // A panic may have come first, and the thread be gone.
        let _ = trace(libc::PTRACE_DETACH, self.0);
    }
}

fn trace(request: libc::c_uint, thread: libc::pid_t) -> io::Result<()> {
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests take no memory of ours.
    match unsafe { libc::ptrace(request, thread, none, none) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
