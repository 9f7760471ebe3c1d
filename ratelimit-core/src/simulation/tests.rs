//! Configurations at work on packets that the tests write by hand.

mod eviction;

use std::fs;

use jiff::Timestamp;

use super::{
    answer::{Answer, Refused, VerdictRow},
    *,
};
use crate::{config, list_file};

const MS: u64 = 1_000_000;
/// The time of the first packet.
const START: u64 = 1_619_605_821_000 * MS;
const FRAME_BYTES: u32 = 100;
const TICK: Duration = Duration::from_millis(4);

#[test]
fn every_packet_gets_its_verdict_at_its_own_time() {
    let mut simulation = simulation(LIMIT_OF_2, None);
    let source = ipv4([198, 51, 100, 1]);
    for time in [0, 999, 999, 1000, 1001, 1002] {
        send(&mut simulation, time, &source);
    }
    let answer = simulation.answer(10);
    check_verdicts(
        &answer,
        &[("pass", "conforming", 4), ("drop", "limited", 2)],
    );
    assert_eq!((answer.packets, answer.bytes), (6, 600));
}

const BANS: &str = "[policy.default]\n\
                    limits = [{ packets = 2, per = \"1s\" }]\n\
                    ban = { after = 1, within = \"10s\", for = \"1s\", factor = 2, \
                    max = \"1h\", forgeable = \"ban\" }";

#[test]
fn the_next_ban_of_a_source_is_longer_as_the_daemon_has_it() {
    let mut simulation = simulation(BANS, None);
    let source = ipv4([198, 51, 100, 1]);
    // The first ban lasts until 1000, the second one until 3001, each a nanosecond longer.
    for time in [0, 0, 0, 999, 1001, 1001, 1001, 2500, 3000, 3002] {
        send(&mut simulation, time, &source);
    }
    check_verdicts(
        &simulation.answer(10),
        &[
            ("pass", "conforming", 5),
            ("drop", "banned", 3),
            ("drop", "limited", 2),
        ],
    );
}

#[test]
fn of_a_dry_run_no_ban_is_kept_as_by_the_daemon() {
    let mut simulation = simulation(&format!("observe = true\n{BANS}"), None);
    let source = ipv4([198, 51, 100, 1]);
    for time in [0, 0, 0, 1, 2] {
        send(&mut simulation, time, &source);
    }
    let answer = simulation.answer(10);
    check_verdicts(
        &answer,
        &[("pass", "conforming", 2), ("observe", "limited", 3)],
    );
    assert_eq!(answer.would_be_banned, 1);
}

#[test]
fn lists_of_files_are_simulated_too() {
    let directory = tempfile::tempdir().unwrap();
    let [bad, good] = ["bad", "good"].map(|name| directory.path().join(name));
    fs::write(&bad, "198.51.100.0/24\n").unwrap();
    fs::write(&good, "198.51.100.2\n").unwrap();
    let config = read(&format!(
        "{LIMIT_OF_2}\n[list.bad]\nfile = \"{}\"\n[list.good]\nfile = \"{}\"\naction = \"allow\"",
        bad.display(),
        good.display()
    ));
    let now = Timestamp::UNIX_EPOCH;
    let lists = config.lists.iter();
    let lists = lists.map(|(name, list)| (name.clone(), list_file::read(list, now).unwrap()));
    let lists = lists.collect();
    let configured = Configured {
        lists,
        ..configured(config)
    };
    let mut simulation = Simulation::new(configured, None, None).unwrap();
    for source in [1, 2, 2, 2, 3] {
        send(&mut simulation, 0, &ipv4([198, 51, 100, source]));
    }
    check_verdicts(
        &simulation.answer(10),
        &[("pass", "allowed", 3), ("drop", "banned", 2)],
    );
}

#[test]
fn a_coarse_clock_that_is_asked_for_continues_tick_by_tick() {
    let limit = "[policy.default]\n\
                 limits = \
                 [{ packets = 1000, per = \"1s\", algorithm = \"token-bucket\", burst = 1 }]";
    let late = u64::try_from(TICK.as_millis()).unwrap() - 1;
    for (clock, passed) in [("precise", 2), ("coarse", 1)] {
        let mut simulation = simulation(&format!("clock = \"{clock}\"\n{limit}"), None);
        let source = ipv4([198, 51, 100, 1]);
        send(&mut simulation, 0, &source);
        send(&mut simulation, late, &source);
        let answer = simulation.answer(10);
        assert_eq!(answer.tick, (clock == "coarse").then_some(TICK));
        assert_eq!(answer.verdicts[0].packets, passed, "{clock}");
    }
}

#[test]
fn a_packet_that_was_cut_counts_with_its_bytes_on_the_wire() {
    let limit =
        "[policy.default]\nlimits = [{ bytes = 250, per = \"1s\", algorithm = \"fixed-window\" }]";
    let mut simulation = simulation(limit, None);
    let source = ipv4([198, 51, 100, 1]);
    for time in 0..3 {
        send(&mut simulation, time, &source);
    }
    check_verdicts(
        &simulation.answer(10),
        &[("pass", "conforming", 2), ("drop", "limited", 1)],
    );
}

#[test]
fn packets_that_the_capture_cut_are_counted_and_those_without_headers_apart() {
    let mut simulation = simulation(LIMIT_OF_2, None);
    let mut whole = udp([198, 51, 100, 1], 9);
    whole.resize(FRAME_BYTES as usize, 0);
    let cut_headers = &udp([198, 51, 100, 1], 9)[..36];
    for frame in [&whole[..], &whole[..60], cut_headers, &whole[..20]] {
        send(&mut simulation, 0, frame);
    }
    let answer = simulation.answer(10);
    assert_eq!((answer.packets, answer.cut, answer.cut_headers), (4, 3, 2));
}

/// Types 130 to 143 are for the link. Whoever sends them from afar floods.
#[test]
fn messages_of_neighbours_from_beyond_the_link_are_a_flood() {
    let rule = "[policy.default]\nlimits = []\n[detection.icmp_flood]\nthreshold = 10\n";
    for (kind, hop_limit, floods) in [
        (130, 1, true),
        (136, 64, true),
        (143, 254, true),
        (136, 255, false),
        (143, 255, false),
    ] {
        let mut simulation = simulation(rule, None);
        for packet in 0..300 {
            send(&mut simulation, packet * 5, &icmpv6(kind, hop_limit));
        }
        simulation.finish();
        let attacks = simulation.answer(10).attacks.unwrap();
        let kinds: Vec<&str> = attacks.iter().map(|attack| attack.kind).collect();
        let expected: &[&str] = if floods { &["icmp-flood"] } else { &[] };
        assert_eq!(kinds, expected, "type {kind}, hop limit {hop_limit}");
    }
}

#[test]
fn an_attack_does_not_outlast_the_capture() {
    let rule = "[policy.default]\nlimits = []\n[detection.udp_flood]\nthreshold = 10\n";
    let mut simulation = simulation(rule, None);
    for packet in 0..300_u64 {
        let number = u8::try_from(packet % 250).unwrap();
        let mut frame = udp([198, 51, number, number], number);
        // Each to a port of its own.
        frame[36..38].copy_from_slice(&u16::try_from(packet * 3 + 1).unwrap().to_be_bytes());
        send(&mut simulation, packet * 5, &frame);
    }
    simulation.finish();
    let answer = simulation.answer(10);
    let attacks = answer.attacks.unwrap();
    let [attack] = &attacks[..] else {
        panic!("{attacks:?}")
    };
    let last = 299.0 * 0.005;
    assert!((attack.end_seconds - last).abs() < 1e-9, "{attack:?}");
    assert!(attack.start_seconds <= attack.end_seconds);
}

#[test]
fn a_header_that_was_cut_is_judged_as_the_kernel_would() {
    let mut simulation = simulation(LIMIT_OF_2, None);
    send(&mut simulation, 0, &ipv4([198, 51, 100, 1])[..20]);
    let answer = simulation.answer(10);
    check_verdicts(&answer, &[("drop", "truncated", 1)]);
    assert_eq!((answer.sources_seen, answer.sources_dropped), (0, 0));
}

#[test]
fn a_source_is_what_the_configuration_says_and_told_with_what_refused_it_first() {
    let config = "[source]\n\
                  ipv4_prefix = 24\n\
                  [policy.default]\n\
                  limits = [{ packets = 1, per = \"1s\" }]\n\
                  [policy.partner]\n\
                  sources = [\"2001:db8::/32\"]\n\
                  limits = [{ packets = 9, per = \"1s\" }, \
                  { bytes = 150, per = \"1s\", algorithm = \"fixed-window\" }]";
    let mut simulation = simulation(config, None);
    for last in 1..=4 {
        send(&mut simulation, 0, &ipv4([198, 51, 100, last]));
        send(&mut simulation, 0, &ipv6(last));
    }
    send(&mut simulation, 0, &ipv4([203, 0, 113, 1]));
    let answer = simulation.answer(10);
    assert_eq!((answer.sources_seen, answer.sources_dropped), (3, 2));
    let seen: Vec<_> = answer
        .sources
        .iter()
        .map(|row| {
            (
                row.source.to_string(),
                row.tally.passed,
                row.tally.dropped,
                row.first.clone(),
            )
        })
        .collect();
    let refused = |policy: &str, limit: &str| {
        Some(Refused {
            reason: "limited",
            policy: Some(policy.to_owned()),
            limit: Some(limit.to_owned()),
        })
    };
    let expected = [
        (
            "198.51.100.0/24".to_owned(),
            1,
            3,
            refused("default", "1 packet per 1s"),
        ),
        (
            "2001:db8::/64".to_owned(),
            1,
            3,
            refused("partner", "150B per 1s (fixed-window)"),
        ),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_top_are_those_that_lost_the_most() {
    let mut simulation = simulation(LIMIT_OF_2, None);
    for (last, packets) in [(1, 3), (2, 9), (3, 2), (4, 5)] {
        for _ in 0..packets {
            send(&mut simulation, 0, &ipv4([198, 51, 100, last]));
        }
    }
    let answer = simulation.answer(2);
    let top: Vec<_> = answer
        .sources
        .iter()
        .map(|row| (row.source.to_string(), row.tally.dropped))
        .collect();
    assert_eq!(
        top,
        [
            ("198.51.100.2".to_owned(), 7),
            ("198.51.100.4".to_owned(), 3)
        ]
    );
    assert_eq!(answer.sources_dropped, 3);
}

#[test]
fn a_client_that_acknowledges_something_after_it_was_challenged_is_verified() {
    let config = |when: &str| {
        format!("[policy.default]\nlimits = []\n[challenge.tcp]\nwhen = \"{when}\"\nfor = \"10s\"")
    };
    let [silent, honest, early] = [1, 2, 3].map(|last| [198, 51, 100, last]);
    let (syn, ack) = (2, 16);
    let packets = [
        (0, early, ack),
        (1, early, syn),
        (1, silent, syn),
        (2, honest, syn),
        (3, honest, ack),
        (4, honest, syn),
        (4, silent, syn),
        (5, silent, syn | ack),
        (6, silent, syn),
        (10_003, honest, syn),
    ];
    let answer = |text: &str| {
        let mut simulation = simulation(text, None);
        for (time, source, flags) in packets {
            send(&mut simulation, time, &tcp(source, flags));
        }
        simulation.answer(10)
    };
    let on = answer(&config("always"));
    check_verdicts(&on, &[("pass", "unlimited", 4), ("drop", "challenged", 6)]);
    let challenged = on.challenged.unwrap();
    assert_eq!((challenged.sources, challenged.verified), (3, 1));
    assert_eq!(answer(&config("never")).challenged, None);
}

#[test]
fn what_a_dry_run_would_drop_is_observed() {
    let config = format!("observe = true\n{LIMIT_OF_2}");
    let mut simulation = simulation(&config, None);
    for time in 0..5 {
        send(&mut simulation, time, &ipv4([198, 51, 100, 1]));
    }
    let answer = simulation.answer(10);
    check_verdicts(
        &answer,
        &[("pass", "conforming", 2), ("observe", "limited", 3)],
    );
    let tally = answer.sources[0].tally;
    assert_eq!((tally.passed, tally.dropped, tally.observed), (2, 0, 3));
    assert_eq!(
        answer
            .timeline
            .intervals
            .iter()
            .map(|row| row.tally.observed)
            .sum::<u64>(),
        3
    );
}

#[test]
fn a_comparison_tells_what_became_of_every_packet_and_source() {
    let old = "\
        [policy.default]\nlimits = [{ packets = 1, per = \"1s\" }]\n\
        [policy.partner]\nsources = [\"203.0.113.0/24\"]\nlimits = []";
    let mut simulation = simulation(LIMIT_OF_2, Some(old));
    // The first loses one packet less, the second none any more, the third some for the first time,
    // the fourth none ever.
    for (source, packets) in [
        ([198, 51, 100, 1], 3),
        ([198, 51, 100, 2], 2),
        ([203, 0, 113, 1], 5),
        ([198, 51, 100, 4], 1),
    ] {
        for _ in 0..packets {
            send(&mut simulation, 0, &ipv4(source));
        }
    }
    let comparison = simulation.answer(10).comparison.unwrap();
    let pairs: Vec<_> = comparison
        .verdicts
        .iter()
        .map(|pair| (pair.old.reason, pair.new.reason, pair.packets, pair.bytes))
        .collect();
    assert_eq!(
        pairs,
        [
            ("conforming", "conforming", 3, 300),
            ("unlimited", "conforming", 2, 200),
            ("unlimited", "limited", 3, 300),
            ("limited", "conforming", 2, 200),
            ("limited", "limited", 1, 100),
        ]
    );
    assert_eq!(comparison.sources_changed, 3);
    assert_eq!(
        (
            comparison.sources_newly_dropped,
            comparison.sources_no_longer_dropped
        ),
        (1, 1)
    );
    let sources: Vec<_> = comparison
        .sources
        .iter()
        .map(|row| (row.source.to_string(), row.old.dropped, row.new.dropped))
        .collect();
    assert_eq!(
        sources,
        [
            ("203.0.113.1".to_owned(), 0, 3),
            ("198.51.100.1".to_owned(), 2, 1),
            ("198.51.100.2".to_owned(), 1, 0),
        ]
    );
    assert_eq!(
        comparison
            .verdicts_old
            .iter()
            .map(|row| row.packets)
            .sum::<u64>(),
        11
    );
}

#[test]
fn intervals_that_were_asked_for_and_are_too_many_stop_the_simulation() {
    let interval = Some(Duration::from_nanos(1));
    let mut simulation = Simulation::new(configured(read(LIMIT_OF_2)), None, interval).unwrap();
    let frame = ipv4([198, 51, 100, 1]);
    let packet = |time_ns| Packet {
        time_ns: Some(time_ns),
        frame: &frame,
        frame_bytes: FRAME_BYTES,
    };
    assert_eq!(simulation.packet(packet(START)), Ok(()));
    assert_eq!(simulation.packet(packet(START + MS)), Err(TooManyIntervals));
}

const LIMIT_OF_2: &str = "[policy.default]\nlimits = [{ packets = 2, per = \"1s\" }]";

fn simulation(new: &str, old: Option<&str>) -> Simulation {
    let old = old.map(|old| configured(read(old)));
    Simulation::new(configured(read(new)), old, None).unwrap()
}

fn configured(config: Config) -> Configured {
    Configured {
        config,
        lists: Vec::new(),
        tick: TICK,
    }
}

fn read(text: &str) -> Config {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    // Keys above the tables stay above them.
    fs::write(&path, format!("{text}\n[[interface]]\nname = \"eth0\"\n")).unwrap();
    config::load(&path).unwrap()
}

fn send(simulation: &mut Simulation, time_ms: u64, frame: &[u8]) {
    let packet = Packet {
        time_ns: Some(START + time_ms * MS),
        frame,
        frame_bytes: FRAME_BYTES,
    };
    simulation.packet(packet).unwrap();
}

fn check_verdicts(answer: &Answer, expected: &[(&'static str, &'static str, u64)]) {
    let rows = expected.iter().map(|(action, reason, packets)| VerdictRow {
        action,
        reason,
        packets: *packets,
        bytes: packets * u64::from(FRAME_BYTES),
    });
    assert_eq!(answer.verdicts, rows.collect::<Vec<_>>());
}

fn ipv4(source: [u8; 4]) -> Vec<u8> {
    [&[0; 12][..], &[0x08, 0], &[0x45; 12], &source, &[0; 4]].concat()
}

fn ipv6(last: u8) -> Vec<u8> {
    let source = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    [
        &[0; 12][..],
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 64],
        &source,
        &[0; 16],
    ]
    .concat()
}

fn udp(source: [u8; 4], source_port: u8) -> Vec<u8> {
    let mut frame = [&ipv4(source)[..], &[0, source_port, 0, 80, 0, 8, 0, 0]].concat();
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]);
    frame
}

/// From one host to another.
fn icmpv6(kind: u8, hop_limit: u8) -> Vec<u8> {
    let mut frame = vec![0; FRAME_BYTES as usize];
    frame[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 46, 58, hop_limit]);
    frame[22..26].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    frame[37] = 1;
    frame[38..44].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 5]);
    frame[53] = 2;
    frame[54] = kind;
    frame
}

fn tcp(source: [u8; 4], flags: u8) -> Vec<u8> {
    let ports_and_numbers = [0, 9, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0];
    let mut frame = [
        &ipv4(source)[..],
        &ports_and_numbers,
        &[0x50, flags],
        &[0; 6],
    ]
    .concat();
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
    frame
}
