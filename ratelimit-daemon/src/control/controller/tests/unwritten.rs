//! If the database cannot be written, commands take effect, are reported as not saved, and are
//! written later.

use rusqlite::Connection;

use super::*;
use crate::{clock, control::time::ban_clock::Reading};

#[test]
fn every_command_holds_without_a_disk_and_is_kept_when_there_is_one() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1", "192.0.2.2"], Some(600.0)).unwrap();
    lab.import_list("bad", "192.0.2.50\n");
    lab.fill_disk();
    lab.ban(&["192.0.2.3", "2001:db8::/64"], Some(600.0))
        .unwrap();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.unban(&["192.0.2.2"]).unwrap();
    lab.allow("203.0.113.9", None).unwrap();
    lab.limit(None, 77).unwrap();
    lab.limit(Some("198.51.100.0/24"), 78).unwrap();
    lab.import_list("bad", "192.0.2.51\n");
    let holds = |lab: &Lab| {
        let banned = ["192.0.2.1", "192.0.2.3", "2001:db8::/64", "192.0.2.51"];
        assert!(banned.iter().all(|prefix| lab.is_banned(prefix)));
        assert!(!lab.is_banned("192.0.2.2") && !lab.is_banned("192.0.2.50"));
        assert!(lab.entries()[&prefix("203.0.113.9")].is_allowed(clock::now()));
        assert_eq!(lab.policy_amount("10.9.9.9"), 77);
        assert_eq!(lab.policy_amount("198.51.100.7"), 78);
        assert_eq!(lab.listed_bans().len(), 3);
    };
    holds(&lab);
    lab.tick();
    holds(&lab);
    let unkept = lab.unkept();
    assert!(
        unkept[0].starts_with("8 changes in the database: "),
        "{unkept:?}"
    );
    assert_eq!(lab.state.kept.store.bans().unwrap().len(), 2);

    lab.free_disk();
    lab.catch_up();
    assert_eq!(lab.unkept(), Vec::<String>::new());
    let ends = |lab: &Lab| {
        let bans = lab.state.intent.bans();
        bans.values().map(|row| row.until).collect::<Vec<_>>()
    };
    let before = ends(&lab);
    lab.restart();
    holds(&lab);
    assert_eq!(ends(&lab), before);
}

#[test]
fn what_is_taken_back_before_it_was_written_never_was_there() {
    let mut lab = Lab::new(config());
    lab.fill_disk();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.unban(&["192.0.2.1"]).unwrap();
    lab.ban(&["192.0.2.2"], Some(0.01)).unwrap();
    thread::sleep(Duration::from_millis(20));
    lab.tick();
    lab.free_disk();
    lab.catch_up();
    assert_eq!(lab.state.kept.store.bans().unwrap(), []);
    assert!(lab.unkept().is_empty());
    lab.restart();
    assert!(lab.listed_bans().is_empty());
}

#[test]
fn a_change_that_the_kernel_refuses_is_not_written_later_either() {
    let mut lab = Lab::new(config());
    lab.fill_disk();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.leave_room(0);
    lab.ban(&["192.0.2.2"], None).unwrap_err();
    lab.free_disk();
    lab.catch_up();
    assert_eq!(lab.state.kept.store.bans().unwrap().len(), 1);
}

#[test]
fn a_machine_that_sleeps_meanwhile_moves_the_ends_of_what_is_not_written() {
    let mut lab = Lab::new(config());
    lab.fill_disk();
    lab.ban(&["192.0.2.1"], Some(7200.0)).unwrap();
    lab.import_list("bad", "192.0.2.51\n");
    let before = lab.entries()[&prefix("192.0.2.1")].banned_until().unwrap();
    let hour = 3600 * 1_000_000_000;
    let mut now = Reading::now();
    (now.since_boot, now.wall) = (now.since_boot + hour, now.wall + hour);
    lab.state.keep_time(now).unwrap();
    let after = lab.entries()[&prefix("192.0.2.1")].banned_until().unwrap();
    let earlier = before.as_nanos() - after.as_nanos();
    assert!(
        earlier.abs_diff(hour.unsigned_abs()) < 60_000_000_000,
        "{earlier}"
    );
    assert!(lab.is_banned("192.0.2.51"));
    lab.free_disk();
    lab.catch_up();
    let (_, _, row) = lab.state.kept.store.bans().unwrap().remove(0);
    // The last bit is for the kernel.
    assert!(row.until.as_nanos().abs_diff(after.as_nanos()) <= 1);
}

#[test]
fn a_start_without_a_disk_ends_what_is_over() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(0.01)).unwrap();
    lab.ban(&["192.0.2.2"], None).unwrap();
    lab.fill_disk();
    thread::sleep(Duration::from_millis(20));
    lab.start_again();
    assert!(!lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
    assert_eq!(lab.unkept().len(), 1);
    lab.free_disk();
    lab.catch_up();
    assert!(lab.unkept().is_empty());
    assert_eq!(lab.state.kept.store.bans().unwrap().len(), 1);
}

#[test]
fn who_locks_the_database_keeps_no_command_waiting() {
    let mut lab = Lab::new(config());
    let other = lab.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = clock::monotonic();
    for host in 1..=20 {
        lab.ban(&[&format!("192.0.2.{host}")], None).unwrap();
    }
    assert!(
        clock::elapsed(begun) < Duration::from_secs(20),
        "{:?}",
        clock::elapsed(begun)
    );
    assert_eq!(lab.unkept().len(), 1);
    other.execute_batch("ROLLBACK").unwrap();
    lab.catch_up();
    assert_eq!(lab.state.kept.store.bans().unwrap().len(), 20);
}

impl Lab {
    /// Writes until everything is written: after a failed write the next one is not made at once.
    pub(super) fn catch_up(&mut self) {
        let begun = clock::monotonic();
        while !self.unkept().is_empty() {
            let unkept = self.unkept();
            assert!(clock::elapsed(begun) < Duration::from_mins(1), "{unkept:?}");
            thread::sleep(Duration::from_millis(5));
            self.state.write_unwritten();
        }
    }

    /// Makes all further writes to the tables of the intent fail.
    fn fill_disk(&self) {
        self.on_each_table(|table, verb| {
            format!(
                "CREATE TRIGGER full_{table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT \
                 RAISE(ABORT, 'full'); END"
            )
        });
    }

    fn free_disk(&self) {
        self.on_each_table(|table, verb| format!("DROP TRIGGER full_{table}_{verb}"));
    }

    fn on_each_table(&self, statement: impl Fn(&str, &str) -> String) {
        for (table, verb) in TABLES
            .iter()
            .flat_map(|it| [(it, "INSERT"), (it, "DELETE")])
        {
            self.other().execute_batch(&statement(table, verb)).unwrap();
        }
    }

    fn other(&self) -> Connection {
        Connection::open(self.directory.path().join("state.db")).unwrap()
    }
}

const TABLES: [&str; 4] = ["ban", "allow", "limits", "list"];
