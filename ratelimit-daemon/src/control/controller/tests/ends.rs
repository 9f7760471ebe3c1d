//! Allows and runtime limits end as bans do.

use proptest::prelude::*;
use ratelimit_core::{
    api::{Allow, CoveringEntry, RuntimeEntry, What},
    intent::{Edit, EntryRow, FOREVER, LimitRow, Offence, Target},
};
use rusqlite::Connection;

use super::*;

const SOON: f64 = 0.01;
const LATER: f64 = 600.0;

#[test]
fn at_the_end_of_an_allow_the_ban_beneath_it_takes_effect() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(LATER)).unwrap();
    let changed = allow(&mut lab, "192.0.2.1", Some(SOON)).unwrap();
    assert_eq!((changed.added, changed.until.is_some()), (1, true));
    let entry = lab.entries()[&prefix("192.0.2.1")];
    let end = entry.allowed_until().unwrap();
    assert!(entry.is_allowed(clock::now()) || clock::now() >= end);
    assert!(!entry.is_allowed(end) && entry.is_banned(end), "{entry:?}");
    end_soon(&mut lab);
    assert!(lab.is_banned("192.0.2.1"));
    assert_eq!(lab.entries()[&prefix("192.0.2.1")].allowed_until(), None);
    assert!(runtime(&lab).is_empty());
    assert_eq!(lab.state.kept.store.allows().unwrap(), []);
    let last = lab.events().pop().unwrap().what.clone();
    assert!(matches!(last, What::AllowEnded(_)), "{last:?}");
}

#[test]
fn what_ends_while_no_daemon_runs_is_an_event_of_the_start() {
    for (algorithm, anew) in [
        (Algorithm::FixedWindow, false),
        (Algorithm::SlidingWindow, true),
    ] {
        let mut lab = Lab::new(config());
        lab.ban(&["192.0.2.1"], Some(SOON)).unwrap();
        allow(&mut lab, "192.0.2.2", Some(SOON)).unwrap();
        let limits = LimitRequest {
            prefix: Some(prefix("203.0.113.0/24")),
            limits: vec![limit_by(7, 1, algorithm)],
            seconds: Some(SOON),
            ..LimitRequest::default()
        };
        lab.set_limits(limits, "root").unwrap();
        lab.state.keep_journal();
        thread::sleep(Duration::from_millis(20));
        for _ in 0..2 {
            lab.start_again();
            lab.state.keep_journal();
            let events = lab.events();
            let whats = events.iter().map(|event| &event.what);
            let ended: Vec<&What> = whats.skip(3).collect();
            assert!(
                matches!(
                    ended[..],
                    [
                        What::BanEnded(_),
                        What::AllowEnded(_),
                        What::LimitsEnded { starts_anew, .. }
                    ] if *starts_anew == anew
                ),
                "{ended:?}"
            );
        }
    }
}

#[test]
fn limits_that_end_say_what_is_lost_then_when_they_are_set_and_when_they_end() {
    for (target, algorithm, expected) in [
        (None, Algorithm::FixedWindow, false),
        (None, Algorithm::SlidingWindow, true),
        (Some("203.0.113.0/24"), Algorithm::FixedWindow, false),
        (Some("203.0.113.0/24"), Algorithm::SlidingWindow, true),
    ] {
        let mut lab = Lab::new(config());
        let request = |seconds| LimitRequest {
            prefix: target.map(prefix),
            limits: vec![limit_by(7, 1, algorithm)],
            seconds,
            ..LimitRequest::default()
        };
        let forever = lab.set_limits(request(None), "root").unwrap();
        assert!(!forever.ends_anew);
        let changed = lab.set_limits(request(Some(SOON)), "root");
        assert_eq!(changed.unwrap().ends_anew, expected, "{target:?}");
        end_soon(&mut lab);
        let last = lab.events().pop().unwrap();
        let ended = What::LimitsEnded {
            target: Target::from(target.map(prefix)).into(),
            starts_anew: expected,
        };
        assert_eq!(last.what, ended);
    }
}

#[test]
fn at_their_end_limits_are_those_of_the_configuration() {
    for target in [None, Some("203.0.113.0/24")] {
        let address = target.map_or("192.0.2.1", |_| "203.0.113.7");
        let mut lab = Lab::new(config());
        let before = lab.policy_amount(address);
        let changed = limit_for(&mut lab, target, 77, Some(SOON)).unwrap();
        assert_eq!((changed.added, changed.until.is_some()), (1, true));
        assert_eq!(lab.policy_amount(address), 77);
        end_soon(&mut lab);
        assert_eq!(lab.policy_amount(address), before);
        assert_eq!(lab.state.kept.store.limits().unwrap(), []);
        let last = lab.events().pop().unwrap();
        let ended = What::LimitsEnded {
            target: Target::from(target.map(prefix)).into(),
            starts_anew: false,
        };
        assert_eq!(last.what, ended);
    }
}

#[test]
fn what_ended_while_no_daemon_ran_is_gone_when_the_next_one_starts() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(LATER)).unwrap();
    allow(&mut lab, "192.0.2.1", Some(SOON)).unwrap();
    limit_for(&mut lab, None, 77, Some(SOON)).unwrap();
    thread::sleep(Duration::from_millis(20));
    lab.start_again();
    assert_eq!(lab.policy_amount("192.0.2.1"), 10);
    let entry = lab.entries()[&prefix("192.0.2.1")];
    assert_eq!(entry.allowed_until(), None);
    assert!(lab.is_banned("192.0.2.1"));
    assert_eq!(lab.state.kept.store.limits().unwrap(), []);
}

#[test]
fn what_ends_does_so_also_where_the_database_cannot_be_written() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(LATER)).unwrap();
    allow(&mut lab, "192.0.2.1", Some(SOON)).unwrap();
    limit_for(&mut lab, None, 77, Some(SOON)).unwrap();
    limit_for(&mut lab, Some("203.0.113.0/24"), 78, Some(SOON)).unwrap();
    let offence = Offence {
        bans: 1,
        forget: clock::now(),
    };
    let source = prefix("192.0.2.9");
    lab.edit(&[Edit::Offence(source, Some(offence))]);
    let database = Connection::open(lab.directory.path().join("state.db")).unwrap();
    let full = "CREATE TRIGGER full BEFORE DELETE ON limits BEGIN SELECT RAISE(ABORT, 'full'); END";
    database.execute_batch(full).unwrap();
    end_soon(&mut lab);
    lab.tick();
    let amounts = |lab: &Lab| ["192.0.2.1", "203.0.113.7"].map(|it| lab.policy_amount(it));
    assert_eq!(amounts(&lab), [10, 50]);
    assert_eq!(lab.entries()[&prefix("192.0.2.1")].allowed_until(), None);
    assert_eq!(lab.state.intent.offence(source), None);
    assert_eq!(lab.state.kept.store.limits().unwrap().len(), 2);
    assert_eq!(lab.state.kept.store.offences().unwrap().len(), 1);
    let ended = |lab: &Lab| {
        let events = lab.events().into_iter();
        let is_end = |what: &What| matches!(what, What::AllowEnded(_) | What::LimitsEnded { .. });
        events.filter(|event| is_end(&event.what)).count()
    };
    assert_eq!(ended(&lab), 3, "each is told once");

    // Its replacement stays.
    limit_for(&mut lab, None, 79, None).unwrap();
    assert_eq!(amounts(&lab), [79, 50]);
    database.execute_batch("DROP TRIGGER full").unwrap();
    lab.catch_up();
    assert_eq!(amounts(&lab), [79, 50]);
    assert_eq!(lab.state.kept.store.limits().unwrap().len(), 1);
    assert_eq!(lab.state.kept.store.allows().unwrap(), []);
    assert_eq!(lab.state.kept.store.offences().unwrap(), []);
    lab.restart();
    assert_eq!(amounts(&lab), [79, 50]);
}

#[test]
fn a_restart_keeps_ends_reasons_and_authors() {
    let mut lab = Lab::new(config());
    allow(&mut lab, "192.0.2.1", Some(LATER)).unwrap();
    allow(&mut lab, "192.0.2.2", None).unwrap();
    limit_for(&mut lab, None, 77, Some(LATER)).unwrap();
    limit_for(&mut lab, Some("192.0.2.0/24"), 78, None).unwrap();
    let reported = |lab: &Lab| (runtime(lab), runtime_limits(lab));
    let ends = |lab: &Lab| {
        let (allows, limits) = (lab.state.intent.allows(), lab.state.intent.limits());
        let allows: Vec<Instant> = allows.values().map(|row| row.until).collect();
        let limits: Vec<Instant> = limits.values().map(|row| row.entry.until).collect();
        (allows, limits)
    };
    let (before, ends_before) = (reported(&lab), ends(&lab));
    let (allow, limits) = (&before.0[0], &before.1[0]);
    assert_eq!(
        (allow.reason.as_deref(), allow.author.as_deref()),
        (Some("migration"), Some("alice"))
    );
    assert_eq!(
        (limits.reason.as_deref(), &*limits.author),
        (Some("crawler"), "alice")
    );
    assert!(allow.until.is_some() && limits.until.is_some());
    assert_eq!((before.0[1].until, before.1[1].until), (None, None));
    lab.restart();
    assert_eq!(ends(&lab), ends_before);
    let timeless = |(allows, limits): (Vec<Allow>, Vec<RuntimeEntry>)| {
        let allows = allows.into_iter().map(|allow| Allow {
            until: None,
            ..allow
        });
        let limits = limits.into_iter().map(|limits| RuntimeEntry {
            until: None,
            ..limits
        });
        (allows.collect::<Vec<_>>(), limits.collect::<Vec<_>>())
    };
    assert_eq!(timeless(reported(&lab)), timeless(before));
}

#[test]
fn what_is_set_last_holds_also_in_place_of_a_longer_time() {
    for (first, then, is_kept) in [
        (Some(LATER), Some(SOON), false),
        (None, Some(SOON), false),
        (Some(SOON), Some(LATER), true),
        (Some(SOON), None, true),
    ] {
        let mut lab = Lab::new(config());
        for (seconds, updated) in [(first, 0), (then, 1)] {
            let changed = allow(&mut lab, "192.0.2.1", seconds).unwrap();
            assert_eq!(changed.updated, updated);
            let changed = limit_for(&mut lab, None, 77, seconds).unwrap();
            assert_eq!(changed.updated, updated);
        }
        end_soon(&mut lab);
        let left = (runtime(&lab).len(), runtime_limits(&lab).len());
        assert_eq!(left == (1, 1), is_kept, "{first:?}, {then:?}: {left:?}");
    }
}

#[test]
fn an_odd_time_is_refused_as_that_of_a_ban() {
    let mut lab = Lab::new(config());
    for seconds in [0.0, -1.0, f64::NAN, 1e30] {
        let refused = [
            lab.ban(&["192.0.2.1"], Some(seconds)).unwrap_err(),
            allow(&mut lab, "192.0.2.1", Some(seconds)).unwrap_err(),
            limit_for(&mut lab, None, 77, Some(seconds)).unwrap_err(),
        ];
        let said = ["a ban", "an allow", "a limit"];
        for (refused, what) in refused.into_iter().zip(said) {
            let own = |text: &str| text.replace("a ban", what);
            let error =
                format!("the duration of a ban, {seconds} s, is not between 1ns and 100 years");
            assert_eq!(refused.error, own(&error));
            let hint = "use a shorter duration, or omit it for a ban without an end";
            assert_eq!(refused.hint, Some(own(hint)));
        }
    }
    assert!(runtime(&lab).is_empty() && runtime_limits(&lab).is_empty());
}

#[test]
fn check_tells_who_allowed_and_who_set_limits() {
    let mut lab = Lab::new(config());
    allow(&mut lab, "192.0.2.1", Some(LATER)).unwrap();
    limit_for(&mut lab, Some("192.0.2.0/24"), 77, Some(LATER)).unwrap();
    let check = lab.controller.check(IpAddr::from([192, 0, 2, 1])).unwrap();
    let entries: Vec<CoveringEntry> = check.covering.into_iter().map(|it| it.entry).collect();
    let [
        CoveringEntry::Allow(allow),
        CoveringEntry::Policy {
            runtime: Some(set), ..
        },
        CoveringEntry::Policy { runtime: None, .. },
    ] = &entries[..]
    else {
        panic!("{entries:?}");
    };
    assert_eq!(
        (allow.author.as_deref(), &*set.author),
        (Some("alice"), "alice")
    );
    assert!(allow.until.is_some() && set.until.is_some());
}

#[test]
fn an_allow_that_ends_with_many_bans_is_told_by_itself() {
    let mut lab = Lab::new(config());
    let until = clock::after(Duration::from_millis(5));
    let address = |number: u8| Prefix::from(IpAddr::from([198, 51, 100, number]));
    let row = entry(until);
    let bans = (0..101).map(|number| Edit::Ban(address(number), Origin::Manual, Some(row.clone())));
    lab.edit(&bans.collect::<Vec<_>>());
    lab.edit(&[Edit::Allow(prefix("192.0.2.1"), Some(entry(until)))]);
    end_soon(&mut lab);
    let kept = lab.events();
    let reported: Vec<&What> = kept[kept.len() - 2..]
        .iter()
        .map(|event| &event.what)
        .collect();
    assert!(
        matches!(
            reported[..],
            [What::AllowEnded(_), What::Bans { count: 101, .. }]
        ),
        "{reported:?}"
    );
}

proptest! {
    #[test]
    fn the_index_of_ends_has_what_is_there_and_nothing_else(
        steps in prop::collection::vec((0..5_u8, 0..3_u8, prop::option::of(1..4_u64)), 1..60),
    ) {
        let mut intent = Intent::new(config());
        for (kind, place, until) in steps {
            let until = until.map(|until| {
                if until == 3 {
                    FOREVER
                } else {
                    Instant::from_nanos(until)
                }
            });
            let place = Prefix::from(IpAddr::from([192, 0, 2, place]));
            intent.edit(edit(kind, place, until));
        }
        for now in [0, 1, 2, u64::MAX].map(Instant::from_nanos) {
            let mut found: Vec<String> = intent
                .ended(now)
                .iter()
                .map(|edit| format!("{edit:?}"))
                .collect();
            let mut expected = ended(&intent, now);
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }
}

/// An edit of one of five kinds of rows.
fn edit(kind: u8, place: Prefix, until: Option<Instant>) -> Edit {
    match kind {
        0 => Edit::Ban(place, Origin::Manual, until.map(entry)),
        1 => Edit::Ban(place, Origin::Automatic, until.map(entry)),
        2 => Edit::Allow(place, until.map(entry)),
        3 => Edit::Limits(Target::Sources(place), until.map(limit_row)),
        _ => Edit::Limits(Target::Default, until.map(limit_row)),
    }
}

/// Finds ended rows by reading all of them.
fn ended(intent: &Intent, now: Instant) -> Vec<String> {
    let is_over = |until: Instant| until <= now && until != FOREVER;
    let bans = intent.bans().iter().filter(|(_, row)| is_over(row.until));
    let bans = bans.map(|((prefix, origin), _)| Edit::Ban(*prefix, origin.clone(), None));
    let allows = intent.allows().iter().filter(|(_, row)| is_over(row.until));
    let allows = allows.map(|(prefix, _)| Edit::Allow(*prefix, None));
    let limits = intent.limits().iter();
    let limits = limits.filter(|(_, row)| is_over(row.entry.until));
    let limits = limits.map(|(target, _)| Edit::Limits(*target, None));
    let all = bans.chain(allows).chain(limits);
    all.map(|edit| format!("{edit:?}")).collect()
}

/// Waits until the entries with a short lifetime have expired and the daemon has noticed.
fn end_soon(lab: &mut Lab) {
    thread::sleep(Duration::from_millis(20));
    lab.tick();
}

fn allow(lab: &mut Lab, text: &str, seconds: Option<f64>) -> Result<Changed, Refused> {
    let request = AllowRequest {
        prefixes: vec![prefix(text)],
        seconds,
        reason: Some("migration".into()),
        ..AllowRequest::default()
    };
    lab.controller.allow(request, "alice")
}

fn limit_for(
    lab: &mut Lab,
    target: Option<&str>,
    amount: u64,
    seconds: Option<f64>,
) -> Result<Changed, Refused> {
    let request = LimitRequest {
        prefix: target.map(prefix),
        limits: vec![limit(amount)],
        seconds,
        reason: Some("crawler".into()),
        ..LimitRequest::default()
    };
    lab.set_limits(request, "alice")
}

/// The runtime allows.
fn runtime(lab: &Lab) -> Vec<Allow> {
    let allows = queries::allows(&lab.state).into_iter();
    allows
        .filter(|allow| allow.origin == Origin::Manual)
        .collect()
}

fn runtime_limits(lab: &Lab) -> Vec<RuntimeEntry> {
    let limits = queries::limits(&lab.state).into_iter();
    limits.filter_map(|policy| policy.runtime).collect()
}

fn entry(until: Instant) -> EntryRow {
    EntryRow {
        since: Timestamp::UNIX_EPOCH,
        ..rows::entry(until, None::<&str>, "test")
    }
}

fn limit_row(until: Instant) -> LimitRow {
    LimitRow {
        limits: vec![limit(5)],
        observe: false,
        only: false,
        entry: entry(until),
    }
}
