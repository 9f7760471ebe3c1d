//! Changes that share a transaction.

use rusqlite::Connection;

use super::*;
use crate::control::{BanRow, FOREVER, Handle, Unanswered};

#[test]
fn changes_of_a_group_are_kept_by_one_commit() {
    let mut lab = Lab::new(config());
    let before = lab.changes();
    lab.controller.begin_group();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.ban(&["192.0.2.2"], None).unwrap();
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
    assert_eq!(lab.changes(), before, "nothing is kept yet");
    lab.controller.end_group().unwrap();
    assert_eq!(lab.changes(), before + 1);
    lab.ban(&["192.0.2.3"], None).unwrap();
    assert_eq!(lab.changes(), before + 2);
    lab.restart();
    assert_eq!(lab.controller.bans().len(), 3);
}

#[test]
fn a_change_that_fails_takes_none_of_its_group_along() {
    let mut lab = Lab::new(config());
    lab.controller.begin_group();
    lab.ban(&["192.0.2.1"], None).unwrap();
    let entries = lab.entries().len();
    lab.memory.lock().unwrap().entries_max = entries;
    lab.ban(&["192.0.2.2"], None).unwrap_err();
    lab.memory.lock().unwrap().entries_max = usize::MAX;
    lab.ban(&["192.0.2.3"], None).unwrap();
    lab.controller.end_group().unwrap();
    lab.restart();
    assert_eq!(lab.controller.bans().len(), 2);
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.3"));
}

#[test]
fn a_ban_that_the_database_refuses_takes_none_of_its_group_along() {
    let mut lab = Lab::new(config());
    lab.database()
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE INSERT ON ban WHEN hex(NEW.prefix) LIKE '04C0000202%'
             BEGIN SELECT RAISE(ABORT, 'refused'); END;",
        )
        .unwrap();
    lab.controller.begin_group();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.ban(&["192.0.2.2"], None).unwrap_err();
    lab.ban(&["192.0.2.3"], None).unwrap();
    lab.controller.end_group().unwrap();
    assert!(!lab.is_banned("192.0.2.2"));
    lab.restart();
    assert_eq!(lab.controller.bans().len(), 2);
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.3"));
}

#[test]
fn a_group_that_cannot_be_kept_is_taken_back_everywhere() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    let before = (lab.entries(), lab.changes());
    lab.refuse_commits();
    lab.controller.begin_group();
    lab.ban(&["192.0.2.2"], None).unwrap();
    assert!(lab.is_banned("192.0.2.2"));
    lab.controller.end_group().unwrap_err();
    assert_eq!((lab.entries(), lab.changes()), before);
    assert_eq!(lab.controller.bans().len(), 1);
    lab.restart();
}

#[test]
fn commands_that_wait_share_a_commit() {
    let lab = Lab::new(config());
    let (answers, commits) = lab.run_behind_another(3, 0);
    assert_eq!(answers, [Ok(()); 3]);
    assert_eq!(commits, 1);
}

#[test]
fn who_hangs_up_keeps_nobody_else_from_an_answer() {
    let lab = Lab::new(config());
    let (answers, commits) = lab.run_behind_another(3, 1);
    assert_eq!(answers, [Ok(()); 2]);
    assert_eq!(commits, 1);
}

#[test]
fn commands_whose_changes_could_not_be_kept_are_told_so() {
    let lab = Lab::new(config());
    lab.refuse_commits();
    let (answers, _) = lab.run_behind_another(3, 0);
    assert_eq!(answers, [Err(Unanswered::NotKept); 3]);
}

#[test]
fn a_database_that_somebody_else_has_locked_costs_one_change_its_time_and_not_each() {
    let mut lab = Lab::new(config());
    let other = lab.database();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = std::time::Instant::now();
    for address in 1..=20 {
        // Whether such a ban holds all the same is said elsewhere.
        let _ = lab.ban(&[&format!("192.0.2.{address}")], None);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    other.execute_batch("ROLLBACK").unwrap();
    lab.ban(&["192.0.2.99"], None).unwrap();
    assert!(lab.is_banned("192.0.2.99"));
}

impl Lab {
    /// How many changes the database has, as another reader sees it.
    fn changes(&self) -> i64 {
        let number = "SELECT number FROM change";
        let database = self.database();
        database.query_row(number, [], |row| row.get(0)).unwrap()
    }

    /// From here on no transaction with a new ban is committed.
    fn refuse_commits(&self) {
        let refuse = "
            CREATE TABLE parent (id INTEGER PRIMARY KEY);
            CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
            CREATE TRIGGER refuse AFTER INSERT ON ban BEGIN INSERT INTO child VALUES (1); END;";
        self.database().execute_batch(refuse).unwrap();
    }

    fn database(&self) -> Connection {
        Connection::open(self.state.path().join("state.db")).unwrap()
    }

    /// Sends so many bans while another command runs, of which the first hang up before it ends. Answers what became of the others,
    /// and how many commits all of them took.
    fn run_behind_another(&self, count: u8, hang_up: usize) -> (Vec<Result<(), Unanswered>>, i64) {
        let controller = controller(&self.config, &self.memory, &self.state, &self.protected);
        let before = self.changes();
        let (handle, thread) = controller.spawn().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let answers = runtime.unwrap().block_on(async {
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let own = handle.clone();
            let other = tokio::spawn(async move { own.call(move |_| wait.recv().unwrap()).await });
            tokio::task::yield_now().await;
            let mut bans: Vec<_> = (1..=count)
                .map(|number| tokio::spawn(ban(handle.clone(), number)))
                .collect();
            // Now they are in the queue.
            tokio::task::yield_now().await;
            for ban in bans.drain(..hang_up) {
                ban.abort();
                assert!(ban.await.unwrap_err().is_cancelled());
            }
            go.send(()).unwrap();
            other.await.unwrap().unwrap();
            let mut answers = Vec::new();
            for ban in bans {
                answers.push(ban.await.unwrap());
            }
            answers
        });
        drop(handle);
        thread.join().unwrap();
        (answers, self.changes() - before)
    }
}

/// Bans an address for whoever holds the handle of a controller.
async fn ban(handle: Handle, number: u8) -> Result<(), Unanswered> {
    let row = BanRow {
        until: FOREVER,
        since: Timestamp::now(),
        reason: None,
        author: "test".into(),
    };
    let prefix = prefix(&format!("192.0.2.{number}"));
    let edit = Edit::Ban(prefix, Origin::Manual, Some(row));
    let request = move |controller: &mut Controller| controller.edit(&[edit]).map(drop);
    handle.call_grouped(request).await.map(Result::unwrap)
}
