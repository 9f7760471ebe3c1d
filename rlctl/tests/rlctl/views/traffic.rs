//! The output of `rlctl top` and `stats`.

use ratelimit_core::{
    api::{LimitState, StatsRow, TopSource, WiderLimits},
    detection::Sending,
};

use super::{check_view, limits};
use crate::{
    daemon::{ScriptedDaemon, answers},
    run,
};

#[test]
fn top_shows_how_much_of_their_limits_sources_have_used() {
    let sending = Sending {
        class: "udp".to_owned(),
        to_port: Some(9_999),
        from_port: None,
        packets_per_second: 15_000,
    };
    let sources = [
        TopSource {
            sending: Some(sending),
            ..top("203.0.113.7", Some(limits().remove(0)), 12)
        },
        top("2001:db8::/64", None, 0),
    ];
    let stdout = "\
SOURCE         POLICY   SENDS        PACKETS/S  LIMIT                USED  %  REFUSED
203.0.113.7    default  udp to 9999      15000  1000 packets per 1s    37  3       12
2001:db8::/64  default                                                              0";
    check_view(&["top"], answers(&sources), "GET /v1/top?count=20", stdout);
    let request = "GET /v1/top?count=2";
    check_view(&["top", "--rows", "2"], answers(&sources), request, stdout);
}

#[test]
fn the_fullest_destinations_are_listed_once_or_as_often_as_wanted() {
    let fullest = [WiderLimits {
        destination: Some("198.51.100.7".parse().unwrap()),
        limits: vec![limits().remove(0)],
        ..WiderLimits::default()
    }];
    let request = "GET /v1/top/destinations?count=20";
    let table = "\
DESTINATION   LIMIT                USED  ROOM  %
198.51.100.7  1000 packets per 1s    37   963  3";
    check_view(
        &["top", "--destinations"],
        answers(&fullest),
        request,
        table,
    );
    let words = [
        "top",
        "--destinations",
        "--batch",
        "-n",
        "2",
        "--interval",
        "100ms",
    ];
    for (json, expected) in [
        (false, table.to_owned()),
        (true, serde_json::to_string(&fullest).unwrap()),
    ] {
        let daemon = ScriptedDaemon::start(answers(&fullest));
        let words = [&words[..], if json { &["--json"] } else { &[] }].concat();
        let said = run(&daemon, &words, "", &[]);
        assert_eq!(daemon.requests(), [request; 2]);
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.matches(&expected).count(), 2, "{said}");
    }
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
    check_view(
        &["stats", "--with-zeros"],
        answers(&rows),
        "GET /v1/stats",
        long,
    );
}

fn top(source: &str, limit: Option<LimitState>, refused_packets: u64) -> TopSource {
    TopSource {
        source: source.parse().unwrap(),
        policy: "default".to_owned(),
        limit,
        refused_packets,
        ban: None,
        sending: None,
        place: None,
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
