//! Interfaces appear, disappear, are renamed and moved, and reports match what happens to their
//! packets.

use std::{
    env, fs,
    net::Ipv4Addr,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use ratelimit_tests::{
    Lab, PATIENCE,
    lab::{INTERFACE, Receiver, Sender, passed},
    packet::datagram,
    require_command, require_root,
    service::Service,
    wait_until,
};

const BANNED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const FREE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// The longest time for which an interface that is back may be without the program. A second is
/// promised of a release build on a machine of its own.
const PROMISED: Duration = if cfg!(debug_assertions) {
    PATIENCE
} else {
    Duration::from_secs(1)
};
/// The longest time until a frame that passed arrives.
const LATE: Duration = Duration::from_millis(500);
const POLICY: &str = "[policy.default]\nlimits = []\n";
/// The interface that changes; the one of the lab is left alone.
const OTHER: &str = "rl1";

fn interface(name: &str) -> String {
    format!("[[interface]]\nname = \"{name}\"\n")
}

fn both() -> String {
    format!("{POLICY}{}{}", interface(INTERFACE), interface(OTHER))
}

/// A second pair, with an end in each namespace.
fn add(lab: &Lab) {
    let far = lab.far.name();
    lab.near
        .ip(&[
            "link", "add", OTHER, "type", "veth", "peer", "name", OTHER, "netns", far,
        ])
        .unwrap();
    for namespace in [&lab.near, &lab.far] {
        namespace.ip(&["link", "set", OTHER, "up"]).unwrap();
    }
}

/// Whether a packet of a source that is sent into `far` arrives on `near`.
fn passes(lab: &Lab, far: &str, near: &str, source: Ipv4Addr) -> bool {
    let mut receiver = Receiver::on(&lab.near, near).unwrap();
    let sender = Sender::on(&lab.far, far).unwrap();
    passed(&sender, &mut receiver, &datagram(source), 1).unwrap() == 1
}

/// Waits until packets of a source come through: an interface that is up has no carrier for a
/// moment.
fn comes_to_pass(lab: &Lab, what: &str, source: Ipv4Addr) {
    wait_until(what, || passes(lab, OTHER, OTHER, source));
}

fn status_of(service: &Service, interface: &str) -> serde_json::Value {
    let mut said = service.rlctl(&["--json", "status"]).unwrap();
    // A verifier that takes its time keeps the daemon busy.
    while said.stderr.contains("it is busy with") {
        said = service.rlctl(&["--json", "status"]).unwrap();
    }
    let status: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let interfaces = status["interfaces"].as_array().unwrap();
    let own = interfaces.iter().find(|it| it["name"] == interface);
    let own = own.unwrap().clone();
    let all = interfaces.iter().all(|it| it["attached"] == true);
    assert_eq!(said.code, if all { 0 } else { 6 }, "{said:?}");
    own
}

fn is_attached(service: &Service, interface: &str) -> bool {
    status_of(service, interface)["attached"] == true
}

#[test]
fn an_interface_that_is_deleted_and_made_again_is_attached_again_and_every_verb_reports_it() {
    require_root!();
    let lab = Lab::new().unwrap();
    add(&lab);
    let service = Service::started(&lab, &both()).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    lab.near.ip(&["link", "delete", OTHER]).unwrap();
    let own = status_of(&service, OTHER);
    assert_eq!(own["why"], "there is no such interface", "{own}");
    for verb in [
        &["ban", "192.0.2.77"][..],
        &["allow", "add", "192.0.2.78"],
        &["list", "bans"],
        &["reload"],
        &["check", "203.0.113.9"],
    ] {
        let said = service.rlctl(verb).unwrap();
        let warning = format!("{OTHER} not protected since");
        assert!(said.stderr.contains(&warning), "{verb:?}: {said:?}");
    }
    let said = service.rlctl(&["check", "203.0.113.9"]).unwrap();
    assert_eq!(said.code, 3, "{said:?}");
    assert!(
        said.stdout.contains(&format!("not enforced on {OTHER}")),
        "{said:?}"
    );
    let health = service.get("/healthz", "text/plain").unwrap();
    assert!(health.contains("503") && health.contains(OTHER), "{health}");
    let metrics = service.metrics().unwrap();
    let sample = format!("ratelimit_interface_attached{{interface=\"{OTHER}\",mode=\"none\"}} 0");
    assert!(metrics.contains(&sample), "{metrics}");
    add(&lab);
    let took = service.wait_until("attached again", || is_attached(&service, OTHER));
    assert!(took < PROMISED, "{took:?}");
    comes_to_pass(&lab, "attached again", FREE);
    assert!(!passes(&lab, OTHER, OTHER, BANNED));
    service.wait_for_event(&format!(
        "not enforced on {OTHER}: there is no such interface"
    ));
    service.wait_for_event(&format!("attached to {OTHER} in native mode"));
    let reported = service.log().matches("not enforced there").count();
    assert_eq!(reported, 1, "{}", service.log());
    assert!(
        service
            .get("/healthz", "text/plain")
            .unwrap()
            .contains("ok")
    );
}

#[test]
fn an_interface_missing_at_start_is_attached_when_it_appears() {
    require_root!();
    require_command!("bpftool");
    let (lab, service) = Service::in_lab(&both()).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));
    assert!(!is_attached(&service, OTHER));
    service
        .wait_for_log("interface does not exist yet; its program is loaded in advance")
        .unwrap();
    let loaded = bpftool(&service, &["--json", "prog", "show"]).unwrap();
    add(&lab);
    let took = service.wait_until("attached", || is_attached(&service, OTHER));
    assert!(took < PROMISED, "{took:?}");
    let shown = lab.near.ip(&["-json", "link", "show", OTHER]).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let own = format!("\"id\":{},", shown[0]["xdp"]["prog"]["id"]);
    assert!(loaded.contains(&own), "{own} was loaded before: {loaded}");
    assert!(!passes(&lab, OTHER, OTHER, BANNED));
    let dropped = format!("on {OTHER}: banned");
    service.wait_for_event(&dropped);
}

#[test]
fn interfaces_that_are_renamed_while_no_daemon_runs_are_followed() {
    require_root!();
    let lab = Lab::new().unwrap();
    add(&lab);
    let mut service = Service::started(&lab, &both()).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    let rename = |from: &str, to: &str| {
        lab.near.ip(&["link", "set", from, "name", to]).unwrap();
    };
    // One with an unknown new name continues, and is up to date.
    service.stop("-TERM").unwrap();
    rename(OTHER, "renamed");
    service.start().unwrap();
    let own = status_of(&service, OTHER);
    assert_eq!(
        (&own["attached"], &own["renamed_to"]),
        (&false.into(), &"renamed".into())
    );
    service.rlctl_ok(&["ban", "192.0.2.9"]).unwrap();
    for source in [BANNED, Ipv4Addr::new(192, 0, 2, 9)] {
        assert!(!passes(&lab, OTHER, "renamed", source));
    }
    // One that is configured by its new name counts as that, and two may swap their names.
    service.stop("-KILL").unwrap();
    let program = |name: &str| lab.near.ip(&["-o", "link", "show", name]).unwrap();
    let is_on = |name: &str| program(name).contains("xdp");
    assert!(is_on("renamed") && is_on(INTERFACE));
    rename(INTERFACE, "swap");
    rename("renamed", INTERFACE);
    rename("swap", OTHER);
    // The programs are replaced for it, before anything is attached.
    service
        .configure(&format!(
            "{}[node]\nlimits = [{{ packets = 1_000_000, per = \"1s\" }}]\n",
            both()
        ))
        .unwrap();
    service.start().unwrap();
    service
        .wait_for_log("renamed while no daemon was running")
        .unwrap();
    assert!(is_attached(&service, INTERFACE) && is_attached(&service, OTHER));
    assert!(!passes(&lab, OTHER, INTERFACE, BANNED));
    assert!(!passes(&lab, INTERFACE, OTHER, BANNED));
    let log = service.log();
    assert!(!log.contains("detached interface"), "{log}");
}

#[test]
fn a_foreign_detach_is_undone_at_once_and_rlctl_detach_by_a_reload() {
    require_root!();
    require_command!("bpftool");
    let (lab, mut service) = Service::in_lab(&format!("{POLICY}{}", interface(INTERFACE))).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    let link = link_of(&service).unwrap();
    bpftool(&service, &["link", "detach", "id", &link]).unwrap();
    let took = service.wait_until("attached again", || {
        link_of(&service).is_some_and(|it| it != link)
    });
    assert!(took < PROMISED, "{took:?}");
    assert!(is_attached(&service, INTERFACE));
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));

    // The end of a trial or a rollback does not attach it.
    let trial = service.path("trial.toml");
    fs::write(
        &trial,
        fs::read_to_string(service.config()).unwrap() + "[history]\nretention = false\n",
    )
    .unwrap();
    let apply = ["apply", trial.to_str().unwrap(), "--confirm", "2s"];
    service.rlctl_ok(&apply).unwrap();
    service.rlctl_ok(&["detach"]).unwrap();
    assert!(passes(&lab, INTERFACE, INTERFACE, BANNED));
    service.wait_for_log("configuration rolled back").unwrap();
    assert!(passes(&lab, INTERFACE, INTERFACE, BANNED));
    let said = service.rlctl(&["check", "203.0.113.9"]).unwrap();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.stdout.contains("no interface is protected"),
        "{said:?}"
    );
    let said = service.rlctl(&["ban", "192.0.2.1"]).unwrap();
    assert!(said.stderr.contains("detached the program"), "{said:?}");
    let said = service.rlctl_ok(&["reload"]).unwrap();
    assert!(
        said.contains(&format!("interface {INTERFACE}: attached again")),
        "{said}"
    );
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));
    service.stop("-TERM").unwrap();
    assert!(
        !passes(&lab, INTERFACE, INTERFACE, BANNED),
        "the pins are there again"
    );
}

#[test]
fn pins_that_are_removed_are_made_again_and_the_stop_reports_it() {
    require_root!();
    let (lab, mut service) = Service::in_lab(&format!("{POLICY}{}", interface(INTERFACE))).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    fs::remove_dir_all(service.pins()).unwrap();
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));
    service.wait_for_log("pins were removed").unwrap();
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));
    service.wait_until("healthy", || {
        service
            .get("/healthz", "text/plain")
            .unwrap()
            .contains("ok")
    });
    service.stop("-KILL").unwrap();
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));
    service.start().unwrap();
    let bans = service.rlctl_ok(&["list", "bans"]).unwrap();
    assert!(bans.contains("203.0.113.9"), "{bans}");
    // In the moment of the stop they are made again, too.
    fs::remove_dir_all(service.pins()).unwrap();
    service.stop("-TERM").unwrap();
    assert!(
        service
            .log()
            .contains("stopped; the kernel continues to enforce")
    );
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));
}

#[test]
fn a_reload_takes_interfaces_sources_and_metrics() {
    require_root!();
    let lab = Lab::new().unwrap();
    add(&lab);
    let service = Service::started(&lab, &format!("{POLICY}{}", interface(INTERFACE))).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    assert!(passes(&lab, OTHER, OTHER, BANNED));
    let stop = AtomicBool::new(false);
    let mut receiver = Receiver::on(&lab.near, INTERFACE).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| send_until(&lab, &stop));
        let _stop = Stop(&stop);
        let reload = |toml: &str, reported: &str| {
            let said = service.reload(toml).unwrap();
            assert!(said.contains(reported), "{reported}: {said}");
        };
        reload(&both(), &format!("interface {OTHER}: added"));
        assert!(!passes(&lab, OTHER, OTHER, BANNED));
        let source = "[source]\ncapacity = 2000\nipv4_prefix = 24\n";
        reload(&format!("{}{source}", both()), "source: changed");
        assert!(!passes(&lab, OTHER, OTHER, BANNED));
        let status = service.rlctl_ok(&["--json", "status"]).unwrap();
        assert!(status.contains("\"capacity\": 2000"), "{status}");
        let compact = "[source]\ncapacity = 4000\nstore = \"compact\"\n";
        reload(&format!("{}{compact}", both()), "source: changed");
        assert!(!passes(&lab, OTHER, OTHER, BANNED));
        let metrics = "[metrics]\nlisten = \"127.0.0.1:9799\"\n";
        reload(
            &format!("{}{compact}{metrics}", both()),
            "metrics: 127.0.0.1:9798 -> 127.0.0.1:9799",
        );
        service.wait_until("metrics", || {
            let mut curl = service.inside("curl".as_ref());
            let answer = curl
                .args(["--silent", "http://127.0.0.1:9799/healthz"])
                .output();
            answer.unwrap().stdout.starts_with(b"ok")
        });
        reload(
            &format!("{POLICY}{}{compact}", interface(INTERFACE)),
            &format!("interface {OTHER}: removed"),
        );
        service.wait_until("let go", || passes(&lab, OTHER, OTHER, BANNED));
    });
    while let Some(frame) = receiver.next(LATE).unwrap() {
        assert_ne!(frame[26..30], BANNED.octets(), "a banned packet passed");
    }
}

#[test]
fn a_state_of_root_on_a_read_only_disk_is_worked_on_as_a_copy() {
    require_root!();
    let (lab, mut service) = Service::in_lab(POLICY).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    service.stop("-TERM").unwrap();
    let state = service.path("state");
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).arg(&state).status();
        assert!(status.unwrap().success(), "{program} {arguments:?}");
    };
    // As a daemon that ran as root has left it; and the machine was booted.
    run("chown", &["-R", "root:root"]);
    run("chmod", &["700"]);
    fs::remove_dir_all(service.pins()).unwrap();
    let target = state.display().to_string();
    run("mount", &["--bind", &target]);
    run("mount", &["-o", "remount,ro,bind"]);
    service.start().unwrap();
    assert!(!passes(&lab, INTERFACE, INTERFACE, BANNED));
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("failure of state"), "{status}");
    service.stop("-KILL").unwrap();
    run("umount", &["--lazy"]);
    service.start().unwrap();
    let bans = service.rlctl(&["list", "bans"]).unwrap();
    assert!(
        bans.stdout.contains("203.0.113.9") && bans.stderr.is_empty(),
        "{bans:?}"
    );
}

#[test]
fn a_foreign_program_is_left_alone_and_the_hint_says_what_takes_it_off() {
    require_root!();
    require_command!("bpftool");
    let lab = Lab::new().unwrap();
    let config = format!("{POLICY}{}", interface(INTERFACE));
    let first = Service::started(&lab, &config).unwrap();
    let second = Service::new(&lab, &config).unwrap();
    let metrics = "[metrics]\nlisten = \"127.0.0.1:9799\"\n";
    second.configure(&format!("{config}{metrics}")).unwrap();
    let mut second = second;
    second.start().unwrap();
    let own = status_of(&second, INTERFACE);
    let why = own["why"].as_str().unwrap();
    for part in [
        format!("`ip link set dev {INTERFACE} xdpdrv off`"),
        "`bpftool link detach id N`".to_owned(),
        "`bpftool link list`".to_owned(),
    ] {
        assert!(why.contains(&part), "{why}");
    }
    assert!(why.contains("write `chain = "), "{why}");
    let program = why.split_once("shows for the program ").unwrap().1;
    let program: u64 = program.split(';').next().unwrap().parse().unwrap();
    let links = bpftool(&first, &["-j", "link", "list"]).unwrap();
    let links: serde_json::Value = serde_json::from_str(&links).unwrap();
    let links = links.as_array().unwrap();
    let link = links.iter().find(|link| link["prog_id"] == program);
    let id = link.unwrap()["id"].to_string();
    // The first would put its program on again.
    first.signal("-STOP").unwrap();
    bpftool(&first, &["link", "detach", "id", &id]).unwrap();
    second.wait_until("attached", || is_attached(&second, INTERFACE));
    first.signal("-CONT").unwrap();
}

#[test]
fn generic_mode_on_a_bridge_is_said_with_what_to_attach_to_instead() {
    require_root!();
    let lab = Lab::new().unwrap();
    lab.near
        .ip(&["link", "add", "br0", "type", "bridge"])
        .unwrap();
    lab.near
        .ip(&["link", "set", INTERFACE, "master", "br0"])
        .unwrap();
    lab.near.ip(&["link", "set", "br0", "up"]).unwrap();
    let service = Service::started(&lab, &format!("{POLICY}{}", interface("br0"))).unwrap();
    let own = status_of(&service, "br0");
    let remark = own["remark"].as_str().unwrap();
    assert!(remark.contains("count as one packet"), "{own}");
    assert!(
        remark.contains(&format!("configure {INTERFACE} instead")),
        "{own}"
    );
    assert!(
        service.log().contains("count as one packet"),
        "{}",
        service.log()
    );
}

#[test]
fn generic_mode_on_a_veth_is_said_to_count_uncut_frames_as_one_packet() {
    require_root!();
    let lab = Lab::new().unwrap();
    let toml = |mode: &str| format!("{POLICY}{}mode = \"{mode}\"\n", interface(INTERFACE));
    let service = Service::started(&lab, &toml("generic")).unwrap();
    let remark = "count as one packet: set mode = \"native\"";
    let own = status_of(&service, INTERFACE);
    assert!(own["remark"].as_str().unwrap().contains(remark), "{own}");
    assert!(service.log().contains(remark), "{}", service.log());
    let examined = service.rlctl(&["doctor", INTERFACE]).unwrap().stdout;
    assert!(examined.contains("count as one packet"), "{examined}");
    // The named command fixes it.
    service.reload(&toml("native")).unwrap();
    let own = status_of(&service, INTERFACE);
    assert!(own["remark"].is_null(), "{own}");
    let examined = service.rlctl(&["doctor", INTERFACE]).unwrap().stdout;
    assert!(!examined.contains("count as one packet"), "{examined}");
}

/// Two packets of a limit of four remain: a bridge and its port have both charged each packet. The
/// kernel refuses a port whose bridge has a program.
#[test]
fn packets_that_meet_the_program_twice_are_reported() {
    require_root!();
    let lab = Lab::new().unwrap();
    for bridge in ["br0", "zbr0"] {
        lab.near
            .ip(&["link", "add", bridge, "type", "bridge"])
            .unwrap();
        lab.near.ip(&["link", "set", bridge, "up"]).unwrap();
    }
    let join = |bridge: &str| {
        lab.near
            .ip(&["link", "set", INTERFACE, "master", bridge])
            .unwrap();
    };
    let toml = |names: &[&str]| {
        let interfaces: String = names.iter().map(|it| interface(it)).collect();
        format!("[policy.default]\nlimits = [{{ packets = 4, per = \"1h\" }}]\n{interfaces}")
    };
    let remark = |service: &Service, name| status_of(service, name)["remark"].to_string();
    join("zbr0");
    let mut service = Service::started(&lab, &toml(&[INTERFACE, "zbr0"])).unwrap();
    let reported = remark(&service, "zbr0");
    assert!(reported.contains("counted twice"), "{reported}");
    // A bridge takes no frame without a sender.
    let mut frame = datagram(FREE);
    frame[..12].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 7]);
    let mut receiver = Receiver::on(&lab.near, "zbr0").unwrap();
    let sender = Sender::on(&lab.far, INTERFACE).unwrap();
    for _ in 0..6 {
        sender.send(&frame).unwrap();
    }
    let mut passed = 0;
    while let Some(arrived) = receiver.next(LATE).unwrap() {
        passed += usize::from(arrived[26..30] == FREE.octets());
    }
    assert_eq!(passed, 2);
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    let reported = remark(&service, INTERFACE);
    assert!(reported.contains("counted twice"), "{reported}");
    service.reload(&toml(&[INTERFACE])).unwrap();
    assert_eq!(remark(&service, INTERFACE), "null");
    service.rlctl_ok(&["detach"]).unwrap();
    join("br0");
    service.configure(&toml(&["br0", INTERFACE])).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    let expected = "already runs an XDP program";
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(said.contains(expected), "{said}");
}

/// The number of the link on the interface of the lab; `None` while there is none.
fn link_of(service: &Service) -> Option<String> {
    link_at(service, &pin(service, 0, INTERFACE))
}

fn link_at(service: &Service, pin: &str) -> Option<String> {
    let text = bpftool(service, &["-j", "link", "show", "pinned", pin])?;
    let link: serde_json::Value = serde_json::from_str(&text).unwrap();
    Some(link["id"].to_string())
}

fn pin(service: &Service, slot: u32, interface: &str) -> String {
    let layout = format!("v{}", ratelimit_common::layout::VERSION);
    let links = service.pins().join(layout).join("links");
    links
        .join(format!("{slot}-{interface}"))
        .display()
        .to_string()
}

fn bpftool(service: &Service, arguments: &[&str]) -> Option<String> {
    let mut command = service.inside("bpftool".as_ref());
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(text)
}

/// Ends the sending, also where something is wrong before.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Sends packets of the banned source, and of another, to the unchanged interface.
fn send_until(lab: &Lab, stop: &AtomicBool) {
    let sender = Sender::on(&lab.far, INTERFACE).unwrap();
    while !stop.load(Relaxed) {
        for source in [BANNED, FREE] {
            sender.send(&datagram(source)).unwrap();
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// A change of the second interface.
#[derive(Clone, Copy, Debug)]
enum Change {
    Delete,
    Detach,
    Recreate,
    Rename,
    Down,
    Mtu,
    Move,
}

/// Random changes of one interface under traffic of a banned source on both. None of its packets
/// ever arrives on the other, and none on this one later than a second after it is back. Reports
/// match what happens to packets. In half of the sequences, the daemon is killed before, and
/// started again with other features after. `RATELIMIT_SEQUENCES=200` runs more of them,
/// `RATELIMIT_SEED` others.
#[test]
fn random_changes_of_an_interface_let_no_banned_packet_pass_but_in_the_second_after_it_is_back() {
    require_root!();
    require_command!("bpftool");
    let number = |name: &str, default: u64| {
        env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let mut random = fastrand::Rng::with_seed(number("RATELIMIT_SEED", 16));
    let lab = Lab::new().unwrap();
    add(&lab);
    let mut service = Service::started(&lab, &both()).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    let mut quiet = Receiver::on(&lab.near, INTERFACE).unwrap();
    let mut slowest = Duration::ZERO;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| send_until(&lab, &stop));
        let _stop = Stop(&stop);
        for sequence in 0..number("RATELIMIT_SEQUENCES", 6) {
            let changes: Vec<Change> = (0..random.usize(1..4))
                .map(|_| {
                    use Change::{Delete, Detach, Down, Move, Mtu, Recreate, Rename};
                    let all = [Delete, Detach, Recreate, Rename, Down, Mtu, Move];
                    *random.choice(&all).expect("there are some")
                })
                .collect();
            let is_killed = random.bool();
            eprintln!("{sequence}: {changes:?}, killed: {is_killed}");
            if is_killed {
                service.stop("-KILL").unwrap();
            }
            for change in &changes {
                make(&lab, &service, *change, is_killed, &mut random);
            }
            if is_killed {
                if random.bool() {
                    start_under_each_others_names(&lab, &mut service, &mut random);
                }
                start_with_other_features(&mut service, &mut random);
            }
            let took = service.wait_until(&format!("{sequence}: {changes:?}"), || {
                is_attached(&service, OTHER)
            });
            slowest = slowest.max(took);
            assert!(took < PROMISED, "{sequence}: {changes:?}: {took:?}");
            lab.far.ip(&["link", "set", OTHER, "up"]).unwrap();
            lab.near.ip(&["link", "set", OTHER, "up"]).unwrap();
            comes_to_pass(&lab, &format!("{sequence}: {changes:?}"), FREE);
            assert!(
                !passes(&lab, OTHER, OTHER, BANNED),
                "{sequence}: {changes:?}"
            );
            let said = service.rlctl(&["ban", "192.0.2.1"]).unwrap();
            assert_eq!(said.stderr, "", "{sequence}: {changes:?}");
        }
    });
    eprintln!("attached again after {slowest:?} at most");
    while let Some(frame) = quiet.next(LATE).unwrap() {
        assert_ne!(
            frame[26..30],
            BANNED.octets(),
            "a packet on the quiet interface"
        );
    }
}

/// Features in use besides bans.
const FEATURES: [&str; 3] = [
    "[node]\nlimits = [{ packets = 1_000_000, per = \"1s\" }]\n",
    "[subnet]\nipv4 = [{ prefix = 24, packets = 1_000_000, per = \"1s\" }]\n",
    "[class.there]\ndestination = [\"192.0.2.53\"]\naction = \"drop\"\n",
];

fn start_with_other_features(service: &mut Service, random: &mut fastrand::Rng) {
    let features = FEATURES.into_iter().filter(|_| random.bool());
    let features: String = features.collect();
    service.configure(&(both() + &features)).unwrap();
    service.start().unwrap();
}

/// Both interfaces have each other's name for the life of a daemon.
fn start_under_each_others_names(lab: &Lab, service: &mut Service, random: &mut fastrand::Rng) {
    let swap = || {
        for (from, to) in [(INTERFACE, "swap"), (OTHER, INTERFACE), ("swap", OTHER)] {
            lab.near.ip(&["link", "set", from, "name", to]).unwrap();
        }
    };
    swap();
    start_with_other_features(service, random);
    assert!(is_attached(service, INTERFACE) && is_attached(service, OTHER));
    assert!(!passes(lab, OTHER, INTERFACE, BANNED));
    service.stop("-KILL").unwrap();
    swap();
}

/// Makes a change, and undoes it if the interface would be missing. If a daemon is running, its
/// report is compared with what happens to packets.
fn make(lab: &Lab, service: &Service, change: Change, is_killed: bool, random: &mut fastrand::Rng) {
    let near = |arguments: &[&str]| lab.near.ip(arguments).unwrap();
    match change {
        Change::Delete => {
            // It disappears together with its peer.
            lab.far.ip(&["link", "delete", OTHER]).unwrap();
            if !is_killed {
                reported_missing(service);
            }
            add(lab);
        }
        Change::Detach => {
            let link = link_at(service, &pin(service, 1, OTHER));
            // One that is back has none for a moment.
            if let Some(link) = link {
                bpftool(service, &["link", "detach", "id", &link]);
            }
        }
        Change::Recreate => {
            near(&["link", "delete", OTHER]);
            add(lab);
        }
        Change::Rename => {
            let is_reported = !is_killed && random.bool();
            if is_reported {
                // A new one may not have its program yet, which would then be missing.
                service.wait_until("attached", || is_attached(service, OTHER));
            }
            near(&["link", "set", OTHER, "name", "renamed"]);
            if is_reported {
                let own = status_of(service, OTHER);
                assert_eq!(own["renamed_to"], "renamed", "{own}");
                assert!(!passes(lab, OTHER, "renamed", BANNED));
            }
            near(&["link", "set", "renamed", "name", OTHER]);
        }
        Change::Down => {
            near(&["link", "set", OTHER, "down"]);
            if !is_killed {
                service.wait_until("attached", || is_attached(service, OTHER));
            }
            near(&["link", "set", OTHER, "up"]);
        }
        Change::Mtu => {
            near(&[
                "link",
                "set",
                OTHER,
                "mtu",
                ["1400", "1500"][random.usize(0..2)],
            ]);
        }
        Change::Move => {
            let away = lab.far.name();
            near(&["link", "set", OTHER, "name", "moved"]);
            near(&["link", "set", "moved", "netns", away]);
            if !is_killed {
                reported_missing(service);
            }
            lab.far
                .ip(&["link", "set", "moved", "netns", lab.near.name()])
                .unwrap();
            near(&["link", "set", "moved", "name", OTHER]);
            near(&["link", "set", OTHER, "up"]);
        }
    }
}

fn reported_missing(service: &Service) {
    let own = status_of(service, OTHER);
    assert_eq!(own["why"], "there is no such interface", "{own}");
    let said = service.rlctl(&["ban", "192.0.2.1"]).unwrap();
    assert!(
        said.stderr.contains(&format!("{OTHER} not protected")),
        "{said:?}"
    );
    let said = service.rlctl(&["check", "203.0.113.9"]).unwrap();
    assert!(
        said.stdout.contains(&format!("not enforced on {OTHER}")),
        "{said:?}"
    );
}
