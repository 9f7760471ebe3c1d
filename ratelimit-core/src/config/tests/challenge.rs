use std::time::Duration;

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
    assert_eq!(challenge("when = \"never\""), None);
    assert_eq!(load_text(MINIMAL).challenge, None);
    let over = challenge("when = \"over 16777215 syn/s\"\nfor = \"24h\"").unwrap();
    assert_eq!(
        (over.over.unwrap().get(), over.lasts),
        (16_777_215, Duration::from_hours(24))
    );
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
   | ^^^ remove it; known here: when, for, answers, way
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
   |            ^^^ remove it; known here: tcp"#,
    );
    check_behind_minimal(
        "[challenge]\n",
        r"config.toml:8:1: [challenge] has no `tcp`
8 | [challenge]
  | ^^^^^^^^^^^ write [challenge.tcp]",
    );
    check_behind_minimal(
        "[challenge.tcp]\n",
        r#"config.toml:8:1: [challenge.tcp] has no `when`
8 | [challenge.tcp]
  | ^^^^^^^^^^^^^^^ write when = "over 5_000 syn/s", "always" or "never""#,
    );
}
