//! The output of `rlctl list`.

use ratelimit_core::api::{Allow, EntryCounter, Origin, PolicyView, RuntimeEntry};

use serde_json::json;

use super::{ban, check_view, counter, policies};
use crate::{
    Expected, check,
    daemon::{Daemon, answers},
    moment,
};

#[test]
fn list_bans_shows_until_when_by_whom_and_why() {
    let ((since, since_reported), (until, until_reported)) = (moment(-1), moment(1));
    let mut forever = ban("2001:db8::/48", since);
    forever.origin = Origin::list("spamhaus");
    forever.author = "ratelimitd".into();
    forever.reason = None;
    let mut ten_days = ban("203.0.113.7", since);
    ten_days.until = Some(until);
    ten_days.counter = counter(1200, 72_000);
    let stdout = format!(
        "PREFIX         PACKETS  BYTES  UNTIL                LEFT     SINCE                \
    ORIGIN         BY          REASON
203.0.113.7       1200  72000  {until_reported}  10d 12h  {since_reported}  manual         \
    alice       port scan
2001:db8::/48        -      -  forever                       {since_reported}  list:spamhaus  \
    ratelimitd"
    );
    check_view(
        &["list", "bans", "--within", "::/0"],
        answers(&[ten_days, forever]),
        "GET /v1/bans?within=%3A%3A%2F0",
        &stdout,
    );
}

#[test]
fn list_bans_has_a_line_for_each_list_that_bans() {
    let (since, since_reported) = moment(-1);
    let list = |name: &str, action: &str, entries: usize| {
        json!({"name": name, "action": action, "entries": entries, "file": null,
            "every_seconds": null,
            "since": since, "read": null, "errors": 0, "error": null, "packets": 7, "bytes": 420})
    };
    let lists = json!([
        list("drop", "ban", 1402),
        list("empty", "ban", 0),
        list("friends", "allow", 5)
    ]);
    let daemon = Daemon::ByPath(vec![
        ("/v1/bans", "[]".to_owned()),
        ("/v1/lists", lists.to_string()),
    ]);
    let stdout = format!(
        "PREFIX         PACKETS  BYTES  UNTIL  LEFT  SINCE                ORIGIN     BY  REASON
1402 prefixes        7    420               {since_reported}  list:drop"
    );
    let requests = "GET /v1/bans\nGET /v1/lists";
    check_view(&["list", "bans"], daemon, requests, &stdout);
}

#[test]
fn list_bans_has_a_line_for_a_fold_and_none_for_its_bans_unless_asked() {
    let (since, since_reported) = moment(-1);
    let mut fold = ban("198.51.100.0/24", since);
    (fold.origin, fold.author, fold.folded) = (Origin::Folded, "folding".into(), Some(200));
    fold.reason = Some("at least 75 % of its sources are banned".into());
    let bans = [fold, ban("198.51.100.7", since), ban("198.51.101.1", since)];
    let line =
        |prefix: &str| format!("{prefix:17}      -      -  forever        {since_reported}  ");
    let head = "PREFIX           PACKETS  BYTES  UNTIL    LEFT  SINCE                \
                ORIGIN  BY       REASON";
    let fold = format!(
        "{}folded  folding  200 bans folded: at least 75 % of its sources are banned",
        line("198.51.100.0/24")
    );
    let single = |prefix| format!("{}manual  alice    port scan", line(prefix));
    let (inside, other) = (single("198.51.100.7"), single("198.51.101.1"));
    let daemon = Daemon::ByPath(vec![
        ("/v1/bans", serde_json::to_string(&bans).unwrap()),
        ("/v1/lists", "[]".to_owned()),
    ]);
    let requests = "GET /v1/bans\nGET /v1/lists";
    check_view(
        &["list", "bans"],
        daemon,
        requests,
        &format!("{head}\n{fold}\n{other}"),
    );
    check_view(
        &["list", "bans", "--within", "198.51.100.0/23"],
        answers(&bans),
        "GET /v1/bans?within=198.51.100.0%2F23",
        &format!("{head}\n{fold}\n{inside}\n{other}"),
    );
}

#[test]
fn an_empty_list_is_no_line_on_stdout() {
    check_empty("bans", "GET /v1/bans\nGET /v1/lists", "note: no bans");
    check_empty("allows", "GET /v1/allows", "note: the allow list is empty");
}

#[test]
fn list_allows_shows_until_when_by_whom_and_why() {
    let ((since, since_reported), (until, until_reported)) = (moment(-1), moment(1));
    let allows = [
        allow("192.0.2.10", None),
        Allow {
            until: Some(until),
            since: Some(since),
            reason: Some("monitoring".into()),
            author: Some("alice".into()),
            origin: Origin::Manual,
            counter: counter(7, 420),
            ..allow("198.51.100.0/24", None)
        },
    ];
    let stdout = format!(
        "PREFIX           PACKETS  BYTES  UNTIL                LEFT     SINCE                \
    BY      REASON
192.0.2.10             -      -  forever                                            config
198.51.100.0/24        7    420  {until_reported}  10d 12h  {since_reported}  alice   monitoring"
    );
    check_view(
        &["list", "allows"],
        answers(&allows),
        "GET /v1/allows",
        &stdout,
    );
}

#[test]
fn list_limits_shows_prefixes_and_limits_side_by_side() {
    let ((since, since_reported), (until, until_reported)) = (moment(-1), moment(1));
    let [mut default, partner] = policies();
    default.counter = counter(70, 4200);
    let runtime = |until, reason: Option<&str>| RuntimeEntry {
        until,
        since,
        reason: reason.map(Into::into),
        author: "alice".into(),
    };
    let policies = [
        default,
        PolicyView {
            runtime: Some(runtime(Some(until), Some("crawler"))),
            origin: Origin::Manual,
            selection: Some("country DE, AS64500".to_owned()),
            ..partner.clone()
        },
        PolicyView {
            name: "192.0.2.1".to_owned(),
            prefixes: vec!["192.0.2.1".parse().unwrap()],
            runtime: Some(runtime(None, None)),
            origin: Origin::Manual,
            ..partner
        },
    ];
    let stdout = &format!(
        "\
POLICY     PREFIX               LIMIT                       MODE     PACKETS  BYTES  \
    UNTIL                LEFT     SINCE                BY      REASON
default    all others           1000 packets per 1s         enforce       70   \
    4200                                                     config
                                50MB per 1s (fixed-window)
partner    203.0.113.0/24       unlimited                   observe        -      -  \
    {until_reported}  10d 12h  {since_reported}  alice   crawler
           2001:db8::/48
           country DE, AS64500
192.0.2.1  192.0.2.1            unlimited                   observe        -      -  \
    forever                       {since_reported}  alice"
    );
    check_view(
        &["list", "limits"],
        answers(&policies),
        "GET /v1/limits",
        stdout,
    );
}

fn check_empty(list: &str, request: &str, stderr: &str) {
    let (stdout, code) = ("", 0);
    let nothing: [(); 0] = [];
    check(
        &["list", list],
        answers(&nothing),
        &Expected {
            request,
            stdout,
            stderr,
            code,
        },
    );
}

fn allow(prefix: &str, since: Option<jiff::Timestamp>) -> Allow {
    Allow {
        prefix: prefix.parse().unwrap(),
        until: None,
        since,
        reason: None,
        author: None,
        origin: Origin::Config,
        counter: EntryCounter::default(),
    }
}
