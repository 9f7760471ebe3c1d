//! The kernel's maps in the memory of a daemon: every mapped page counts as its own.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
};

use ratelimit_core::api::Status;
use ratelimit_tests::{
    require_root,
    service::{Service, binary},
    waiting,
};

/// The pages before the data of a ring: the consumer and producer positions.
const PAGES_OF_A_RING: u64 = 2;
/// The rings that a daemon at rest reads; the second only where the program logs.
const AT_REST: [&str; 2] = ["EVENTS", "AYA_LOGS"];

#[test]
fn a_daemon_at_rest_holds_the_ring_of_events_and_gives_back_what_it_used() {
    require_root!();
    for store in ["lru", "compact"] {
        let (_lab, service) = Service::in_lab(&toml(store)).unwrap();
        wait_for_rings(&service, &[]);
        for command in [
            &["ban", "192.0.2.7", "2001:db8::/32", "--for", "1h"][..],
            &["check", "192.0.2.8"],
            &["top"],
            &["status"],
            &["unban", "192.0.2.7"],
        ] {
            service.rlctl_ok(command).unwrap();
        }
        wait_for_rings(&service, &[]);
    }
}

#[test]
fn the_ring_of_captured_packets_is_held_while_a_capture_runs() {
    require_root!();
    let (_lab, service) = Service::in_lab(&toml("lru")).unwrap();
    let mut capture = rlctl(&service)
        .args(["capture", "-w", "/dev/null"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_rings(&service, &["CAPTURED"]);
    capture.kill().unwrap();
    capture.wait().unwrap();
    wait_for_rings(&service, &[]);
}

#[test]
fn a_daemon_without_a_free_descriptor_continues() {
    require_root!();
    let (_lab, service) = Service::in_lab(&toml("lru")).unwrap();
    let pid = service.pid().unwrap().to_string();
    let permit = |most: &str| {
        // Permitted to the user of the daemon, as also to root with `CAP_SYS_RESOURCE`.
        let own = fs::metadata(format!("/proc/{pid}")).unwrap();
        let mut prlimit = Command::new("prlimit");
        prlimit.args(["--pid", &pid, &format!("--nofile={most}:")]);
        assert!(
            prlimit
                .uid(own.uid())
                .gid(own.gid())
                .status()
                .unwrap()
                .success()
        );
    };
    permit("4");
    service.wait_for_log("attacks are not detected").unwrap();
    permit("1024");
    service.rlctl_ok(&["ban", "192.0.2.7"]).unwrap();
}

#[test]
fn the_ring_of_samples_is_held_while_attacks_are_looked_for() {
    require_root!();
    let (_lab, service) = Service::in_lab(&toml("lru")).unwrap();
    let looking = format!(
        "{}[detection.syn_flood]\nanswer = \"observe\"\n",
        toml("lru")
    );
    service.reload(&looking).unwrap();
    wait_for_rings(&service, &["SAMPLES"]);
    service.reload(&toml("lru")).unwrap();
    wait_for_rings(&service, &[]);
}

fn toml(store: &str) -> String {
    format!(
        "[source]\nstore = \"{store}\"\n\
         [policy.default]\nlimits = [{{ packets = 1000, per = \"1s\" }}]\n"
    )
}

fn rlctl(service: &Service) -> Command {
    let mut command = service.inside(&binary("rlctl"));
    command
        .arg("--socket")
        .arg(service.path("run/control.sock"));
    command
}

/// Waits until the daemon has mapped only the rings that it always reads, and `more`. Its periodic
/// work briefly maps parts of tables.
fn wait_for_rings(service: &Service, more: &[&str]) {
    let status: Status = service.json(&["status"]).unwrap();
    let is_meant = |name: &str| AT_REST.contains(&name) || more.contains(&name);
    let rings = status.maps.iter().filter(|map| is_meant(&map.name));
    let expected: u64 = rings.map(|ring| held_bytes(ring.capacity.into())).sum();
    let held = || mapped_bytes(service.pid().unwrap());
    let failure = || {
        format!(
            "{} bytes of maps are held, which should be {expected}",
            held()
        )
    };
    waiting::until(|| held() == expected, failure);
}

/// The memory of a ring: its data are mapped twice in a row, so that they can be read continuously.
fn held_bytes(ring: u64) -> u64 {
    // SAFETY: takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGES_OF_A_RING * u64::try_from(page).unwrap() + 2 * ring
}

/// The bytes of BPF maps in the memory of a process.
fn mapped_bytes(pid: u32) -> u64 {
    let maps = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("maps")).unwrap();
    let of_maps = maps.lines().filter(|line| line.ends_with("bpf-map"));
    of_maps.map(length).sum()
}

/// The length of a mapping: its line begins with its first address and the one behind it.
fn length(line: &str) -> u64 {
    let (range, _) = line.split_once(' ').unwrap();
    let (start, end) = range.split_once('-').unwrap();
    let address = |text| u64::from_str_radix(text, 16).unwrap();
    address(end) - address(start)
}
