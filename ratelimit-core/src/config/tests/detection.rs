use std::time::Duration;

use super::*;

#[test]
fn answers_to_floods_that_are_challenged_by_rst_are_warned_of() {
    let toml = |way| {
        format!(
            "[challenge.tcp]\n\
             when = \"always\"\n\
             method = \"{way}\"\n\
             [detection]\n\
             syn_flood = {{ answer = \"ban\" }}\n\
             udp_flood = {{ answer = \"ban\" }}\n"
        )
    };
    check_warnings_behind_minimal(
        &toml("rst"),
        r#"config.toml:11:1: [detection.syn_flood] does not ban or limit sources while the challenge is active: with method = "rst" any source may be forged
11 | [detection]
   | ^^^^^^^^^^^ write method = "syncookie" in [challenge.tcp]"#,
    );
    check_warnings_behind_minimal(&toml("syncookie"), "");
}
use crate::detection::{Answer, Kind};

#[test]
fn an_attack_has_a_table() {
    let text = "[detection]\nbans_per_minute = 5\n[detection.syn_flood]\n\
                [detection.heavy_hitter]\nthreshold = 9\nanswer = \"ban\"\nfor = \"1h\"\n";
    let config = load_text(&format!("{MINIMAL}{text}"));
    assert_eq!(config.bans_per_minute.get(), 5);
    let rules = config.attacks;
    assert_eq!(rules.len(), 2);
    let usual = &rules[&Kind::SynFlood];
    assert_eq!((usual.above.get(), usual.answer), (500, Answer::Observe));
    let own = &rules[&Kind::HeavyHitter];
    assert_eq!((own.above.get(), own.answer), (9, Answer::Ban));
    assert_eq!(own.length, Duration::from_hours(1));
    assert!(load_text(MINIMAL).attacks.is_empty());
}

#[test]
fn attacks_without_a_table_are_reported_unless_the_configuration_says_otherwise() {
    let rules = load_text(MINIMAL).attack_rules();
    assert_eq!(rules.len(), Kind::ALL.len());
    assert!(rules.values().all(|rule| rule.answer == Answer::Observe));
    let one = "[detection.syn_flood]\nthreshold = 9\nanswer = \"limit\"\n";
    let rules = load_text(&format!("{MINIMAL}{one}")).attack_rules();
    assert_eq!(
        (rules.len(), rules[&Kind::SynFlood].above.get()),
        (Kind::ALL.len(), 9)
    );
    let silent = load_text(&format!("{MINIMAL}[detection]\nreport = false\n{one}"));
    assert_eq!(silent.attack_rules().len(), 1);
    let off = load_text(&format!("{MINIMAL}[detection]\nreport = false\n"));
    assert!(off.attack_rules().is_empty());
}

#[test]
fn what_is_no_attack_or_no_answer_is_refused() {
    check_behind_minimal(
        "[detection.syn_floods]\n\
         [detection.spread]\n\
         threshold = 0\n\
         answer = \"drop\"\n\
         for = \"1ms\"\n",
        r#"config.toml:8:12: unknown key `syn_floods` in [detection]
8 | [detection.syn_floods]
  |            ^^^^^^^^^^ did you mean `syn_flood`?
config.toml:10:13: `threshold` is out of range
10 | threshold = 0
   |             ^ write a number from 1 to 1000000000
config.toml:11:10: unknown answer `drop`
11 | answer = "drop"
   |          ^^^^^^ write "observe" or "limit" or "ban"
config.toml:12:7: `for` is out of range
12 | for = "1ms"
   |       ^^^^^ write a time from 1s to 366d"#,
    );
}

#[test]
fn a_source_of_an_attack_may_get_a_limit() {
    let text = "[detection.syn_flood]\n\
                answer = \"limit\"\n\
                [detection.spread]\n\
                answer = \"limit\"\n\
                limit = { packets = 3, per = \"10s\", match = \"udp\" }\n";
    let rules = load_text(&format!("{MINIMAL}{text}")).attacks;
    let usual = &rules[&Kind::SynFlood];
    assert_eq!(usual.answer, Answer::Limit);
    assert_eq!(usual.limit.to_string(), "10 packets per 1s");
    let own = &rules[&Kind::Spread];
    assert_eq!(own.limit.to_string(), "3 packets per 10s of udp");
}

#[test]
fn a_limit_of_detection_is_one_and_belongs_to_its_answer() {
    check_behind_minimal(
        "[detection.syn_flood]\nlimit = { packets = 0, per = \"1s\", match = \"udpp\" }\n",
        r#"config.toml:9:9: `limit` needs answer = "limit"
9 | limit = { packets = 0, per = "1s", match = "udpp" }
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write answer = "limit" beside it, or remove it
config.toml:9:21: an amount of 0 would drop every packet
9 | limit = { packets = 0, per = "1s", match = "udpp" }
  |                     ^ write at least 1; to drop everything of a source, ban it
config.toml:9:44: there is no class `udpp`
9 | limit = { packets = 0, per = "1s", match = "udpp" }
  |                                            ^^^^^^ did you mean "udp"?"#,
    );
}
