//! Completions of a shell after Tab.

use super::*;

#[test]
fn a_shell_proposes_verbs_and_the_lists_that_there_are() {
    let list = "[list.drop]\nfile = \"$DIR/drop.txt\"\n";
    let files = [("drop.txt", "192.0.2.1\n"), ("other.txt", "192.0.2.2\n")];
    let daemon = Daemon::start(list, &files);
    ok(&daemon, &["import", "$DIR/other.txt", "--list", "dragnet"]);
    assert_eq!(daemon.completed("rlctl un"), ["unban"]);
    assert_eq!(daemon.completed("rlctl import --remove dr"), ["dragnet"]);
    assert_eq!(
        daemon.completed("rlctl export --list dr"),
        ["dragnet", "drop"]
    );
    assert_eq!(
        daemon.completed("rlctl ban --f"),
        ["--for", "--forever", "--force"]
    );
}

#[test]
fn a_shell_proposes_the_prefixes_that_a_verb_can_be_about() {
    let daemon = Daemon::start("", &[]);
    ok(&daemon, &["ban", "192.0.2.1", "198.51.100.1"]);
    let limit = ["limit", "set", "--packets", "5", "--per", "1s", "--prefix"];
    ok(&daemon, &[&limit[..], &["203.0.113.0/24"]].concat());
    assert_eq!(
        daemon.completed("rlctl unban 19"),
        ["192.0.2.1", "198.51.100.1"]
    );
    for verb in ["set", "rm"] {
        let line = format!("rlctl limit {verb} --prefix 2");
        assert_eq!(daemon.completed(&line), ["203.0.113.0/24"]);
    }
}

#[test]
fn a_shell_proposes_interfaces() {
    let daemon = Daemon::start("", &[]);
    for line in ["rlctl doctor l", "rlctl check 192.0.2.1 --iface l"] {
        let proposed = daemon.completed(line);
        assert!(proposed.contains(&"lo".to_owned()), "{line}: {proposed:?}");
    }
}
