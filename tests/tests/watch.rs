//! `rlctl` shows events as they come, and writes dropped packets, whole and with their reasons, to
//! a file.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use ratelimit_core::{
    api::StatsRow,
    capture::{Capture, CaptureError},
};
use ratelimit_tests::{
    Frame, Lab, cpu, require_root,
    service::{Service, binary},
    wait_until,
};
use serde_json::Value;

const LIMITED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const BANNED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);

const TOML: &str = r#"
[policy.default]
limits = [{ packets = 3, per = "1h" }]
"#;

#[test]
fn a_change_is_one_line_of_the_log_and_an_event_that_outlives_a_restart() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(TOML).unwrap();
    service.sudo_user = "alice".to_owned();
    let banned = BANNED.to_string();
    service
        .rlctl_ok(&["ban", &banned, "--for", "1h", "--reason", "scan"])
        .unwrap();
    let log = service.log();
    let reported = log.lines().filter(|line| line.contains(&banned));
    let reported: Vec<&str> = reported.collect();
    assert_eq!(reported.len(), 1, "{log}");
    for part in [
        "banned prefix=\"198.51.100.9\" origin=manual reason=\"scan\" until=",
        "author=\"root\" sudo_user=\"alice\"",
    ] {
        assert!(reported[0].contains(part), "{reported:?}");
    }
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    service.rlctl_ok(&["unban", &banned]).unwrap();
    let events = service.rlctl_ok(&["--json", "events"]).unwrap();
    let events = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = events
        .filter(|it: &Value| it["prefix"] == "198.51.100.9")
        .collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[0]["by"], "root (sudo alice)");
    assert_eq!(events[1]["by"], "root (sudo alice)");
    assert!(events[0]["number"].as_u64() < events[1]["number"].as_u64());
}

#[test]
fn drops_from_while_no_daemon_ran_stand_between_what_came_before_and_after() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    service.stop("-KILL").unwrap();
    send(&lab, &udp(BANNED, 60), 1);
    service.start().unwrap();
    let kinds = || {
        let events = service.rlctl_ok(&["--json", "events"]).unwrap();
        let events = events.lines();
        let events = events.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let kinds = events.map(|it| it["event"].as_str().unwrap().to_owned());
        kinds.collect::<Vec<_>>()
    };
    wait_until("the drop", || kinds().iter().any(|it| it == "drop"));
    let expected = [
        "interface-attached",
        "ban-added",
        "drop",
        "interface-attached",
    ];
    assert_eq!(kinds(), expected);
}

#[test]
fn whoever_follows_sees_changes_and_drops_until_the_daemon_stops() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    let mut follower = Follower::new(&service);
    let banned = BANNED.to_string();
    service
        .rlctl_ok(&["ban", &banned, "--for", "1h", "--reason", "scan"])
        .unwrap();
    let event = follower.next();
    assert_eq!(event["event"], "ban-added");
    assert_eq!(event["prefix"], "198.51.100.9");
    assert_eq!(
        (&event["by"], &event["reason"]),
        (&"root".into(), &"scan".into())
    );
    service.rlctl_ok(&["unban", &banned]).unwrap();
    let event = follower.next();
    assert_eq!(
        (&event["event"], &event["by"]),
        (&"ban-removed".into(), &"root".into())
    );
    service
        .rlctl_ok(&["ban", "192.0.2.9", "--for", "1s"])
        .unwrap();
    assert_eq!(follower.next()["event"], "ban-added");
    let event = follower.next();
    assert_eq!(
        (&event["event"], &event["prefix"]),
        (&"ban-ended".into(), &"192.0.2.9".into())
    );
    send(&lab, &udp(LIMITED, 60), 4);
    let event = follower.next();
    assert_eq!(
        (&event["event"], &event["reason"]),
        (&"drop".into(), &"limited".into())
    );
    assert_eq!(event["source"], LIMITED.to_string());
    assert_eq!(
        (&event["policy"], &event["interface"]),
        (&"default".into(), &"rl0".into())
    );
    assert_eq!(event["limit"]["packets"], 3);
    service.rlctl_ok(&["reload"]).unwrap();
    assert_eq!(follower.next()["event"], "reloaded");

    let kept = service.rlctl_ok(&["events", "--kind", "bans"]).unwrap();
    let kinds: Vec<&str> = kept
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    assert_eq!(kinds, ["banned", "unbanned", "banned", "ban"], "{kept}");
    let last = ["events", "--within", "203.0.113.0/24", "--last", "1"];
    let last = service.rlctl_ok(&last).unwrap();
    assert!(
        last.ends_with(
            "dropped 203.0.113.7 (udp to 198.51.100.1 port 53 from port 12345) on rl0: limited, 3 \
             packets per 1h of policy default\n"
        ),
        "{last}"
    );

    let start = Instant::now();
    service.stop("-TERM").unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "who follows does not hold the daemon up"
    );
    assert_eq!(follower.end(), Some(4), "there is no daemon any more");
}

#[test]
fn a_follower_ends_in_success_at_ctrl_c() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let mut follower = Follower::new(&service);
    service.rlctl_ok(&["ban", "192.0.2.9"]).unwrap();
    assert_eq!(follower.next()["event"], "ban-added");
    signal(follower.0.id(), "-INT");
    assert_eq!(follower.end(), Some(0));
}

#[test]
fn dropped_packets_are_captured_whole_with_their_reasons() {
    require_root!();
    let (lab, service) = Service::in_lab(TOML).unwrap();
    let file = service.path("drops.pcapng");
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let frames = [udp(BANNED, 60), udp(LIMITED, 61), udp(LIMITED, 1_514)];
    send(&lab, &udp(LIMITED, 60), 3);
    let capture = start_capture(&service, &file, &["--count", "3"]);
    for frame in &frames {
        send(&lab, frame, 1);
    }
    let (code, said) = end_of(capture);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("3 packets written"), "{said}");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let path = file.display().to_string();
    let text = run(
        "tshark",
        &[
            "-r",
            &path,
            "-T",
            "fields",
            "-e",
            "frame.comment",
            "-e",
            "frame.len",
            "-e",
            "frame.interface_name",
            "-e",
            "frame.cap_len",
        ],
    );
    let expected = [("banned", 60), ("limited", 61), ("limited", 1_514)];
    let expected =
        expected.map(|(reason, bytes)| format!("dropped: {reason}\t{bytes}\trl0\t{bytes}\n"));
    assert_eq!(text, expected.concat());
    let bytes = fs::read(&file).unwrap();
    for frame in &frames {
        let is_there = bytes.windows(frame.len()).any(|window| window == frame);
        assert!(is_there, "the frame of {} bytes is whole", frame.len());
    }
    let config = service.config().display().to_string();
    let simulated = service
        .rlctl_ok(&["simulate", &path, "--config", &config])
        .unwrap();
    assert!(simulated.contains(": 3 packets with "), "{simulated}");
    let on = service
        .rlctl(&["capture", "-w", &path, "--count", "1", "--for", "1s"])
        .unwrap();
    assert_eq!(on.code, 0, "another capture can begin: {on:?}");
}

#[test]
fn a_capture_that_loses_its_daemon_reports_what_it_wrote() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    let file = service.path("drops.pcapng");
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let capture = start_capture(&service, &file, &[]);
    send(&lab, &udp(BANNED, 60), 33);
    let packets_in = |bytes: &[u8]| {
        let mut packets = 0;
        Capture::open(bytes)?.read(|_| {
            packets += 1;
            Ok::<_, CaptureError>(())
        })?;
        Ok::<_, CaptureError>(packets)
    };
    wait_until("the packets are written", || {
        let bytes = fs::read(&file).unwrap_or_default();
        packets_in(&bytes).is_ok_and(|packets| packets == 33)
    });
    service.stop("-KILL").unwrap();
    let (code, said) = end_of(capture);
    assert_eq!(code, Some(4), "{said}");
    let bytes = fs::read(&file).unwrap();
    assert_eq!(packets_in(&bytes).unwrap(), 33);
    let written = format!("; the capture has 33 packets ({} bytes)", bytes.len());
    let is_told = said.contains("the daemon closed the connection") && said.contains(&written);
    assert!(is_told, "{said}");
}

#[test]
fn a_capture_has_only_what_was_asked_for_and_ends_at_ctrl_c() {
    require_root!();
    let (lab, service) = Service::in_lab(TOML).unwrap();
    let file = service.path("drops.pcapng");
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let wanted = [
        "--drop-reason",
        "limited",
        "--within",
        "203.0.113.0/24",
        "--sample",
        "1/10",
        "--snap",
        "40",
    ];
    let capture = start_capture(&service, &file, &wanted);
    let path = file.display().to_string();
    let second = service.rlctl(&["capture", "-w", &path]).unwrap();
    assert_eq!(second.code, 1, "{second:?}");
    assert!(
        second
            .stderr
            .contains("a capture is already running, for root"),
        "{second:?}"
    );
    // One CPU sends, so one CPU receives: each takes a sample of its own.
    cpu::pin(0);
    for frame in [
        udp(BANNED, 60),
        udp(Ipv4Addr::new(203, 0, 114, 7), 60),
        udp(LIMITED, 60),
    ] {
        send(&lab, &frame, 33);
    }
    wait_for_drops(&service, 33 + 30 + 30);
    signal(capture.id(), "-INT");
    let (code, said) = end_of(capture);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("3 packets written, of 30 dropped"), "{said}");
    let fields = [
        "-r",
        &path,
        "-T",
        "fields",
        "-e",
        "ip.src",
        "-e",
        "frame.len",
        "-e",
        "frame.cap_len",
    ];
    assert_eq!(run("tshark", &fields), "203.0.113.7\t60\t40\n".repeat(3));
}

#[test]
fn a_dry_run_is_captured_into_a_pipe_and_says_that_it_is_one() {
    require_root!();
    let (lab, service) = Service::in_lab(&format!("observe = true\n{TOML}")).unwrap();
    send(&lab, &udp(LIMITED, 60), 3);
    let capture = start_capture(&service, Path::new("-"), &["--count", "1"]);
    send(&lab, &udp(LIMITED, 60), 1);
    let output = capture.wait_with_output().unwrap();
    let file = service.path("piped.pcapng");
    fs::write(&file, output.stdout).unwrap();
    let path = file.display().to_string();
    let comment = run(
        "tshark",
        &["-r", &path, "-T", "fields", "-e", "frame.comment"],
    );
    assert_eq!(comment, "passed in a dry run, would be dropped: limited\n");
}

/// `rlctl events --follow --json`.
struct Follower(Child, BufReader<std::process::ChildStdout>);

impl Follower {
    fn new(service: &Service) -> Self {
        service.rlctl_ok(&["allow", "add", "192.0.2.1"]).unwrap();
        let mut child = rlctl(service)
            .args(["events", "--follow", "--json", "--last", "1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut follower = Self(child, BufReader::new(stdout));
        // Stored events are followed by new ones.
        assert_eq!(follower.next()["event"], "allow-added");
        follower
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }

    fn end(mut self) -> Option<i32> {
        self.1.read_to_string(&mut String::new()).unwrap();
        self.0.wait().unwrap().code()
    }
}

/// `rlctl capture`, which has begun.
fn start_capture(service: &Service, file: &Path, arguments: &[&str]) -> Child {
    let begun = || service.log().matches("capturing dropped packets").count();
    let before = begun();
    let mut command = rlctl(service);
    command.args(["capture", "-w"]).arg(file).args(arguments);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the capture begins", || begun() > before);
    child
}

fn end_of(capture: Child) -> (Option<i32>, String) {
    let output = capture.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

fn rlctl(service: &Service) -> Command {
    let mut command = service.inside(&binary("rlctl"));
    command
        .arg("--socket")
        .arg(service.path("run/control.sock"))
        .env("NO_COLOR", "1");
    command
}

fn signal(process: u32, signal: &str) {
    run("kill", &[signal, &process.to_string()]);
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn wait_for_drops(service: &Service, packets: u64) {
    let dropped = || -> u64 {
        let rows: Vec<StatsRow> = service.json(&["stats"]).unwrap();
        let dropped = rows.iter().filter(|row| row.action == "drop");
        dropped.map(|row| row.packets).sum()
    };
    wait_until("all of it is dropped", || dropped() == packets);
}

fn send(lab: &Lab, frame: &[u8], packets: u32) {
    lab.send(frame, packets.into()).unwrap();
}

fn udp(source: Ipv4Addr, bytes: usize) -> Vec<u8> {
    Frame::ethernet().ipv4(source).udp(53).pad_to(bytes).build()
}
