//! `[list.NAME]`: files that are read again.

use super::*;

const LIST: &str = "[list.drop]\nfile = \"$DIR/drop.txt\"\nevery = \"1s\"\n";

#[test]
fn a_broken_file_keeps_the_list_and_is_reported_everywhere() {
    let daemon = Daemon::start(LIST, &[("drop.txt", "192.0.2.1\n")]);
    daemon.write("drop.txt", "192.0.2.1\n192.0.2.256\n");
    let said = daemon.rlctl(&["reload"], "").stderr;
    assert!(
        said.contains("error: list drop: $DIR/drop.txt:2:1:"),
        "{said}"
    );
    std::thread::sleep(std::time::Duration::from_millis(1100));
    daemon.read_due();
    assert_eq!(daemon.entries(), "192.0.2.1");
    let status = ok(&daemon, &["status"]);
    assert!(
        status.contains("list drop (ban): 1 entry of $DIR/drop.txt"),
        "{status}"
    );
    assert!(
        status.contains("cannot load its file, keeping the previous entries (1 time):"),
        "{status}"
    );
    let said = daemon.rlctl(&["list", "lists"], "");
    assert!(
        said.stderr
            .contains("`…` is not an address, prefix or range"),
        "{said:?}"
    );
    daemon.write("drop.txt", "192.0.2.4\n");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    daemon.read_due();
    assert_eq!(daemon.entries(), "192.0.2.4");
    assert!(!ok(&daemon, &["status"]).contains("not taken"));
}
