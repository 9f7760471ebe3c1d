//! The database is lost, and the kernel has bans: each is restored, or ends when its reporter has
//! reported again.

use std::fs;

use ratelimit_core::lists::Action;

use super::*;
use crate::clock;

#[test]
fn bans_of_a_list_end_when_the_list_is_read_again_without_them_and_manual_bans_stay() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop");
    fs::write(
        &file,
        "192.0.2.1\n192.0.2.2\n198.51.100.0/24\n2001:db8::/48\n",
    )
    .unwrap();
    let mut lab = Lab::new(lists::with_file(&file, None));
    lab.ban(&["192.0.2.8", "2001:db8:1::/64"], None).unwrap();
    lab.ban(&["198.51.100.7"], None).unwrap();
    lab.ban(&["192.0.2.9"], Some(600.0)).unwrap();
    lab.import_list("bad", "192.0.2.50\n");
    let held = lab.entries();
    let end = held[&prefix("192.0.2.9")].banned_until();

    // As long as the file cannot be read nothing ends.
    fs::remove_file(&file).unwrap();
    lab.lose_database();
    for _ in 0..2 {
        lab.tick();
        assert!(lab.is_banned("192.0.2.2") && lab.is_banned("2001:db8::/48"));
        assert_eq!(
            lab.runtime(),
            ["192.0.2.8", "192.0.2.9", "198.51.100.7", "2001:db8:1::/64"]
        );
        assert_eq!(
            lab.lists(),
            [("[kept]".into(), 4), ("bad".into(), 1), ("drop".into(), 0)]
        );
        assert_eq!(lab.entries()[&prefix("192.0.2.9")].banned_until(), end);
        // Once more, with what was kept in the database, and without that.
        lab.lose_database();
    }

    fs::write(&file, "192.0.2.1\n").unwrap();
    lab.reload_lists();
    assert_eq!(
        lab.runtime(),
        ["192.0.2.8", "192.0.2.9", "198.51.100.7", "2001:db8:1::/64"]
    );
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("198.51.100.7"));
    for gone in ["192.0.2.2", "198.51.100.0/24", "2001:db8::/48"] {
        assert!(!lab.is_banned(gone), "{gone}");
    }
    assert_eq!(lab.lists(), [("bad".into(), 1), ("drop".into(), 1)]);
    lab.restart();
}

#[test]
fn what_a_file_says_at_the_start_is_of_its_list_at_once() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("drop");
    fs::write(&file, "192.0.2.1\n192.0.2.2\n").unwrap();
    let mut lab = Lab::new(lists::with_file(&file, None));
    let held = lab.entries();
    fs::write(&file, "192.0.2.1\n").unwrap();
    lab.lose_database();
    lab.tick();
    assert_eq!(lab.runtime(), [""; 0]);
    assert!(lab.is_banned("192.0.2.1") && !lab.is_banned("192.0.2.2"));
    assert_eq!(
        lab.entries()[&prefix("192.0.2.1")],
        held[&prefix("192.0.2.1")]
    );
    assert_eq!(lab.controller.lists().len(), 1);
}

#[test]
fn bans_of_crowdsec_hold_until_it_answers_and_those_by_hand_continue() {
    let mut lab = crowdsec::followed();
    lab.take(&[("192.0.2.2", Some(600)), ("192.0.2.3", Some(600))], true);
    lab.ban(&["192.0.2.1"], Some(600.0)).unwrap();
    lab.lose_database();
    lab.tick();
    lab.lose_crowdsec("refused".to_owned());
    lab.tick();
    assert!(
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
            .iter()
            .all(|it| lab.is_banned(it))
    );
    assert_eq!(lab.runtime(), ["192.0.2.1"]);
    lab.take(&[("192.0.2.3", Some(600))], true);
    lab.tick();
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.3"));
    assert!(!lab.is_banned("192.0.2.2"));
    let origins = lab.listed_bans().into_iter().map(|ban| ban.origin);
    assert!(origins.eq([Origin::Manual, Origin::Crowdsec]));
    assert!(lab.controller.lists().is_empty());
}

#[test]
fn allows_of_a_list_end_when_the_list_is_read_again_without_them_and_those_by_hand_stay() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("good");
    fs::write(&file, "192.0.2.1\n2001:db8::/48\n").unwrap();
    let mut config = lists::with_file(&file, None);
    for list in config.lists.values_mut() {
        list.action = Action::Allow;
    }
    let mut lab = Lab::new(config);
    for (prefix, seconds) in [("192.0.2.8", None), ("192.0.2.9", Some(600.0))] {
        lab.allow(prefix, seconds).unwrap();
    }
    lab.ban(&["192.0.2.0/24"], None).unwrap();
    let runtime = ["192.0.2.10", "192.0.2.8", "192.0.2.9"];
    assert_eq!(lab.allowed_at_runtime(), runtime);
    fs::remove_file(&file).unwrap();
    for _ in 0..2 {
        lab.lose_database();
        lab.tick();
        assert_eq!(lab.allowed_at_runtime(), runtime);
        assert_eq!(
            lab.lists(),
            [("[kept allows]".into(), 2), ("drop".into(), 0)]
        );
        assert!(lab.is_allowed("192.0.2.1") && lab.is_allowed("2001:db8::/48"));
    }
    fs::write(&file, "2001:db8::/48\n").unwrap();
    lab.reload_lists();
    assert_eq!(lab.allowed_at_runtime(), runtime);
    assert!(!lab.is_allowed("192.0.2.1") && lab.is_allowed("2001:db8::/48"));
    assert!(lab.is_allowed("192.0.2.8") && lab.is_allowed("192.0.2.9"));
    lab.restart();
}

#[test]
fn lists_that_were_imported_come_back_as_they_were_also_after_a_reboot() {
    let mut lab = Lab::new(config());
    let end = clock::wall() + SignedDuration::from_hours(1);
    lab.import_list("bad", "192.0.2.1 # scan\n192.0.2.2\n198.51.100.0/24\n");
    let with_end = format!("{{\"prefix\":\"2001:db8::/48\",\"until\":\"{end}\"}}\n");
    lab.import("good", Action::Allow, &with_end);
    lab.import_list("gone", "203.0.113.9\n");
    lab.ban(&["192.0.2.2", "192.0.2.3"], Some(600.0)).unwrap();
    let target = ratelimit_core::api::ListTarget {
        name: "gone".into(),
    };
    lab.remove_list(target, "root").unwrap();
    let (held, known, bans) = (lab.entries(), lab.controller.lists(), lab.runtime());
    lab.lose_database();
    assert_eq!(lab.entries(), held);
    assert_eq!(lab.controller.lists(), known);
    // The kernel told it of the longest alone.
    assert_eq!(lab.runtime(), ["192.0.2.3"]);
    assert_eq!(bans, ["192.0.2.2", "192.0.2.3"]);
    let check = lab.checked("192.0.2.1");
    assert_eq!(check.ban.unwrap().reason.as_deref(), Some("scan"));
    // An entry removed from a list does not return with an older copy.
    let copy = lab.directory.path().join("lists/bad.jsonl");
    let before = fs::read(&copy).unwrap();
    lab.import_list("bad", "192.0.2.1 # scan\n");
    lab.state.write_last();
    fs::write(&copy, before).unwrap();
    lab.lose_database();
    assert!(lab.is_banned("192.0.2.1") && !lab.is_banned("198.51.100.0/24"));
    // A machine that was booted again.
    lab.memory.reboot().unwrap();
    lab.lose_database();
    assert!(lab.is_banned("192.0.2.1") && lab.is_allowed("2001:db8::/48"));
    let known = known.into_iter().map(|list| (list.name, list.action));
    let lists = lab.controller.lists();
    assert!(
        lists
            .into_iter()
            .map(|list| (list.name, list.action))
            .eq(known)
    );
}

impl Lab {
    /// Starts a daemon over the state of the kernel, without a database.
    fn lose_database(&mut self) {
        self.state.write_last();
        for name in ["state.db", "state.db-wal", "state.db-shm", "state.changes"] {
            let _ = fs::remove_file(self.directory.path().join(name));
        }
        self.start_again();
    }

    /// The bans that are of no list.
    fn runtime(&self) -> Vec<String> {
        let bans = self.listed_bans().into_iter();
        bans.map(|ban| ban.prefix.to_string()).collect()
    }
}

impl Lab {
    fn allowed_at_runtime(&self) -> Vec<String> {
        let allows = queries::allows(&self.state).into_iter();
        let mut allows: Vec<String> = allows.map(|allow| allow.prefix.to_string()).collect();
        allows.sort();
        allows
    }

    fn is_allowed(&self, text: &str) -> bool {
        let entry = self.entries().get(&prefix(text)).copied();
        entry.is_some_and(|entry| entry.is_allowed(clock::now()))
    }

    /// The lists, and how many entries each has.
    fn lists(&self) -> Vec<(Arc<str>, usize)> {
        let lists = self.controller.lists().into_iter();
        lists.map(|list| (list.name, list.entries)).collect()
    }
}

impl Controller {
    fn reload_lists(&mut self) {
        self.read_lists();
        self.tick();
    }
}
