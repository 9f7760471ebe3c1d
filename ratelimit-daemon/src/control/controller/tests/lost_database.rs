//! The database is gone, and the kernel holds bans: each comes back as what it was, or ends when what tells it does so again.

use std::fs;

use super::*;
use crate::control::adopt::KEPT;

#[test]
fn bans_of_a_list_end_when_the_list_is_read_again_without_them_and_bans_by_hand_stay() {
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
        lab.controller.tick();
        assert!(lab.is_banned("192.0.2.2") && lab.is_banned("2001:db8::/48"));
        assert_eq!(
            lab.by_hand(),
            [
                "192.0.2.8",
                "192.0.2.9",
                "192.0.2.50",
                "198.51.100.7",
                "2001:db8:1::/64"
            ]
        );
        let lists = lab.controller.lists();
        assert_eq!((&*lists[0].name, lists[0].entries), (KEPT, 4));
        assert_eq!(lab.entries()[&prefix("192.0.2.9")].banned_until(), end);
        // Once more, with what was kept in the database, and without that.
        lab.lose_database();
    }

    fs::write(&file, "192.0.2.1\n").unwrap();
    lab.controller.reload_lists();
    assert_eq!(
        lab.by_hand(),
        [
            "192.0.2.8",
            "192.0.2.9",
            "192.0.2.50",
            "198.51.100.7",
            "2001:db8:1::/64"
        ]
    );
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("198.51.100.7"));
    for gone in ["192.0.2.2", "198.51.100.0/24", "2001:db8::/48"] {
        assert!(!lab.is_banned(gone), "{gone}");
    }
    let lists = lab.controller.lists();
    assert_eq!(
        (lists.len(), &*lists[0].name, lists[0].entries),
        (1, "drop", 1)
    );
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
    lab.controller.tick();
    assert_eq!(lab.by_hand(), [""; 0]);
    assert!(lab.is_banned("192.0.2.1") && !lab.is_banned("192.0.2.2"));
    assert_eq!(
        lab.entries()[&prefix("192.0.2.1")],
        held[&prefix("192.0.2.1")]
    );
    assert_eq!(lab.controller.lists().len(), 1);
}

#[test]
fn bans_of_crowdsec_hold_until_it_answers_and_those_by_hand_go_on() {
    let mut lab = crowdsec::followed();
    lab.take(&[("192.0.2.2", Some(600)), ("192.0.2.3", Some(600))], true);
    lab.ban(&["192.0.2.1"], Some(600.0)).unwrap();
    lab.lose_database();
    lab.controller.tick();
    lab.controller.lose_crowdsec("refused".to_owned());
    lab.controller.tick();
    assert!(
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
            .iter()
            .all(|it| lab.is_banned(it))
    );
    assert_eq!(lab.by_hand(), ["192.0.2.1"]);
    lab.take(&[("192.0.2.3", Some(600))], true);
    lab.controller.tick();
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.3"));
    assert!(!lab.is_banned("192.0.2.2"));
    let origins = lab
        .controller
        .state
        .bans()
        .into_iter()
        .map(|ban| ban.origin);
    assert!(origins.eq([Origin::Manual, Origin::Crowdsec]));
    assert!(lab.controller.lists().is_empty());
}

impl Lab {
    /// Starts a daemon over what the kernel holds, without a database.
    fn lose_database(&mut self) {
        for name in ["state.db", "state.db-wal", "state.db-shm", "state.changes"] {
            let _ = fs::remove_file(self.state.path().join(name));
        }
        self.controller = controller(&self.config, &self.memory, &self.state, &self.protected);
    }

    /// The bans that are of no list.
    fn by_hand(&self) -> Vec<String> {
        let bans = self.controller.state.bans().into_iter();
        bans.map(|ban| ban.prefix.to_string()).collect()
    }
}

impl Controller {
    fn reload_lists(&mut self) {
        self.read_lists();
        self.tick();
    }
}
