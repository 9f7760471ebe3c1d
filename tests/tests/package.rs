//! The package for Debian, installed beneath a systemd of its own: one command, and an interface is
//! protected. The unit starts, reloads, comes back after SIGKILL, is upgraded, and leaves the
//! kernel enforcing. The package leaves nothing behind.

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
/// The exit code of the script if it cannot create an overlay file system.
const NO_OVERLAY: i32 = 77;

#[test]
fn the_package_is_installed_runs_is_upgraded_and_goes() {
    require_root!();
    require_command!("dh");
    require_command!("lintian");
    require_file!("/lib/systemd/systemd");
    require_command!("systemd-analyze");
    require_command!("unshare");
    let directory = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = directory.path().join("packages");
    let package = succeed(
        Command::new(tests.join("../contrib/debian/build.sh"))
            .arg(binary("rlctl").parent().unwrap())
            .args([&packages, Path::new("1")])
            .envs([
                ("DPKG_DEB_COMPRESSOR_TYPE", "gzip"),
                ("DPKG_DEB_COMPRESSOR_LEVEL", "1"),
            ]),
    );
    let package = Path::new(package.trim_end());
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]);
    succeed(lintian.arg(package));
    pack_next(package, &directory.path().join("next"), &packages);
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
        .arg(tests.join("src/package.sh"))
        .arg(directory.path())
        .arg(&packages)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let reported = directory.path().join("out/told");
    let read = || fs::read_to_string(&reported).unwrap_or_default();
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
    let reported = read();
    for line in [
        "0 apt install --yes ./ratelimit_1_amd64.deb",
        "inactive",
        "0 rlctl protect rl0 --observe",
        "0 rlctl protect rl0",
        "0 systemctl is-enabled ratelimitd",
        "0 rlctl status",
        "1 received",
        "0 answers 5",
        "0 rlctl ban 203.0.113.1",
        "0 received",
        "0 dropped",
        "0 systemctl reload ratelimitd",
        "0 systemctl start ratelimit-notify@bans",
        "a program heard of 2 events",
        "NRestarts=1",
        "0 systemctl stop ratelimitd",
        "the kernel goes on",
        "0 apt install --yes ./ratelimit_2_amd64.deb",
        "0 systemd-analyze",
        "0 dpkg --purge ratelimit",
        "nothing is attached",
        "2 ls /etc/ratelimit /var/lib/ratelimit /var/lib/private/ratelimit-notify \
         /sys/fs/bpf/ratelimit",
    ] {
        assert!(reported.lines().any(|it| it == line), "{line}: {reported}");
    }
    let is_ban = |line: &str| line.starts_with("203.0.113.1 ") && line.contains(" manual ");
    assert!(reported.lines().any(is_ban), "{reported}");
    assert!(
        reported.contains("dropped all privileges user=\"ratelimit\""),
        "{reported}"
    );
}

/// Packs the files of version 1 as version 2.
fn pack_next(package: &Path, files: &Path, packages: &Path) {
    let mut unpack = Command::new("dpkg-deb");
    succeed(unpack.arg("--raw-extract").args([package, files]));
    let control = files.join("DEBIAN/control");
    let text = fs::read_to_string(&control).unwrap();
    assert!(text.contains("\nVersion: 1\n"), "{text}");
    fs::write(&control, text.replace("\nVersion: 1\n", "\nVersion: 2\n")).unwrap();
    let mut pack = Command::new("dpkg-deb");
    pack.args(["-Zgzip", "-z1", "--build"]).arg(files);
    succeed(pack.arg(packages.join("ratelimit_2_amd64.deb")));
}

/// Returns the output of a successful command.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{errors}");
    said
}
