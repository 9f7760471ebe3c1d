//! `rlctl doctor` on real devices and programs: its findings are correct, and its commands fix
//! them.

use std::path::{Path, PathBuf};

use aya::programs::{Xdp, links::FdLink, xdp::XdpMode};
use aya_obj::programs::XdpAttachType;
use ratelimit_tests::{
    Lab, Program, executable,
    foreign::{Answer, Pin},
    lab::{INTERFACE, Tun},
    program::Constants,
    require_command, require_cpus, require_root,
    service::{Said, Service, binary},
};
use serde_json::Value;

const TOML: &str = "[policy.default]\nlimits = []\n";

#[test]
fn a_daemon_and_its_program_are_found() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let (code, findings) = examine(&service, &[]);
    assert_eq!(code, 0, "{findings}");
    for (check, found) in [
        ("kernel", "Linux "),
        ("bpf-jit", "enabled"),
        ("btf", "/sys/kernel/btf/vmlinux"),
        ("daemon", "ratelimitd "),
        ("bpffs", "/sys/fs/bpf, mode "),
        ("memory", "the maps use "),
        ("driver", "veth, a virtual interface"),
        ("link-layer", "Ethernet"),
        ("native-xdp", "yes, and a program runs in the driver"),
        ("xdp-program", "ratelimitd, native"),
        ("mtu", "1500, a frame fits into one page"),
        ("vlan-offload", "on: tags are not in the frame"),
    ] {
        let finding = finding(&findings, check);
        let said = finding["found"].as_str().unwrap();
        assert!(said.starts_with(found), "{finding}");
        assert_eq!(finding["state"], "ok", "{finding}");
        assert!(finding["fix"].is_null(), "{finding}");
    }
    let text = service.rlctl_ok(&["doctor"]).unwrap();
    let line = format!("ok       {INTERFACE} xdp-program: ratelimitd, native\n");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn a_program_that_ip_attached_comes_off_by_the_command_that_is_named() {
    require_root!();
    for (mode, word) in [("generic", "xdpgeneric"), ("native", "xdpdrv")] {
        let lab = Lab::new().unwrap();
        let service = Service::new(&lab, TOML).unwrap();
        let foreign = Pin::answering(Answer::Pass, false).unwrap();
        let pin = foreign.text();
        // Not `ip -netns`, which hides the bpffs.
        let attach = ["link", "set", "dev", INTERFACE, word, "pinned", pin];
        let mut ip = service.inside(Path::new("ip"));
        assert!(ip.args(attach).status().unwrap().success(), "{attach:?}");
        let (code, findings) = examine(&service, &[]);
        assert_eq!(code, 1, "{findings}");
        let own = finding(&findings, "xdp-program");
        assert_eq!(own["state"], "error", "{own}");
        let found = own["found"].as_str().unwrap();
        assert!(
            found.starts_with("somebody_elses, number ") && found.ends_with(mode),
            "{own}"
        );
        let fix = format!("ip link set dev {INTERFACE} {word} off");
        assert_eq!(own["fix"], fix.as_str());
        mend(&service, own);
        let (code, findings) = examine(&service, &[]);
        assert_eq!(code, 0, "{findings}");
        assert_eq!(finding(&findings, "xdp-program")["found"], "none");
    }
}

#[test]
fn a_program_on_a_pinned_link_comes_off_by_the_command_that_is_named() {
    require_root!();
    require_command!("bpftool");
    let lab = Lab::new().unwrap();
    let mut theirs = Program::load(&Constants::default()).unwrap();
    let attach = || theirs.xdp_mut().attach(INTERFACE, XdpMode::Driver);
    let id = lab.near.enter(attach).unwrap();
    let link = FdLink::try_from(theirs.xdp_mut().take_link(id).unwrap()).unwrap();
    let pin = Pin::vacant();
    link.pin(pin.path()).unwrap();
    let service = Service::started(&lab, TOML).unwrap();
    // It has the name of ours, and the daemon knows that it is not.
    let (code, findings) = examine(&service, &[]);
    assert_eq!(code, 1, "{findings}");
    let own = finding(&findings, "xdp-program");
    let found = own["found"].as_str().unwrap();
    let link = found.rsplit_once(" on the BPF link ").unwrap().1;
    assert_eq!(own["fix"], format!("bpftool link detach id {link}"));
    mend(&service, own);
    service.wait_until("its own program", || {
        let (_, findings) = examine(&service, &[]);
        finding(&findings, "xdp-program")["found"] == "ratelimitd, native"
    });
}

#[test]
fn of_a_program_on_two_interfaces_the_link_of_the_one_that_was_asked_for_is_named() {
    require_root!();
    require_command!("bpftool");
    let lab = Lab::new().unwrap();
    lab.near
        .ip(&["link", "add", "rl8", "type", "veth", "peer", "name", "rl9"])
        .unwrap();
    let pin = Pin::answering(Answer::Pass, false).unwrap();
    let mut theirs = Xdp::from_pin(pin.path(), XdpAttachType::Interface).unwrap();
    let mut attach = |interface| {
        let id = lab
            .near
            .enter(|| theirs.attach(interface, XdpMode::Driver))
            .unwrap();
        theirs.take_link(id).unwrap()
    };
    let links = ["rl8", INTERFACE, "rl9"].map(|it| (it, attach(it)));
    let service = Service::new(&lab, TOML).unwrap();
    for (interface, _) in &links {
        let (_, findings) = examine(&service, &[interface]);
        mend(&service, finding(&findings, "xdp-program"));
        let (_, findings) = examine(&service, &[interface]);
        assert_eq!(finding(&findings, "xdp-program")["found"], "none");
    }
}

#[test]
fn a_bridge_in_generic_mode_is_warned_about_what_its_ports_put_together() {
    require_root!();
    require_command!("ethtool");
    let lab = Lab::new().unwrap();
    lab.near
        .ip(&["link", "add", "br0", "type", "bridge"])
        .unwrap();
    let set = |words: &[&str]| lab.near.ip(&[&["link", "set"], words].concat()).unwrap();
    set(&[INTERFACE, "master", "br0"]);
    set(&["br0", "up"]);
    lab.near
        .run("ethtool", &["--features", INTERFACE, "gro", "on"])
        .unwrap();
    let toml = format!("{TOML}[[interface]]\nname = \"br0\"\n");
    let service = Service::started(&lab, &toml).unwrap();
    let (_, findings) = examine(&service, &[]);
    assert_eq!(finding(&findings, "native-xdp")["state"], "warning");
    let own = finding(&findings, "gro");
    assert_eq!(own["state"], "warning", "{own}");
    assert!(
        own["why"].as_str().unwrap().contains("count as one packet"),
        "{own}"
    );
    mend(&service, own);
    let (_, findings) = examine(&service, &[]);
    let own = finding(&findings, "gro");
    assert_eq!(own["state"], "ok", "{own}");
    assert_eq!(own["found"], format!("off on {INTERFACE}"));
}

#[test]
fn a_tun_device_has_no_link_layer() {
    require_root!();
    let lab = Lab::without_link().unwrap();
    let _tun = Tun::new(&lab.near).unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    let (code, findings) = examine(&service, &[]);
    assert_eq!(code, 0, "{findings}");
    let layer = finding(&findings, "link-layer");
    assert_eq!(layer["found"], "IP without a header in front");
    assert_eq!(
        finding(&findings, "driver")["found"],
        "tun, a virtual interface"
    );
    assert_eq!(finding(&findings, "native-xdp")["state"], "warning");
}

#[test]
fn a_class_of_a_vlan_has_no_packets_without_ethernet() {
    require_root!();
    let lab = Lab::without_link().unwrap();
    let _tun = Tun::new(&lab.near).unwrap();
    for (class, state) in [("vlan = 7", "warning"), ("ttl = 7", "ok")] {
        let toml = format!("{TOML}[class.seven]\n{class}\n");
        let service = Service::new(&lab, &toml).unwrap();
        let (_, findings) = examine(&service, &[]);
        let layer = finding(&findings, "link-layer");
        assert_eq!(layer["state"], state, "{layer}");
    }
}

#[test]
fn a_destination_that_is_not_routed_here_is_named() {
    require_root!();
    let lab = Lab::new().unwrap();
    lab.add_addresses(&["192.0.2.1/24", "2001:db8::1/64"], &[])
        .unwrap();
    // A customer behind this host, and the way to all others.
    for route in ["203.0.113.0/24", "default"] {
        let add = ["route", "replace", route, "dev", INTERFACE];
        lab.near.ip(&add).unwrap();
    }
    for (prefix, state) in [
        ("192.0.2.1", "ok"),
        ("192.0.2.77", "ok"),
        ("192.0.0.0/16", "ok"),
        ("2001:db8::5", "ok"),
        ("198.51.100.7", "warning"),
        ("2001:db8:1::5", "warning"),
        ("203.0.113.0/24", "ok"),
        // A part of it is routed.
        ("203.0.0.0/16", "ok"),
    ] {
        let limits = "limits = [{ packets = 9, per = \"1s\" }]";
        let toml = format!("{TOML}[destination.\"{prefix}\"]\n{limits}\n");
        let service = Service::new(&lab, &toml).unwrap();
        let (code, findings) = examine(&service, &[]);
        assert_eq!(code, 0, "{findings}");
        let found = finding(&findings, "destinations");
        assert_eq!(found["state"], state, "{prefix}: {found}");
    }
}

#[test]
fn what_is_not_for_this_host_is_reported_at_the_start_and_by_a_reload() {
    require_root!();
    let lab = Lab::without_link().unwrap();
    let _tun = Tun::new(&lab.near).unwrap();
    let toml = |classes: &str, destination: &str| {
        let limit = "packets = 9, per = \"1s\"";
        format!("{TOML}{classes}[destination.\"{destination}\"]\nlimits = [{{ {limit} }}]\n")
    };
    let elsewhere = "[destination.\"198.51.100.7\"]: not routed to this host";
    let tagged = "[class.seven] needs a VLAN tag, which packets of";
    let vlan = toml("[class.seven]\nvlan = 7\n", "198.51.100.7");
    let service = Service::started(&lab, &vlan).unwrap();
    for part in [elsewhere, tagged] {
        service.wait_for_log(part).unwrap();
    }
    for (config, expected) in [
        (toml("", "198.51.100.7"), &[elsewhere][..]),
        (toml("", "127.0.0.1"), &[]),
        (vlan.clone(), &[elsewhere, tagged]),
    ] {
        service.configure(&config).unwrap();
        for command in [&["reload", "--dry-run"][..], &["reload"]] {
            let said = service.rlctl_ok(command).unwrap();
            let told = [elsewhere, tagged].map(|it| said.contains(it));
            let wanted = [elsewhere, tagged].map(|it| expected.contains(&it));
            assert_eq!(told, wanted, "{command:?}: {said}");
        }
    }
    assert_eq!(service.log().matches(elsewhere).count(), 3);
}

#[test]
fn a_driver_that_gives_xdp_a_page_at_most_is_warned_about_frames_that_take_more() {
    require_root!();
    let lab = Lab::without_link().unwrap();
    lab.near
        .ip(&["tuntap", "add", "dev", "tap0", "mode", "tap"])
        .unwrap();
    lab.near
        .ip(&["link", "set", "tap0", "mtu", "9000"])
        .unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    let (code, findings) = examine(&service, &["tap0"]);
    assert_eq!(code, 0, "{findings}");
    assert_eq!(finding(&findings, "native-xdp")["found"], "yes");
    let mtu = finding(&findings, "mtu");
    assert_eq!(mtu["state"], "warning", "{mtu}");
    mend(&service, mtu);
    let (_, findings) = examine(&service, &["tap0"]);
    assert_eq!(finding(&findings, "mtu")["state"], "ok", "{findings}");
}

#[test]
fn a_driver_that_gives_long_frames_in_buffers_is_no_trouble() {
    require_root!();
    let lab = Lab::jumbo().unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    let (_, findings) = examine(&service, &[]);
    let mtu = finding(&findings, "mtu");
    let expected = "9200, supported by the driver in several buffers";
    assert_eq!(mtu["found"], expected, "{mtu}");
}

#[test]
fn queues_that_are_not_used_are_used_by_the_command_that_is_named() {
    require_root!();
    require_cpus!(2);
    require_command!("ethtool");
    let lab = Lab::without_link().unwrap();
    let add = "link add rl0 numrxqueues 2 type veth peer name rl1";
    let words: Vec<&str> = add.split(' ').collect();
    lab.near.ip(&words).unwrap();
    lab.near
        .run("ethtool", &["--set-channels", INTERFACE, "rx", "1"])
        .unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    let (_, findings) = examine(&service, &[]);
    let own = finding(&findings, "queues");
    assert_eq!(own["state"], "warning", "{own}");
    mend(&service, own);
    let (_, findings) = examine(&service, &[]);
    assert_eq!(finding(&findings, "queues")["state"], "ok", "{findings}");
}

#[test]
fn an_interface_that_cannot_send_answers_back_can_by_what_is_named() {
    require_root!();
    require_command!("ethtool");
    let lab = Lab::new().unwrap();
    let toml = format!("{TOML}[challenge.tcp]\nwhen = \"always\"\n");
    let service = Service::started(&lab, &toml).unwrap();
    let look = |check: &str| finding(&examine(&service, &[]).1, check).clone();
    let vlan = look("vlan-offload");
    assert_eq!(vlan["state"], "warning", "{vlan}");
    mend(&service, &vlan);
    assert_eq!(look("vlan-offload")["state"], "ok");
    let own = look("challenge-answers");
    assert_eq!(own["state"], "warning", "{own}");
    let why = own["why"].as_str().unwrap();
    assert!(why.contains("mode = \"generic\" for rl0"), "{why}");
    let gro = |word: &str| {
        let words = ["--features", INTERFACE, "gro", word];
        lab.far.run("ethtool", &words).unwrap();
    };
    gro("on");
    // From here it looks as with a program at the other end.
    assert_eq!(look("challenge-answers")["state"], "unknown");
    gro("off");
    assert_eq!(look("challenge-answers")["state"], "warning");
    let generic = "[[interface]]\nname = \"rl0\"\nmode = \"generic\"\n";
    service.reload(&format!("{toml}{generic}")).unwrap();
    assert_eq!(look("challenge-answers")["state"], "ok");
    // Without a challenge, nothing is answered.
    service.reload(TOML).unwrap();
    let (_, findings) = examine(&service, &[]);
    let mut all = findings.as_array().unwrap().iter();
    assert!(
        all.all(|it| it["check"] != "challenge-answers"),
        "{findings}"
    );
}

#[test]
fn unprivileged_users_see_what_was_not_checked() {
    require_root!();
    require_command!("setpriv");
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let output = service
        .inside(Path::new("setpriv"))
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(readable_rlctl(&service))
        .args([
            "--socket",
            service.path("run/control.sock").to_str().unwrap(),
        ])
        .args(["--json", "doctor", INTERFACE])
        .output()
        .unwrap();
    let said = Said::from(output);
    assert_eq!(said.code, 0, "{said:?}");
    let findings: Value = serde_json::from_str(&said.stdout).unwrap();
    for (check, fix) in [
        ("daemon", "sudo rlctl doctor"),
        ("xdp-program", "sudo rlctl doctor rl0"),
    ] {
        let own = finding(&findings, check);
        assert_eq!(own["state"], "unknown", "{own}");
        assert_eq!(own["fix"], fix);
    }
}

#[test]
fn what_the_maps_would_take_is_reported_before_the_daemon_starts() {
    require_root!();
    let lab = Lab::new().unwrap();
    for (store, found) in [("lru", "about 36.1 GiB"), ("compact", "about 5.1 GiB")] {
        let source = format!("[source]\ncapacity = 134_217_728\nstore = \"{store}\"\n");
        let service = Service::new(&lab, &format!("{TOML}{source}")).unwrap();
        let (_, findings) = examine(&service, &[]);
        let own = finding(&findings, "memory")["found"].as_str().unwrap();
        assert!(
            own.starts_with(&format!("the maps would need {found}")),
            "{own}"
        );
    }
}

#[test]
fn a_configuration_that_is_wrong_is_an_error() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::new(&lab, &format!("{TOML}[source]\ncapacity = 0\n")).unwrap();
    let (code, findings) = examine(&service, &[]);
    assert_eq!(code, 1, "{findings}");
    let own = finding(&findings, "configuration");
    assert_eq!(own["state"], "error", "{own}");
    let check = format!("rlctl config check {}", service.config().display());
    assert_eq!(own["fix"], check);
}

#[test]
fn an_interface_that_does_not_exist_is_an_error() {
    require_root!();
    let lab = Lab::without_link().unwrap();
    let service = Service::new(&lab, TOML).unwrap();
    let (code, findings) = examine(&service, &[]);
    assert_eq!(code, 1, "{findings}");
    let own = finding(&findings, "interface");
    assert_eq!(own["found"], "there is no such interface");
    assert_eq!(own["interface"], INTERFACE);
}

/// The exit code and the findings of `doctor`.
fn examine(service: &Service, arguments: &[&str]) -> (i32, Value) {
    let config = service.config();
    let words = ["--json", "doctor", "--config", config.to_str().unwrap()];
    let said = service.rlctl(&[&words, arguments].concat()).unwrap();
    let findings = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
    (said.code, findings)
}

fn finding<'f>(findings: &'f Value, check: &str) -> &'f Value {
    let mut all = findings.as_array().unwrap().iter();
    all.find(|it| it["check"] == check)
        .unwrap_or_else(|| panic!("no {check}: {findings}"))
}

/// Types the command of a finding.
fn mend(service: &Service, finding: &Value) {
    let command = finding["fix"].as_str().unwrap();
    let status = service
        .inside(Path::new("sh"))
        .args(["-c", command])
        .status()
        .unwrap();
    assert!(status.success(), "{command}");
}

/// A copy of `rlctl` where every user may run it.
fn readable_rlctl(service: &Service) -> PathBuf {
    let copy = service.path("rlctl");
    executable::copy(&binary("rlctl"), &copy, "755").unwrap();
    copy
}
