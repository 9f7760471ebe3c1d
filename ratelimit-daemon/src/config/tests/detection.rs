use std::time::Duration;

use super::*;
use crate::detection::{Answer, Kind};

#[test]
fn an_attack_has_a_table() {
    let text = "[detection]\nbans_per_minute = 5\n[detection.syn_flood]\n\
                [detection.heavy_hitter]\nabove = 9\nanswer = \"ban\"\nfor = \"1h\"\n";
    let config = load_text(&format!("{MINIMAL}{text}"));
    assert_eq!(config.bans_per_minute.get(), 5);
    let rules = config.attacks;
    assert_eq!(rules.len(), 2);
    let usual = rules[&Kind::SynFlood];
    assert_eq!((usual.above.get(), usual.answer), (500, Answer::Observe));
    let own = rules[&Kind::HeavyHitter];
    assert_eq!((own.above.get(), own.answer), (9, Answer::Ban));
    assert_eq!(own.length, Duration::from_hours(1));
    assert!(load_text(MINIMAL).attacks.is_empty());
}

#[test]
fn what_is_no_attack_or_no_answer_is_refused() {
    check_behind_minimal(
        "[detection.syn_floods]\n[detection.spread]\nabove = 0\nanswer = \"limit\"\nfor = \"1ms\"\n",
        r#"config.toml:8:12: unknown key `syn_floods` in [detection]
8 | [detection.syn_floods]
  |            ^^^^^^^^^^ did you mean `syn_flood`?
config.toml:10:9: `above` is out of range
10 | above = 0
   |         ^ write a number from 1 to 1000000000
config.toml:11:10: unknown answer `limit`
11 | answer = "limit"
   |          ^^^^^^^ write "observe" or "ban"
config.toml:12:7: `for` of a ban is out of range
12 | for = "1ms"
   |       ^^^^^ write a time from 1s to 366d"#,
    );
}
