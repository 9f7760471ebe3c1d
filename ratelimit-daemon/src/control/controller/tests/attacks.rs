//! What becomes of attacks that were found.

use super::*;
use crate::{
    detection::{Answer, Attack, Kind, Rule, Step, Subject},
    protected::Why,
};

#[test]
fn an_attack_is_told_while_it_goes_on_and_counted() {
    let mut lab = Lab::new(config());
    let attack = attack();
    let step = Step {
        began: vec![attack.clone()],
        ..Step::default()
    };
    lab.controller.note_attacks(&step, vec![attack]);
    let told = lab.controller.status().attacks;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].subject, "from 192.0.2.1");
    assert_eq!(
        lab.controller.snapshot().unwrap().attacks[&Kind::HeavyHitter],
        1
    );
    lab.controller.note_attacks(&Step::default(), vec![]);
    assert_eq!(lab.controller.status().attacks, []);
    assert_eq!(
        lab.controller.snapshot().unwrap().attacks[&Kind::HeavyHitter],
        1
    );
}

#[test]
fn a_source_is_banned_where_the_rule_says_so() {
    let mut lab = Lab::new(answering(Answer::Observe));
    lab.controller
        .note_attacks(&blaming(&["192.0.2.1"]), vec![]);
    assert_eq!(lab.bans(), []);
    let mut lab = Lab::new(answering(Answer::Ban));
    lab.controller
        .note_attacks(&blaming(&["192.0.2.1", "198.51.100.0/24"]), vec![]);
    let expected = [(prefix("192.0.2.1"), 600), (prefix("198.51.100.0/24"), 600)];
    assert_eq!(lab.bans(), expected);
    let ban = &lab.controller.bans()[0];
    assert_eq!(
        (ban.origin.clone(), ban.reason.as_deref()),
        (Origin::Detected, Some("heavy-hitter"))
    );
}

#[test]
fn what_is_allowed_protected_or_too_wide_is_not_banned() {
    let mut protected = Protected::default();
    protected.add(prefix("203.0.113.1"), Why::Gateway("eth0".into()));
    let mut lab = Lab::protecting(answering(Answer::Ban), protected);
    // The second is in the allow list of the configuration.
    let blamed = [
        "203.0.113.1",
        "192.0.2.10",
        "203.0.113.0/24",
        "198.51.0.0/16",
    ];
    lab.controller.note_attacks(&blaming(&blamed), vec![]);
    assert_eq!(lab.bans(), []);
}

#[test]
fn there_are_no_more_bans_in_a_minute_than_the_configuration_says() {
    let mut config = answering(Answer::Ban);
    config.bans_per_minute = NonZeroU32::new(2).unwrap();
    let mut lab = Lab::new(config);
    lab.controller
        .note_attacks(&blaming(&["192.0.2.1"]), vec![]);
    // One that is banned takes no room.
    lab.controller
        .note_attacks(&blaming(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]), vec![]);
    assert_eq!(lab.bans().len(), 2);
}

#[test]
fn the_kernel_samples_while_something_is_looked_for() {
    let mut lab = Lab::new(config());
    assert!(!lab.memory.lock().unwrap().settings.has_samples());
    lab.restart_with(answering(Answer::Observe));
    assert!(lab.memory.lock().unwrap().settings.has_samples());
}

fn answering(answer: Answer) -> Config {
    let rule = Rule {
        answer,
        ..Rule::of(Kind::HeavyHitter)
    };
    Config {
        attacks: [(Kind::HeavyHitter, rule)].into(),
        ..config()
    }
}

fn blaming(sources: &[&str]) -> Step {
    let to_blame = sources.iter();
    let to_blame = to_blame.map(|source| (Kind::HeavyHitter, prefix(source)));
    Step {
        to_blame: to_blame.collect(),
        ..Step::default()
    }
}

fn attack() -> Attack {
    Attack {
        kind: Kind::HeavyHitter,
        subject: Subject::Source(prefix("192.0.2.1")),
        packets_per_second: 30_000,
        sources: 1,
        since: clock::now(),
        last: clock::now(),
    }
}
