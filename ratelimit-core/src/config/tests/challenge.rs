use std::{num::NonZeroU32, time::Duration};

use ratelimit_common::challenge::When;

use super::*;

#[test]
fn sources_are_challenged_where_it_is_written() {
    let challenge =
        |keys: &str| load_text(&format!("{MINIMAL}[challenge.tcp]\n{keys}\n")).challenge;
    let reported = |keys| challenge(keys).unwrap().to_string();
    assert_eq!(
        reported("when = \"over 5_000 syn/s\""),
        "over 5000 syn/s, by rst, for 10m, at most 1000000 answers a second"
    );
    assert_eq!(
        reported("when = \"always\"\nfor = \"30s\"\nanswers = 7\nway = \"syncookie\""),
        "always, by syncookie, for 30s, at most 7 answers a second"
    );
    assert_eq!(
        reported("when = \"always\"\nscope = \"node\""),
        "always, by rst, for 10m, at most 1000000 answers a second, known to this node alone"
    );
    assert_eq!(challenge("when = \"never\""), None);
    assert_eq!(load_text(MINIMAL).challenge, None);
    let over = challenge("when = \"over 16777215 syn/s\"\nfor = \"24h\"").unwrap();
    assert_eq!(
        over.connections,
        When::Over(NonZeroU32::new(16_777_215).unwrap())
    );
    assert_eq!(over.lasts, Duration::from_hours(24));
}

#[test]
fn what_is_wrong_of_a_challenge_is_told_with_what_to_write() {
    check_behind_minimal(
        "[challenge.tcp]\nwhen = \"over 0 syn/s\"\nfor = \"25h\"\nanswers = 0\nper = 1\nway = \"cookie\"\n",
        r#"config.toml:9:8: `when` is `over 0 syn/s`: 0 is out of range
9 | when = "over 0 syn/s"
  |        ^^^^^^^^^^^^^^ write a number from 1 to 16777215, or "always"
config.toml:10:7: `for` is 25h, which is not between 1s and 24h
10 | for = "25h"
   |       ^^^^^ write for = "10m"
config.toml:11:11: `answers` is out of range
11 | answers = 0
   |           ^ write a number from 1 to 16777215
config.toml:12:1: unknown key `per` in [challenge.tcp]
12 | per = 1
   | ^^^ remove it; known here: when, for, answers, destinations, ports, way, scope, back_off
config.toml:13:7: `way` is `cookie`, which is none
13 | way = "cookie"
   |       ^^^^^^^^ write way = "rst" or "syncookie""#,
    );
    check_behind_minimal(
        "[challenge.tcp]\nwhen = \"sometimes\"\n[challenge.udp]\n",
        r#"config.toml:9:8: `when` is `sometimes`, which says no time
9 | when = "sometimes"
  |        ^^^^^^^^^^^ write when = "over 5_000 syn/s", "always" or "never"
config.toml:10:12: unknown key `udp` in [challenge]
10 | [challenge.udp]
   |            ^^^ remove it; known here: tcp, dns"#,
    );
    check_behind_minimal(
        "[challenge]\n",
        r"config.toml:8:1: [challenge] has no `tcp`
8 | [challenge]
  | ^^^^^^^^^^^ write [challenge.tcp] or [challenge.dns]",
    );
    check_behind_minimal(
        "[challenge.tcp]\n",
        r#"config.toml:8:1: [challenge.tcp] has no `when`
8 | [challenge.tcp]
  | ^^^^^^^^^^^^^^^ write when = "over 5_000 syn/s", "always" or "never""#,
    );
}

#[test]
fn connections_to_some_destinations_and_ports_are_challenged_where_it_is_written() {
    let challenge = |keys: &str| {
        let toml = format!("{MINIMAL}[challenge.tcp]\nwhen = \"always\"\n{keys}\n");
        load_text(&toml).challenge.unwrap()
    };
    let both =
        challenge("destinations = [\"198.51.100.7\", \"2001:db8::/64\"]\nports = [443, 8443]");
    assert_eq!(
        both.to_string(),
        "always to 198.51.100.7, 2001:db8::/64, ports 443, 8443, by rst, for 10m, at most 1000000 answers a second"
    );
    let is_of = |to: &str, port| both.is_of(Some(to.parse().unwrap()), Some(port));
    assert!(is_of("198.51.100.7", 443) && is_of("2001:db8::9", 8443));
    assert!(!is_of("198.51.100.8", 443) && !is_of("198.51.100.7", 80));
    assert!(both.is_of(None, None) && !both.is_of(None, Some(80)));
    assert!(challenge("").is_of(Some("198.51.100.8".parse().unwrap()), Some(80)));
    check_behind_minimal(
        "[challenge.tcp]\nwhen = \"always\"\ndestinations = []\nports = [0]\n",
        r#"config.toml:10:16: `destinations` has 0 destinations
10 | destinations = []
   |                ^^ write from 1 to 8 of them, as in destinations = ["198.51.100.7"]
config.toml:11:10: `ports` is out of range
11 | ports = [0]
   |          ^ write a number from 1 to 65535"#,
    );
}

#[test]
fn sources_are_challenged_for_queries_where_it_is_written() {
    let challenge = |toml: &str| load_text(&format!("{MINIMAL}{toml}\n")).challenge;
    let reported = |toml| challenge(toml).unwrap().to_string();
    assert_eq!(
        reported("[challenge.dns]\nwhen = \"over 5_000 packets/s\""),
        "never, by rst, for 10m, at most 1000000 answers a second; of DNS over 5000 packets/s, to port 53"
    );
    assert_eq!(
        reported(
            "[challenge.tcp]\nwhen = \"never\"\nfor = \"30s\"\nanswers = 7\n\
             [challenge.dns]\nwhen = \"always\"\nports = [53, 5353]"
        ),
        "never, by rst, for 30s, at most 7 answers a second; of DNS always, to ports 53, 5353"
    );
    let back_off = |keys: &str| {
        let toml = format!("[challenge.tcp]\nwhen = \"always\"\n{keys}");
        challenge(&toml).unwrap().back_off
    };
    assert_eq!(back_off(""), Some(Duration::from_mins(1)));
    assert_eq!(back_off("back_off = \"5s\""), Some(Duration::from_secs(5)));
    assert_eq!(back_off("back_off = \"never\""), None);
    let never = "[challenge.dns]\nwhen = \"never\"";
    assert_eq!(challenge(never), None);
    let tcp = challenge(&format!("[challenge.tcp]\nwhen = \"always\"\n{never}")).unwrap();
    assert_eq!((tcp.queries, tcp.ports().count()), (When::Never, 0));
}

#[test]
fn what_is_wrong_of_a_challenge_for_queries_is_told_with_what_to_write() {
    check_behind_minimal(
        "[challenge.dns]\nwhen = \"over 5 syn/s\"\nports = []\nfor = \"10m\"\n",
        r#"config.toml:9:8: `when` is `over 5 syn/s`, which says no time
9 | when = "over 5 syn/s"
  |        ^^^^^^^^^^^^^^ write when = "over 5_000 packets/s", "always" or "never"
config.toml:10:9: `ports` has 0 ports
10 | ports = []
   |         ^^ write from 1 to 8 ports, as in ports = [53]
config.toml:11:1: unknown key `for` in [challenge.dns]
11 | for = "10m"
   | ^^^ remove it; known here: when, ports"#,
    );
    check_behind_minimal(
        "[challenge.tcp]\nwhen = \"never\"\nback_off = \"25h\"\n",
        r#"config.toml:10:12: `back_off` is 25h, which is not between 1s and 24h
10 | back_off = "25h"
   |            ^^^^^ write back_off = "1m""#,
    );
    check_behind_minimal(
        "[challenge.dns]\nports = [53, 0, 65536]\n",
        r#"config.toml:8:1: [challenge.dns] has no `when`
8 | [challenge.dns]
  | ^^^^^^^^^^^^^^^ write when = "over 5_000 packets/s", "always" or "never"
config.toml:9:14: `ports` is out of range
9 | ports = [53, 0, 65536]
  |              ^ write a number from 1 to 65535
config.toml:9:17: `ports` is out of range
9 | ports = [53, 0, 65536]
  |                 ^^^^^ write a number from 1 to 65535"#,
    );
}
