use super::*;
use crate::config::{Arguments, from_command_line};

#[test]
fn the_command_line_does_without_a_file() {
    let config = from_command_line(&arguments(&["eth0", "eth1"])).unwrap();
    let names: Vec<&str> = config
        .interfaces
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["eth0", "eth1"]);
    assert_eq!(shown_limits(&config), ["1000 packets per 1s"]);
    assert!(config.files.is_empty() && !config.observe);
    let expected = Config {
        interfaces: config.interfaces.clone(),
        default_policy: config.default_policy.clone(),
        files: vec![],
        ..load_text(MINIMAL)
    };
    assert_eq!(config, expected);
}

#[test]
fn packets_and_bytes_are_two_limits() {
    let arguments = Arguments {
        bytes: Some("50MB".to_owned()),
        observe: true,
        ..arguments(&["eth0"])
    };
    let config = from_command_line(&arguments).unwrap();
    let expected = [
        "1000 packets per 1s",
        "50MB per 1s (token-bucket, burst 50MB)",
    ];
    assert_eq!(shown_limits(&config), expected);
    assert!(config.observe);
}

#[test]
fn missing_keys_are_named_all_at_once() {
    check(
        &Arguments::default(),
        "\
--interface: is missing
hint: add `--interface eth0`
--packets: is missing
hint: add `--packets 1000` or `--bytes 50MB`
--per: is missing
hint: add `--per 1s`",
    );
}

#[test]
fn what_is_wrong_is_named_with_its_option() {
    check(
        &Arguments {
            packets: Some(0),
            bytes: Some("50M".to_owned()),
            ..arguments(&["eth0", "eth0", "", "enp0s31f6-uplink"])
        },
        "\
--interface eth0: is given twice
hint: remove one of them
--interface : the name of the interface is empty
hint: write a name that `ip link` shows, such as eth0
--interface enp0s31f6-uplink: `enp0s31f6-uplink` has 16 bytes, and names of interfaces at most 15
hint: write a name that `ip link` shows, such as eth0
--bytes 50M: `M` in `50M` is not a unit of bytes
hint: write `50MB` or `50MiB`
--packets 0: an amount of 0 would drop every packet
hint: write at least 1; to drop everything of a source, ban it",
    );
    check(
        &Arguments {
            per: Some("5ms".to_owned()),
            ..arguments(&["eth0"])
        },
        "\
--per 5ms: the window 5ms is too short
hint: write at least 10ms",
    );
    check(
        &Arguments {
            packets: None,
            bytes: Some("5TB".to_owned()),
            ..arguments(&["eth0"])
        },
        "\
--bytes 5TB: the amount is too large for a window of 1s
hint: write at most 4096GB, or a longer window",
    );
}

#[test]
fn more_interfaces_than_can_be_counted_apart_are_refused() {
    let names: Vec<String> = (0..33).map(|index| format!("eth{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(from_command_line(&arguments(&names[..32])).is_ok());
    check(
        &arguments(&names),
        "\
--interface: 33 interfaces are too many
hint: keep 32, the most that can be counted separately",
    );
}

fn arguments(interfaces: &[&str]) -> Arguments {
    Arguments {
        interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
        packets: Some(1000),
        bytes: None,
        per: Some("1s".to_owned()),
        observe: false,
    }
}

fn shown_limits(config: &Config) -> Vec<String> {
    let limits = config.default_policy.limits.iter();
    limits.map(ToString::to_string).collect()
}

#[track_caller]
fn check(arguments: &Arguments, expected: &str) {
    let error = from_command_line(arguments).unwrap_err();
    assert_eq!(error.to_string(), expected);
}
