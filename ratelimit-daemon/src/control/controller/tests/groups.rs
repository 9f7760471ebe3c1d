//! Changes that share a transaction.

use ratelimit_core::intent::FOREVER;
use rusqlite::Connection;

use super::*;
use crate::control::{Handle, Unanswered, commands::Command};

#[test]
fn changes_of_a_group_are_kept_by_one_commit() {
    let mut lab = Lab::new(config());
    let before = lab.changes();
    lab.state.begin_group();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.ban(&["192.0.2.2"], None).unwrap();
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
    assert_eq!(lab.changes(), before, "nothing is kept yet");
    lab.state.end_group();
    assert_eq!(lab.changes(), before + 1);
    lab.ban(&["192.0.2.3"], None).unwrap();
    assert_eq!(lab.changes(), before + 2);
    lab.restart();
    assert_eq!(lab.listed_bans().len(), 3);
}

#[test]
fn a_change_that_fails_takes_none_of_its_group_along() {
    let mut lab = Lab::new(config());
    lab.state.begin_group();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.leave_room(0);
    lab.ban(&["192.0.2.2"], None).unwrap_err();
    lab.make_room();
    lab.ban(&["192.0.2.3"], None).unwrap();
    lab.state.end_group();
    lab.restart();
    assert_eq!(lab.listed_bans().len(), 2);
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.3"));
}

#[test]
fn a_group_that_the_database_refuses_holds_and_is_written_later() {
    let refuse_one =
        "CREATE TRIGGER refuse BEFORE INSERT ON ban WHEN hex(NEW.prefix) LIKE '04C0000202%'
         BEGIN SELECT RAISE(ABORT, 'refused'); END;";
    for refuse in [refuse_one, REFUSE_COMMITS] {
        let mut lab = Lab::new(config());
        lab.ban(&["192.0.2.9"], None).unwrap();
        let before = lab.changes();
        lab.database().execute_batch(refuse).unwrap();
        lab.state.begin_group();
        for prefix in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            lab.ban(&[prefix], None).unwrap();
        }
        lab.state.end_group();
        assert_eq!(lab.changes(), before);
        let unkept = lab.unkept();
        assert!(
            unkept[0].starts_with("3 changes in the database: "),
            "{unkept:?}"
        );
        assert_eq!(lab.listed_bans().len(), 4);
        assert!(lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
        lab.database().execute_batch("DROP TRIGGER refuse").unwrap();
        lab.catch_up();
        assert!(lab.unkept().is_empty());
        lab.restart();
        assert_eq!(lab.listed_bans().len(), 4);
    }
}

#[test]
fn commands_that_wait_share_a_commit() {
    let lab = Lab::new(config());
    let (answers, commits) = lab.run_behind_another(3, 0);
    assert_eq!(answers, vec![Ok(vec![]); 3]);
    assert_eq!(commits, 1);
}

#[test]
fn who_hangs_up_keeps_nobody_else_from_an_answer() {
    let lab = Lab::new(config());
    let (answers, commits) = lab.run_behind_another(3, 1);
    assert_eq!(answers, vec![Ok(vec![]); 2]);
    assert_eq!(commits, 1);
}

#[test]
fn commands_whose_changes_are_not_kept_yet_are_all_told_so() {
    let lab = Lab::new(config());
    lab.database().execute_batch(REFUSE_COMMITS).unwrap();
    let (answers, commits) = lab.run_behind_another(3, 0);
    let unkept = answers[0].as_ref().unwrap();
    assert!(
        unkept[0].starts_with("3 changes in the database: "),
        "{unkept:?}"
    );
    assert_eq!((answers.len(), commits), (3, 0));
    assert!(answers.iter().all(|answer| answer == &answers[0]));
}

/// With this no transaction with a new ban is committed.
const REFUSE_COMMITS: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
    CREATE TRIGGER refuse AFTER INSERT ON ban BEGIN INSERT INTO child VALUES (1); END;";

impl Lab {
    /// The number of changes in the database, as seen by another reader.
    fn changes(&self) -> i64 {
        let number = "SELECT number FROM change";
        let database = self.database();
        database.query_row(number, [], |row| row.get(0)).unwrap()
    }

    fn database(&self) -> Connection {
        Connection::open(self.directory.path().join("state.db")).unwrap()
    }

    /// Sends `count` bans while another command runs. The first `hang_up` clients hang up before it
    /// ends. Returns the results of the others, and the number of commits.
    fn run_behind_another(&self, count: u8, hang_up: usize) -> (Vec<Answer>, i64) {
        let controller = controller(&self.config, &self.memory, &self.directory, &self.protected);
        let before = self.changes();
        let (handle, thread) = controller.spawn().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let answers = runtime.unwrap().block_on(async {
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let own = handle.clone();
            let other = tokio::spawn(async move { own.ask(waits(wait)).await });
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

/// The reasons why changes are not in the database.
type Answer = Result<Vec<String>, Unanswered>;

/// Bans an address for any holder of a handle of a controller.
async fn ban(handle: Handle, number: u8) -> Answer {
    let address = format!("192.0.2.{number}");
    let edit = super::ban(&address, Origin::Manual, FOREVER);
    let (answer, unkept) = handle.call_grouped(Change(edit)).await?;
    answer.unwrap();
    Ok(unkept)
}

/// A command that makes one edit.
struct Change(Edit);

impl Command for Change {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.state.apply([self.0], Cause::Origin)
    }
}
