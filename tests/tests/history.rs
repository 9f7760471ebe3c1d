//! The traffic history survives a restart, is exact, and is lost alone if its file is damaged.

use std::{fs, net::Ipv4Addr, path::Path};

use ratelimit_tests::{Lab, packet::datagram, require_command, require_root, service::Service};
use serde_json::Value;

const NOISY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const TOML: &str = r#"
[policy.default]
limits = [{ packets = 3, per = "1h" }]
[policy.partner]
sources = ["198.51.100.0/24"]
limits = [{ packets = 10, per = "1h" }]
[metrics]
listen = "127.0.0.1:9798"
dashboard = true
"#;

#[test]
fn the_history_equals_the_counters_over_a_restart() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    wait_for_points(&service);
    send(&lab, 40);
    wait_for_packets(&service, 30);
    service.stop("-TERM").unwrap();
    send(&lab, 7);
    service.start().unwrap();
    send(&lab, 5);
    wait_for_packets(&service, 42);
    let history = history(&service, &["--interval", "1s"]);
    assert_eq!(sum(&history, "verdicts", "limited"), 42);
    assert_eq!(sum(&history, "verdicts", "conforming"), 10);
    assert_eq!(sum(&history, "policies", "partner"), 52);
    let verdicts = history["verdicts"].as_array().unwrap();
    let limited = verdicts.iter().find(|it| it["reason"] == "limited");
    let bytes = limited.unwrap()["bytes"].as_array().unwrap().iter();
    let bytes: u64 = bytes.filter_map(Value::as_u64).sum();
    assert_eq!(bytes, 42 * 60);
    let table = service.rlctl_ok(&["stats", "--since", "1h"]).unwrap();
    assert!(table.contains("limited"), "{table}");
    let status: Value = service.json(&["status"]).unwrap();
    assert_eq!(status["history"]["errors"], 0, "{status}");
    assert_eq!(status["history"]["keep_seconds"], 30 * 24 * 3600);
}

#[test]
fn a_file_that_is_damaged_or_cannot_be_made_stops_nothing_else() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    service.stop("-TERM").unwrap();
    let file = service.path("state/history.db");
    assert!(file.exists());
    fs::write(&file, [7; 9000]).unwrap();
    service.start().unwrap();
    service
        .wait_for_log("packet history is damaged; starting a new one")
        .unwrap();
    wait_for_points(&service);
    service.stop("-TERM").unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(service.path(&format!("state/history.db{suffix}")));
    }
    fs::create_dir(&file).unwrap();
    service.start().unwrap();
    send(&lab, 40);
    service.wait_until("what was counted", || {
        let status: Value = service.json(&["status"]).unwrap();
        let troubles = status["troubles"].as_array().cloned().unwrap_or_default();
        troubles.iter().any(|it| it["what"] == "history")
    });
    fs::remove_dir(&file).unwrap();
    wait_for_packets(&service, 30);
}

#[test]
fn it_is_read_over_the_network_where_the_dashboard_is_and_can_be_switched_off() {
    require_root!();
    require_command!("curl");
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    wait_for_points(&service);
    let get = |path: &str| {
        let mut curl = service.inside(Path::new("curl"));
        let url = format!("http://127.0.0.1:9798{path}");
        curl.args(["--silent", "--max-time", "10", &url]);
        let output = curl.output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(get("/v1/history")["step_seconds"], 5);
    let refused = get("/v1/history?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z");
    assert_eq!(refused["detail"], "`from` is not before `to`", "{refused}");
    let said = service
        .reload(&format!("{TOML}[history]\nretention = false\n"))
        .unwrap();
    assert!(said.contains("history: 30d -> off"), "{said}");
    service.wait_until("what was counted", || {
        let said = service.rlctl(&["stats", "--since", "1h"]).unwrap();
        said.stderr.contains("packet history is disabled")
    });
}

/// A watched source has 10 packets an hour, and the node 50.
#[test]
fn what_was_left_of_a_watched_source_is_kept_from_when_it_is_named() {
    require_root!();
    let lab = Lab::new().unwrap();
    let node = "[node]\nlimits = [{ packets = 50, per = \"1h\" }]\n";
    let service = Service::started(&lab, &format!("{TOML}{node}")).unwrap();
    wait_for_points(&service);
    send(&lab, 4);
    let refused = service.rlctl(&["stats", "--quota", "198.51.100.9"]);
    let refused = refused.unwrap();
    assert!(refused.stderr.contains("watch = ["), "{refused:?}");
    let watch = "[history]\nwatch = [\"198.51.100.9\", \"node\", \"203.0.113.0/24\"]\n";
    service.reload(&format!("{TOML}{node}{watch}")).unwrap();
    service.wait_until("what was counted", || {
        least(&service, "198.51.100.9") == Some(6) && least(&service, "node") == Some(46)
    });
    send(&lab, 40);
    service.wait_until("what was counted", || {
        least(&service, "198.51.100.9") == Some(0) && least(&service, "node") == Some(40)
    });
    let told = service.rlctl_ok(&["stats", "--quota", "198.51.100.9"]);
    let told = told.unwrap();
    assert!(
        told.contains("198.51.100.9, of 10 packets per 1h:"),
        "{told}"
    );
    // The sources of a prefix without limits of its own have theirs, of which none is used.
    assert_eq!(least(&service, "203.0.113.0/24"), Some(3));
}

/// The source of a policy or prefix with the smallest remaining quota counts, in each store and for
/// each algorithm.
#[test]
fn what_was_left_of_a_policy_and_a_prefix_is_that_of_the_source_with_the_least() {
    require_root!();
    for (store, algorithm) in [("lru", "sliding-log"), ("compact", "token-bucket")] {
        let lab = Lab::new().unwrap();
        let toml = format!(
            "[source]\n\
             store = \"{store}\"\n\
             [policy.default]\n\
             limits = [{{ packets = 1000, per = \"1h\" }}]\n\
             [policy.partner]\n\
             sources = [\"198.51.100.0/24\"]\n\
             limits = [{{ packets = 100, per = \"1h\", algorithm = \"{algorithm}\" }}]\n\
             [history]\n\
             watch = [\"policy:partner\", \"198.51.100.8/29\", \"policy:default\"]\n"
        );
        let service = Service::started(&lab, &toml).unwrap();
        let left = |watched| least(&service, watched);
        service.wait_until("what was counted", || {
            left("policy:partner") == Some(100) && left("198.51.100.8/29") == Some(100)
        });
        send_of(&lab, Ipv4Addr::new(198, 51, 100, 1), 30);
        send_of(&lab, NOISY, 7);
        let expected = [Some(70), Some(93), Some(1000)];
        service.wait_until("what was counted", || {
            ["policy:partner", "198.51.100.8/29", "policy:default"].map(left) == expected
        });
        let told = service.rlctl_ok(&["stats", "--quota", "policy:partner"]);
        let told = told.unwrap();
        assert!(
            told.contains("policy:partner, of 100 packets per 1h"),
            "{told}"
        );
    }
}

/// Returns the lowest remaining capacity of a watched limit.
fn least(service: &Service, watched: &str) -> Option<u64> {
    let history = history(service, &["--interval", "1s"]);
    let levels = history["levels"].as_array()?;
    let own = levels.iter().find(|it| it["watched"] == watched)?;
    let left = own["left"].as_array()?.iter();
    left.filter_map(Value::as_u64).min()
}

fn send(lab: &Lab, packets: u64) {
    send_of(lab, NOISY, packets);
}

fn send_of(lab: &Lab, source: Ipv4Addr, packets: u64) {
    lab.send(&datagram(source), packets).unwrap();
}

/// Waits until a second was counted: there is no data from before the first sample.
fn wait_for_points(service: &Service) {
    service.wait_until("what was counted", || {
        let history = history(service, &[]);
        let observed = history["observed_seconds"].as_array().cloned();
        observed.unwrap_or_default().iter().any(|it| *it != 0)
    });
}

fn wait_for_packets(service: &Service, limited: u64) {
    service.wait_until("what was counted", || {
        sum(&history(service, &[]), "verdicts", "limited") == limited
    });
}

fn sum(history: &Value, of: &str, name: &str) -> u64 {
    let all = history[of].as_array().cloned().unwrap_or_default();
    let own = all
        .iter()
        .filter(|it| it["reason"] == name || it["policy"] == name);
    let points = own.flat_map(|it| it["packets"].as_array().unwrap().clone());
    points.filter_map(|it| it.as_u64()).sum()
}

fn history(service: &Service, more: &[&str]) -> Value {
    let words = [&["stats", "--since", "1h"], more].concat();
    service.json(&words).unwrap_or_default()
}
