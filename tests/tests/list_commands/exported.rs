//! `rlctl export`, and back again.

use super::*;

#[test]
fn plain_lines_are_for_other_tools() {
    let daemon = Daemon::start("", &[]);
    ok(&daemon, &["ban", "192.0.2.1", "--reason", "a scan"]);
    ok(&daemon, &["ban", "2001:db8::/48"]);
    assert_eq!(
        ok(&daemon, &["export", "--bans", "--format", "plain"]),
        "192.0.2.1 # a scan\n2001:db8::/48"
    );
    assert_eq!(ok(&daemon, &["export", "--allows"]), "");
}

#[test]
fn a_list_that_is_not_there_is_not_exported() {
    let daemon = Daemon::start("", &[]);
    check(
        &daemon.rlctl(&["export", "--list", "bad"], ""),
        1,
        "",
        "error: no list `bad`\nhint: see `rlctl list lists`",
    );
}
