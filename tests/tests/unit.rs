//! The unit of `contrib`, started by a systemd of its own: it starts, reloads, comes back after SIGKILL, and leaves the kernel enforcing.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{require_command, require_file, require_root, service::binary, skip};

/// A systemd boots in seconds here.
const PATIENCE: Duration = Duration::from_mins(5);
/// What the script ends with where it cannot lay one file system over another.
const NO_OVERLAY: i32 = 77;

#[test]
fn the_unit_runs_as_it_is_installed() {
    require_root!();
    require_file!("/lib/systemd/systemd");
    require_command!("systemd-analyze");
    require_command!("unshare");
    let directory = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut systemd = Command::new("unshare")
        .args([
            "--fork",
            "--kill-child",
            "--pid",
            "--mount",
            "--uts",
            "--ipc",
        ])
        .args(["--net", "--cgroup", "bash"])
        .arg(tests.join("src/unit.sh"))
        .arg(directory.path())
        .arg(binary("rlctl").parent().unwrap())
        .arg(tests.join("../contrib"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let told = directory.path().join("out/told");
    let read = || fs::read_to_string(&told).unwrap_or_default();
    let deadline = Instant::now() + PATIENCE;
    while !read().contains("all of it") {
        if let Some(status) = systemd.try_wait().unwrap() {
            if status.code() == Some(NO_OVERLAY) {
                return skip::report("needs an overlay over the root directory");
            }
            // It may have ended between both looks.
            assert!(read().contains("all of it"), "{status}: {}", read());
        } else if Instant::now() > deadline {
            systemd.kill().unwrap();
            panic!("{}", read());
        }
        thread::sleep(Duration::from_millis(100));
    }
    systemd.wait().unwrap();
    let told = read();
    for line in [
        "0 systemctl start ratelimitd",
        "0 rlctl ban 203.0.113.1",
        "0 systemctl reload ratelimitd",
        "NRestarts=1",
        "0 systemctl stop ratelimitd",
        "the kernel goes on",
        "0 rlctl status",
        "0 systemd-analyze",
    ] {
        assert!(told.lines().any(|it| it == line), "{line}: {told}");
    }
    assert!(told.contains("203.0.113.1  forever"), "{told}");
    assert!(
        told.contains("gave up all privileges user=\"ratelimit\""),
        "{told}"
    );
}
