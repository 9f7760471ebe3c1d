//! Packets are counted for what decided about them: exactly, on two CPUs, over reloads and
//! restarts.

use std::{
    fs,
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Lab, cpu, lab::Sender, packet::datagram, require_root, service::Service};
use serde_json::Value;

const BANNED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const LISTED: Ipv4Addr = Ipv4Addr::new(203, 0, 114, 9);
const ALLOWED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const PARTNER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

const BYTES: u64 = 60;

const TOML: &str = r#"
[[interface]]
name = "rl0"
mode = "generic"
[policy.default]
limits = [{ packets = 1_000_000, per = "1s" }]
[policy.partner]
sources = ["198.51.100.0/24"]
limits = [{ packets = 100, per = "1d" }]
[allow]
sources = ["192.0.2.10"]
"#;

#[test]
fn counts_are_exact_on_two_cpus_and_continue_over_a_reload_and_a_restart() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = listed(&lab, "");
    service.rlctl_ok(&["ban", "203.0.113.7"]).unwrap();
    let sent = [(BANNED, 500), (LISTED, 300), (ALLOWED, 200), (PARTNER, 150)];
    cpu::on_two(|_| send_all(&lab, &sent));
    let check = |service: &Service, times: u64| {
        for (source, packets) in sent {
            check_all(service, source, packets * times);
        }
    };
    check(&service, 2);

    configure(
        &service,
        "[policy.others]\nsources = [\"10.9.0.0/16\"]\nlimits = []",
    );
    service.rlctl_ok(&["reload"]).unwrap();
    check(&service, 2);
    send_all(&lab, &sent);
    check(&service, 3);

    service.stop("-KILL").unwrap();
    send_all(&lab, &sent);
    service.start().unwrap();
    check(&service, 4);
    let text = service.rlctl(&["check", "203.0.113.7"]).unwrap().stdout;
    assert!(
        text.contains("counter: 2000 packets, 120000 bytes"),
        "{text}"
    );
    let metrics = service.metrics().unwrap();
    for line in [
        "ratelimit_list_packets_total{list=\"bad\"} 1200",
        "ratelimit_list_bytes_total{list=\"bad\"} 72000",
        "ratelimit_policy_packets_total{policy=\"partner\"} 600",
        "ratelimit_policy_bytes_total{policy=\"partner\"} 36000",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert!(!metrics.contains("203.0.113.7"), "no address is a label");
}

#[test]
fn of_two_that_cover_a_packet_the_one_that_decides_counts_it() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = listed(&lab, "");
    service
        .rlctl_ok(&["allow", "add", "203.0.113.0/24", "--for", "1h"])
        .unwrap();
    service.rlctl_ok(&["ban", "203.0.113.7"]).unwrap();
    send_all(&lab, &[(BANNED, 7)]);
    await_count(&service, "list allows", "203.0.113.0/24", 7);
    check_ban(&service, BANNED, 0);

    // The list holds forever, and the ban for an hour.
    service
        .rlctl_ok(&["ban", "203.0.114.9", "--for", "1h"])
        .unwrap();
    send_all(&lab, &[(LISTED, 8)]);
    await_count(&service, "list lists", "bad", 8);
    check_ban(&service, LISTED, 0);
    let text = service.rlctl(&["check", "203.0.114.9"]).unwrap().stdout;
    assert!(
        text.contains("counter: 8 packets, 480 bytes, by all entries of bad"),
        "{text}"
    );
    service
        .rlctl_ok(&["ban", "203.0.114.9", "--forever"])
        .unwrap();
    send_all(&lab, &[(LISTED, 9)]);
    check_ban(&service, LISTED, 9);
    await_count(&service, "list lists", "bad", 8);

    // A packet that would be dropped matched what would drop it.
    configure(&service, "observe = true");
    service.rlctl_ok(&["reload"]).unwrap();
    let said = service.rlctl(&["ban", "192.0.2.99"]).unwrap();
    assert!(said.stderr.contains("nothing is dropped"), "{said:?}");
    send_all(&lab, &[(LISTED, 3), (PARTNER, 110)]);
    check_ban(&service, LISTED, 12);
    await_count(&service, "list limits", "partner", 110);

    // Nothing is matched while everything passes.
    service
        .rlctl_ok(&["pass-all", "on", "--for", "1m"])
        .unwrap();
    send_all(&lab, &[(LISTED, 50), (PARTNER, 50)]);
    service.rlctl_ok(&["pass-all", "off"]).unwrap();
    send_all(&lab, &[(LISTED, 1), (PARTNER, 1)]);
    check_ban(&service, LISTED, 13);
    await_count(&service, "list limits", "partner", 111);
}

#[test]
fn the_default_policy_met_what_no_other_did() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = listed(&lab, "");
    let before = count(&service, "list limits", "default").0;
    let stranger = Ipv4Addr::new(10, 1, 2, 3);
    service
        .rlctl_ok(&[
            "limit",
            "set",
            "--prefix",
            "10.9.0.0/16",
            "--packets",
            "10",
            "--per",
            "1d",
        ])
        .unwrap();
    let sent = [
        (stranger, 25),
        (PARTNER, 30),
        (Ipv4Addr::new(10, 9, 1, 1), 12),
    ];
    send_all(&lab, &sent);
    await_count(&service, "list limits", "default", before + 25);
    await_count(&service, "list limits", "10.9.0.0/16", 12);
    // Packets of a removed policy do not count for the default policy.
    service
        .rlctl_ok(&["limit", "rm", "--prefix", "10.9.0.0/16"])
        .unwrap();
    send_all(&lab, &sent);
    await_count(&service, "list limits", "default", before + 62);
}

/// A service with a list of one address.
fn listed(lab: &Lab, toml: &str) -> Service {
    let mut service = Service::new(lab, TOML).unwrap();
    fs::write(service.path("bad.txt"), format!("{LISTED}\n")).unwrap();
    configure(&service, toml);
    service.start().unwrap();
    service
}

fn configure(service: &Service, toml: &str) {
    let file = service.path("bad.txt");
    let list = format!("[list.bad]\nfile = \"{}\"\n", file.display());
    service.configure(&format!("{toml}\n{TOML}{list}")).unwrap();
}

fn send_all(lab: &Lab, sent: &[(Ipv4Addr, u64)]) {
    let sender = Sender::new(&lab.far).unwrap();
    for (source, packets) in sent {
        let frame = datagram(*source);
        for _ in 0..*packets {
            sender.send(&frame).unwrap();
        }
    }
}

/// Checks what was counted for the entry that an address has.
fn check_all(service: &Service, source: Ipv4Addr, packets: u64) {
    match source {
        BANNED => check_ban(service, source, packets),
        LISTED => await_count(service, "list lists", "bad", packets),
        ALLOWED => await_count(service, "list allows", "192.0.2.10", packets),
        _ => await_count(service, "list limits", "partner", packets),
    }
}

fn check_ban(service: &Service, source: Ipv4Addr, packets: u64) {
    await_count(service, "list bans", &source.to_string(), packets);
}

/// Waits until this many packets are counted, and a moment longer to see that there are no more
/// than that.
fn await_count(service: &Service, verb: &str, name: &str, packets: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let expected = (packets, packets * BYTES);
    while count(service, verb, name).0 < packets && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(20));
    let counted = count(service, verb, name);
    if verb == "list limits" && name == "default" {
        // Other packets of the link may be of it too, of any length.
        assert_eq!(counted.0, packets, "{verb} {name}");
    } else {
        assert_eq!(counted, expected, "{verb} {name}");
    }
}

fn count(service: &Service, verb: &str, name: &str) -> (u64, u64) {
    let arguments: Vec<&str> = ["--json"].into_iter().chain(verb.split(' ')).collect();
    let answer = service.rlctl_ok(&arguments).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let rows = answer.as_array().unwrap();
    let is_named = |row: &&Value| row["prefix"] == name || row["name"] == name;
    let row = rows
        .iter()
        .find(is_named)
        .unwrap_or_else(|| panic!("{name} in {answer}"));
    let [packets, bytes] = ["packets", "bytes"].map(|key| {
        row[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{key} of {row}"))
    });
    (packets, bytes)
}
