//! A full disk, as in an attack that fills logs: commands take effect, and are written when there
//! is room.

use std::{fs, io::Write, net::Ipv4Addr, path::PathBuf, process::Command};

use ratelimit_tests::{Lab, packet::datagram, require_root, service::Service};

const UNLIMITED: &str = "[policy.default]\nlimits = []\n";
const WARNING: &str =
    "warning: changes could not be saved, and a restart of ratelimitd may undo them";

#[test]
fn bans_of_a_full_disk_hold_are_reported_as_not_kept_and_outlive_a_restart_once_there_is_room() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, UNLIMITED).unwrap();
    let disk = Disk::at(service.path("state"));
    service.start().unwrap();
    service.rlctl_ok(&["ban", "203.0.113.1"]).unwrap();
    disk.fill();
    // More than fits into what the log of the database has of the disk already.
    let list = service.path("bans.txt");
    let hosts = (0..20_000u32).map(|host| Ipv4Addr::from(0x0a00_0000 + host).to_string());
    let bans = hosts.collect::<Vec<_>>().join("\n");
    fs::write(&list, bans).unwrap();
    let list = list.to_str().unwrap();
    for command in [
        &["import", "--ban", list][..],
        &["ban", "203.0.113.2", "--for", "1h"],
        &["unban", "203.0.113.1"],
        &["allow", "add", "10.0.0.7"],
        &[
            "limit",
            "set",
            "--prefix",
            "198.51.100.0/24",
            "--packets",
            "1",
            "--per",
            "1h",
        ],
        &["status"],
    ] {
        let said = service.rlctl(command).unwrap();
        assert_eq!(said.code, 0, "{command:?}: {said:?}");
        assert!(
            said.stderr.contains(WARNING) && said.stderr.contains("in the database"),
            "{command:?}: {said:?}"
        );
    }
    let passed = |source: [u8; 4]| passes(&lab, source.into());
    let holds = || {
        assert!(!passed([203, 0, 113, 2]) && !passed([10, 0, 0, 9]));
        assert!(passed([203, 0, 113, 1]) && passed([10, 0, 0, 7]));
    };
    holds();
    disk.free();
    service.wait_for_log("are saved in the database").unwrap();
    let said = service.rlctl(&["status"]).unwrap();
    assert_eq!(said.stderr, "");
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    holds();
    let limits = service.rlctl_ok(&["list", "limits"]).unwrap();
    assert!(limits.contains("198.51.100.0/24"), "{limits}");
}

#[test]
fn a_start_on_a_full_disk_has_what_was_banned_before_and_keeps_what_comes_once_there_is_room() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, UNLIMITED).unwrap();
    let disk = Disk::at(service.path("state"));
    service.start().unwrap();
    service.rlctl_ok(&["ban", "203.0.113.1"]).unwrap();
    service.stop("-TERM").unwrap();
    // The machine was booted, and nothing has room any more.
    fs::remove_dir_all(service.pins()).unwrap();
    disk.fill();
    service.start().unwrap();
    let said = service.rlctl(&["ban", "203.0.113.2"]).unwrap();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains(WARNING), "{said:?}");
    let holds = || {
        assert!(!passes(&lab, [203, 0, 113, 1].into()));
        assert!(!passes(&lab, [203, 0, 113, 2].into()));
    };
    holds();
    disk.free();
    service.wait_for_log("works again").unwrap();
    assert_eq!(service.rlctl(&["status"]).unwrap().stderr, "");
    service.stop("-KILL").unwrap();
    fs::remove_dir_all(service.pins()).unwrap();
    service.start().unwrap();
    holds();
}

fn passes(lab: &Lab, source: Ipv4Addr) -> bool {
    lab.passes(&datagram(source)).unwrap()
}

/// A file system of its own, of 4 MB in memory.
struct Disk(PathBuf);

impl Disk {
    fn at(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=4m", "tmpfs"];
        let status = Command::new("mount").args(mount).arg(&path).status();
        assert!(status.unwrap().success());
        Self(path)
    }

    fn fill(&self) {
        let mut filler = fs::File::create(self.0.join("filler")).unwrap();
        while filler.write_all(&[7; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
