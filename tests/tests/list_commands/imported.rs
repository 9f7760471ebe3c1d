//! `rlctl import`, `rlctl list lists`, and lists in other commands.

use super::*;

const DROP: &str = "; Spamhaus DROP List 2026/10/08\n\
                    1.10.16.0/20 ; SBL256894\n\
                    1.10.16.0/24 ; SBL1\n\
                    1.19.0.0/16 ; SBL434604\n";

#[test]
fn a_list_is_imported_and_replaced() {
    let daemon = Daemon::start("", &[("drop.txt", DROP)]);
    check(
        &daemon.rlctl(&["import", "$DIR/drop.txt", "--list", "spamhaus"], ""),
        0,
        "list:spamhaus: +2 -0 =0",
        "note: format Spamhaus DROP text; covers 69632 public addresses of IPv4 (less than 0.01 \
         %)\n\
         note: 1 entry inside a wider one merged",
    );
    assert_eq!(daemon.entries(), "1.10.16.0/20 1.19.0.0/16");
    check(
        &daemon.rlctl(
            &["import", "-", "--list", "spamhaus"],
            "1.19.0.0/16 # SBL434604\n192.0.2.1\n",
        ),
        0,
        "list:spamhaus: +1 -1 =1",
        "note: format plain; covers 65537 public addresses of IPv4 (less than 0.01 %)",
    );
    assert_eq!(daemon.entries(), "1.19.0.0/16 192.0.2.1");
}

#[test]
fn an_import_makes_no_ban_shorter_and_says_so() {
    let daemon = Daemon::start(
        "",
        &[("list", "192.0.2.1\n192.0.2.2\n2001:db8::/64\n192.0.2.3\n")],
    );
    daemon.rlctl(&["ban", "192.0.2.1", "--forever"], "");
    daemon.rlctl(&["ban", "2001:db8::/64", "--for", "2h"], "");
    daemon.rlctl(&["ban", "192.0.2.3", "--for", "10s"], "");
    let import = ["import", "$DIR/list", "--ban", "--for", "1m"];
    check(
        &daemon.rlctl(&import, ""),
        0,
        "bans: +1 -0 ~1 =0",
        "note: format plain; covers 2 public addresses of IPv4 (less than 0.01 %)\n\
         note: 2 existing bans last longer and were kept",
    );
    let bans = daemon.rlctl(&["--json", "list", "bans"], "").stdout;
    let bans: Vec<ratelimit_core::api::Ban> = serde_json::from_str(&bans).unwrap();
    let left = bans.iter().map(|ban| {
        let until = ban.until?;
        // An end is reported in milliseconds, and is counted from when the ban is made.
        let lasts = until.duration_since(ban.since);
        Some(lasts.round(jiff::Unit::Second).unwrap().as_secs())
    });
    let left: Vec<_> = left.collect();
    assert_eq!(left, [None, Some(60), Some(60), Some(7200)], "{bans:?}");
}

#[test]
fn a_bad_line_keeps_all_of_it_out_unless_it_is_skipped() {
    let daemon = Daemon::start("", &[("list", "192.0.2.1\n10.0.0.1/8 # home\n")]);
    check(
        &daemon.rlctl(&["import", "$DIR/list"], ""),
        2,
        "",
        "error: $DIR/list:2:1: host bits are set in `10.0.0.1/8`\n\
         2 | 10.0.0.1/8 # home\n  \
         | ^^^^^^^^^^ write 10.0.0.0/8 or 10.0.0.1\n\
         hint: nothing was imported; fix them, or skip them with --skip-bad or skip_bad = true",
    );
    assert_eq!(daemon.entries(), "");
    let said = daemon.rlctl(&["import", "$DIR/list", "--skip-bad"], "");
    assert_eq!(said.stdout, "bans: +1 -0 =0");
    assert!(
        said.stderr
            .contains("note: 1 bad line skipped:\n$DIR/list:2:1:"),
        "{said:?}"
    );
    assert_eq!(daemon.entries(), "192.0.2.1");
}

#[test]
fn a_list_that_covers_too_much_is_taken_only_when_it_is_meant() {
    let daemon = Daemon::start("", &[]);
    ok_with(&daemon, &["import", "-", "--list", "a"], "192.0.2.0/24\n");
    let wide: Vec<String> = (1..40).map(|first| format!("{first}.0.0.0/8")).collect();
    let wide = wide.join("\n");
    let import = ["import", "-", "--list", "a"];
    for words in [&import[..], &[&import[..], &["--dry-run"]].concat()] {
        check(
            &daemon.rlctl(words, &wide),
            1,
            "",
            "error: the list a covers 14.8 % of IPv4, more than 1/64\n\
             hint: nothing was imported; check the list, and if it is right: --allow-wide, or \
             allow_wide = true",
        );
    }
    let grown = daemon.rlctl(&import, "198.18.0.0/16\n");
    assert!(
        grown.stderr.contains("more than 10 times as much"),
        "{grown:?}"
    );
    let said = daemon.rlctl(&["import", "-", "--ban"], &wide);
    assert!(
        said.stderr.contains("the list covers 14.8 % of IPv4"),
        "{said:?}"
    );
    assert_eq!(daemon.entries(), "192.0.2.0/24");
    ok_with(&daemon, &[&import[..], &["--allow-wide"]].concat(), &wide);
    // A list that covers no more than before needs no permission.
    ok_with(&daemon, &import, &wide);
    ok(&daemon, &["export"]);
}

#[test]
fn a_list_says_who_put_it_there() {
    let daemon = Daemon::start("", &[]);
    ok_with(
        &daemon,
        &["import", "-", "--list", "a"],
        "192.0.2.1\n192.0.2.2\n",
    );
    ok_with(
        &daemon,
        &["import", "-", "--list", "a"],
        "192.0.2.1\n192.0.2.3\n",
    );
    let events = ok(&daemon, &["events", "--last", "2"]);
    let lines: Vec<&str> = events.lines().collect();
    assert!(
        lines[0].contains("added list a by root: 2 entries"),
        "{events}"
    );
    assert!(
        lines[1].contains("loaded list a by root: 2 entries, 2 changed"),
        "{events}"
    );
}

#[test]
fn entries_of_json_and_of_rules_are_reported_with_what_was_chosen() {
    let daemon = Daemon::start("", &[]);
    check(
        &daemon.rlctl(
            &["import", "-", "--list", "a", "--json-path", "dst"],
            r#"[{"src":"192.0.2.1","dst":"198.51.100.1"}]"#,
        ),
        0,
        "list:a: +1 -0 =0",
        "note: format JSON; covers 1 public address of IPv4 (less than 0.01 %)\n\
         note: addresses from dst; --json-path chooses others",
    );
    check(
        &daemon.rlctl(
            &["import", "-", "--list", "b", "--min-count", "3"],
            "192.0.2.1\t3\n192.0.2.2\t2\n",
        ),
        0,
        "list:b: +1 -0 =0",
        "note: format plain; covers 1 public address of IPv4 (less than 0.01 %)\n\
         note: 1 entry skipped: seen fewer than 3 times",
    );
}

#[test]
fn lists_shows_them_and_takes_one_away() {
    let daemon = Daemon::start("", &[]);
    check(
        &daemon.rlctl(&["list", "lists"], ""),
        0,
        "",
        "note: no lists",
    );
    ok_with(
        &daemon,
        &["import", "-", "--list", "offices", "--action", "allow"],
        "192.0.2.1\n",
    );
    let table = ok(&daemon, &["list", "lists"]);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["offices", "allow", "1"]);
    assert_eq!(row[row.len() - 1], "imported");
    assert_eq!(
        ok(&daemon, &["import", "--remove", "offices"]),
        "removed list offices with 1 entry"
    );
    assert_eq!(daemon.entries(), "");
    let said = daemon.rlctl(&["import", "--remove", "offices"], "");
    assert_eq!(
        (said.code, said.stderr.lines().next()),
        (1, Some("error: no list `offices`"))
    );
}

#[test]
fn a_long_list_is_one_request() {
    let daemon = Daemon::start("", &[]);
    let list: Vec<String> = (0..20_000_u32)
        .map(|n| std::net::Ipv4Addr::from_bits(0x0a00_0000 + 2 * n).to_string())
        .collect();
    let list = list.join("\n");
    let said = daemon.rlctl(&["import", "-", "--list", "big"], &list);
    check(
        &said,
        0,
        "list:big: +20000 -0 =0",
        "note: format plain; covers 0 public addresses of IPv4 (0 %)",
    );
    let exported = daemon.rlctl(&["export", "--list", "big", "--format", "plain"], "");
    assert_eq!(exported.stdout, list.trim_end());
}

fn ok_with(daemon: &Daemon, words: &[&str], stdin: &str) {
    let said = daemon.rlctl(words, stdin);
    assert_eq!(said.code, 0, "{words:?}: {said:?}");
}
