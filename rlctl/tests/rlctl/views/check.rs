//! The output of `rlctl check`.

use std::{collections::BTreeMap, time::Duration};

use ratelimit_core::{
    api::{
        Allow, Check, ClassVerdict, Covering, CoveringEntry, Dropped, Event, LimitState, Origin,
        PacketRequest, RefusedBy, RuntimeEntry, SeenDrops, ShareView, SourceChallenge, What,
        WiderLimits,
    },
    class::Match,
    limit::{Algorithm, LimitSpec, LimitUnit},
};

use super::{ban, check_view, counter, limits};
use crate::{
    Expected, check,
    daemon::{Daemon, ScriptedDaemon, answers},
    moment, run,
};

#[test]
fn check_of_a_banned_address_ends_with_3_and_tells_the_ban() {
    let ((since, since_reported), (until, until_reported)) = (moment(-1), moment(1));
    let mut ban = ban("203.0.113.0/24", since);
    ban.until = Some(until);
    ban.counter = counter(1200, 72_000);
    let mut beneath = ban.clone();
    beneath.prefix = "203.0.0.0/16".parse().unwrap();
    (beneath.until, beneath.reason) = (None, None);
    beneath.origin = Origin::Crowdsec;
    let entry = |entry, decides| Covering { entry, decides };
    let policy = |prefix: Option<&str>| CoveringEntry::Policy {
        policy: "partner".to_owned(),
        prefix: prefix.map(|prefix| prefix.parse().unwrap()),
        runtime: None,
        counter: counter(70, 4200),
    };
    let covering = vec![
        entry(CoveringEntry::Ban(ban.clone()), true),
        entry(CoveringEntry::Ban(beneath), false),
        entry(policy(Some("203.0.113.0/24")), false),
        entry(policy(None), false),
    ];
    let drop = dropped(since, "banned");
    let answer = Check {
        covering,
        last_drops: vec![seen(drop, since, 1)],
        tunnels: vec!["ipip".to_owned()],
        action: "drop".to_owned(),
        reason: "banned".to_owned(),
        rule: Some(ban.prefix),
        until: Some(until),
        ban: Some(ban),
        refused_packets: 12,
        refused_last: Some(since),
        unenforced: Vec::new(),
        ..passing("203.0.113.7")
    };
    let stdout = format!(
        "packets from 203.0.113.7 are dropped (banned)
rule: the ban of 203.0.113.0/24
counter: 1200 packets, 72000 bytes
until: {until_reported} (10d 12h left)
banned: by alice, since {since_reported}
why: port scan
beneath: the ban of 203.0.0.0/16 by CrowdSec (alice), forever: no reason given
beneath: policy partner, for 203.0.113.0/24
limit: 1000 packets per 1s: 37 used, window ends in 0.4s
limit: 50MB per 1s (fixed-window): unused
tunnels: packets in ipip count for the inner source
refused by its limits: 12 packets, the last at {since_reported}
seen: {since_reported} dropped 203.0.113.7 (udp to 192.0.2.1 port 53 from port 4444) on eth0: \
    banned"
    );
    check_blocked(answers(&answer), &stdout);
}

#[test]
fn check_ends_with_3_where_packets_of_a_class_are_dropped_and_tells_who_refused() {
    let (at, at_reported) = moment(-1);
    let (first, first_reported) = moment(-2);
    let drop = Event {
        number: 7,
        cursor: None,
        at,
        what: What::Drop(Dropped {
            source: [203, 0, 113, 7].into(),
            from: None,
            packet: PacketRequest::default(),
            reason: "subnet-limited".to_owned(),
            observed: false,
            policy: None,
            limit: None,
            interface: "eth0".to_owned(),
        }),
    };
    let class = |class: &str, action: &str| ClassVerdict {
        class: class.to_owned(),
        action: action.to_owned(),
        reason: "limited".to_owned(),
        refused_by: (class == "icmp").then(|| RefusedBy {
            limit: limits()[0]
                .limit
                .clone()
                .of_class(Match::Named("icmp".to_owned())),
            room_in_seconds: Some(58.0),
        }),
        drops_seen: usize::from(class == "icmp") * 9,
    };
    let answer = Check {
        classes: vec![class("icmp", "drop"), class("udp", "observe")],
        last_drops: vec![seen(drop, first, 9)],
        limits: Vec::new(),
        ..passing("203.0.113.7")
    };
    let stdout = format!(
        "packets from 203.0.113.7 pass now (conforming), except for
  icmp: dropped (limited: 1000 packets per 1s of icmp, next packet in 58.0s; 9 drops seen)
  udp: pass (dry run) (limited)
rule: policy default
refused by its limits: none; sampled drops: subnet-limited
seen: {at_reported} dropped 203.0.113.7 on eth0: subnet-limited, 9 times since {first_reported}"
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
        interface: None,
        prefix,
        destination: None,
        observe,
        limits,
        refused_packets: Some(prefix.map_or(12, |_| 5)),
    };
    let answer = Check {
        action: "drop".to_owned(),
        reason: "subnet-limited".to_owned(),
        limits: Vec::new(),
        wider: vec![
            wider(Some(prefix), false, limits),
            wider(None, true, of_syn),
        ],
        ..passing("203.0.113.7")
    };
    let stdout = "packets from 203.0.113.7 are dropped (subnet-limited)
rule: the limits that all sources of a wider prefix share
limit of all of 203.0.113.0/24: 1000 packets per 1s: 37 used, window ends in 0.4s
limit of the node (incl. per-CPU reserve) (dry run): 1000 packets per 1s of tcp-syn: 37 used, \
    window ends in 0.4s
drops by limits of all of 203.0.113.0/24: 5 packets
drops by limits of the node: 12 packets
refused by its limits: none";
    check_blocked(answers(&answer), stdout);
}

#[test]
fn check_names_the_prefix_that_refuses_and_the_other_limits_without_room() {
    let mut limits = limits();
    limits.truncate(1);
    limits[0].room_in_seconds = 0.4;
    let full = limits[0].limit.clone();
    let mut of_source = limits.clone();
    of_source[0].limit = full.with_amount(9);
    let answer = Check {
        action: "drop".to_owned(),
        reason: "subnet-limited".to_owned(),
        refused_by: Some(RefusedBy {
            limit: full,
            room_in_seconds: Some(0.4),
        }),
        classes: vec![ClassVerdict {
            class: "dns".to_owned(),
            action: "drop".to_owned(),
            reason: "limited".to_owned(),
            refused_by: None,
            drops_seen: 0,
        }],
        limits: of_source,
        wider: vec![WiderLimits {
            prefix: Some("203.0.113.0/24".parse().unwrap()),
            limits,
            ..WiderLimits::default()
        }],
        ..passing("203.0.113.7")
    };
    let stdout = "\
packets from 203.0.113.7 are dropped (subnet-limited: 1000 packets per 1s, next packet in 0.4s; 1 \
    other limit is exceeded too), and for other reasons
  dns: dropped (limited)
rule: the limits that all sources of 203.0.113.0/24 share
limit: 9 packets per 1s: 37 used, next packet in 0.4s, window ends in 0.4s
limit of all of 203.0.113.0/24: 1000 packets per 1s: 37 used, next packet in 0.4s, window ends in \
    0.4s
refused by its limits: none";
    check_blocked(answers(&answer), stdout);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the module of the clocks is in the program"
)]
fn check_of_a_source_that_sends_too_much_does_not_say_that_all_is_well() {
    let last = jiff::Timestamp::now();
    let reported = last.to_zoned(jiff::tz::TimeZone::UTC).strftime("%H:%M:%S");
    let answer = |last, dry_run| Check {
        refused_packets: 3304,
        refused_last: Some(last),
        limits: Vec::new(),
        dry_run,
        ..passing("203.0.113.7")
    };
    let said = |answer: &Check| {
        let daemon = ScriptedDaemon::start(answers(answer));
        let output = run(&daemon, &["check", "203.0.113.7"], "", &[]);
        String::from_utf8(output.stdout).unwrap()
    };
    let text = said(&answer(last, false));
    let expected = format!("pass now, last refused at {reported} (conforming)");
    assert!(text.contains(&expected), "{text}");
    let text = said(&answer(last, true));
    assert!(text.contains("(conforming; dry run)"), "{text}");
    assert!(
        text.contains("now a dry run, so such packets pass"),
        "{text}"
    );
    let long_ago = moment(-1).0;
    let text = said(&answer(long_ago, false));
    assert!(text.contains("pass now (conforming)"), "{text}");
    // A limit that it shares with others refuses it.
    let shared = Check {
        last_drops: vec![seen(dropped(last, "destination-limited"), last, 71)],
        ..answer(long_ago, false)
    };
    let text = said(&shared);
    let expected = format!("pass now, last refused at {reported} (conforming)");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn check_of_a_protected_address_says_which_bans_hold_for_it() {
    let answer = Check {
        protected: Some("the default gateway of eth0".to_owned()),
        limits: Vec::new(),
        ..passing("203.0.113.7")
    };
    let stdout = "\
packets from 203.0.113.7 pass now (conforming)
rule: policy default
protected (the default gateway of eth0): only bans with --force apply
refused by its limits: none";
    check_passing(&answer, stdout);
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
rule: policy default
limit: 1000 packets per 1s: 1000 used, next packet in 0.4s, window ends in 0.4s
limit: 50MB per 1s (fixed-window): unused
refused by its limits: 7 packets";
    check_blocked(answers(&answer), stdout);
}

#[test]
fn check_tells_the_level_of_each_algorithm() {
    let (since, since_reported) = moment(-1);
    let state = |unit, algorithm, used, room| LimitState {
        limit: LimitSpec::new(50_000, unit, Duration::from_secs(1), algorithm).unwrap(),
        used,
        room_in_seconds: room,
        clears_in_seconds: 1.5,
        share: None,
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
            LimitState {
                share: Some(ShareView {
                    here: 16_667,
                    since: Some(since),
                    others: Some(33_333),
                }),
                ..state(LimitUnit::Packets, Algorithm::FixedWindow, 9, 0.0)
            },
            LimitState {
                share: Some(ShareView {
                    here: 16_666,
                    since: None,
                    others: None,
                }),
                ..state(LimitUnit::Bytes, Algorithm::FixedWindow, 0, 0.0)
            },
        ],
        ..passing("203.0.113.7")
    };
    let stdout = format!(
        "\
packets from 203.0.113.7 pass now (conforming)
rule: policy default
limit: 50000 packets per 1s (sliding-window): 7 used, empty in 1.5s
limit: 50000 packets per 1s (sliding-window): 50000 used, next packet in 0.2s, empty in 1.5s
limit: 50kB per 1s (token-bucket, burst 100kB): 60kB of 100kB used, bucket full in 1.5s
limit: 5 packets per 1m (sliding-log): 5 used, next packet in 12.0s, empty in 1.5s
limit: 50kB per 1s (token-bucket, burst 100kB): 99kB of 100kB used, next packet in 0.1s, bucket \
    full in 1.5s
limit: 50000 packets per 1s: 9 used, window ends in 1.5s
  share of this node: 16667 since {since_reported}, other nodes 33333
limit: 50kB per 1s (fixed-window): unused
  share of this node: 16666B, shares of other nodes unknown
refused by its limits: none"
    );
    let request = "GET /v1/check/203.0.113.7";
    check_view(
        &["check", "203.0.113.7"],
        answers(&answer),
        request,
        &stdout,
    );
}

#[test]
fn check_tells_of_a_source_that_no_packet_has() {
    let answer = Check {
        action: "drop".to_owned(),
        reason: "invalid-source".to_owned(),
        limits: Vec::new(),
        ..passing("224.0.0.1")
    };
    let expected = Expected {
        request: "GET /v1/check/224.0.0.1",
        stdout: "packets from 224.0.0.1 are dropped (invalid-source)\n\
                 rule: invalid source address: no allow, ban or limit applies\n\
                 refused by its limits: none",
        stderr: "",
        code: 3,
    };
    check(&["check", "224.0.0.1"], answers(&answer), &expected);
}

#[test]
fn check_tells_who_allowed_an_address_and_who_set_the_limits_beneath() {
    let ((since, since_reported), (until, until_reported)) = (moment(-1), moment(1));
    let prefix = "192.0.2.0/24".parse().unwrap();
    let allow = CoveringEntry::Allow(Allow {
        prefix,
        until: Some(until),
        since: Some(since),
        reason: Some("migration".into()),
        author: Some("bob".into()),
        origin: Origin::Manual,
        counter: counter(7, 420),
    });
    let limits = CoveringEntry::Policy {
        policy: "192.0.2.0/24".to_owned(),
        prefix: Some(prefix),
        runtime: Some(RuntimeEntry {
            until: None,
            since,
            reason: None,
            author: "alice".into(),
        }),
        counter: counter(70, 4200),
    };
    let answer = |decides: [bool; 2], reason: &str| Check {
        reason: reason.to_owned(),
        rule: Some(prefix),
        policy: "192.0.2.0/24".to_owned(),
        limits: Vec::new(),
        covering: [allow.clone(), limits.clone()]
            .into_iter()
            .zip(decides)
            .map(|(entry, decides)| Covering { entry, decides })
            .collect(),
        ..passing("192.0.2.1")
    };
    let stdout = &format!(
        "packets from 192.0.2.1 pass (allowed)
rule: the allow list entry 192.0.2.0/24
counter: 7 packets, 420 bytes
until: {until_reported} (10d 12h left)
allowed: by bob, since {since_reported}
why: migration
beneath: policy 192.0.2.0/24, for 192.0.2.0/24, limited by alice, forever: no reason given
refused by its limits: none"
    );
    check_passing(&answer([true, false], "allowed"), stdout);
    let stdout = &format!(
        "packets from 192.0.2.1 pass now (conforming)
rule: policy 192.0.2.0/24, for 192.0.2.0/24
counter: 70 packets, 4200 bytes, by all sources under `192.0.2.0/24`
until: forever
limited: by alice, since {since_reported}
why: no reason given
beneath: the allow list entry 192.0.2.0/24, allowed by bob, until {until_reported}: migration
refused by its limits: none"
    );
    check_passing(&answer([false, true], "conforming"), stdout);
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
packets from 2001:db8::1 pass now (conforming)
source: counted as part of 2001:db8::/64
rule: policy partner, for 2001:db8::/48
refused by its limits: none";
    check_passing(&answer, stdout);
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
rule: the allow list entry 203.0.113.0/24
refused by its limits: none";
    check_passing(&answer, stdout);
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
packets from 203.0.113.7 pass in a dry run; they would be dropped (limited)
rule: policy default
refused by its limits: none";
    check_passing(&answer, stdout);
}

#[test]
fn check_asks_about_a_packet_and_names_the_limit_that_refuses_it() {
    let limit = limits()[0].limit.clone();
    let answer = Check {
        action: "drop".to_owned(),
        reason: "limited".to_owned(),
        packet: PacketRequest {
            protocol: Some("tcp".to_owned()),
            destination_port: Some(443),
            flags: Some("syn".to_owned()),
            ..PacketRequest::default()
        },
        refused_by: Some(RefusedBy {
            limit: limit.of_class(Match::Named("tcp-syn".to_owned())),
            room_in_seconds: Some(0.4),
        }),
        limits: Vec::new(),
        ..passing("203.0.113.7")
    };
    let line = "check 203.0.113.7 --proto tcp --dport 443 --flags syn";
    let line: Vec<&str> = line.split(' ').collect();
    check(
        &line,
        answers(&answer),
        &Expected {
            request: "GET /v1/check/203.0.113.7?protocol=tcp&destination_port=443&flags=syn",
            stdout: "\
packets from 203.0.113.7 (tcp to port 443 with syn) are dropped (limited: 1000 packets per 1s of \
    tcp-syn, next packet in 0.4s)
rule: policy default
refused by its limits: none",
            stderr: "",
            code: 3,
        },
    );
}

fn dropped(at: jiff::Timestamp, reason: &str) -> Event {
    Event {
        number: 7,
        cursor: None,
        at,
        what: What::Drop(Dropped {
            source: [203, 0, 113, 7].into(),
            from: None,
            packet: PacketRequest {
                protocol: Some("udp".to_owned()),
                to: Some([192, 0, 2, 1].into()),
                destination_port: Some(53),
                source_port: Some(4444),
                ..PacketRequest::default()
            },
            reason: reason.to_owned(),
            observed: false,
            policy: None,
            limit: None,
            interface: "eth0".to_owned(),
        }),
    }
}

fn seen(last: Event, since: jiff::Timestamp, count: usize) -> SeenDrops {
    SeenDrops { last, count, since }
}

fn check_passing(answer: &Check, stdout: &str) {
    let address = answer.address.to_string();
    let request = format!("GET /v1/check/{address}");
    check_view(&["check", &address], answers(answer), &request, stdout);
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

#[test]
fn check_tells_who_is_verified_and_from_whom_a_part_of_the_limits_of_the_node_is_kept() {
    let (past, reported) = moment(-1);
    let told_of = |challenge: SourceChallenge, expected: &str| {
        let answer = Check {
            challenge: Some(challenge),
            limits: Vec::new(),
            ..passing("203.0.113.7")
        };
        let stdout = format!(
            "packets from 203.0.113.7 pass now (conforming)
rule: policy default
{expected}
refused by its limits: none"
        );
        check_passing(&answer, &stdout);
    };
    let of = |verified_until, is_on: bool, prefers_verified| SourceChallenge {
        verified_until,
        is_acknowledged: verified_until.is_some(),
        is_on,
        to: None,
        classes: None,
        since: is_on.then_some(past),
        prefers_verified,
        dns: None,
    };
    let told = |until, is_on, prefers, expected: &str| {
        told_of(of(until, is_on, prefers), expected);
    };
    let challenged = format!("not verified: SYNs are challenged since {reported}");
    told(None, true, false, &challenged);
    let kept = format!("{challenged}; half of each node limit is reserved for verified sources");
    told(None, true, true, &kept);
    let off = "not verified: SYNs are not challenged now";
    told(None, false, true, off);
    let until = format!("verified: SYNs are not challenged until {reported}");
    told(Some(past), true, true, &until);
    let by_reset = SourceChallenge {
        is_acknowledged: false,
        ..of(Some(past), true, true)
    };
    told_of(
        by_reset,
        &format!("{until}; half of each node limit is reserved for verified sources"),
    );
    let narrow = |is_on| SourceChallenge {
        to: Some("198.51.100.7".to_owned()),
        classes: Some("classes web, mail".to_owned()),
        ..of(None, is_on, false)
    };
    let narrowed = "of classes web, mail to 198.51.100.7";
    let challenged = challenged.replace("SYNs", &format!("SYNs {narrowed}"));
    told_of(narrow(true), &challenged);
    told_of(
        narrow(false),
        &format!("{off}; only SYNs {narrowed} can be"),
    );
}

fn passing(address: &str) -> Check {
    Check {
        limited: None,
        packet: PacketRequest::default(),
        refused_by: None,
        address: address.parse().unwrap(),
        source: address.parse().unwrap(),
        place: None,
        action: "pass".to_owned(),
        reason: "conforming".to_owned(),
        rule: None,
        until: None,
        ban: None,
        protected: None,
        lists: Vec::new(),
        policy: "default".to_owned(),
        limits: limits(),
        wider: Vec::new(),
        covering: Vec::new(),
        last_drops: Vec::new(),
        tunnels: Vec::new(),
        next: BTreeMap::new(),
        observe: false,
        dry_run: false,
        classes: Vec::new(),
        interfaces: Vec::new(),
        strikes: None,
        new_sources: None,
        challenge: None,
        refused_packets: 0,
        refused_last: None,
        unenforced: Vec::new(),
    }
}
