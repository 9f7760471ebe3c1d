//! `rlctl export`, and back again.

use super::*;

#[test]
fn what_is_exported_and_imported_again_changes_nothing() {
    let daemon = Daemon::start("", &[]);
    ok(&daemon, &["ban", "192.0.2.1", "--reason", "a \"scan\""]);
    ok(&daemon, &["ban", "2001:db8::/48", "--for", "10d"]);
    ok(&daemon, &["allow", "add", "192.0.2.99"]);
    daemon.rlctl(
        &["import", "-", "--list", "bad"],
        "198.51.100.0/24 ; SBL1\n",
    );
    let (entries, exported) = (daemon.entries(), daemon.rlctl(&["export"], "").stdout);
    assert_eq!(exported.lines().count(), 4);
    let said = daemon.rlctl(&["import", "-"], &exported);
    check(
        &said,
        0,
        "bans: +0 -0 =2\nallows: +0 -0 =1\nlist:bad: +0 -0 =1",
        "note: format JSON lines; covers 256 public addresses of IPv4 (less than 0.01 %)",
    );
    assert_eq!(daemon.entries(), entries);
    assert_eq!(
        without_ends(&daemon.rlctl(&["export"], "").stdout),
        without_ends(&exported)
    );
}

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

/// Lines of JSON without the ends of bans, which are told to the millisecond by another clock than they are kept.
fn without_ends(lines: &str) -> Vec<serde_json::Value> {
    let lines = lines.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("until");
        value
    });
    lines.collect()
}
