//! Errors for wrong lines: position, problem and hint.

use super::*;

#[test]
fn a_bad_line_is_shown_with_its_place_and_what_to_write() {
    check(
        "192.0.2.1\n  10.0.0.1/8 # home\n",
        "list:2:3: host bits are set in `10.0.0.1/8`\n\
         2 |   10.0.0.1/8 # home\n  \
         |   ^^^^^^^^^^ write 10.0.0.0/8 or 10.0.0.1",
    );
    check(
        "192.0.2.1 x\n",
        "list:1:11: unexpected `x` after the address\n\
         1 | 192.0.2.1 x\n  \
         |           ^ write one address, prefix or range per line, comments after #",
    );
    check(
        "0.0.0.0/0\n",
        "list:1:1: `0.0.0.0/0` covers every address\n\
         1 | 0.0.0.0/0\n  \
         | ^^^^^^^^^ write narrower prefixes",
    );
}

#[test]
fn ten_bad_lines_are_shown_and_the_others_counted() {
    let lines: Vec<String> = (1..=12).map(|number| format!("  x{number}")).collect();
    let bad = read_text(&lines.join("\n")).unwrap().bad;
    let reported = bad.to_string();
    let reported: Vec<&str> = reported.lines().collect();
    assert_eq!((bad.count, reported.len()), (12, 31));
    assert!(
        reported[27].starts_with("list:10:3: `x10` is not an address"),
        "{reported:?}"
    );
    assert_eq!(reported[30], "and 2 more bad lines");
}

#[test]
fn bad_lines_of_ipset_are_reported() {
    first(
        "add a\n",
        "list:1:1: the entry is missing",
        "write add NAME 192.0.2.1",
    );
    first(
        "add a 192.0.2.1 timeout soon\n",
        "list:1:25: the timeout is not a number",
        "timeout 600",
    );
    first(
        "add a 192.0.2.1 timeout\n",
        "list:1:17: the timeout is not a number",
        "timeout 600",
    );
    first(
        "add a 192.0.2.1 color red\n",
        "list:1:17: unknown option `color`",
        "write timeout SECONDS",
    );
    first(
        "add a 192.0.2.0/24 nomatch\n",
        "list:1:7: 192.0.2.0/24 is an exception from the set (nomatch)",
        "rlctl allow add",
    );
    first(
        "create a hash:ip\nreplace a 192.0.2.1\n",
        "list:2:1: `replace` is not an ipset command",
        "only create, add and del matter",
    );
}

#[test]
fn bad_elements_of_nft_are_reported() {
    first(
        "add element inet t s { 192.0.2.1 . 22 }",
        "list:1:34: unexpected `.` after the address",
        "ipv4_addr or ipv6_addr",
    );
    first(
        "add element inet t s { 192.0.2.1 timeout soon }",
        "list:1:42: the timeout is not a duration",
        "1d2h30m",
    );
    first(
        "add element inet t s { 192.0.2.1,",
        "list:1:5: the elements of `s` have no end",
        "a } is missing",
    );
    first(
        "add element inet t s 192.0.2.1",
        "list:1:5: there are no elements of",
        "write them in braces",
    );
    first(
        "define A = { $B }",
        "list:1:14: `$B` is not an address",
        "write for example",
    );
}

#[test]
fn bad_json_is_reported_where_it_is() {
    first(
        "{\"nftables\": [{\"set\": {\"name\": \"s\", \"elem\": [\"192.0.2.1\", 22]}}]}",
        "list:1:59: this element is not an address",
        "keep sets of the type",
    );
    first(
        "{\"nftables\": [{\"set\": {\"name\": \"s\", \
         \"elem\": [{\"concat\": [\"192.0.2.1\", 22]}]}}]}",
        "list:1:46: this element is not an address",
        "keep sets of the type",
    );
    first(
        "{\"nftables\": [\n",
        "list:2:1: EOF while parsing",
        "ends too early",
    );
    first(
        "{\"cidr\":\"192.0.2.0/24\"}\n{\"sblid\":\"SBL1\"}\n",
        "list:2:1: there is no `cidr`",
        "write {\"cidr\"",
    );
    first(
        "{\"cidr\":\"192.0.2.0/24\"}\n{\"type\":\"metadata\",\"records\":2}\n",
        "list:2:1: the list claims 2 entries but has 1",
        "fetch it again",
    );
    first(
        "{\"prefix\":\"192.0.2.1\",\"untill\":1}\n",
        "list:1:30: unknown field `untill`",
        "write prefix, and where they are known",
    );
    first(
        "{\"prefix\":\"192.0.2.300\"}\n",
        "list:1:12: `192.0.2.300` is not an address",
        "write for example",
    );
    first(
        "[\n {\"value\": \"192.0.2.1\", \"duration\": \"soon\"}\n]",
        "list:2:13: `soon` is not a duration",
        "4h",
    );
}

#[test]
fn bad_rows_of_csv_are_reported() {
    first(
        "value,duration\n192.0.2.1\n",
        "list:2:1: the row has 1 fields, the header 2",
        "as many fields as the header has",
    );
    first(
        "value,duration\n,4h\n",
        "list:2:1: the address is missing",
        "under `value`",
    );
    first(
        "value,duration\n192.0.2.300,4h\n",
        "list:2:1: `192.0.2.300` is not an address",
        "write for example",
    );
}

#[test]
fn what_is_no_list_at_all_is_reported() {
    let error = read_text("<html>404</html>").unwrap_err();
    assert_eq!(error.error, "list: is a web page, not a list");
    let nothing = read_text("# nobody\n").unwrap();
    let refused = Acceptance::default().check("list", &nothing).unwrap_err();
    assert_eq!(refused.error, "list has no entries");
    let rules = read_text("-A INPUT -s 192.0.2.1 -p tcp -j DROP\n-P INPUT ACCEPT\n").unwrap();
    let refused = Acceptance::default().check("list", &rules).unwrap_err();
    assert_eq!(
        refused.error,
        "list has no entries; left out: 1 of a rule with other conditions"
    );
    let allowed = Acceptance {
        allow_empty: true,
        ..Acceptance::default()
    };
    assert_eq!(allowed.check("list", &nothing), Ok(()));
}

#[test]
fn bad_lines_keep_a_list_from_being_taken_unless_they_are_skipped() {
    let reading = read_text("192.0.2.1\nx\n").unwrap();
    assert!(Acceptance::default().check("list", &reading).is_err());
    let skip = Acceptance {
        skip_bad: true,
        ..Acceptance::default()
    };
    assert_eq!(skip.check("list", &reading), Ok(()));
    let only_bad = read_text("x\n").unwrap();
    assert!(skip.check("list", &only_bad).is_err());
}

fn check(text: &str, expected: &str) {
    assert_eq!(read_text(text).unwrap().bad.to_string(), expected);
}

/// The first bad line begins with `message`, and its hint has `hint`.
fn first(text: &str, message: &str, hint: &str) {
    let bad = read_text(text).unwrap().bad;
    let shown = bad
        .shown
        .first()
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(
        shown.starts_with(message) && shown.contains(hint),
        "{text}\n{shown}"
    );
    assert_eq!(bad.count, 1, "{bad}");
}
