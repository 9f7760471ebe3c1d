//! The metrics, as `promtool` and a real Prometheus server read them.

use std::{
    fs,
    net::Ipv4Addr,
    path::Path,
    process::{Child, Stdio},
};

use ratelimit_tests::{
    Lab, lab::Sender, packet::datagram, require_command, require_root, service::Service,
};

const TOML: &str = "[policy.default]\n\
                    limits = [{ packets = 3, per = \"1m\" }]\n\
                    [source]\n\
                    capacity = 4096\n\
                    new_sources = \"unlimited\"\n";
const CLASSIC: &str = "text/plain";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0";

#[test]
fn promtool_has_nothing_to_say_about_the_metrics() {
    require_root!();
    require_command!("promtool");
    let (lab, service) = Service::in_lab(TOML).unwrap();
    traffic(&lab, 20, 5);
    let metrics = service.path("metrics");
    fs::write(&metrics, body(&service.get("/metrics", CLASSIC).unwrap())).unwrap();
    let output = service
        .inside(Path::new("promtool"))
        .args(["check", "metrics"])
        .stdin(fs::File::open(&metrics).unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty() && output.stdout.is_empty(),
        "{output:?}"
    );
}

#[test]
fn the_alerts_fire_in_trouble_and_on_no_healthy_host() {
    require_command!("promtool");
    let output = std::process::Command::new("promtool")
        .args(["test", "rules", "ratelimit-alerts.test.yml"])
        .current_dir(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../contrib/prometheus"
        ))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn every_alert_is_tested_and_has_a_paragraph_in_the_runbook() {
    let rules = include_str!("../../contrib/prometheus/ratelimit-alerts.yml");
    let tested = include_str!("../../contrib/prometheus/ratelimit-alerts.test.yml");
    let runbook = include_str!("../../docs/runbook.md");
    let lines = rules.lines().map(str::trim);
    let alerts: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in alerts {
        // With its labels, its summary and this place.
        let place = format!("runbook.md#{}\"\n", alert.to_lowercase());
        assert!(
            tested.contains(&format!("- alertname: {alert}\n")),
            "{alert}"
        );
        assert!(rules.contains(&place) && tested.contains(&place), "{alert}");
        assert!(runbook.contains(&format!("### {alert}\n\n")), "{alert}");
    }
}

#[test]
fn work_and_resources_of_the_daemon_are_counted() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.7"]).unwrap();
    let refused = service.rlctl(&["ban", "0.0.0.0/0"]).unwrap();
    assert_eq!(refused.code, 1, "{refused:?}");
    let value_of = |text: &str, name: &str| samples(text, name).pop().unwrap().1;
    // The periodic work of each second waits there for a moment.
    let text = service.wait_for("an empty queue", || {
        let text = service.get("/metrics", CLASSIC).unwrap();
        (value_of(&text, "ratelimit_queue_depth") == 0).then_some(text)
    });
    let value = |name: &str| value_of(&text, name);
    assert!(value("ratelimit_commit_seconds_count") > 0, "{text}");
    assert_eq!(value("ratelimit_commit_errors_total"), 0);
    let refused = samples(&text, "ratelimit_refused_commands_total");
    assert!(
        refused.contains(&("{code=\"too-wide\"}".into(), 1)),
        "{refused:?}"
    );
    assert!(value("process_resident_memory_bytes") > 1 << 20);
    let open = value("process_open_fds");
    let pid = service.pid().unwrap();
    let listed = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    assert!(open.abs_diff(listed) <= 4, "{open} of {listed}");
}

#[test]
fn every_metric_of_an_alert_is_served() {
    require_root!();
    let rules = include_str!("../../contrib/prometheus/ratelimit-alerts.yml");
    let named: std::collections::BTreeSet<&str> = rules
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("ratelimit_") || word.starts_with("process_"))
        .collect();
    assert!(named.len() > 15, "{named:?}");
    let lab = Lab::new().unwrap();
    let crowdsec = "[crowdsec]\nurl = \"/run/no-such-socket\"\nkey = \"k\"\n";
    let cluster = "[cluster]\n\
                   url = \"redis://127.0.0.1\"\n\
                   node = \"edge-1\"\n\
                   nodes = 3\n\
                   secret = \"0123456789abcdef0123456789abcdef\"\n\
                   [policy.shared]\n\
                   sources = [\"192.0.2.0/24\"]\n\
                   limits = [{ packets = 9, per = \"1s\", scope = \"cluster\" }]\n";
    let service = Service::started(&lab, &format!("{TOML}{crowdsec}{cluster}")).unwrap();
    service.wait_for_log("a node of the cluster").unwrap();
    let text = service.get("/metrics", CLASSIC).unwrap();
    for name in named {
        let family = ["_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let family = family.unwrap_or(name);
        assert!(
            text.contains(&format!("# TYPE {family} ")),
            "{name}: {text}"
        );
    }
}

#[test]
fn the_format_is_negotiated() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let classic = service.get("/metrics", CLASSIC).unwrap();
    assert!(
        classic.contains("content-type: text/plain; version=0.0.4") && !classic.contains("# EOF"),
        "{classic}"
    );
    let open = service.get("/metrics", OPENMETRICS).unwrap();
    assert!(
        open.contains("content-type: application/openmetrics-text") && open.ends_with("# EOF\n"),
        "{open}"
    );
}

#[test]
fn received_is_the_sum_over_verdicts() {
    require_root!();
    let (lab, service) = Service::in_lab(TOML).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.0/30"]).unwrap();
    let sent = traffic(&lab, 20, 5);
    let text = service.get("/metrics", CLASSIC).unwrap();
    let packets: Vec<(String, u64)> = samples(&text, "ratelimit_packets_total");
    let of = |part: &str| {
        packets
            .iter()
            .filter(|(labels, _)| labels.contains(part))
            .map(|(_, value)| value)
            .sum::<u64>()
    };
    assert_eq!(of("family=\"ipv4\""), sent);
    assert_eq!(
        (of("banned"), of("conforming"), of("limited")),
        (4 * 5, 16 * 3, 16 * 2)
    );
    let bytes: u64 = samples(&text, "ratelimit_bytes_total")
        .iter()
        .filter(|(labels, _)| labels.contains("ipv4"))
        .map(|(_, value)| value)
        .sum();
    assert_eq!(bytes, sent * 60);
    assert_eq!(samples(&text, "ratelimit_bans"), [(String::new(), 1)]);
}

#[test]
fn the_number_of_series_does_not_grow_with_the_sources_and_evicted_ones_are_counted() {
    require_root!();
    let (lab, service) = Service::in_lab(TOML).unwrap();
    let series = |text: &str| {
        body(text)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count()
    };
    traffic(&lab, 2, 5);
    let few = series(&service.get("/metrics", CLASSIC).unwrap());
    traffic(&lab, 6000, 1);
    let text = service.get("/metrics", CLASSIC).unwrap();
    assert!(
        series(&text) <= few + 4 && series(&text) < 240,
        "{few}, then {}",
        series(&text)
    );
    let inserted = samples(&text, "ratelimit_sources_inserted_total");
    assert!(
        inserted.iter().map(|(_, value)| value).sum::<u64>() >= 6000,
        "{inserted:?}"
    );
    // How full the maps are is looked at every few seconds.
    service.wait_until("all sources are held or evicted", || {
        let text = service.get("/metrics", CLASSIC).unwrap();
        let sum = |name, label| -> u64 {
            let samples = samples(&text, name).into_iter();
            let own = samples.filter(|(labels, _): &(String, u64)| labels.contains(label));
            own.map(|(_, value)| value).sum()
        };
        let evicted = sum("ratelimit_sources_evicted_total", "");
        let held = sum("ratelimit_map_entries", "SOURCES_V4");
        assert!(held <= 4096, "{held}");
        evicted + held == 6000
    });
}

#[test]
fn a_prometheus_server_answers_every_query_of_the_dashboard() {
    require_root!();
    require_command!("prometheus");
    let dashboard = include_str!("../../contrib/grafana/ratelimit.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let queries: Vec<String> = targets
        .flatten()
        .map(|target| {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$__rate_interval", "10s");
            query.replace("$job", ".*").replace("$instance", ".*")
        })
        .collect();
    assert!(queries.len() > 15, "{queries:?}");
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, TOML).unwrap();
    let list = service.path("drop.txt");
    fs::write(&list, "192.0.2.1\n").unwrap();
    let toml = format!("{TOML}[list.drop]\nfile = \"{}\"\n", list.display());
    service.configure(&toml).unwrap();
    service.start().unwrap();
    let _server = Prometheus::start(&service);
    for query in queries {
        // A series that counts nothing yet is there all the same, but for policies and attacks,
        // which come with the first.
        let is_counted_later = ["_made_total", "_attacks_total", "_policy_bans_total"]
            .iter()
            .any(|name| query.contains(name));
        service.wait_until(&query, || {
            traffic(&lab, 2, 5);
            let answer = Prometheus::query(&service, &query);
            let is_answered = answer.contains("\"status\":\"success\"");
            is_answered && (is_counted_later || answer.contains("\"value\":"))
        });
    }
}

/// A server that scrapes the service every second.
struct Prometheus(Child);

impl Prometheus {
    fn start(service: &Service) -> Self {
        let config = service.path("prometheus.yml");
        let jobs = "global: {scrape_interval: 1s}\n\
                    scrape_configs:\n  \
                    - job_name: ratelimit\n    \
                    static_configs: [{targets: ['127.0.0.1:9798']}]\n";
        fs::write(&config, jobs).unwrap();
        let mut command = service.inside(Path::new("prometheus"));
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!(
            "--storage.tsdb.path={}",
            service.path("tsdb").display()
        ));
        command.arg("--web.listen-address=127.0.0.1:9090");
        Self(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn query(service: &Service, query: &str) -> String {
        let output = service
            .inside(Path::new("curl"))
            .args([
                "--silent",
                "--get",
                "http://127.0.0.1:9090/api/v1/query",
                "--data-urlencode",
            ])
            .arg(format!("query={query}"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends `each` packets of each of `sources` sources, and answers how many that were.
fn traffic(lab: &Lab, sources: u32, each: u32) -> u64 {
    let sender = Sender::new(&lab.far).unwrap();
    for _ in 0..each {
        for source in 0..sources {
            let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(203, 0, 113, 0)) + source);
            sender.send(&datagram(source)).unwrap();
        }
    }
    u64::from(sources) * u64::from(each)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The labels and values of a metric.
fn samples(text: &str, name: &str) -> Vec<(String, u64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let pairs = lines
        .filter(|rest| rest.starts_with(['{', ' ']))
        .filter_map(|rest| rest.rsplit_once(' '));
    pairs
        .map(|(labels, value)| (labels.trim().to_owned(), value.parse().unwrap()))
        .collect()
}
