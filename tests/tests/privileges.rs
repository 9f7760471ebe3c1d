//! The privileges of the daemon and its loader: each has the minimum, and dropped ones do not
//! return.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Command,
    ptr,
};

use ratelimit_daemon::{privileges, user::User};
use ratelimit_tests::{
    Lab, executable,
    lab::INTERFACE,
    require_command, require_root,
    service::{Service, binary},
    wait_until,
};

const TOML: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";
const NONE: &str = "0000000000000000";
/// `CAP_NET_ADMIN`, `CAP_PERFMON` and `CAP_BPF`.
const OF_LOADING: &str = "000000c000001000";
const NOBODY: u32 = 65_534;

#[test]
fn the_daemon_has_nothing_and_the_loader_what_loading_takes() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = started(&lab);
    let daemon = service.pid().unwrap();
    for thread in fs::read_dir(format!("/proc/{daemon}/task")).unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(&status, set), NONE, "{set}: {status}");
        }
        check_locked(&status);
        for ids in ["Uid", "Gid"] {
            assert_eq!(
                field(&status, ids),
                "65534 65534 65534 65534",
                "{ids}: {status}"
            );
        }
    }
    let status = fs::read_to_string(format!("/proc/{}/status", loader(daemon))).unwrap();
    for (set, expected) in [
        ("CapInh", NONE),
        ("CapPrm", OF_LOADING),
        ("CapEff", OF_LOADING),
        ("CapBnd", OF_LOADING),
        ("CapAmb", NONE),
        ("Name", "ratelimitd-load"),
        ("Threads", "1"),
    ] {
        assert_eq!(field(&status, set), expected, "{set}: {status}");
    }
    check_locked(&status);
    // The standard streams, its end of the socket, the lock of the daemon, and its pinned objects,
    // to restore removed pins.
    let open = fs::read_dir(format!("/proc/{}/fd", loader(daemon))).unwrap();
    let open = open.map(|file| fs::read_link(file.unwrap().path()).unwrap());
    let others: Vec<_> = open
        .filter(|file| {
            !["anon_inode:bpf", "anon_inode:btf"]
                .iter()
                .any(|kind| file.to_string_lossy().starts_with(kind))
        })
        .collect();
    assert!(
        others.len() <= 5,
        "it holds what the daemon opened: {others:?}"
    );
}

#[test]
fn started_by_another_user_with_three_capabilities_it_is_the_same() {
    require_root!();
    require_command!("setpriv");
    let lab = Lab::new().unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    for directory in [service.pins(), &service.path("state"), &service.path("run")] {
        fs::create_dir(directory).unwrap();
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut child = service
        .inside(Path::new("setpriv"))
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all,+bpf,+net_admin,+perfmon"])
        .args(["--ambient-caps=-all,+bpf,+net_admin,+perfmon"])
        .args(["--bounding-set=-all,+bpf,+net_admin,+perfmon"])
        .arg(binary("ratelimitd"))
        .arg("--config")
        .arg(service.config())
        .spawn()
        .unwrap();
    wait_until("an answer", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        service.rlctl(&["status"]).unwrap().code == 0
    });
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let loading = fs::read_to_string(format!("/proc/{}/status", loader(child.id()))).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(&status, set), NONE, "{set}: {status}");
    }
    check_locked(&status);
    assert_eq!(field(&loading, "CapEff"), OF_LOADING, "{loading}");
    assert_eq!(field(&loading, "CapAmb"), NONE, "{loading}");
    check_locked(&loading);
}

#[test]
fn nothing_that_was_given_up_comes_back() {
    require_root!();
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // A setuid root shell.
    let shell = directory.path().join("sh");
    executable::copy(Path::new("/bin/sh"), &shell, "4755").unwrap();
    let shell = std::ffi::CString::new(shell.into_os_string().into_encoded_bytes()).unwrap();
    let user = User::find(Some("nobody")).unwrap();
    // SAFETY: the child makes few calls, and ends without coming back.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = match privileges::give_up(&user) {
            Ok(()) => what_comes_back(&shell),
            Err(_) => 99,
        };
        // SAFETY: it cannot fail.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: there is room for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFEXITED(status), "{status}");
    assert_eq!(
        libc::WEXITSTATUS(status),
        0,
        "the number of the try that went well"
    );
}

#[test]
fn a_loader_that_is_killed_is_noticed_and_the_kernel_continues() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = started(&lab);
    kill(loader(service.pid().unwrap()));
    service
        .wait_for_log("the loader exited (by signal 9)")
        .unwrap();
    service
        .wait_for_log("restart ratelimitd, which takes over")
        .unwrap();
    assert!(is_attached(&lab), "the kernel goes on enforcing");
    // The next one takes over.
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert!(is_attached(&lab));
}

#[test]
fn a_daemon_that_is_killed_takes_its_loader_along_and_the_kernel_continues() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = started(&lab);
    let loader = loader(service.pid().unwrap());
    service.stop("-KILL").unwrap();
    let loader = format!("/proc/{loader}/exe");
    wait_until("the end of the loader", || !Path::new(&loader).exists());
    assert!(is_attached(&lab), "the kernel goes on enforcing");
    service.start().unwrap();
    service.rlctl_ok(&["detach"]).unwrap();
    assert!(
        !is_attached(&lab),
        "the new loader detaches what the old one attached"
    );
}

#[test]
fn what_it_makes_is_for_its_user_and_pins_for_the_loader_alone() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = started(&lab);
    let known = |path: &Path| {
        let known = fs::metadata(path).unwrap();
        (known.uid(), known.mode() & 0o777)
    };
    assert_eq!(known(service.pins()), (0, 0o700));
    assert_eq!(known(&service.path("state")), (NOBODY, 0o700));
    assert_eq!(
        known(&service.path("state/ratelimitd.lock")),
        (NOBODY, 0o600)
    );
    assert_eq!(known(&service.path("run")), (NOBODY, 0o755));
    // Other processes of `nobody` may not command it.
    assert_eq!(known(&service.path("run/control.sock")), (0, 0o660));
}

#[test]
fn the_unit_is_exposed_as_little_as_it_says() {
    require_command!("systemd-analyze");
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/ratelimitd.service");
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20", unit])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

/// The number of the first try that went well; 0 where none did.
fn what_comes_back(shell: &std::ffi::CStr) -> i32 {
    let arguments = [shell.as_ptr(), ptr::null()];
    let buffer = [0u8; 128];
    // SAFETY: each call gets what it takes, and those that would break this process are refused.
    unsafe {
        let tries = [
            libc::setuid(0) == 0,
            libc::setresgid(0, 0, 0) == 0,
            libc::unshare(libc::CLONE_NEWUSER) == 0,
            libc::ptrace(libc::PTRACE_ATTACH, libc::getppid(), 0, 0) == 0,
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) >= 0,
            libc::syscall(libc::SYS_bpf, 0, buffer.as_ptr(), buffer.len()) >= 0,
            libc::syscall(libc::SYS_add_key, 0, 0, 0, 0, 0) >= 0,
            libc::open(c"/etc/shadow".as_ptr(), libc::O_RDONLY) >= 0,
            // It comes back only where it fails: the shell would end with its own code.
            libc::execve(shell.as_ptr(), arguments.as_ptr(), ptr::null()) == 0
                || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS),
        ];
        let well = tries.iter().position(|went_well| *went_well);
        well.map_or(0, |index| i32::try_from(index + 1).unwrap_or(98))
    }
}

fn started(lab: &Lab) -> Service {
    let mut service = Service::new(lab, TOML).unwrap();
    service.user = "nobody";
    service.start().unwrap();
    service
}

fn check_locked(status: &str) {
    assert_eq!(field(status, "NoNewPrivs"), "1", "{status}");
    assert_eq!(field(status, "Seccomp"), "2", "{status}");
}

/// A field of `/proc/PID/status`.
fn field(status: &str, name: &str) -> String {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    words.join(" ")
}

/// The one child of the daemon.
fn loader(daemon: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
    children.trim().parse().unwrap()
}

fn kill(process: u32) {
    let status = Command::new("kill")
        .args(["-KILL", &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

fn is_attached(lab: &Lab) -> bool {
    lab.near
        .ip(&["-details", "link", "show", INTERFACE])
        .unwrap()
        .contains("prog/xdp")
}
