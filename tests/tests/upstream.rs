//! Bans as routes: exabgp and FRR announce them to gobgpd, which runs beside them.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use ratelimit_tests::{
    Lab, executable, require_command, require_root,
    service::{Service, binary},
};
use tempfile::TempDir;

const BANNED: &str = "203.0.113.7";
/// The source prefix.
const BANNED_V6: &str = "2001:db8:7::/64";

#[test]
fn exabgp_announces_bans_as_routes_and_flow_specifications_and_withdraws_them() {
    require_root!();
    require_command!("exabgp");
    require_command!("gobgpd");
    let lab = Lab::new().unwrap();
    let toml = "[policy.default]\nlimits = []\n[protected]\nsources = [\"203.0.113.9\"]\n\
                [upstream]\ncommunities = [\"64500:666\"]\nroutes_max = 3\n\
                next_hop_v6 = \"2001:db8::1\"\n";
    let mut service = Service::new(&lab, toml).unwrap();
    add_speakers(&lab);
    service.start().unwrap();
    service.rlctl_ok(&["allow", "add", "198.51.100.9"]).unwrap();
    let _gobgpd = gobgpd(&service).unwrap();
    let _exabgp = exabgp(&service).unwrap();

    // Before the ban that is waited for: neither a wide prefix nor one with an allowed or protected
    // address becomes a route.
    let exempt = ["203.0.113.9", "198.51.100.0/24", "192.0.0.0/16"];
    service
        .rlctl_ok(&[&["ban", "--force"], &exempt[..]].concat())
        .unwrap();
    service.rlctl_ok(&["ban", BANNED, BANNED_V6]).unwrap();
    service.wait_until("the route", || has(&service, "ipv4", BANNED));
    service.wait_until("the IPv6 route", || has(&service, "ipv6", BANNED_V6));
    service.wait_until("the rule", || has(&service, "ipv4-flowspec", BANNED));
    let rib = rib(&service, "ipv4");
    assert!(rib.contains("64500:666"), "{rib}");
    assert!(
        !rib.contains("203.0.113.9") && !rib.contains("/24") && !rib.contains("/16"),
        "{rib}"
    );
    let rules = rib_of_rules(&service);
    assert!(rules.contains("discard"), "{rules}");
    let metrics = service.metrics().unwrap();
    assert!(
        metrics.contains("\nratelimit_upstream_routes 2\n"),
        "{metrics}"
    );

    // The routes stay while the daemon is away, and changes from then on arrive afterwards.
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert!(has(&service, "ipv4", BANNED));
    service.rlctl_ok(&["unban", BANNED]).unwrap();
    for family in ["ipv4", "ipv4-flowspec"] {
        service.wait_until("the withdrawal", || !has(&service, family, BANNED));
    }
    assert!(has(&service, "ipv6", BANNED_V6));

    let many = ["203.0.113.20", "203.0.113.21", "203.0.113.22"];
    service.rlctl_ok(&[&["ban"], &many[..]].concat()).unwrap();
    service.wait_until("the report", || {
        let status = service.rlctl_ok(&["status"]).unwrap();
        status.contains("1 have no route")
    });
}

#[test]
fn gobgp_is_given_each_change_as_a_command() {
    require_root!();
    require_command!("gobgpd");
    let (_lab, service) =
        Service::in_lab("[policy.default]\nlimits = []\n[upstream]\nnext_hop = \"192.0.2.1\"\n")
            .unwrap();
    let _gobgpd = gobgpd(&service).unwrap();
    let mut follower = service.inside(Path::new("sh"));
    let command = format!("{} | xargs -L1 gobgp", follow(&service, "gobgp"));
    let mut follower = Running(follower.args(["-c", &command]).spawn().unwrap());
    service.rlctl_ok(&["ban", BANNED, BANNED_V6]).unwrap();
    service.wait_until("the route", || has(&service, "ipv4", BANNED));
    service.wait_until("the IPv6 route", || has(&service, "ipv6", BANNED_V6));
    let rib = rib(&service, "ipv4");
    assert!(
        rib.contains("192.0.2.1") && rib.contains("blackhole"),
        "{rib}"
    );
    service.rlctl_ok(&["unban", BANNED]).unwrap();
    service.wait_until("the withdrawal", || !has(&service, "ipv4", BANNED));
    // `rlctl` withdraws the rest when it is stopped.
    stop_rlctl(&mut follower);
    assert!(!has(&service, "ipv6", BANNED_V6));
}

/// Stops the `rlctl` of a shell, and waits until the shell has ended.
fn stop_rlctl(shell: &mut Running) {
    let parent = shell.0.id().to_string();
    let pkill = Command::new("pkill")
        .args(["-TERM", "-P", &parent, "-x", "rlctl"])
        .status();
    assert!(pkill.unwrap().success());
    shell.0.wait().unwrap();
}

/// Adds the addresses of both BGP speakers.
fn add_speakers(lab: &Lab) {
    for speaker in ["192.0.2.251/32", "192.0.2.252/32"] {
        lab.near
            .ip(&["address", "add", speaker, "dev", "lo"])
            .unwrap();
    }
}

#[test]
fn frr_announces_static_routes_whose_tag_its_route_map_matches() {
    require_root!();
    require_command!("gobgpd");
    require_command!("vtysh");
    let (lab, service) = Service::in_lab("[policy.default]\nlimits = []\n[upstream]\n").unwrap();
    add_speakers(&lab);
    let _gobgpd = gobgpd(&service).unwrap();
    let frr = Frr::start(&service).unwrap();
    let mut follower = service.inside(Path::new("sh"));
    let command = format!(
        "{} | xargs -d '\\n' -n 1 vtysh --vty_socket {} -c 'configure terminal' -c",
        follow(&service, "frr"),
        frr.directory.path().display(),
    );
    let mut follower = Running(follower.args(["-c", &command]).spawn().unwrap());
    service.rlctl_ok(&["ban", BANNED, BANNED_V6]).unwrap();
    service.wait_until("the route", || has(&service, "ipv4", BANNED));
    service.wait_until("the IPv6 route", || has(&service, "ipv6", BANNED_V6));
    let rib = rib(&service, "ipv4");
    assert!(rib.contains("blackhole"), "{rib}");
    service.rlctl_ok(&["unban", BANNED]).unwrap();
    service.wait_until("the withdrawal", || !has(&service, "ipv4", BANNED));
    assert!(has(&service, "ipv6", BANNED_V6));
    stop_rlctl(&mut follower);
    service.wait_until("the rest", || !has(&service, "ipv6", BANNED_V6));
}

/// The daemons of FRR, which run as their own user.
struct Frr {
    directory: TempDir,
}

impl Frr {
    const DAEMONS: [&str; 3] = ["zebra", "staticd", "bgpd"];

    fn start(service: &Service) -> Result<Self> {
        let frr = Self {
            directory: tempfile::tempdir()?,
        };
        let path = frr.directory.path();
        let text = fs::read_to_string("../docs/upstream.md")?;
        // What the documentation shows, at the addresses of the test.
        let (_, example) = text.split_once("```frr\n").context("no example for FRR")?;
        let (example, _) = example.split_once("```").context("it has no end")?;
        let neighbor = "neighbor 192.0.2.251";
        let example = example.replace("neighbor 198.51.100.1", neighbor);
        let options = [
            "port 1790",
            "update-source 192.0.2.252",
            "disable-connected-check",
            "timers connect 1",
        ];
        let options = options.map(|option| format!("\n {neighbor} {option}"));
        let remote = format!("{neighbor} remote-as 64501");
        ensure!(example.contains(&remote), "{example}");
        let example = example.replace(&remote, &(remote.clone() + &options.concat()));
        fs::write(path.join("frr.conf"), example)?;
        let chown = Command::new("chown")
            .args(["-R", "frr:frr"])
            .arg(path)
            .status()?;
        ensure!(chown.success(), "chown");
        for daemon in Self::DAEMONS {
            let mut command = service.inside(&Path::new("/usr/lib/frr").join(daemon));
            command
                .args(["--daemon", "--vty_port", "0", "--vty_socket"])
                .arg(path);
            command.arg("--socket").arg(path.join("zserv.api"));
            command.arg("--pid_file").arg(path.join(daemon));
            command.arg("--config_file").arg(path.join("frr.conf"));
            ensure!(command.status()?.success(), "{daemon}");
        }
        Ok(frr)
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for daemon in Self::DAEMONS {
            if let Ok(pid) = fs::read_to_string(self.directory.path().join(daemon)) {
                let _ = Command::new("kill").arg(pid.trim()).status();
            }
        }
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command that follows the routes.
fn follow(service: &Service, format: &str) -> String {
    let (rlctl, socket) = (binary("rlctl"), service.path("run/control.sock"));
    let (rlctl, socket) = (rlctl.display(), socket.display());
    format!("{rlctl} --socket {socket} export --format {format} --follow")
}

fn gobgpd(service: &Service) -> Result<Running> {
    let file = service.path("gobgpd.toml");
    fs::write(
        &file,
        "[global.config]\nas = 64501\nrouter-id = \"127.0.0.1\"\nport = 1790\n\
         local-address-list = [\"0.0.0.0\"]\n\
         [[neighbors]]\n[neighbors.config]\nneighbor-address = \"192.0.2.252\"\npeer-as = 64500\n\
         [neighbors.transport.config]\npassive-mode = true\n\
         [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"ipv4-unicast\"\n\
         [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"ipv6-unicast\"\n\
         [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\n\
         afi-safi-name = \"ipv4-flowspec\"\n\
         [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\n\
         afi-safi-name = \"ipv6-flowspec\"\n",
    )?;
    let mut gobgpd = service.inside(Path::new("gobgpd"));
    gobgpd.arg("-f").arg(&file).stdout(Stdio::null());
    let gobgpd = Running(gobgpd.spawn()?);
    // Before it has read its neighbors, it refuses them, and they do not soon try again.
    service.wait_until("gobgpd with its neighbor", || {
        gobgp(service, &["neighbor"]).is_some_and(|it| it.contains("192.0.2.252"))
    });
    Ok(gobgpd)
}

fn exabgp(service: &Service) -> Result<Running> {
    let file = service.path("exabgp.conf");
    let process = |format: &str| -> Result<String> {
        let script = service.path(format);
        executable::script(
            &script,
            &format!("#!/bin/sh\nexec {}\n", follow(service, format)),
        )?;
        let script = script.display();
        Ok(format!(
            "process {format} {{ run {script}; encoder text; }}\n"
        ))
    };
    let processes = [process("exabgp")?, process("exabgp-flowspec")?].concat();
    fs::write(
        &file,
        format!(
            "{processes}neighbor 192.0.2.251 {{\n  router-id 127.0.0.2;\n  \
             local-address 192.0.2.252;\n  local-as 64500;\n  peer-as 64501;\n  \
             family {{ ipv4 unicast; ipv6 unicast; ipv4 flow; ipv6 flow; }}\n  \
             api {{ processes [ exabgp, exabgp-flowspec ]; }}\n}}\n"
        ),
    )?;
    let log = fs::File::create(service.path("exabgp.log"))?;
    let mut exabgp = service.inside(Path::new("exabgp"));
    exabgp
        .env("exabgp.tcp.port", "1790")
        .env("exabgp.api.cli", "false");
    exabgp.env("exabgp.daemon.user", "root");
    exabgp.arg(&file).stdout(log.try_clone()?).stderr(log);
    Ok(Running(exabgp.spawn()?))
}

fn has(service: &Service, family: &str, address: &str) -> bool {
    rib(service, family).contains(address)
}

fn rib_of_rules(service: &Service) -> String {
    rib(service, "ipv4-flowspec")
}

fn rib(service: &Service, family: &str) -> String {
    gobgp(service, &["global", "rib", "-a", family]).unwrap_or_default()
}

fn gobgp(service: &Service, arguments: &[&str]) -> Option<String> {
    let output = service
        .inside(Path::new("gobgp"))
        .args(arguments)
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(said)
}
