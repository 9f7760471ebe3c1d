//! The verbs that show something.

use std::{collections::BTreeMap, time::Duration};

use ratelimit_daemon::{
    api::{
        Allow, AppliesTo, Ban, Check, ClassView, ClockStatus, CoarseError, Covering,
        CrowdsecStatus, DamagedDatabase, DatabaseStatus, Dropped, Entry, Event, InterfaceStatus,
        KernelClock, LimitState, MapStatus, Origin, PolicyView, StatsRow, Status, TopSource, What,
        WiderLimits,
    },
    class::Match,
    config::ClockWish,
    limit::{Algorithm, LimitSpec, LimitUnit},
};

use crate::{
    Expected, check,
    daemon::{Daemon, ScriptedDaemon, answers},
    moment,
};

#[test]
fn status_shows_interfaces_configuration_and_maps() {
    let (past, told) = moment(-1);
    let stdout = format!(
        "ratelimitd 0.1.0, process 812, running for 10d 12h
configuration: /etc/ratelimit/config.toml, applied {told}
clock: coarse, a tick of 4ms: no limit is wrong by more than 0.4%, which is 1000 packets per 1s in policy default
1 ban, 3 allows, 2 policies

INTERFACE  STATE         MODE
eth0       attached      generic (slower: the driver has no native mode)
eth1       NOT ATTACHED

MAP        ENTRIES  CAPACITY  FULL   MEMORY
BANS_IPV4      512      1024   50%  1.5 MiB
STATES           -   1000000     -    640 B"
    );
    check_view(
        &["status"],
        answers(&status(past)),
        "GET /v1/status",
        &stdout,
    );
}

#[test]
fn status_shows_a_dry_run_and_a_refused_reload() {
    let (past, told) = moment(-1);
    let status = Status {
        observe: true,
        config_files: Vec::new(),
        config_error: Some("config.toml:3:1: unknown key `limit`\n3 | limit = 1".to_owned()),
        interfaces: Vec::new(),
        maps: Vec::new(),
        clock: ClockStatus {
            wish: ClockWish::Coarse,
            suits: false,
            ..clock()
        },
        ..status(past)
    };
    let stdout = format!(
        "ratelimitd 0.1.0, process 812, running for 10d 12h
configuration: from the command line, applied {told}
the last reload was refused, the configuration before it holds:
config.toml:3:1: unknown key `limit`
3 | limit = 1
dry run: what would be dropped is counted and passes
clock: coarse as configured, which does not suit: a tick of 4ms makes 1000 packets per 1s in policy default wrong by up to 0.4%
1 ban, 3 allows, 2 policies

INTERFACE  STATE  MODE

MAP  ENTRIES  CAPACITY  FULL  MEMORY"
    );
    check_view(&["status"], answers(&status), "GET /v1/status", &stdout);
}

#[test]
fn status_shows_a_damaged_database() {
    let (past, told) = moment(-1);
    let check_database = |database, lines: &str| {
        let status = Status {
            database,
            interfaces: Vec::new(),
            maps: Vec::new(),
            ..status(past)
        };
        let stdout = format!(
            "ratelimitd 0.1.0, process 812, running for 10d 12h
configuration: /etc/ratelimit/config.toml, applied {told}
{lines}
clock: coarse, a tick of 4ms: no limit is wrong by more than 0.4%, which is 1000 packets per 1s in policy default
1 ban, 3 allows, 2 policies

INTERFACE  STATE  MODE

MAP  ENTRIES  CAPACITY  FULL  MEMORY"
        );
        check_view(&["status"], answers(&status), "GET /v1/status", &stdout);
    };
    let damaged = DamagedDatabase {
        file: "/var/lib/ratelimit/state.db.damaged-20260302T142207Z".to_owned(),
        error: "it is empty".to_owned(),
    };
    check_database(
        DatabaseStatus {
            damaged: Some(damaged),
            aside: 1,
        },
        "the database was damaged at the start: it is empty
it lies in /var/lib/ratelimit/state.db.damaged-20260302T142207Z; what is sound of it holds, and every ban and allow of the kernel",
    );
    check_database(
        DatabaseStatus {
            damaged: None,
            aside: 2,
        },
        "2 damaged databases of earlier starts beside the database",
    );
}

#[test]
fn list_bans_shows_until_when_by_whom_and_why() {
    let ((since, since_told), (until, until_told)) = (moment(-1), moment(1));
    let mut forever = ban("2001:db8::/48", since);
    forever.origin = Origin::list("spamhaus");
    forever.author = "ratelimitd".into();
    forever.reason = None;
    let mut ten_days = ban("203.0.113.7", since);
    ten_days.until = Some(until);
    let stdout = format!(
        "PREFIX         UNTIL                LEFT     SINCE                ORIGIN         BY          REASON
203.0.113.7    {until_told}  10d 12h  {since_told}  manual         alice       port scan
2001:db8::/48  forever                       {since_told}  list:spamhaus  ratelimitd"
    );
    check_view(
        &["list", "bans"],
        answers(&[ten_days, forever]),
        "GET /v1/bans",
        &stdout,
    );
}

#[test]
fn an_empty_list_is_no_line_on_stdout() {
    check_empty("bans", "note: nobody is banned");
    check_empty("allows", "note: nobody is on the allow list");
}

#[test]
fn list_allows_and_allow_list_show_the_same() {
    let (since, told) = moment(-1);
    let allows = [
        allow("192.0.2.10", None),
        Allow {
            since: Some(since),
            reason: Some("monitoring".to_owned()),
            author: Some("alice".to_owned()),
            origin: Origin::Manual,
            ..allow("198.51.100.0/24", None)
        },
    ];
    let stdout = format!(
        "PREFIX           SINCE                BY      REASON
192.0.2.10                            config
198.51.100.0/24  {told}  alice   monitoring"
    );
    check_view(
        &["list", "allows"],
        answers(&allows),
        "GET /v1/allows",
        &stdout,
    );
    check_view(
        &["allow", "list"],
        answers(&allows),
        "GET /v1/allows",
        &stdout,
    );
}

#[test]
fn list_limits_shows_prefixes_and_limits_side_by_side() {
    let stdout = "\
POLICY   PREFIX          LIMIT                MODE     BY
default  all others      1000 packets per 1s  enforce  config
                         50MB per 1s
partner  203.0.113.0/24  unlimited            observe  rlctl
         2001:db8::/48";
    check_view(
        &["list", "limits"],
        answers(&policies()),
        "GET /v1/limits",
        stdout,
    );
    check_view(
        &["limit", "list"],
        answers(&policies()),
        "GET /v1/limits",
        stdout,
    );
}

#[test]
fn check_of_a_banned_address_ends_with_3_and_tells_the_ban() {
    let ((since, since_told), (until, until_told)) = (moment(-1), moment(1));
    let mut ban = ban("203.0.113.0/24", since);
    ban.until = Some(until);
    let mut beneath = ban.clone();
    beneath.prefix = "203.0.0.0/16".parse().unwrap();
    (beneath.until, beneath.reason) = (None, None);
    beneath.origin = Origin::Crowdsec;
    let entry = |entry, decides| Covering { entry, decides };
    let policy = |prefix: Option<&str>| Entry::Policy {
        policy: "partner".to_owned(),
        prefix: prefix.map(|prefix| prefix.parse().unwrap()),
    };
    let covering = vec![
        entry(Entry::Ban(ban.clone()), true),
        entry(Entry::Ban(beneath), false),
        entry(policy(Some("203.0.113.0/24")), false),
        entry(policy(None), false),
    ];
    let drop = Event {
        number: 7,
        at: since,
        what: What::Drop(Dropped {
            source: [203, 0, 113, 7].into(),
            reason: "banned".to_owned(),
            observed: false,
            policy: None,
            limit: None,
            interface: "eth0".to_owned(),
        }),
    };
    let answer = Check {
        covering,
        last_drops: vec![drop],
        action: "drop".to_owned(),
        reason: "banned".to_owned(),
        rule: Some(ban.prefix),
        until: Some(until),
        ban: Some(ban),
        refused_packets: 12,
        refused_last: Some(since),
        ..passing("203.0.113.7")
    };
    let stdout = format!(
        "packets from 203.0.113.7 are dropped (banned)
rule: the ban of 203.0.113.0/24
until: {until_told} (10d 12h left)
banned: by alice, since {since_told}
why: port scan
beneath: the ban of 203.0.0.0/16 by CrowdSec (alice), forever: nobody said why
beneath: the policy `partner`, which is for 203.0.113.0/24
limit: 1000 packets per 1s: 37 used, the window closes in 0.4s
limit: 50MB per 1s: nothing used
refused: 12 packets by limits, the last at {since_told}
seen: {since_told} dropped 203.0.113.7 on eth0: banned"
    );
    check_blocked(answers(&answer), &stdout);
}

#[test]
fn check_tells_the_limits_that_a_source_shares() {
    let mut limits = limits();
    limits.truncate(1);
    let syn = limits[0].limit.clone();
    let mut of_syn = limits.clone();
    of_syn[0].limit = syn.of_class(Match::Named("tcp-syn".to_owned()));
    let prefix = "203.0.113.0/24".parse().unwrap();
    let wider = |prefix, observe, limits| WiderLimits {
        prefix,
        observe,
        limits,
    };
    let answer = Check {
        action: "drop".to_owned(),
        reason: "aggregate-limited".to_owned(),
        limits: Vec::new(),
        wider: vec![
            wider(Some(prefix), false, limits),
            wider(None, true, of_syn),
        ],
        ..passing("203.0.113.7")
    };
    let stdout = "packets from 203.0.113.7 are dropped (aggregate-limited)
rule: the limits that a prefix around it has, for all of its sources
limit of all of 203.0.113.0/24: 1000 packets per 1s: 37 used, the window closes in 0.4s
limit of the node, with what CPUs have drawn ahead (dry run): 1000 packets per 1s of tcp-syn: 37 used, the window closes in 0.4s
refused: nothing that is remembered";
    check_blocked(answers(&answer), stdout);
}

#[test]
fn status_shows_classes_and_what_has_limits_besides_sources() {
    let (past, told) = moment(-1);
    let class = r#"{"protocol": ["udp"], "source_ports": ["53"]}"#;
    let status = Status {
        config_files: Vec::new(),
        interfaces: Vec::new(),
        maps: Vec::new(),
        classes: vec![ClassView {
            name: "dns".to_owned(),
            class: serde_json::from_str(class).unwrap(),
        }],
        aggregates: vec!["ipv4/24".to_owned(), "ipv6/56".to_owned()],
        node: true,
        ..status(past)
    };
    let stdout = format!(
        "ratelimitd 0.1.0, process 812, running for 10d 12h
configuration: from the command line, applied {told}
clock: coarse, a tick of 4ms: no limit is wrong by more than 0.4%, which is 1000 packets per 1s in policy default
1 ban, 3 allows, 2 policies
classes: dns (udp from port 53)
wider prefixes with limits: ipv4/24 and ipv6/56
the node has limits

INTERFACE  STATE  MODE

MAP  ENTRIES  CAPACITY  FULL  MEMORY"
    );
    check_view(&["status"], answers(&status), "GET /v1/status", &stdout);
}

#[test]
fn status_says_whether_crowdsec_answers() {
    let (past, told) = moment(-1);
    let crowdsec = |connected, error: Option<&str>| CrowdsecStatus {
        url: "http://127.0.0.1:8080".to_owned(),
        connected,
        since: past,
        pulled: None,
        error: error.map(str::to_owned),
        bans: 7,
        decisions: 8,
        pulls: 1,
        failures: 0,
        ignored: BTreeMap::new(),
    };
    let cases = [
        (crowdsec(None, None), "asking http://127.0.0.1:8080; 7 bans from before".to_owned()),
        (
            crowdsec(Some(true), None),
            format!("http://127.0.0.1:8080 answers since {told}; 7 bans"),
        ),
        (
            crowdsec(Some(true), Some("the map is full")),
            "http://127.0.0.1:8080 answers, its decisions cannot be put in force: the map is full; 7 bans".to_owned(),
        ),
        (
            crowdsec(Some(false), Some("connecting: Connection refused")),
            format!(
                "no answer from http://127.0.0.1:8080 since {told}: connecting: Connection refused; 7 bans stay"
            ),
        ),
    ];
    for (crowdsec, line) in cases {
        let status = Status {
            crowdsec: Some(crowdsec),
            ..status(past)
        };
        let output = crate::run(
            &ScriptedDaemon::start(answers(&status)),
            &["status"],
            "",
            &[],
        );
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = format!("CrowdSec: {line}");
        assert!(stdout.lines().any(|it| it == line), "{line}\n{stdout}");
    }
}

#[test]
fn check_of_a_limited_address_ends_with_3_and_tells_the_full_limit() {
    let mut answer = Check {
        action: "drop".to_owned(),
        reason: "limited".to_owned(),
        refused_packets: 7,
        ..passing("203.0.113.7")
    };
    answer.limits[0].used = 1000;
    answer.limits[0].room_in_seconds = 0.4;
    let stdout = "\
packets from 203.0.113.7 are dropped (limited)
rule: the policy `default`, as for every source without one of its own
limit: 1000 packets per 1s: 1000 used, room in 0.4s, the window closes in 0.4s
limit: 50MB per 1s: nothing used
refused: 7 packets by limits";
    check_blocked(answers(&answer), stdout);
}

#[test]
fn check_tells_the_level_of_each_algorithm() {
    let state = |unit, algorithm, used, room| LimitState {
        limit: LimitSpec::new(50_000, unit, Duration::from_secs(1), algorithm).unwrap(),
        used,
        room_in_seconds: room,
        clears_in_seconds: 1.5,
    };
    let bucket = Algorithm::TokenBucket { burst: 100_000 };
    let answer = Check {
        limits: vec![
            state(LimitUnit::Packets, Algorithm::SlidingWindow, 7, 0.0),
            state(LimitUnit::Packets, Algorithm::SlidingWindow, 50_000, 0.2),
            state(LimitUnit::Bytes, bucket, 60_000, 0.0),
            LimitState {
                limit: LimitSpec::new(
                    5,
                    LimitUnit::Packets,
                    Duration::from_mins(1),
                    Algorithm::SlidingLog,
                )
                .unwrap(),
                ..state(LimitUnit::Packets, bucket, 5, 12.0)
            },
            state(LimitUnit::Bytes, bucket, 99_000, 0.1),
        ],
        ..passing("203.0.113.7")
    };
    let stdout = "\
packets from 203.0.113.7 pass (conforming)
rule: the policy `default`, as for every source without one of its own
limit: 50000 packets per 1s (sliding-window): 7 used, all forgotten in 1.5s
limit: 50000 packets per 1s (sliding-window): 50000 used, room in 0.2s, all forgotten in 1.5s
limit: 50kB per 1s (token-bucket, burst 100kB): 60kB of 100kB used, the bucket is full again in 1.5s
limit: 5 packets per 1m (sliding-log): 5 used, room in 12.0s, all forgotten in 1.5s
limit: 50kB per 1s (token-bucket, burst 100kB): 99kB of 100kB used, room in 0.1s, the bucket is full again in 1.5s
refused: nothing that is remembered";
    let request = "GET /v1/check/203.0.113.7";
    check_view(&["check", "203.0.113.7"], answers(&answer), request, stdout);
}

#[test]
fn check_of_an_address_that_passes_ends_with_0() {
    let answer = Check {
        source: "2001:db8::/64".parse().unwrap(),
        rule: Some("2001:db8::/48".parse().unwrap()),
        policy: "partner".to_owned(),
        limits: Vec::new(),
        ..passing("2001:db8::1")
    };
    let stdout = "\
packets from 2001:db8::1 pass (conforming)
source: it counts as one of 2001:db8::/64
rule: the policy `partner`, which is for 2001:db8::/48
refused: nothing that is remembered";
    let request = "GET /v1/check/2001:db8::1";
    check_view(&["check", "2001:db8::1"], answers(&answer), request, stdout);
}

#[test]
fn check_of_an_allowed_address_tells_the_entry() {
    let answer = Check {
        reason: "allowed".to_owned(),
        rule: Some("203.0.113.0/24".parse().unwrap()),
        limits: Vec::new(),
        ..passing("203.0.113.7")
    };
    let stdout = "\
packets from 203.0.113.7 pass (allowed)
rule: the allow list has 203.0.113.0/24
refused: nothing that is remembered";
    let request = "GET /v1/check/203.0.113.7";
    check_view(&["check", "203.0.113.7"], answers(&answer), request, stdout);
}

#[test]
fn check_under_a_dry_run_ends_with_0() {
    let answer = Check {
        action: "observe".to_owned(),
        reason: "limited".to_owned(),
        limits: Vec::new(),
        ..passing("203.0.113.7")
    };
    let stdout = "\
packets from 203.0.113.7 pass, but only because of the dry run: they would be dropped (limited)
rule: the policy `default`, as for every source without one of its own
refused: nothing that is remembered";
    let request = "GET /v1/check/203.0.113.7";
    check_view(&["check", "203.0.113.7"], answers(&answer), request, stdout);
}

#[test]
fn top_shows_how_much_of_their_limits_sources_have_used() {
    let sources = [
        top("203.0.113.7", Some(limits().remove(0)), 12),
        top("2001:db8::/64", None, 0),
    ];
    let stdout = "\
SOURCE         POLICY   LIMIT                USED  %  REFUSED
203.0.113.7    default  1000 packets per 1s    37  3       12
2001:db8::/64  default                                      0";
    check_view(&["top"], answers(&sources), "GET /v1/top?count=20", stdout);
    let request = "GET /v1/top?count=2";
    check_view(&["top", "--count", "2"], answers(&sources), request, stdout);
}

#[test]
fn stats_hides_what_did_not_happen_unless_asked() {
    let rows = [
        counter("pass", "conforming", 123_456),
        counter("drop", "banned", 0),
        counter("drop", "limited", 7),
    ];
    let short = "\
INTERFACE  FAMILY  ACTION  REASON      PACKETS     BYTES
eth0       ipv4    pass    conforming   123456  12345600
eth0       ipv4    drop    limited           7       700";
    check_view(&["stats"], answers(&rows), "GET /v1/stats", short);
    let long = "\
INTERFACE  FAMILY  ACTION  REASON      PACKETS     BYTES
eth0       ipv4    pass    conforming   123456  12345600
eth0       ipv4    drop    banned            0         0
eth0       ipv4    drop    limited           7       700";
    check_view(&["stats", "--all"], answers(&rows), "GET /v1/stats", long);
}

fn check_view(arguments: &[&str], daemon: Daemon, request: &str, stdout: &str) {
    let (stderr, code) = ("", 0);
    check(
        arguments,
        daemon,
        &Expected {
            request,
            stdout,
            stderr,
            code,
        },
    );
}

fn check_empty(list: &str, stderr: &str) {
    let request = &format!("GET /v1/{list}");
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

fn check_blocked(daemon: Daemon, stdout: &str) {
    let request = "GET /v1/check/203.0.113.7";
    let (stderr, code) = ("", 3);
    check(
        &["check", "203.0.113.7"],
        daemon,
        &Expected {
            request,
            stdout,
            stderr,
            code,
        },
    );
}

pub fn status(past: jiff::Timestamp) -> Status {
    let interface = |name: &str, mode: Option<&str>| InterfaceStatus {
        name: name.to_owned(),
        attached: mode.is_some(),
        mode_wanted: "auto".to_owned(),
        mode: mode.map(str::to_owned),
    };
    let map = |name: &str, entries, capacity, memory_bytes| MapStatus {
        name: name.to_owned(),
        entries,
        capacity,
        memory_bytes,
    };
    Status {
        limited: 0,
        version: "0.1.0".to_owned(),
        pid: 812,
        started: past,
        config_files: vec!["/etc/ratelimit/config.toml".to_owned()],
        config_applied: past,
        config_error: None,
        observe: false,
        clock: clock(),
        interfaces: vec![interface("eth0", Some("generic")), interface("eth1", None)],
        maps: vec![
            map("BANS_IPV4", Some(512), 1024, 1_572_864),
            map("STATES", None, 1_000_000, 640),
        ],
        new_sources: None,
        bans: 1,
        detected_bans: 0,
        attacks: vec![],
        allows: 3,
        lists: Vec::new(),
        policies: 2,
        classes: Vec::new(),
        aggregates: Vec::new(),
        node: false,
        crowdsec: None,
        protected: 0,
        pass_all: None,
        attempt: None,
        database: DatabaseStatus::default(),
    }
}

fn clock() -> ClockStatus {
    let window = Duration::from_secs(1);
    let limit = LimitSpec::new(1000, LimitUnit::Packets, window, Algorithm::FixedWindow);
    ClockStatus {
        clock: KernelClock::Coarse,
        wish: ClockWish::Auto,
        tick_seconds: 0.004,
        suits: true,
        decides: Some(CoarseError {
            policy: "default".to_owned(),
            limit: limit.unwrap(),
            error: 0.004,
        }),
    }
}

fn ban(prefix: &str, since: jiff::Timestamp) -> Ban {
    Ban {
        prefix: prefix.parse().unwrap(),
        until: None,
        since,
        reason: Some("port scan".into()),
        author: "alice".into(),
        origin: Origin::Manual,
    }
}

fn allow(prefix: &str, since: Option<jiff::Timestamp>) -> Allow {
    Allow {
        prefix: prefix.parse().unwrap(),
        since,
        reason: None,
        author: None,
        origin: Origin::Config,
    }
}

fn policies() -> [PolicyView; 2] {
    let default = PolicyView {
        name: "default".to_owned(),
        prefixes: Vec::new(),
        limits: limits().iter().map(|state| state.limit.clone()).collect(),
        observe: false,
        ban: None,
        applies_to: AppliesTo::Source,
        origin: Origin::Config,
    };
    let partner = PolicyView {
        name: "partner".to_owned(),
        prefixes: vec![
            "203.0.113.0/24".parse().unwrap(),
            "2001:db8::/48".parse().unwrap(),
        ],
        limits: Vec::new(),
        observe: true,
        ban: None,
        applies_to: AppliesTo::Source,
        origin: Origin::Manual,
    };
    [default, partner]
}

fn passing(address: &str) -> Check {
    Check {
        limited: None,
        address: address.parse().unwrap(),
        source: address.parse().unwrap(),
        action: "pass".to_owned(),
        reason: "conforming".to_owned(),
        rule: None,
        until: None,
        ban: None,
        lists: Vec::new(),
        policy: "default".to_owned(),
        limits: limits(),
        wider: Vec::new(),
        covering: Vec::new(),
        last_drops: Vec::new(),
        strikes: None,
        new_sources: None,
        refused_packets: 0,
        refused_last: None,
    }
}

fn limits() -> Vec<LimitState> {
    let state = |amount, unit, used| LimitState {
        limit: LimitSpec::new(amount, unit, Duration::from_secs(1), Algorithm::FixedWindow)
            .unwrap(),
        used,
        room_in_seconds: 0.0,
        clears_in_seconds: 0.4,
    };
    vec![
        state(1000, LimitUnit::Packets, 37),
        state(50_000_000, LimitUnit::Bytes, 0),
    ]
}

fn top(source: &str, limit: Option<LimitState>, refused_packets: u64) -> TopSource {
    TopSource {
        source: source.parse().unwrap(),
        policy: "default".to_owned(),
        limit,
        refused_packets,
    }
}

fn counter(action: &str, reason: &str, packets: u64) -> StatsRow {
    StatsRow {
        interface: "eth0".to_owned(),
        family: "ipv4".to_owned(),
        action: action.to_owned(),
        reason: reason.to_owned(),
        packets,
        bytes: packets * 100,
    }
}
