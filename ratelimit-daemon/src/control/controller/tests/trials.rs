//! Trials: applying, rolling back, and a daemon that starts in between.

use std::{fs, path::PathBuf};

use ratelimit_core::{
    api::{ApplyRequest, Attempt, ImportInto, ImportRequest, ReloadRequest, TrialOutcome},
    config,
    detection::Kind,
    intent::LimitedRow,
};

use super::*;
use crate::control::{
    commands::Reload,
    configuration::{candidate::parsed, trial_record::Trial},
    resume,
};

const OLD: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";
const NEW: &str = "[policy.default]\nlimits = [{ packets = 200, per = \"1s\" }]\n";
const THIRD: &str = "[policy.default]\nlimits = [{ packets = 300, per = \"1s\" }]\n";

#[test]
fn a_trial_holds_at_once_and_is_gone_when_nobody_confirms_it() {
    let mut site = Site::new();
    let started = site.lab.status().config_applied;
    let applied = site.apply(NEW, 600.0).unwrap();
    assert_eq!(applied.len(), 1, "{applied:?}");
    assert_eq!(site.amount(), 200);
    assert!(site.lab.status().config_applied > started);
    site.lab.tick();
    assert_eq!(site.amount(), 200, "its time is not over");
    site.expire();
    site.lab.tick();
    assert_eq!(site.amount(), 100);
    assert_eq!(site.attempt(), None, "the file never said anything else");
    site.start();
    assert_eq!(site.amount(), 100);
}

#[test]
fn a_trial_of_what_the_file_says_rejects_nothing() {
    let mut site = Site::new();
    site.apply(OLD, 600.0).unwrap();
    site.start();
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.attempt(), None);
}

#[test]
fn a_trial_and_what_became_of_it_are_events() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    site.expire();
    site.lab.tick();
    site.apply(NEW, 600.0).unwrap();
    site.lab.roll_back("root").unwrap();
    site.apply(NEW, 600.0).unwrap();
    site.lab.confirm("alice").unwrap();
    let began = "\"trial-began\" \"root\"";
    let expected = [
        began,
        "\"trial-rolled-back\" null",
        began,
        "\"trial-rolled-back\" \"root\"",
        began,
        "\"trial-confirmed\" \"alice\"",
    ];
    assert_eq!(site.events(), expected);
}

#[test]
fn the_end_of_a_trial_while_no_daemon_runs_is_an_event_once() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    site.lab.tick();
    site.expire_on_disk();
    let expected = ["\"trial-began\" \"root\"", "\"trial-rolled-back\" null"];
    for _ in 0..2 {
        site.start();
        site.lab.tick();
        assert_eq!(site.events(), expected);
    }
}

#[test]
fn a_daemon_that_is_killed_meanwhile_continues_counting() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    site.start();
    assert_eq!(site.amount(), 200);
    assert!(matches!(
        site.attempt().unwrap().outcome,
        TrialOutcome::Pending { .. }
    ));
    site.expire();
    site.lab.tick();
    assert_eq!(site.amount(), 100);
}

#[test]
fn a_trial_ends_alike_whether_a_daemon_runs_at_its_deadline_or_starts_after_it() {
    for (on_disk, next) in [(OLD, 100), (NEW, 100), (THIRD, 300)] {
        for runs in [true, false] {
            let mut site = Site::new();
            site.apply(NEW, 600.0).unwrap();
            site.write(on_disk);
            if runs {
                site.expire();
                site.lab.tick();
            } else {
                site.expire_on_disk();
                site.start();
            }
            let what = format!("{on_disk} {runs}");
            // A start reads files that changed during the trial.
            let back = if runs { 100 } else { next };
            assert_eq!(site.amount(), back, "{what}");
            assert_eq!(site.attempt().is_some(), on_disk == NEW, "{what}");
            // The next rollback returns to the previous configuration, not to the changed files.
            site.apply(NEW, 600.0).unwrap();
            site.lab.roll_back("root").unwrap();
            assert_eq!(site.amount(), back, "{what}");
            site.start();
            assert_eq!(site.amount(), next, "{what}");
        }
    }
}

#[test]
fn another_boot_is_after_the_end() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    let kept = Trial::kept(site.directory.path());
    let mut trial = kept.read().unwrap().unwrap();
    trial.boot = "another".to_owned();
    kept.write(&trial).unwrap();
    site.start();
    assert_eq!(site.amount(), 100);
}

#[test]
fn a_file_that_was_overwritten_and_rolled_back_does_not_come_back() {
    let mut site = Site::new();
    site.write(NEW);
    site.apply_main(600.0).unwrap();
    site.expire();
    site.lab.tick();
    for _ in 0..2 {
        assert_eq!(site.amount(), 100);
        let attempt = site.attempt().unwrap();
        assert!(attempt.installed && matches!(attempt.outcome, TrialOutcome::RolledBack { .. }));
        site.start();
    }
    site.write(THIRD);
    site.start();
    assert_eq!((site.amount(), site.attempt()), (300, None));
}

#[test]
fn a_reload_is_a_word_that_counts_more_than_a_roll_back() {
    let mut site = Site::new();
    site.write(NEW);
    site.apply_main(600.0).unwrap();
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.amount(), 100);
    site.lab.controller.reload().unwrap();
    assert_eq!((site.amount(), site.attempt()), (200, None));
    site.start();
    assert_eq!(site.amount(), 200);
}

#[test]
fn what_was_confirmed_stays_also_when_the_file_says_something_else() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    let attempt = site.lab.confirm("root").unwrap();
    assert!(!attempt.installed);
    for _ in 0..2 {
        assert_eq!(site.amount(), 200);
        assert!(matches!(
            site.attempt().unwrap().outcome,
            TrialOutcome::Confirmed { .. }
        ));
        site.start();
    }
    site.write(NEW);
    site.start();
    assert_eq!((site.amount(), site.attempt()), (200, None));
}

#[test]
fn what_was_confirmed_outlasts_a_later_trial() {
    for (rolls_back, runs) in [(true, true), (true, false), (false, true)] {
        let mut site = Site::new();
        site.apply(NEW, 600.0).unwrap();
        site.lab.confirm("root").unwrap();
        site.apply(THIRD, 600.0).unwrap();
        if !rolls_back {
            site.lab.confirm("root").unwrap();
        } else if runs {
            site.lab.roll_back("root").unwrap();
        } else {
            site.expire_on_disk();
        }
        let in_force = if rolls_back { 200 } else { 300 };
        for _ in 0..3 {
            site.start();
            site.lab.tick();
            assert_eq!(site.amount(), in_force, "{rolls_back} {runs}");
        }
        let refused = site.lab.reload().unwrap_err();
        assert!(refused.error.contains("not saved"), "{refused:?}");
        // Files that changed since take effect.
        site.write(OLD.replace("100", "400").as_str());
        site.start();
        assert_eq!(site.amount(), 400);
    }
}

#[test]
fn what_was_rolled_back_does_not_return_after_a_later_trial() {
    let mut site = Site::new();
    site.write(NEW);
    site.apply_main(600.0).unwrap();
    site.lab.roll_back("root").unwrap();
    site.apply(THIRD, 600.0).unwrap();
    site.lab.roll_back("root").unwrap();
    site.start();
    assert_eq!(site.amount(), 100);
    site.apply(THIRD, 600.0).unwrap();
    site.lab.confirm("root").unwrap();
    site.start();
    assert_eq!(site.amount(), 300);
}

#[test]
fn a_reload_asks_before_it_discards_what_was_confirmed() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    site.lab.confirm("root").unwrap();
    let refused = site.lab.controller.reload().unwrap_err();
    assert!(refused.hint.unwrap().contains("rlctl reload --discard"));
    assert_eq!(site.amount(), 200);
    assert_eq!(site.lab.status().config_error, None, "the files are right");
    let main = site.lab.feeds.trials.reloaded_file().unwrap();
    let reload = Reload {
        candidate: Candidate::of_files(&main),
        request: ReloadRequest {
            discard: true,
            force: false,
        },
    };
    site.lab.run(reload).unwrap();
    assert_eq!((site.amount(), site.attempt()), (100, None));
    // Both a saved and another configuration are accepted.
    for (text, amount) in [(NEW, 200), (THIRD, 300)] {
        site.write(OLD);
        site.lab.controller.reload().unwrap();
        site.apply(NEW, 600.0).unwrap();
        site.lab.confirm("root").unwrap();
        site.write(text);
        site.lab.controller.reload().unwrap();
        assert_eq!((site.amount(), site.attempt()), (amount, None));
    }
}

#[test]
fn a_reload_that_a_trial_refused_is_no_error_of_the_files() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    site.lab.controller.reload().unwrap_err();
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.lab.status().config_error, None);
}

#[test]
fn a_start_with_other_tables_for_sources_reports_that_usage_is_reset() {
    let mut site = Site::new();
    site.lab.switches().runs = true;
    let start = |site: &mut Site| {
        site.start();
        let texts = config::read(&site.main()).unwrap();
        site.lab.controller.note_start(texts, None);
        let events = site.lab.controller.state.reports.journal.kept();
        let is_reset = |what: &What| matches!(what, What::UsageReset { .. });
        events.iter().filter(|event| is_reset(&event.what)).count()
    };
    assert_eq!(start(&mut site), 0);
    site.write(NEW);
    assert_eq!(start(&mut site), 0);
    site.write(&format!("{NEW}[source]\ncapacity = 2048\n"));
    assert_eq!(start(&mut site), 1);
    let before = start(&mut site);
    assert_eq!(start(&mut site), before);
}

/// As `rlctl confirm` does it with a file beside the main one.
#[test]
fn a_confirmed_configuration_that_was_saved_is_no_longer_reported() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    site.lab.controller.confirm("root").unwrap();
    assert!(!site.attempt().unwrap().installed);
    site.write(NEW);
    assert_eq!(site.attempt(), None);
    site.write(OLD);
    assert!(!site.attempt().unwrap().installed);
}

#[test]
fn a_rollback_takes_the_last_reload_back() {
    let mut site = Site::new();
    site.lab.roll_back("root").unwrap_err();
    site.write(NEW);
    site.lab.controller.reload().unwrap();
    // A reload without changes is not the one to roll back.
    site.lab.controller.reload().unwrap();
    site.lab.roll_back("root").unwrap();
    for _ in 0..2 {
        assert_eq!(site.amount(), 100);
        let attempt = site.attempt().unwrap();
        assert!(attempt.installed && matches!(attempt.outcome, TrialOutcome::RolledBack { .. }));
        site.lab.roll_back("root").unwrap_err();
        site.start();
    }
    site.lab.controller.reload().unwrap();
    assert_eq!(site.amount(), 200);
    // A trial on top of it is taken back first.
    site.apply(THIRD, 600.0).unwrap();
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.amount(), 200);
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.amount(), 100);
}

#[test]
fn a_file_that_was_confirmed_in_its_place_needs_no_note() {
    let mut site = Site::new();
    site.write(NEW);
    site.apply_main(600.0).unwrap();
    let attempt = site.lab.confirm("root").unwrap();
    assert!(attempt.installed);
    assert_eq!((site.amount(), site.attempt()), (200, None));
    site.start();
    assert_eq!(site.amount(), 200);
}

#[test]
fn one_trial_at_a_time() {
    let mut site = Site::new();
    site.apply(NEW, 600.0).unwrap();
    let refused = site.apply(THIRD, 600.0).unwrap_err();
    assert!(refused.hint.unwrap().contains("rlctl confirm"));
    site.lab.controller.reload().unwrap_err();
    assert_eq!(site.amount(), 200);
    site.lab.confirm("root").unwrap();
    site.lab.confirm("root").unwrap_err();
    site.lab.roll_back("root").unwrap_err();
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let mut site = Site::new();
    let wrong = site.apply(
        "[policy.default]\nlimits = [{ packets = 0, per = \"1s\" }]\n",
        60.0,
    );
    assert!(wrong.unwrap_err().error.contains("new.toml:2:"));
    let restart = site.apply(&format!("{NEW}[paths]\nstate = \"/elsewhere\"\n"), 60.0);
    assert!(restart.unwrap_err().error.contains("[paths]"));
    for seconds in [0.0, -1.0, f64::NAN, 1e9] {
        site.apply(NEW, seconds).unwrap_err();
    }
    assert_eq!((site.amount(), site.attempt()), (100, None));
    assert_eq!(Trial::kept(site.directory.path()).read().unwrap(), None);
}

/// An imported list is in no file.
#[test]
fn a_list_that_was_imported_is_not_lost_to_one_of_a_trial() {
    let mut site = Site::new();
    site.lab.import_list("drop", "198.51.100.9\n");
    let file = site.directory.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let other = format!("{NEW}[list.NAME]\nfile = \"{}\"\n", file.display());
    let refused = site
        .apply(&other.replace("NAME", "drop"), 600.0)
        .unwrap_err();
    assert!(refused.error.contains("the list `drop` was imported"));
    assert!(refused.hint.unwrap().contains("rlctl import --remove drop"));
    assert_eq!((site.amount(), site.attempt()), (100, None));
    site.apply(&other.replace("NAME", "other"), 600.0).unwrap();
    site.lab.roll_back("root").unwrap();
    let lists = site.lab.state.intent.lists();
    assert_eq!(
        lists.keys().map(|name| &**name).collect::<Vec<_>>(),
        ["drop"]
    );
}

/// The configuration before the trial reads a list of this name from a file, which would take its
/// place.
#[test]
fn a_list_that_comes_back_after_a_trial_takes_no_import_meanwhile() {
    let mut site = Site::new();
    let file = site.directory.path().join("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    site.write(&format!(
        "{OLD}[list.drop]\nfile = \"{}\"\n",
        file.display()
    ));
    site.start();
    site.lab.controller.reload().unwrap();
    site.apply(NEW, 600.0).unwrap();
    let lines = r#"{"prefix":"198.51.100.9","origin":"list:drop"}"#;
    let all = ImportRequest {
        into: ImportInto::Origins,
        ..ImportRequest::default()
    };
    let list = ImportRequest {
        list: Some("drop".to_owned()),
        ..ImportRequest::default()
    };
    for request in [list.clone(), all] {
        let refused = site.lab.send(&request, lines).unwrap_err();
        assert!(refused.error.contains("`drop`"), "{}", refused.error);
        assert!(refused.hint.unwrap().contains("rlctl confirm"));
    }
    assert!(site.lab.state.intent.lists().is_empty());
    site.lab.confirm("root").unwrap();
    site.lab.send(&list, "198.51.100.9\n").unwrap();
}

#[test]
fn what_detection_limits_by_a_class_is_not_told_while_a_trial_has_no_such_class() {
    let with_class =
        |text: &str| format!("{text}[class.web]\nprotocol = \"tcp\"\ndestination_ports = [443]\n");
    let mut site = Site::new();
    site.write(&with_class(OLD));
    site.start();
    let row = LimitedRow {
        is_full: false,
        until: clock::after(Duration::from_mins(10)),
        since: clock::wall(),
        kind: Some(Kind::HeavyHitter),
        limit: limit(5).of_class(Match::Named("web".into())),
    };
    let edit = Edit::Limited(prefix("192.0.2.0/24"), Some(row));
    let state = &mut site.lab.state;
    state.apply([edit], Cause::Origin).unwrap();
    let told = |site: &Site| {
        let check = site.lab.checked("192.0.2.1");
        let limited = site.lab.status().limited;
        (check.limits.len(), check.limited.is_some(), limited)
    };
    assert_eq!(told(&site), (2, true, 1));
    site.apply(NEW, 600.0).unwrap();
    assert_eq!(told(&site), (1, false, 0));
    site.lab.roll_back("root").unwrap();
    assert_eq!(told(&site), (2, true, 1));
}

#[test]
fn what_is_in_force_is_not_told_as_refused_where_it_cannot_be_written_down() {
    let mut site = Site::new();
    let note = site.directory.path().join("trial.json");
    fs::create_dir(&note).unwrap();
    site.write(NEW);
    site.lab.controller.reload().unwrap();
    let status = site.lab.status();
    assert_eq!((site.amount(), status.config_error), (200, None));
    let unkept = site.lab.unkept();
    assert!(unkept[0].contains("trial.json"), "{unkept:?}");
    fs::remove_dir(&note).unwrap();
    site.lab.tick();
    assert!(site.lab.unkept().is_empty());

    // Nothing is written that the file already says. Removing the record needs no space.
    let full = note.with_extension("new");
    site.write(THIRD);
    site.apply_main(600.0).unwrap();
    fs::create_dir(&full).unwrap();
    site.lab.confirm("root").unwrap();
    assert_eq!((site.amount(), note.exists()), (300, false));
    fs::remove_dir(&full).unwrap();

    site.apply(NEW, 600.0).unwrap();
    fs::create_dir(&full).unwrap();
    site.lab.confirm("root").unwrap_err();
    site.lab.roll_back("root").unwrap();
    assert_eq!((site.amount(), note.exists()), (300, false));
    fs::remove_dir(&full).unwrap();

    site.write(NEW);
    site.apply_main(600.0).unwrap();
    fs::create_dir(&full).unwrap();
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.amount(), 300);
    assert_eq!(site.lab.unkept().len(), 1);
    fs::remove_dir(&full).unwrap();
    site.lab.tick();
    site.start();
    assert_eq!(site.amount(), 300, "it does not come back");
}

#[test]
fn runtime_limits_do_not_keep_the_configuration_before_from_coming_back() {
    let mut site = Site::new();
    site.apply(
        &format!("{NEW}[class.web]\nprotocol = \"tcp\"\ndestination_ports = [443]\n"),
        600.0,
    )
    .unwrap();
    let of_class = limit(5).of_class(Match::Named("web".into()));
    let request = LimitRequest {
        limits: vec![of_class],
        ..LimitRequest::default()
    };
    let refused = site.lab.set_limits(request, "root").unwrap_err();
    assert!(refused.error.contains("`web`"), "{}", refused.error);
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.amount(), 100);
}

#[test]
fn limits_that_only_a_trial_has_a_class_for_are_left_out_again_after_it() {
    let with_class =
        |text: &str| format!("{text}[class.web]\nprotocol = \"tcp\"\ndestination_ports = [443]\n");
    let mut site = Site::new();
    site.write(&with_class(OLD));
    site.start();
    let request = LimitRequest {
        limits: vec![limit(5).of_class(Match::Named("web".into()))],
        only: true,
        ..LimitRequest::default()
    };
    site.lab.set_limits(request, "root").unwrap();
    site.write(OLD);
    site.start();
    assert_eq!(site.amount(), 100);
    site.apply(&with_class(NEW), 600.0).unwrap();
    assert_eq!(site.amount(), 5);
    site.lab.roll_back("root").unwrap();
    assert_eq!(site.amount(), 100);
    assert_eq!(site.lab.status().database.inactive.len(), 1);
}

#[test]
fn files_beside_are_part_of_what_comes_back() {
    let mut site = Site::new();
    let beside = site.directory.path().join("conf.d");
    fs::create_dir(&beside).unwrap();
    fs::write(
        beside.join("a.toml"),
        "[allow]\nsources = [\"192.0.2.77\"]\n",
    )
    .unwrap();
    site.apply_main(600.0).unwrap();
    assert_eq!(queries::allows(&site.lab.state).len(), 1);
    site.lab.roll_back("root").unwrap();
    assert_eq!(queries::allows(&site.lab.state).len(), 0);
    site.start();
    assert_eq!(queries::allows(&site.lab.state).len(), 0);
}

#[test]
fn only_root_has_the_daemon_read_other_files_or_send_a_key_elsewhere() {
    const CROWDSEC: &str =
        "[crowdsec]\nurl = \"http://127.0.0.1:8080\"\nkey_file = \"/etc/ratelimit/key\"\n";
    let list = |file: &str| format!("[list.x]\nfile = \"{file}\"\n");
    let mut site = Site::new();
    let known = format!("{OLD}{}{CROWDSEC}", list("/var/lib/lists/drop.txt"));
    site.write(&known);
    site.start();
    for (text, refused) in [
        (NEW.to_owned(), None),
        (known.clone(), None),
        (known.replace("drop.txt", "more.txt"), None),
        (known.replace("8080\"", "8080\"\nevery = \"1m\""), None),
        (
            known.replace("8080", "9999"),
            Some("another url or key of [crowdsec]"),
        ),
        (
            known.replace("ratelimit/key", "shadow"),
            Some("another url or key of [crowdsec]"),
        ),
        (
            format!("{known}[list.y]\nfile = \"/var/lib/lists/y\"\nurl = \"http://[::1]/\"\n"),
            Some("another `url` of a list"),
        ),
        (
            format!("{NEW}{}", list("/etc/shadow")),
            Some(
                "[list.x]: /etc/shadow is outside the list directories of the running \
                 configuration",
            ),
        ),
        (
            format!("{NEW}{}", list("/var/lib/lists/../../../etc/shadow")),
            Some("[list.x]: /var/lib/lists/../../../etc/shadow is outside the list directories"),
        ),
    ] {
        let answer = site.require_own_files(&site.request(&text));
        match (answer, refused) {
            (Ok(()), None) => {}
            (Err(answer), Some(refused)) => {
                let expected = format!("only root may apply {refused}");
                assert!(answer.error.starts_with(&expected), "{answer:?}");
            }
            (answer, _) => panic!("{text}: {answer:?}"),
        }
    }
}

#[test]
fn only_root_undoes_a_reload_that_closed_a_port() {
    let open = format!("{OLD}[metrics]\nlisten = \"0.0.0.0:9798\"\n");
    let mut site = Site::new();
    site.write(&open);
    site.start();
    site.write(OLD);
    site.lab.reload().unwrap();
    let refused = site.lab.roll_back("ann").unwrap_err();
    assert!(
        refused.error.starts_with("only root may apply"),
        "{refused:?}"
    );
    // The end of a trial only restores what root had put in force.
    site.apply(NEW, 600.0).unwrap();
    site.lab.roll_back("ann").unwrap();
    assert_eq!(site.amount(), 100);
    site.lab.roll_back("root").unwrap();
    // Nothing of root's is undone by what anybody could apply.
    site.write(&open.replace("100", "200"));
    site.lab.reload().unwrap();
    site.lab.roll_back("ann").unwrap();
    assert_eq!(site.amount(), 100);
}

#[test]
fn whoever_is_not_root_is_told_what_stands_in_the_own_text_and_in_no_other() {
    let site = Site::new();
    let reported = |site: &Site, request: &ApplyRequest| {
        let refused = site.require_own_files(request).unwrap_err();
        assert!(refused.in_full().contains("secret"), "{refused:?}");
        refused.error
    };
    let own = site.request("[policy.default]\nlimits = \"secret\"\n");
    assert!(reported(&site, &own).contains("secret"));
    let beside = site.directory.path().join("conf.d");
    fs::create_dir(&beside).unwrap();
    let other = beside.join("a.toml");
    fs::write(&other, "allow = \"secret\"\n").unwrap();
    let mut request = site.request(NEW);
    assert!(!reported(&site, &request).contains("secret"));
    // Not by the name of that file either.
    request.file = other.display().to_string();
    assert!(!reported(&site, &request).contains("secret"));
}

/// A host with a configuration file.
struct Site {
    directory: TempDir,
    lab: Lab,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("config.toml");
        fs::write(&main, own(OLD, directory.path())).unwrap();
        let lab = Lab::new(config::load(&main).unwrap());
        Self { directory, lab }
    }

    /// Writes the configuration file.
    fn write(&self, text: &str) {
        fs::write(self.main(), own(text, self.directory.path())).unwrap();
    }

    /// Starts a daemon after the previous one was killed.
    fn start(&mut self) {
        let disk = config::load(&self.main()).unwrap();
        self.lab.config = resume(disk, self.directory.path());
        let lab = &mut self.lab;
        lab.start_again();
    }

    /// The events of trials, with who caused each.
    fn events(&self) -> Vec<String> {
        let events = self.lab.events();
        let of_trials = events.iter().filter(|event| event.what.is_trial());
        let of_trials = of_trials.map(|event| serde_json::to_value(event).unwrap());
        of_trials
            .map(|event| format!("{} {}", event["event"], event["by"]))
            .collect()
    }

    fn apply(&mut self, text: &str, seconds: f64) -> Result<Vec<String>, Refused> {
        self.send("new.toml", own(text, self.directory.path()), seconds)
    }

    fn apply_main(&mut self, seconds: f64) -> Result<Vec<String>, Refused> {
        let text = fs::read_to_string(self.main()).unwrap();
        self.send("config.toml", text, seconds)
    }

    fn send(&mut self, file: &str, text: String, seconds: f64) -> Result<Vec<String>, Refused> {
        let request = ApplyRequest {
            file: self.directory.path().join(file).display().to_string(),
            text,
            seconds,
        };
        let applied = self.lab.apply(request, "root")?;
        assert!(matches!(
            applied.attempt.outcome,
            TrialOutcome::Pending { .. }
        ));
        Ok(applied.changes)
    }

    fn require_own_files(&self, request: &ApplyRequest) -> Result<(), Refused> {
        let Controller { feeds, state, .. } = &self.lab.controller;
        let measure = feeds.trials.measure(&state.intent.config, false)?;
        parsed(request, &measure).map(drop)
    }

    fn request(&self, text: &str) -> ApplyRequest {
        ApplyRequest {
            file: "/home/ann/new.toml".to_owned(),
            text: own(text, self.directory.path()),
            seconds: 600.0,
        }
    }

    /// Lets the time of the trial be over, in memory as on disk.
    fn expire(&mut self) {
        self.expire_on_disk();
        let config: Config = self.lab.config.clone();
        let trials = &mut self.lab.feeds.trials;
        *trials = crate::control::feeds::trials::Trials::restore(&config, self.directory.path());
    }

    fn expire_on_disk(&self) {
        let kept = Trial::kept(self.directory.path());
        let mut trial = kept.read().unwrap().unwrap();
        trial.until_boot_ns = 1;
        kept.write(&trial).unwrap();
    }

    fn attempt(&self) -> Option<Attempt> {
        self.lab.status().attempt
    }

    fn amount(&self) -> u64 {
        self.lab.policy_amount("8.8.8.8")
    }

    fn main(&self) -> PathBuf {
        self.directory.path().join("config.toml")
    }
}

/// A whole configuration.
fn own(text: &str, state: &Path) -> String {
    let state = state.display();
    format!("{text}[[interface]]\nname = \"eth0\"\n[paths]\nstate = \"{state}\"\n")
}
