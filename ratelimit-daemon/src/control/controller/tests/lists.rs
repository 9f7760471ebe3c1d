//! Lists: imported, read from files, replaced, exported.

use std::{fs, path::PathBuf, process::Command, sync::mpsc};

use ratelimit_common::generation::Generation;
use ratelimit_core::{
    api::{
        AllowRequest, ExportRequest, Exported, ImportInto, ImportRequest, Imported, ListTarget,
        ListView,
    },
    config::ListConfig,
    lists::{self, Acceptance, Action, Connected, ListText, Vetting},
};
use rusqlite::Connection;

use super::*;
use crate::{
    clock,
    control::{
        feeds::Feed,
        lists::{export, files::ListFiles},
    },
};

#[test]
fn a_list_bans_and_is_replaced_as_a_whole() {
    let mut lab = Lab::new(config());
    assert_eq!(
        lab.import_list("bad", "192.0.2.1 # scan\n198.51.100.0/24\n"),
        (2, 0, 0, 0)
    );
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("198.51.100.0/24"));
    assert_eq!(
        lab.import_list("bad", "192.0.2.1 # flood\n192.0.2.2\n"),
        (1, 1, 1, 0)
    );
    assert!(!lab.entries().contains_key(&prefix("198.51.100.0/24")));
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
    lab.restart();
    assert_eq!(
        lab.import_list("bad", "192.0.2.2\n192.0.2.1 # flood\n"),
        (0, 0, 0, 2)
    );
    let removed = lab.remove_list(target("bad"), "root").unwrap();
    assert_eq!(removed.removed, 2);
    assert!(!lab.is_banned("192.0.2.2"));
    lab.restart();
    assert_eq!(lab.controller.lists(), []);
}

/// A list that takes all memory, or for long, leaves no host without protection after a reboot.
#[test]
fn a_host_without_protection_is_attached_before_a_file_is_read() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let config = with_file(&file, None);
    let memory = Memory::new(&config.source, None).unwrap();
    let mut controller = without_lists(&config, &memory, &state, &Protected::default());
    controller.attach();
    let writes = writes::meanings(&memory.switches().writes);
    let at = |wanted: fn(&Write) -> bool| writes.iter().position(wanted).unwrap();
    let attached = at(|write| *write == Write::Attached);
    let banned =
        at(|write| matches!(write, Write::Entry(at, Some(_)) if *at == prefix("192.0.2.1")));
    assert!(attached < banned, "{writes:?}");
}

#[test]
fn allow_beats_ban_and_a_list_takes_no_manual_ban_away() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.import_list("bad", "192.0.2.0/24\n192.0.2.1\n203.0.113.9\n");
    lab.import("good", Action::Allow, "192.0.2.7\n");
    lab.check("192.0.2.7", "pass", "allowed", Some("192.0.2.7"), "default");
    lab.check(
        "192.0.2.8",
        "drop",
        "banned",
        Some("192.0.2.0/24"),
        "default",
    );
    lab.check(
        "203.0.113.9",
        "drop",
        "banned",
        Some("203.0.113.9"),
        "partner",
    );
    lab.import_list("bad", "203.0.113.9\n");
    lab.check("192.0.2.1", "drop", "banned", Some("192.0.2.1"), "default");
    lab.check("192.0.2.8", "pass", "conforming", None, "default");
}

#[test]
fn check_and_unban_name_the_lists_that_hold_an_address() {
    let mut lab = Lab::new(config());
    lab.import_list("bad", "192.0.2.0/24 # SBL1\n");
    let check = lab.checked("192.0.2.9");
    let ban = check.ban.unwrap();
    assert_eq!(
        (ban.origin, ban.reason.as_deref()),
        (Origin::list("bad"), Some("SBL1"))
    );
    assert_eq!(&*check.lists[0].list, "bad");
    let changed = lab.unban(&["192.0.2.9"]).unwrap();
    let held = &changed.held[0];
    assert_eq!((changed.removed, &held.origin), (0, &Origin::list("bad")));
    assert_eq!(held.banned, prefix("192.0.2.0/24"));
}

#[test]
fn entries_end_and_are_forgotten() {
    let mut lab = Lab::new(config());
    let soon = clock::wall() + SignedDuration::from_hours(1);
    let text = format!(
        "{{\"prefix\":\"192.0.2.1\",\"until\":\"{soon}\"}}\n{{\"prefix\":\"192.0.2.2\"}}\n"
    );
    lab.import("good", Action::Allow, &text);
    lab.import("bad", Action::Ban, &text);
    assert_eq!(lab.controller.lists()[0].entries, 2);
    lab.restart();
    let later = clock::after(Duration::from_hours(2));
    lab.forget_ended_entries(later);
    let entries: Vec<usize> = lab
        .controller
        .lists()
        .iter()
        .map(|list| list.entries)
        .collect();
    assert_eq!(entries, [2, 1], "a ban that ended may stay for a minute");
    let entry = lab.entries()[&prefix("192.0.2.1")];
    assert!(!entry.is_allowed(clock::now()) && !entry.is_banned(later));
}

#[test]
fn entries_end_also_where_the_database_cannot_be_written() {
    let mut lab = Lab::new(config());
    let soon = clock::wall() + SignedDuration::from_hours(1);
    let text = format!("{{\"prefix\":\"192.0.2.1\",\"until\":\"{soon}\"}}\n");
    lab.import("good", Action::Allow, &text);
    let database = Connection::open(lab.directory.path().join("state.db")).unwrap();
    let full = "CREATE TRIGGER full BEFORE DELETE ON list BEGIN SELECT RAISE(ABORT, 'full'); END";
    database.execute_batch(full).unwrap();
    let later = clock::after(Duration::from_hours(2));
    let entries = |lab: &Lab| lab.controller.lists()[0].entries;
    let kept = |lab: &Lab| lab.state.kept.store.lists().unwrap()[0].entries().len();
    lab.forget_ended_entries(later);
    lab.tick();
    assert_eq!((entries(&lab), kept(&lab)), (0, 1));
    assert_eq!(lab.entries().get(&prefix("192.0.2.1")), None);

    // A list that took its place stays.
    database.execute_batch("DROP TRIGGER full").unwrap();
    lab.import("good", Action::Allow, "192.0.2.2\n");
    lab.catch_up();
    assert_eq!((entries(&lab), kept(&lab)), (1, 1));
    lab.restart();

    lab.import("good", Action::Allow, &text);
    lab.forget_ended_entries(later);
    lab.tick();
    assert_eq!((entries(&lab), kept(&lab)), (0, 0));
}

#[test]
fn a_dry_run_tells_the_difference_and_makes_none() {
    let mut lab = Lab::new(config());
    lab.import_list("bad", "192.0.2.1\n");
    let before = lab.entries();
    let request = ImportRequest {
        dry_run: true,
        ..request("bad", Action::Ban)
    };
    let answer = lab.send(&request, "192.0.2.2\n").unwrap();
    assert_eq!((answer.targets[0].added, answer.targets[0].removed), (1, 1));
    assert_eq!(lab.entries(), before);
    lab.restart();
}

#[test]
fn what_is_exported_and_imported_again_changes_nothing() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1", "10.0.0.0/8", "10.1.2.3"], None)
        .unwrap();
    lab.ban(&["192.0.2.2"], Some(600.0)).unwrap();
    lab.import_list("bad", "198.51.100.0/24 # \"SBL\" 1\n2001:db8::/32\n");
    lab.import("good", Action::Allow, "192.0.2.77\n");
    let allow = AllowRequest {
        seconds: None,
        prefixes: vec![prefix("192.0.2.99")],
        reason: Some("probe".into()),
        ..AllowRequest::default()
    };
    lab.controller.allow(allow, "alice").unwrap();
    let (entries, exported) = (lab.entries(), lab.export(Exported::Kept));
    assert_eq!(exported.lines().count(), 8);
    let answer = lab.send(&ImportRequest::default(), &exported).unwrap();
    let changed = answer
        .targets
        .iter()
        .map(|into| into.added + into.removed + into.updated);
    assert_eq!((changed.sum::<usize>(), answer.targets.len()), (0, 4));
    assert_eq!(lab.entries(), entries);
    // On another host all of it is as it was here.
    let mut other = Lab::new(config());
    other.send(&ImportRequest::default(), &exported).unwrap();
    assert_eq!(other.export(Exported::Kept).lines().count(), 8);
    let reported = |lab: &Lab| {
        let bans = lab.listed_bans().into_iter();
        let bans: Vec<_> = bans
            .map(|ban| (ban.prefix, ban.since, ban.reason, ban.author))
            .collect();
        bans
    };
    assert_eq!(reported(&other), reported(&lab));
    assert_eq!(other.entries().len(), lab.entries().len());
}

#[test]
fn what_is_banned_by_an_import_stays_when_it_is_imported_again_without() {
    let mut lab = Lab::new(config());
    let bans = ImportRequest {
        into: ImportInto::Bans,
        seconds: Some(60.0),
        reason: Some("import".into()),
        ..ImportRequest::default()
    };
    let answer = lab
        .send(&bans, "192.0.2.1\n192.0.2.1\n192.0.2.2 # scan\n")
        .unwrap();
    assert_eq!((answer.targets[0].added, answer.duplicates), (2, 1));
    let reasons: Vec<_> = lab
        .listed_bans()
        .iter()
        .map(|ban| ban.reason.as_deref().map(str::to_owned))
        .collect();
    assert_eq!(
        reasons,
        [Some("import".to_owned()), Some("scan".to_owned())]
    );
    let answer = lab.send(&bans, "192.0.2.2 # scan\n").unwrap();
    assert_eq!((answer.targets[0].kept, answer.targets[0].removed), (1, 0));
    assert_eq!(lab.listed_bans().len(), 2);
}

#[test]
fn a_file_is_read_at_start_on_reload_and_when_it_is_due() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let mut lab = Lab::new(with_file(&file, Some(Duration::ZERO)));
    assert!(lab.is_banned("192.0.2.1"));
    fs::write(&file, "192.0.2.2\n").unwrap();
    lab.read_due();
    assert!(lab.is_banned("192.0.2.2") && !lab.is_banned("192.0.2.1"));
    fs::write(&file, "192.0.2.3\n").unwrap();
    lab.read_lists();
    assert!(lab.is_banned("192.0.2.3") && !lab.is_banned("192.0.2.2"));
    let told = lab.events().len();
    lab.read_lists();
    assert_eq!(lab.events().len(), told);
}

#[test]
fn a_file_that_is_broken_empty_or_gone_leaves_the_list_as_it_was() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let mut lab = Lab::new(with_file(&file, Some(Duration::ZERO)));
    for (text, error) in [
        ("192.0.2.2\nx\n", "drop.txt:2:1: `…` is not an address"),
        ("# nobody\n", "has no entries"),
        ("<html>", "is a web page, not a list"),
    ] {
        fs::write(&file, text).unwrap();
        lab.read_due();
        let list = lab.only_list();
        assert!(list.error.as_ref().unwrap().contains(error), "{list:?}");
        assert!(lab.is_banned("192.0.2.1") && !lab.is_banned("192.0.2.2"));
    }
    fs::remove_file(&file).unwrap();
    lab.restart();
    let list = lab.only_list();
    assert!(list.error.unwrap().contains("cannot read"));
    assert_eq!((list.entries, list.errors, list.read), (1, 1, None));
    assert!(lab.is_banned("192.0.2.1"));
    fs::write(&file, "192.0.2.2\n").unwrap();
    lab.read_due();
    assert_eq!(lab.only_list().error, None);
    assert!(lab.is_banned("192.0.2.2"));
}

#[test]
fn what_is_wrong_in_a_file_is_told_to_anybody_and_quoted_in_the_log_alone() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\nroot:$6$secret\n10.0.0.1/8 secret\n").unwrap();
    let mut lab = Lab::new(with_file(&file, Some(Duration::ZERO)));
    lab.read_due();
    let error = lab.only_list().error.unwrap();
    let expected = "drop.txt:2:1: `…` is not an address, prefix or range";
    assert!(
        error.contains(expected) && !error.contains("secret"),
        "{error}"
    );
    let refused = lab.due_lists()[0].read().unwrap_err();
    assert!(refused.in_full().contains("root:$6$secret"), "{refused:?}");
}

#[test]
fn a_file_that_stays_broken_is_logged_once_and_when_the_reason_is_another_one() {
    let mut files = ListFiles::default();
    let name = "drop".into();
    let logged = ["a", "a", "b", "b", "a"].map(|error| files.failed(&name, error.to_owned()));
    assert_eq!(logged, [true, false, true, false, true]);
    assert_eq!(files.state("drop").errors, 5);
    files.succeeded(&name, None);
    assert!(files.failed(&name, "a".to_owned()));
}

#[test]
fn what_has_ended_is_reported_nowhere_from_that_moment_on() {
    let mut lab = Lab::new(config());
    let end = clock::wall() + Duration::from_millis(1500);
    let line = |prefix: &str| format!("{{\"prefix\":\"{prefix}\",\"until\":\"{end}\"}}\n");
    lab.import_list("bad", &line("192.0.2.1"));
    lab.import_list("wide", "192.0.2.0/30\n");
    lab.import("good", Action::Allow, &line("192.0.2.2"));
    let seconds = || Some(end.duration_since(clock::wall()).as_secs_f64());
    lab.ban(&["192.0.2.9"], seconds()).unwrap();
    lab.allow("192.0.2.3", seconds()).unwrap();
    let check = |lab: &Lab, address: &str| lab.checked(address);
    assert_eq!(check(&lab, "192.0.2.1").lists.len(), 2);
    let allowed = check(&lab, "192.0.2.3");
    assert_eq!(allowed.reason, "allowed");
    assert!(allowed.until.is_some(), "{allowed:?}");
    thread::sleep(Duration::from_millis(1600));
    // Nothing was due in between.
    for (address, prefix) in [
        ("192.0.2.1", Some("192.0.2.0/30")),
        ("192.0.2.2", Some("192.0.2.0/30")),
        ("192.0.2.9", None),
    ] {
        let check = check(&lab, address);
        let ended = |until: Option<Timestamp>| until.is_some_and(|until| until <= clock::wall());
        assert!(
            !check.lists.iter().any(|listed| ended(listed.until)),
            "{check:?}"
        );
        assert!(!ended(check.until), "{check:?}");
        let expected = prefix.map(|prefix| prefix.parse().unwrap());
        assert_eq!(check.ban.map(|ban| ban.prefix), expected);
        let decides = check.covering.iter().find(|entry| entry.decides).unwrap();
        assert!(
            !matches!(decides.entry, ratelimit_core::api::CoveringEntry::Allow(_)),
            "{decides:?}"
        );
    }
    assert_eq!(lab.listed_bans(), []);
    assert_eq!(lab.status().bans, 0);
    assert_eq!(
        queries::allows(&lab.state).len(),
        1,
        "that of the configuration"
    );
    let entries: Vec<_> = lab
        .controller
        .lists()
        .iter()
        .map(|list| list.entries)
        .collect();
    assert_eq!(entries, [0, 0, 1]);
    let export = lab.export(Exported::All);
    assert_eq!(export.lines().count(), 1, "{export}");
    assert!(export.contains("192.0.2.0/30"), "{export}");
}

#[test]
fn a_list_whose_file_the_configuration_does_not_name_any_more_is_taken_away() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let mut lab = Lab::new(with_file(&file, None));
    lab.import_list("bad", "192.0.2.2\n");
    let changes = lab.replace(config()).unwrap();
    assert_eq!(changes, ["list drop: removed, with 1 entries"]);
    assert!(!lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
}

#[test]
fn a_list_of_another_name_with_the_same_entries_leaves_no_gap() {
    let files = tempfile::tempdir().unwrap();
    let [old, new] = ["old.txt", "new.txt"].map(|name| files.path().join(name));
    fs::write(&old, "192.0.2.1\n198.51.100.0/24\n").unwrap();
    fs::write(&new, "192.0.2.1\n198.51.100.7\n").unwrap();
    let mut lab = Lab::new(with_file(&old, None));
    lab.switches().writes.clear();
    let mut config = with_file(&new, None);
    let list = config.lists.remove("drop").unwrap();
    config.lists.insert("renamed".to_owned(), list);
    let changes = lab.replace(config).unwrap();
    assert_eq!(
        changes,
        [
            "list renamed: added, from FILE".replace("FILE", &new.display().to_string()),
            "list drop: removed, with 2 entries".to_owned(),
            "list renamed: +2 -0 ~0 =0".to_owned(),
        ]
    );
    let writes = lab.writes();
    let about = writes.iter().filter_map(|write| {
        let Write::Entry(at, entry) = write else {
            return None;
        };
        (*at == prefix("192.0.2.1")).then_some(entry)
    });
    for entry in about {
        let entry = entry.expect("what stays banned keeps its entry");
        for generation in [Generation::First, Generation::Second] {
            let banned_until = entry.of(generation).banned_until();
            assert!(banned_until.is_some(), "only who counts is different");
        }
    }
}

#[test]
fn a_reload_whose_list_cannot_be_read_is_refused_with_the_name_of_the_file() {
    let files = tempfile::tempdir().unwrap();
    let [old, new] = ["old.txt", "new.txt"].map(|name| files.path().join(name));
    fs::write(&old, "192.0.2.1\n").unwrap();
    let mut lab = Lab::new(with_file(&old, None));
    let before = (lab.entries(), lab.state.intent.config.clone());
    for text in [None, Some("192.0.2.1\nx\n"), Some("# nobody\n")] {
        if let Some(text) = text {
            fs::write(&new, text).unwrap();
        }
        let config = Config {
            observe: true,
            ..with_file(&new, None)
        };
        let refused = lab.replace(config).unwrap_err();
        assert!(refused.error.contains("list drop: "), "{refused:?}");
        assert!(refused.error.contains("new.txt"), "{refused:?}");
        assert_eq!((lab.entries(), lab.state.intent.config.clone()), before);
    }
}

#[test]
fn a_configuration_and_its_lists_are_one_change_or_none() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n192.0.2.2\n192.0.2.3\n").unwrap();
    let mut lab = Lab::new(config());
    let before = (lab.entries(), lab.state.intent.config.clone());
    let next = Config {
        observe: true,
        ..with_file(&file, None)
    };
    lab.leave_room(1);
    let refused = lab.replace(next.clone()).unwrap_err();
    assert!(refused.error.contains("is full"), "{refused:?}");
    let settings = lab.settings();
    assert_eq!((lab.entries(), lab.state.intent.config.clone()), before);
    assert!(!settings.observe() && lab.controller.lists().is_empty());
    lab.make_room();
    lab.replace(next).unwrap();
    assert!(lab.is_banned("192.0.2.3") && lab.settings().observe());
    let kept = lab.state.kept.store.lists().unwrap();
    assert_eq!(kept[0].entries().len(), 3, "the database has it too");
}

#[test]
fn a_list_of_a_file_is_not_changed_by_hand() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let mut lab = Lab::new(with_file(&file, None));
    let refused = lab
        .send(&request("drop", Action::Ban), "192.0.2.2\n")
        .unwrap_err();
    assert!(
        refused.error.starts_with("the list `drop` is loaded from"),
        "{refused:?}"
    );
    assert!(lab.remove_list(target("drop"), "root").is_err());
    let of_policy = lab.send(&request("other", Action::Policy), "192.0.2.2\n");
    assert_eq!(
        of_policy.unwrap_err().error,
        "an import cannot select sources of a policy"
    );
    let all = lab.export(Exported::All);
    let answer = lab.send(&ImportRequest::default(), &all).unwrap();
    assert_eq!(
        answer
            .skipped
            .get("of the list drop, which is read from its file"),
        Some(&1)
    );
    assert_eq!(lab.export(Exported::Kept), "");
}

#[test]
fn a_list_that_the_datapath_has_no_room_for_changes_nothing() {
    let mut lab = Lab::new(config());
    lab.import_list("bad", "192.0.2.1\n");
    let before = lab.entries();
    lab.leave_room(2);
    lab.send(
        &request("bad", Action::Ban),
        "192.0.2.2\n192.0.2.3\n192.0.2.4\n",
    )
    .unwrap_err();
    lab.make_room();
    assert_eq!(lab.entries(), before);
    assert_eq!(lab.only_list().entries, 1);
    lab.restart();
}

#[test]
fn a_ban_that_was_forced_elsewhere_is_not_forced_here_by_an_import() {
    let mut lab = Lab::protecting(config(), Protected::loopback());
    let text = r#"{"prefix":"127.0.0.1","origin":"forced"}"#;
    let refused = lab.import_lines(false, text).unwrap_err();
    assert!(refused.error.contains("loopback"), "{}", refused.error);
    assert!(refused.hint.unwrap().contains("--force"));
    assert!(lab.listed_bans().is_empty());
    lab.import_lines(true, text).unwrap();
    assert_eq!(lab.listed_bans()[0].origin, Origin::Forced);
    // Existing entries are accepted, so importing an export again changes nothing.
    let again = lab.import_lines(false, text).unwrap();
    assert_eq!(again.targets[0].kept, 1);
}

#[test]
fn an_import_tells_how_far_it_is_until_all_is_in_the_kernel_and_the_database() {
    let hosts = (0..9_000).map(|host| std::net::Ipv4Addr::from(0x0a00_0000 + 2 * host).to_string());
    let text = hosts.collect::<Vec<_>>().join("\n");
    for (into, dry_run, steps) in [
        (ImportInto::Bans, false, 18_000),
        (ImportInto::List, false, 9_001),
        (ImportInto::Bans, true, 0),
    ] {
        let mut lab = Lab::new(config());
        lab.about.workload.progress.begin(0);
        let request = into_bad(into, dry_run);
        lab.send(&request, &text).unwrap();
        let progress = &lab.about.workload.progress;
        assert_eq!(
            (progress.done(), progress.view().total),
            (steps, 0),
            "{into:?}"
        );
    }
}

#[test]
fn entries_that_stop_at_what_is_protected_are_told_by_import_dry_run_and_list() {
    let mut lab = Lab::protecting(config(), Protected::loopback());
    let text = "127.0.0.1\n192.0.2.1\n127.7.0.0/16\n127.0.0.1\n";
    for (into, dry_run) in [
        (ImportInto::Bans, true),
        (ImportInto::Bans, false),
        (ImportInto::List, true),
        (ImportInto::List, false),
    ] {
        let request = into_bad(into, dry_run);
        let reported = lab.send(&request, text).unwrap();
        assert_eq!(reported.targets[0].added, 3, "{into:?}");
        assert_eq!(reported.exempt.count, 2, "{into:?}");
        assert_eq!(reported.exempt.first[0].prefix, prefix("127.0.0.1"));
        assert_eq!(reported.exempt.first[0].why, "the loopback of this host");
    }
    assert_eq!(lab.only_list().exempt.count, 2);
    assert!(!lab.is_banned("127.0.0.1") && lab.is_banned("192.0.2.1"));
    let allows = ImportRequest {
        into: ImportInto::Allows,
        ..request("", Action::Ban)
    };
    assert_eq!(lab.send(&allows, text).unwrap().exempt.count, 0);
    // Forced bans have no exemptions.
    let forced = r#"{"prefix":"127.0.0.1","origin":"forced"}"#;
    assert_eq!(lab.import_lines(true, forced).unwrap().exempt.count, 0);
}

/// A host in 10.0.4.0/24 and 192.168.0.0/16, which has seen others there.
fn connected() -> Protected {
    let mut protected = Protected::loopback();
    protected.add_network(prefix("10.0.4.0/24"), "eth0".into());
    protected.add_network(prefix("192.168.0.0/16"), "eth1".into());
    protected.add_network(prefix("127.0.0.0/8"), "lo".into());
    protected.add_network(prefix("10.9.9.9"), "wg0".into());
    let seen = (1..8).map(|host| IpAddr::from([10, 0, 4, host]));
    protected.add_neighbours(seen.chain(["10.0.5.1".parse().unwrap()]));
    protected
}

const WIDE: &str = "10.0.0.0/8\n10.0.4.66\n127.0.0.0/8\n192.0.2.1\n192.168.0.0/16\n";

#[test]
fn an_entry_that_covers_a_connected_network_refuses_an_import_that_says_nothing_of_it() {
    for into in [ImportInto::List, ImportInto::Bans, ImportInto::Origins] {
        let mut lab = Lab::protecting(config(), connected());
        let before = lab.entries();
        for dry_run in [true, false] {
            let request = into_bad(into, dry_run);
            let refused = lab.send(&request, WIDE).unwrap_err();
            let expected = "the list covers networks that this host is connected to:
  10.0.0.0/8 would ban 10.0.4.0/24, the network of eth0 with 10.0.4.1, 10.0.4.2, 10.0.4.3, \
      10.0.4.4, 10.0.4.5 and 2 more hosts
  192.168.0.0/16 would ban 192.168.0.0/16, the network of eth1, without known hosts so far";
            assert_eq!(refused.error, expected, "{into:?}");
            assert!(refused.hint.unwrap().contains("--exempt-connected"));
        }
        assert_eq!(lab.entries(), before);
        let allow = ImportRequest {
            into: ImportInto::Allows,
            ..request("", Action::Ban)
        };
        lab.send(&allow, WIDE).unwrap();
    }
}

#[test]
fn connected_networks_are_left_out_or_banned_as_the_import_says() {
    for into in [ImportInto::List, ImportInto::Bans] {
        let mut lab = Lab::protecting(config(), connected());
        let with = |connected| ImportRequest {
            into,
            connected: Some(connected),
            ..request("bad", Action::Ban)
        };
        let reported = lab.send(&with(Connected::Exempt), WIDE).unwrap();
        let exempt = reported.exempt.first.iter().map(|entry| entry.protected);
        let expected = ["10.0.4.0/24", "192.168.0.0/16", "127.0.0.0/8"].map(prefix);
        assert_eq!(exempt.collect::<Vec<_>>(), expected, "{into:?}");
        // An entry for exactly this address is intentional.
        for dropped in ["10.0.3.255", "10.0.5.0", "10.255.255.255", "10.0.4.66"] {
            assert!(lab.drops(dropped), "{into:?} {dropped}");
        }
        for passed in ["10.0.4.0", "10.0.4.255", "192.168.7.7"] {
            assert!(!lab.drops(passed), "{into:?} {passed}");
        }
        if into == ImportInto::List {
            let reported = lab.only_list().exempt;
            assert_eq!(
                (reported.count, reported.first[0].prefix),
                (3, prefix("10.0.0.0/8"))
            );
        }
        lab.send(&with(Connected::Include), WIDE).unwrap();
        assert!(lab.drops("10.0.4.255") && lab.drops("192.168.7.7"));
    }
}

#[test]
fn an_export_of_what_covers_connected_networks_is_taken_back_as_it_is() {
    let mut lab = Lab::protecting(config(), connected());
    for connected in [Connected::Include, Connected::Exempt] {
        for into in [ImportInto::List, ImportInto::Bans] {
            let request = ImportRequest {
                into,
                connected: Some(connected),
                ..request("bad", Action::Ban)
            };
            lab.send(&request, WIDE).unwrap();
        }
        let before = lab.entries();
        let exported = lab.export(Exported::Kept);
        let answer = lab.send(&ImportRequest::default(), &exported).unwrap();
        let changed = answer
            .targets
            .iter()
            .map(|it| it.added + it.removed + it.updated);
        assert_eq!(changed.sum::<usize>(), 0, "{connected:?}: {answer:?}");
        assert_eq!(lab.entries(), before, "{connected:?}");
    }
}

#[test]
fn a_file_that_covers_too_much_leaves_its_list_as_it_was() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let mut lab = Lab::new(with_file(&file, Some(Duration::ZERO)));
    let wide = "8.0.0.0/8\n16.0.0.0/8\n17.0.0.0/8\n18.0.0.0/8\n19.0.0.0/8\n";
    fs::write(&file, wide).unwrap();
    lab.read_due();
    let list = lab.only_list();
    let error = list.error.unwrap();
    assert!(error.contains("covers 2.0 % of IPv4"), "{error}");
    assert!(lab.is_banned("192.0.2.1") && !lab.is_banned("8.0.0.0/8"));
    let mut config = with_file(&file, Some(Duration::ZERO));
    let refused = lab.replace(config.clone()).unwrap_err();
    assert!(refused.error.starts_with("list drop: "), "{refused:?}");
    config.lists.get_mut("drop").unwrap().allow_wide = true;
    lab.replace(config).unwrap();
    assert!(lab.is_banned("8.0.0.0/8"));
    // A list that covers no more than before needs no permission.
    lab.restart();
    assert!(lab.is_banned("8.0.0.0/8"));
}

#[test]
fn the_file_of_a_list_leaves_connected_networks_out_as_long_as_they_are() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop.txt");
    fs::write(&file, WIDE).unwrap();
    let said = |connected| {
        let mut config = with_file(&file, None);
        config.lists.get_mut("drop").unwrap().connected = connected;
        config
    };
    let mut lab = Lab::protecting(said(None), connected());
    assert!(lab.drops("10.0.5.9") && !lab.drops("10.0.4.9"));
    assert_eq!(lab.only_list().exempt.count, 3);
    assert_eq!(lab.only_list().connected_unsaid, 2);
    lab.restart();
    assert_eq!(
        lab.only_list().exempt.count,
        3,
        "it is told after a restart too"
    );
    let lines = lab.replace(said(Some(Connected::Include))).unwrap();
    assert!(lab.drops("10.0.4.9"));
    assert!(
        !lines.iter().any(|line| line.contains("connected =")),
        "{lines:?}"
    );
    let lines = lab.replace(said(None)).unwrap().join("\n");
    assert!(lines.contains("10.0.0.0/8 exempts 10.0.4.0/24"), "{lines}");
    assert!(!lab.drops("10.0.4.9"));

    // The host leaves a network, and the file is read again.
    assert!(lab.due_lists().is_empty());
    let mut moved = Protected::loopback();
    moved.add_network(prefix("10.7.0.0/16"), "eth0".into());
    lab.protect(moved.clone());
    lab.read_due();
    assert!(lab.drops("10.0.4.9") && !lab.drops("10.7.0.9"));
    lab.protect(moved);
    assert!(lab.due_lists().is_empty());
}

#[test]
fn a_pipe_is_refused_and_nobody_waits_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [pipe.as_path(), directory.path(), Path::new("/dev/zero")] {
        let config = with_file(path, None);
        let (sender, read) = mpsc::channel();
        // A test that waits for ever would say nothing.
        thread::spawn(move || sender.send(Lab::new(config).only_list().error));
        let error = read.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
        assert!(
            error.ends_with("it is not a regular file: save the list to a file and use that"),
            "{error}"
        );
    }
}

impl Lab {
    fn drops(&self, address: &str) -> bool {
        let check = self.controller.check(address.parse::<IpAddr>().unwrap());
        check.unwrap().action == "drop"
    }

    fn forget_ended_entries(&mut self, now: Instant) {
        let Controller { feeds, state, .. } = &mut self.controller;
        let edits = feeds.expiry.due(state, now).unwrap();
        state.apply(edits, Cause::Time).unwrap();
    }

    /// Imports a list of bans, and answers what was added, removed, updated and kept.
    pub(super) fn import_lines(&mut self, force: bool, text: &str) -> Result<Imported, Refused> {
        let request = ImportRequest {
            into: ImportInto::Origins,
            list: None,
            force,
            ..request("", Action::Ban)
        };
        self.send(&request, text)
    }

    pub(super) fn import_list(&mut self, name: &str, text: &str) -> (usize, usize, usize, usize) {
        self.import(name, Action::Ban, text)
    }

    pub(super) fn imported(&mut self, name: &str, text: &str) -> Imported {
        self.send(&request(name, Action::Ban), text).unwrap()
    }

    pub(super) fn import(
        &mut self,
        name: &str,
        action: Action,
        text: &str,
    ) -> (usize, usize, usize, usize) {
        let answer = self.send(&request(name, action), text).unwrap();
        let into = &answer.targets[0];
        (into.added, into.removed, into.updated, into.kept)
    }

    pub(super) fn send(
        &mut self,
        request: &ImportRequest,
        text: &str,
    ) -> Result<Imported, Refused> {
        let now = clock::wall();
        let source = ListText {
            name: "stdin",
            bytes: text.as_bytes(),
            now,
            written: now,
        };
        let reading = lists::read(source, &Vetting::default()).unwrap();
        Acceptance::default().check("stdin", &reading).unwrap();
        self.controller.import(request, reading, "root")
    }

    fn export(&self, what: Exported) -> String {
        let request = ExportRequest {
            what,
            ..ExportRequest::default()
        };
        let export = export::export(&self.state.intent, &request).unwrap();
        let mut text = String::new();
        let mut bans = export::some_bans(&self.state.intent, None);
        while let Some((prefix, origin, _)) = bans.last().filter(|_| export.has_bans) {
            text += &export.of_bans(&bans);
            bans = export::some_bans(&self.state.intent, Some(&(*prefix, origin.clone())));
        }
        text.extend(export.others());
        text
    }

    /// Reads the files that are due, as the daemon does.
    fn read_due(&mut self) {
        let due = self.due_lists();
        assert_eq!(due.len(), 1);
        for file in due {
            let reading = file.read();
            self.take_list(&file, reading);
        }
    }

    fn only_list(&self) -> ListView {
        let lists = self.controller.lists();
        assert_eq!(lists.len(), 1);
        lists[0].clone()
    }
}

fn request(name: &str, action: Action) -> ImportRequest {
    ImportRequest {
        into: ImportInto::List,
        list: Some(name.to_owned()),
        action,
        ..ImportRequest::default()
    }
}

fn into_bad(into: ImportInto, dry_run: bool) -> ImportRequest {
    ImportRequest {
        into,
        dry_run,
        ..request("bad", Action::Ban)
    }
}

fn target(name: &str) -> ListTarget {
    ListTarget {
        name: name.to_owned(),
    }
}

pub(super) fn with_file(file: &Path, every: Option<Duration>) -> Config {
    let list = ListConfig {
        file: PathBuf::from(file),
        selection: None,
        url: None,
        every,
        action: Action::Ban,
        skip_bad: false,
        force: false,
        allow_empty: false,
        allow_wide: false,
        min_count: None,
        json_path: None,
        connected: None,
    };
    Config {
        lists: [("drop".to_owned(), list)].into(),
        ..config()
    }
}
