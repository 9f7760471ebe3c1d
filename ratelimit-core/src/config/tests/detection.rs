use std::time::Duration;

use super::*;

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
