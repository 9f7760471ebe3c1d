use std::time::Duration;

use proptest::{collection::vec, prelude::*, sample::select, string::string_regex};
use ratelimit_common::parse::{Tunnels, tunnel::Tunnel};

use super::*;
use crate::{
    config::{ClockWish, Interface, Mode, OnStop, Paths, PolicyConfig, SourceConfig, StateStore},
    limit::{Algorithm, LimitSpec, LimitUnit},
};

#[test]
fn a_minimal_file_gives_the_defaults() {
    let config = load_text(MINIMAL);
    assert_eq!(config.interfaces, [interface("eth0", Mode::Auto)]);
    assert_eq!(config.default_policy, PolicyConfig::default());
    assert_eq!(config.metrics, Some("127.0.0.1:9798".parse().unwrap()));
    let source = SourceConfig {
        store: StateStore::Lru,
        ipv4_prefix: 32,
        ipv6_prefix: 64,
        capacity: 1 << 18,
        logs: 1 << 14,
        tunnels: Tunnels::NONE,
    };
    assert_eq!(config.source, source);
    let paths = Paths {
        pins: "/sys/fs/bpf/ratelimit".into(),
        state: "/var/lib/ratelimit".into(),
        runtime: "/run/ratelimit".into(),
    };
    assert_eq!(config.paths, paths);
    assert_eq!((config.observe, config.on_stop), (false, OnStop::Keep));
    assert_eq!(config.clock, ClockWish::Auto);
    assert!(config.policies.is_empty() && config.allow.is_empty());
}

#[test]
fn every_key_is_understood() {
    let config = load_text(
        r#"
        observe = true
        clock = "coarse"
        on_stop = "detach"
        [[interface]]
        name = "eth0"
        mode = "native"
        [[interface]]
        name = "eth1.100"
        mode = "generic"
        [source]
        ipv4_prefix = 24
        ipv6_prefix = 56
        tunnels = ["gre", "vxlan:8472", "geneve"]
        capacity = 1_000_000
        store = "compact"
        sliding_logs = 1000
        [policy.default]
        limits = [
          { packets = 1000, per = "1s" },
          { packets = 0x1000, per = "60", algorithm = "fixed-window" },
          { bytes = "50MB", per = "1h30m" },
          { bytes = 5000, per = "500ms", algorithm = "fixed-window" },
          { packets = 20_000, per = "1m", algorithm = "sliding-window" },
          { packets = 100, per = "1s", algorithm = "token-bucket" },
          { burst = "100MB", algorithm = "token-bucket", per = "1s", bytes = "50MB" },
          { packets = 1024, per = "1m", algorithm = "sliding-log" },
        ]
        [policy.partner]
        sources = ["203.0.113.0/24", "2001:db8:40::/48", "198.51.100.0/255.255.255.0"]
        limits = []
        observe = true
        [protected]
        sources = ["2001:db8:5::/48", "198.51.100.0/24"]

        [allow]
        sources = ["192.0.2.10"]
        [metrics]
        listen = "[::1]:9000"
        [paths]
        pins = "/sys/fs/bpf/a"
        state = "/b"
        runtime = "/c"
        "#,
    );
    assert!(config.observe && config.on_stop == OnStop::Detach);
    assert_eq!(config.clock, ClockWish::Coarse);
    let interfaces = [
        interface("eth0", Mode::Native),
        interface("eth1.100", Mode::Generic),
    ];
    assert_eq!(config.interfaces, interfaces);
    let source = SourceConfig {
        store: StateStore::Compact,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        capacity: 1_000_000,
        logs: 1000,
        tunnels: Tunnels::NONE
            .with(Tunnel::Gre, 0)
            .with(Tunnel::Vxlan, 8472)
            .with(Tunnel::Geneve, 6081),
    };
    assert_eq!(config.source, source);
    let limits = [
        limit(1000, LimitUnit::Packets, 1000),
        limit(4096, LimitUnit::Packets, 60_000),
        with(50_000_000, LimitUnit::Bytes, 5_400_000, bucket(50_000_000)),
        with(5000, LimitUnit::Bytes, 500, Algorithm::FixedWindow),
        with(20_000, LimitUnit::Packets, 60_000, Algorithm::SlidingWindow),
        with(100, LimitUnit::Packets, 1000, bucket(100)),
        with(50_000_000, LimitUnit::Bytes, 1000, bucket(100_000_000)),
        with(1024, LimitUnit::Packets, 60_000, Algorithm::SlidingLog),
    ];
    assert_eq!(config.default_policy.limits, limits);
    assert!(!config.default_policy.observe);
    let partner = &config.policies["partner"];
    let sources: Vec<String> = partner.sources.iter().map(ToString::to_string).collect();
    let expected = ["198.51.100.0/24", "203.0.113.0/24", "2001:db8:40::/48"];
    assert_eq!(sources, expected);
    assert!(partner.limits.is_empty() && partner.observe);
    assert_eq!(config.allow, ["192.0.2.10".parse().unwrap()]);
    let protected = ["198.51.100.0/24", "2001:db8:5::/48"];
    assert_eq!(config.protected, protected.map(|it| it.parse().unwrap()));
    assert_eq!(config.metrics, Some("[::1]:9000".parse().unwrap()));
    assert!(!config.dashboard);
    assert_eq!(config.paths.pins, Path::new("/sys/fs/bpf/a"));
    assert_eq!(config.paths.state, Path::new("/b"));
    assert_eq!(config.paths.runtime, Path::new("/c"));
}

#[test]
fn the_shortest_and_the_longest_window_are_accepted() {
    let limits = r#"{ packets = 1, per = "10ms" }, { packets = 1, per = "31d" }"#;
    let config = load_text(&MINIMAL.replace("[]", &format!("[{limits}]")));
    let expected = [
        limit(1, LimitUnit::Packets, 10),
        limit(1, LimitUnit::Packets, 31 * 86_400_000),
    ];
    assert_eq!(config.default_policy.limits, expected);
}

#[test]
fn metrics_can_be_switched_off() {
    let config = load_text(&format!("{MINIMAL}[metrics]\nlisten = false\n"));
    assert_eq!(config.metrics, None);
}

#[test]
fn the_dashboard_can_be_served_beside_the_metrics() {
    let config = load_text(&format!("{MINIMAL}[metrics]\ndashboard = true\n"));
    let default = Some("127.0.0.1:9798".parse().unwrap());
    assert_eq!((config.metrics, config.dashboard), (default, true));
    assert_eq!(config.dashboard_token, None);
    let token = "token_file = \"/etc/token\"\n";
    let config = load_text(&format!("{MINIMAL}[metrics]\ndashboard = true\n{token}"));
    assert_eq!(config.dashboard_token, Some("/etc/token".into()));
}

#[test]
fn the_history_is_kept_for_a_time_or_not_at_all() {
    let days = |days: u64| Duration::from_hours(24 * days);
    let kept = |text: &str| load_text(&format!("{MINIMAL}{text}")).history;
    assert_eq!(kept(""), Some(days(30)));
    assert_eq!(kept("[history]\nretention = \"7d\"\n"), Some(days(7)));
    assert_eq!(kept("[history]\nretention = false\n"), None);
    let text =
        format!("{MINIMAL}[history]\nwatch = [\"node\", \"203.0.113.7\", \"policy:default\"]\n");
    let config = load_text(&text);
    let watched = config.watched.iter().map(ToString::to_string);
    assert_eq!(
        watched.collect::<Vec<_>>(),
        ["node", "203.0.113.7", "policy:default"]
    );
    assert_eq!(config.history, Some(days(30)));
}

#[test]
fn snapshots_are_taken_from_time_to_time_or_not_at_all() {
    let taken = |text: &str| load_text(&format!("{MINIMAL}{text}")).snapshot;
    let minute = Duration::from_mins(1);
    let default = taken("");
    assert_eq!(default.every, Some(5 * minute));
    assert_eq!(default.min_window, minute);
    let other = taken("[snapshot]\nevery = \"30s\"\nmin_window = \"1h\"\n");
    assert_eq!(other.every, Some(minute / 2));
    assert_eq!(other.min_window, 60 * minute);
    assert_eq!(taken("[snapshot]\nevery = false\n").every, None);
}

#[test]
fn a_byte_order_mark_and_carriage_returns_do_not_matter() {
    let windows = format!("\u{feff}{}", MINIMAL.replace('\n', "\r\n"));
    assert_eq!(
        load_text(&windows).interfaces,
        load_text(MINIMAL).interfaces
    );
}

fn interface(name: &str, mode: Mode) -> Interface {
    Interface {
        name: name.to_owned(),
        mode,
        jumbo: false,
        next: None,
        policy: None,
        node: None,
        observe: false,
    }
}

fn limit(amount: u64, unit: LimitUnit, window_ms: u64) -> LimitSpec {
    with(amount, unit, window_ms, Algorithm::FixedWindow)
}

fn with(amount: u64, unit: LimitUnit, window_ms: u64, algorithm: Algorithm) -> LimitSpec {
    LimitSpec::new(amount, unit, Duration::from_millis(window_ms), algorithm).unwrap()
}

fn bucket(burst: u64) -> Algorithm {
    Algorithm::TokenBucket { burst }
}

#[test]
fn a_link_local_address_is_a_source_of_its_own_whatever_the_length() {
    for (address, source) in [
        ("fe80::1:2", "fe80::1:2/128"),
        ("febf::1", "febf::1/128"),
        ("fec0::1", "fec0::/64"),
        ("2001:db8::1:2", "2001:db8::/64"),
        ("169.254.1.2", "169.254.1.2/32"),
    ] {
        let around = SourceConfig::default().around(address.parse().unwrap());
        assert_eq!(around, source.parse().unwrap(), "{address}");
    }
}

proptest! {
    #[test]
    fn any_valid_configuration_loads(
        interfaces in prop::collection::btree_set("[a-z]{1,11}[0-9]{0,4}", 1..4),
        mode in select(vec!["auto", "native", "generic", "tcx"]),
        prefixes in (1u8..=32, 1u8..=128, 1u32..=1 << 27),
        default in vec(limit_text(), 0..=8),
        policies in prop::collection::btree_map(
            "p[A-Za-z0-9_-]{0,8}", vec(limit_text(), 0..=8), 0..5,
        ),
        observe: bool,
    ) {
        let (ipv4, ipv6, capacity) = prefixes;
        let mut toml = vec![
            format!("observe = {observe}"),
            format!("[source]\nipv4_prefix = {ipv4}\nipv6_prefix = {ipv6}\ncapacity = {capacity}"),
            format!("[policy.default]\nlimits = [{}]", default.join(", ")),
        ];
        toml.extend(interfaces.iter().map(|name| {
            format!("[[interface]]\nname = {name:?}\nmode = {mode:?}")
        }));
        toml.extend(policies.iter().enumerate().map(|(index, (name, limits))| {
            let limits = limits.join(", ");
            format!("[policy.{name}]\n\
                     limits = [{limits}]\n\
                     sources = [\"10.{index}.0.0/16\", \"2001:db8:{index}::/48\"]")
        }));
        let config = load_text(&toml.join("\n"));
        prop_assert_eq!(config.interfaces.len(), interfaces.len());
        prop_assert_eq!(config.policies.len(), policies.len());
        prop_assert_eq!(config.default_policy.limits.len(), default.len());
        prop_assert_eq!(config.source.capacity, capacity);
    }

    #[test]
    fn no_text_is_too_strange_to_be_answered(text in damaged()) {
        let (answer, _directory) = inspect_files(&[("config.toml", &text)]);
        if let Err(error) = answer {
            prop_assert!(!error.diagnostics().is_empty());
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

fn limit_text() -> impl Strategy<Value = String> {
    let packets = (1u32..1_000_000).prop_map(|packets| format!("packets = {packets}"));
    let bytes = (1514u32..1_000_000).prop_map(|bytes| format!("bytes = \"{bytes}B\""));
    let seconds = (1u32..=31 * 86_400).prop_map(|seconds| format!("per = \"{seconds}s\""));
    (prop_oneof![packets, bytes], seconds)
        .prop_map(|(amount, window)| format!("{{ {amount}, {window} }}"))
}

/// A valid file with one piece replaced.
fn damaged() -> impl Strategy<Value = String> {
    let good = format!(
        "{MINIMAL}[policy.a]\n\
         sources = [\"10.0.0.0/8\"]\n\
         limits = [{{ bytes = \"1MB\", per = \"1s\" }}]\n"
    );
    let pieces = string_regex("[a-z0-9\\[\\]{}=\"'.,\n\t #äé\u{1F600}\r-]{0,6}").unwrap();
    (0..good.len(), 0usize..9, pieces).prop_map(move |(start, length, piece)| {
        let end = (start + length).min(good.len());
        format!("{}{piece}{}", &good[..start], &good[end..])
    })
}

#[test]
fn established_connections_get_the_limits_once_more_or_limits_of_their_own() {
    let established = |value: &str| {
        let limits = "limits = [{ packets = 9, per = \"1s\" }]";
        let interface = "[[interface]]\nname = \"eth0\"";
        let text = format!("{interface}\n[policy.default]\n{limits}\nestablished = {value}");
        load_text(&text).default_policy.established
    };
    let written = established("[{ packets = 9, per = \"1s\" }]");
    assert_eq!(written.len(), 1);
    assert_eq!(established("true"), written);
    assert_eq!(established("false"), []);
}
