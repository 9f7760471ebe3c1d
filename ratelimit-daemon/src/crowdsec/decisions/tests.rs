//! Against answers that the local API 1.4.6 gave.

use super::*;

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

const WHOLE: &str = include_str!("../recorded/whole.json");
const EMPTY: &str = include_str!("../recorded/empty.json");
const ADDED: &str = include_str!("../recorded/added.json");
const ENDED: &str = include_str!("../recorded/ended.json");
const LONGEST_DELETED: &str = include_str!("../recorded/longest-deleted.json");
const LAST_DELETED: &str = include_str!("../recorded/last-deleted.json");

#[test]
fn all_decisions_are_reported_with_what_bans_nobody_counted() {
    let update = Decisions::default().replace(WHOLE.as_bytes(), NOW).unwrap();
    assert!(update.whole);
    let expected = [
        ("192.0.2.1", 3_597_511_976_407, "long"),
        ("198.51.100.0/24", 14_387_511_975_636, "net"),
        (
            "2001:db8::1",
            31_535_998_511_975_505,
            "manual 'ban' from 'test'",
        ),
        (
            "2001:db8:1::/48",
            88_511_978_450,
            "manual 'ban' from 'test'",
        ),
    ];
    check(&update, &expected);
    let ignored = |reason| update.ignored.get(&reason).cloned();
    assert_eq!(ignored(Ignored::Type), Some((1, "192.0.2.1".to_owned())));
    assert_eq!(ignored(Ignored::Scope), Some((2, "FR".to_owned())));
    assert_eq!((update.ignored.len(), update.decisions), (2, 5));
}

#[test]
fn an_answer_with_all_decisions_forgets_the_others() {
    let mut decisions = Decisions::default();
    decisions.replace(WHOLE.as_bytes(), NOW).unwrap();
    let update = decisions.replace(EMPTY.as_bytes(), NOW).unwrap();
    check(&update, &[]);
    assert!(update.whole && update.decisions == 0);
}

#[test]
fn an_answer_without_changes_changes_nothing() {
    let mut decisions = Decisions::default();
    decisions.replace(WHOLE.as_bytes(), NOW).unwrap();
    let update = decisions.change(EMPTY.as_bytes(), NOW).unwrap();
    check(&update, &[]);
    assert!(!update.whole && update.decisions == 5);
}

#[test]
fn the_longest_decision_holds_and_when_it_is_deleted_the_next_one() {
    let mut decisions = Decisions::default();
    let update = decisions.change(ADDED.as_bytes(), NOW).unwrap();
    let brief = ("203.0.113.9", 2_476_146_670, "brief");
    check(
        &update,
        &[("203.0.113.5", 3_597_476_144_186, "long"), brief],
    );

    let update = decisions.change(ENDED.as_bytes(), NOW).unwrap();
    check(&update, &[("203.0.113.9", 0, "")]);

    // It has the one before that ended once more.
    let update = decisions.change(LONGEST_DELETED.as_bytes(), NOW).unwrap();
    check(&update, &[("203.0.113.5", 1_197_476_144_627, "short")]);

    let update = decisions.change(LAST_DELETED.as_bytes(), NOW).unwrap();
    check(&update, &[("203.0.113.5", 0, "")]);
    assert_eq!(update.decisions, 0);
}

#[test]
fn a_decision_that_has_ended_is_not_the_next_one() {
    let mut decisions = Decisions::default();
    decisions.change(ADDED.as_bytes(), NOW).unwrap();
    let later = Instant::from_nanos(NOW.as_nanos() + 1_300_000_000_000);
    let update = decisions.change(LONGEST_DELETED.as_bytes(), later).unwrap();
    assert_eq!(update.get("203.0.113.5".parse().unwrap()), Some(&None));
}

#[test]
fn without_numbers_a_value_has_one_decision() {
    let numberless = |text: &str| text.replace("\"id\"", "\"number\"");
    let (added, deleted) = (numberless(ADDED), numberless(LAST_DELETED));
    let mut decisions = Decisions::default();
    decisions.change(added.as_bytes(), NOW).unwrap();
    let update = decisions.change(deleted.as_bytes(), NOW).unwrap();
    check(&update, &[("203.0.113.5", 0, "")]);
}

#[test]
fn a_decision_that_ended_on_its_way_bans_no_source() {
    let text = ADDED.replace("\"2.47614667s\"", "\"-1ms\"");
    let update = Decisions::default().change(text.as_bytes(), NOW).unwrap();
    check(&update, &[("203.0.113.5", 3_597_476_144_186, "long")]);
}

#[test]
fn a_duration_without_an_end_in_sight_is_a_hundred_years() {
    let text = ADDED.replace("\"2.47614667s\"", "\"2562047h47m16.854775807s\"");
    let update = Decisions::default().change(text.as_bytes(), NOW).unwrap();
    let brief = update.get("203.0.113.9".parse().unwrap()).cloned();
    let brief = brief.flatten().unwrap();
    let years = 100 * 365 * 86_400 * 1_000_000_000;
    assert_eq!(brief.until.as_nanos() - NOW.as_nanos(), years);
}

#[test]
fn what_is_no_duration_is_counted() {
    let text = ADDED.replace("\"2.47614667s\"", "\"soon\"");
    let update = Decisions::default().change(text.as_bytes(), NOW).unwrap();
    assert_eq!(update.ignored[&Ignored::Duration].0, 1);
}

#[test]
fn a_decision_on_both_lists_has_ended_whichever_comes_first() {
    let (new, deleted) = (r#""new":[DECISION]"#, r#""deleted":[DECISION]"#);
    for lists in [[new, deleted], [deleted, new]] {
        let decision = r#"{"id":7,"duration":"1h","scope":"Ip","type":"ban","value":"192.0.2.1"}"#;
        let text = format!("{{{}}}", lists.join(",")).replace("DECISION", decision);
        let update = Decisions::default().change(text.as_bytes(), NOW).unwrap();
        check(&update, &[("192.0.2.1", 0, "")]);
    }
}

#[test]
fn a_text_is_cut_where_it_is_longer_than_a_reason_is() {
    let text = ADDED.replace("\"brief\"", &format!("\"{}\"", "ü".repeat(100_000)));
    let update = Decisions::default().change(text.as_bytes(), NOW).unwrap();
    let wanted = update.get("203.0.113.9".parse().unwrap()).cloned();
    let wanted = wanted.flatten().unwrap();
    assert_eq!(&*wanted.reason, "ü".repeat(TEXT_MAX));
}

/// Compares with prefixes, nanoseconds from now to the end (0: no ban), and reasons.
#[track_caller]
fn check(update: &Update, expected: &[(&str, u64, &str)]) {
    let bans: Vec<(String, u64, String)> = update
        .bans
        .iter()
        .map(|(prefix, wanted)| {
            let lasts = wanted
                .as_ref()
                .map_or(0, |wanted| wanted.until.as_nanos() - NOW.as_nanos());
            let reason = wanted.as_ref().map_or("", |wanted| &*wanted.reason);
            (prefix.to_string(), lasts, reason.to_owned())
        })
        .collect();
    let expected: Vec<(String, u64, String)> = expected
        .iter()
        .map(|(prefix, lasts, reason)| ((*prefix).to_owned(), *lasts, (*reason).to_owned()))
        .collect();
    assert_eq!(bans, expected);
}
