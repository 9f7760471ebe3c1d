//! The output of `rlctl status`.

use std::collections::BTreeMap;

use ratelimit_core::{
    api::{
        ChallengeStatus, ClassView, ClockStatus, CrowdsecStatus, DamagedDatabase, DatabaseStatus,
        DnsChallengeStatus, InactiveLimits, Status,
    },
    config::ClockWish,
};

use super::{check_view, clock, status};
use crate::{
    Expected, check,
    daemon::{ScriptedDaemon, answers},
    moment, run,
};

#[test]
fn status_shows_interfaces_configuration_and_maps() {
    let (past, reported) = moment(-1);
    let stdout = format!(
        "ratelimitd 1.0.0, PID 812, up 10d 12h
configuration: /etc/ratelimit/config.toml, applied {reported}
clock: coarse (4ms tick; error <= 0.4%, largest for 1000 packets per 1s in policy default)
1 ban, 3 allows, 2 policies

INTERFACE  STATE         MODE
eth0       attached      generic (slower: the driver has no native mode)
eth1       NOT ATTACHED
eth1: there is no such interface

MAP        ENTRIES  CAPACITY  FULL   MEMORY
BANS_IPV4      512      1024   50%  1.5 MiB
STATES           -   1000000     -    640 B"
    );
    check(
        &["status", "--maps"],
        answers(&status(past)),
        &Expected {
            request: "GET /v1/status",
            stdout: &stdout,
            stderr: "",
            code: 6,
        },
    );
}

#[test]
fn status_shows_a_dry_run_and_a_refused_reload() {
    let (past, reported) = moment(-1);
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
        "ratelimitd 1.0.0, PID 812, up 10d 12h
configuration: from the command line, applied {reported}
the last reload failed; the previous configuration is still active:
config.toml:3:1: unknown key `limit`
3 | limit = 1
dry run: packets that would be dropped are counted and pass
clock: coarse as configured, too coarse: a 4ms tick gives 1000 packets per 1s in policy default an \
    error of up to 0.4%
1 ban, 3 allows, 2 policies

INTERFACE  STATE  MODE

MAP  ENTRIES  CAPACITY  FULL  MEMORY"
    );
    check_view(
        &["status", "--maps"],
        answers(&status),
        "GET /v1/status",
        &stdout,
    );
}

#[test]
fn status_shows_a_damaged_database() {
    let (past, reported) = moment(-1);
    let check_database = |database, lines: &str| {
        let status = Status {
            database,
            interfaces: Vec::new(),
            maps: Vec::new(),
            ..status(past)
        };
        let stdout = format!(
            "ratelimitd 1.0.0, PID 812, up 10d 12h
configuration: /etc/ratelimit/config.toml, applied {reported}
{lines}
clock: coarse (4ms tick; error <= 0.4%, largest for 1000 packets per 1s in policy default)
1 ban, 3 allows, 2 policies

INTERFACE  STATE  MODE

MAP  ENTRIES  CAPACITY  FULL  MEMORY"
        );
        check_view(
            &["status", "--maps"],
            answers(&status),
            "GET /v1/status",
            &stdout,
        );
    };
    let damaged = DamagedDatabase {
        file: "/var/lib/ratelimit/state.db.damaged-20260302T142207Z".to_owned(),
        error: "it is empty".to_owned(),
    };
    check_database(
        DatabaseStatus {
            damaged: Some(damaged),
            aside: 1,
            inactive: vec![],
        },
        "the database was damaged at startup: it is empty
moved to /var/lib/ratelimit/state.db.damaged-20260302T142207Z; all bans and allows of the kernel \
    were recovered, limits set at runtime are lost",
    );
    check_database(
        DatabaseStatus {
            damaged: None,
            aside: 2,
            inactive: vec![],
        },
        "2 damaged databases from earlier starts in the state directory",
    );
    let inactive = InactiveLimits {
        policy: "10.0.0.0/8".to_owned(),
        error: "there are too many".to_owned(),
    };
    check_database(
        DatabaseStatus {
            inactive: vec![inactive],
            ..DatabaseStatus::default()
        },
        "runtime limits of 10.0.0.0/8 are inactive: there are too many",
    );
}

#[test]
fn status_shows_classes_and_what_has_limits_besides_sources() {
    let (past, reported) = moment(-1);
    let class = r#"{"protocol": ["udp"], "source_ports": ["53"]}"#;
    let status = Status {
        config_files: Vec::new(),
        interfaces: Vec::new(),
        maps: Vec::new(),
        classes: vec![ClassView {
            name: "dns".to_owned(),
            class: serde_json::from_str(class).unwrap(),
            action: None,
        }],
        aggregates: vec!["ipv4/24".to_owned(), "ipv6/56".to_owned()],
        tunnels: vec!["gre".to_owned(), "vxlan:4789".to_owned()],
        destinations: 3,
        node: true,
        ..status(past)
    };
    let stdout = format!(
        "ratelimitd 1.0.0, PID 812, up 10d 12h
configuration: from the command line, applied {reported}
clock: coarse (4ms tick; error <= 0.4%, largest for 1000 packets per 1s in policy default)
1 ban, 3 allows, 2 policies
classes: dns (udp from port 53)
tunnels: packets in gre and vxlan:4789 count for the inner source
destinations with limits: 3
prefixes with a shared limit: ipv4/24 and ipv6/56
the node has limits

INTERFACE  STATE  MODE

MAP  ENTRIES  CAPACITY  FULL  MEMORY"
    );
    check_view(
        &["status", "--maps"],
        answers(&status),
        "GET /v1/status",
        &stdout,
    );
}

#[test]
fn status_says_in_words_who_is_challenged_and_who_is_limited_for_an_attack() {
    let (past, since) = moment(-1);
    let challenge = |when: &str, is_on| ChallengeStatus {
        when: when.to_owned(),
        to: None,
        classes: None,
        method: "rst".to_owned(),
        lasts_seconds: 600.0,
        answers_per_second: 1000,
        is_on,
        since: None,
        prefers_verified: false,
        verified: 0,
        unanswered_packets: 0,
        paused_until: None,
        dns: None,
    };
    let dns = |when: &str, is_on, since| DnsChallengeStatus {
        when: when.to_owned(),
        ports: vec![53],
        is_on,
        since,
    };
    let (always, never) = (challenge("always", true), challenge("never", false));
    let with = |challenge: &ChallengeStatus, dns| ChallengeStatus {
        dns: Some(dns),
        ..challenge.clone()
    };
    let on = format!("DNS clients: challenged over 9 packets/s at port 53: on since {since}");
    for (limited, challenge, lines) in [
        (
            1,
            with(&never, dns("over 9 packets/s", true, Some(past))),
            [
                "1 source temporarily limited: `rlctl list limits`",
                "TCP clients: never challenged; verified for 10m; up to 1000 answers/s",
                &on,
            ],
        ),
        (
            2,
            with(&always, dns("always", true, None)),
            [
                "2 sources temporarily limited: `rlctl list limits`",
                "TCP clients: always challenged by rst; verified for 10m; up to 1000 answers/s",
                "DNS clients: always challenged at port 53",
            ],
        ),
    ] {
        let status = Status {
            config_files: Vec::new(),
            interfaces: Vec::new(),
            maps: Vec::new(),
            limited,
            challenge: Some(challenge),
            ..status(past)
        };
        let daemon = ScriptedDaemon::start(answers(&status));
        let said = run(&daemon, &["status"], "", &[]);
        let said = String::from_utf8(said.stdout).unwrap();
        let told = said
            .lines()
            .filter(|line| line.contains("source") || line.contains("clients:"));
        assert_eq!(told.collect::<Vec<_>>(), lines);
    }
}

#[test]
fn status_says_whether_crowdsec_answers() {
    let (past, reported) = moment(-1);
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
        (
            crowdsec(None, None),
            "connecting to http://127.0.0.1:8080; 7 bans from the last run".to_owned(),
        ),
        (
            crowdsec(Some(true), None),
            format!("connected to http://127.0.0.1:8080 since {reported}; 7 bans"),
        ),
        (
            crowdsec(Some(true), Some("the map is full")),
            "connected to http://127.0.0.1:8080, cannot apply its decisions: the map is full; 7 \
             bans"
                .to_owned(),
        ),
        (
            crowdsec(Some(false), Some("connecting: Connection refused")),
            format!(
                "no answer from http://127.0.0.1:8080 since {reported}: connecting: Connection \
                 refused; 7 bans still in force"
            ),
        ),
    ];
    for (crowdsec, line) in cases {
        let status = Status {
            crowdsec: Some(crowdsec),
            ..status(past)
        };
        let output = run(
            &ScriptedDaemon::start(answers(&status)),
            &["status", "--maps"],
            "",
            &[],
        );
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = format!("CrowdSec: {line}");
        assert!(stdout.lines().any(|it| it == line), "{line}\n{stdout}");
    }
}

#[test]
fn rlctl_alone_is_status_and_tells_only_maps_that_are_nearly_full() {
    let (applied, applied_reported) = moment(-1);
    let map = |name: &str, entries| ratelimit_core::api::MapStatus {
        name: name.to_owned(),
        entries,
        capacity: 100,
        memory_bytes: 640,
    };
    let status = Status {
        maps: vec![
            map("LISTS_V4", Some(79)),
            map("LISTS_V6", Some(80)),
            map("STATES", None),
        ],
        config_files: Vec::new(),
        interfaces: Vec::new(),
        ..status(applied)
    };
    let stdout = format!(
        "ratelimitd 1.0.0, PID 812, up 10d 12h
configuration: from the command line, applied {applied_reported}
clock: coarse (4ms tick; error <= 0.4%, largest for 1000 packets per 1s in policy default)
1 ban, 3 allows, 2 policies
map LISTS_V6 is 80% full: `rlctl status --maps`

INTERFACE  STATE  MODE"
    );
    check_view(&[], answers(&status), "GET /v1/status", &stdout);
}
