//! Records of the store `lru` have as many words as the largest policy has limits. They become
//! longer while packets are judged, and shorter at a start.

use std::{
    net::Ipv4Addr, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed, thread,
    time::Duration,
};

use aya::maps::MapInfo;
use ratelimit_common::{
    Instant, Limit, Unit, Verdict,
    algorithm::{FixedWindow, SlidingWindow, TokenBucket},
    layout::{self, store},
};
use ratelimit_tests::{
    Frame, Lab, PATIENCE, Program, Scene, cpu,
    lab::{Receiver, Sender},
    packet::datagram,
    program::{Constants, has_records},
    require_root,
    scene::Judge,
    service::Service,
};

const HOUR: Duration = Duration::from_hours(1);
const START_NS: u64 = 1 << 40;
/// A source that is over its limit.
const LIMITED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// A source with some usage.
const HALF: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 10);
/// A source that gets three limits.
const PARTNER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 5);
/// The longest time until a frame arrives.
const LATE: Duration = Duration::from_millis(500);

const ONE: &str = "[policy.default]\nlimits = [{ packets = 20, per = \"1h\" }]\n";
/// The last of them is the smallest.
const THREE: [&str; 3] = [
    "packets=100,per=1h",
    "bytes=1MB,per=1h,algorithm=fixed-window",
    "packets=7,per=2h",
];

#[test]
fn each_limit_is_judged_by_records_of_each_size() {
    require_root!();
    for words in [1, 2, 4, 8] {
        // The first, so that none of the others is looked for; and as many as there are words.
        for limits in [1, words] {
            let passed = passed_of_thirty(words, &mixed(limits));
            assert_eq!(passed, [4; 2], "{limits} limits, {words} words");
        }
    }
}

/// A program judges by what its records have words for. So the longer ones come before the policy
/// that needs them.
#[test]
fn limits_behind_the_last_word_are_left_out() {
    require_root!();
    for words in [1, 2, 4] {
        let mut limits = mixed(words);
        limits.push(Limit::new(
            FixedWindow::new(1, HOUR).unwrap(),
            Unit::Packets,
        ));
        let passed = passed_of_thirty(words, &limits);
        assert_eq!(passed, [4; 2], "{words} words");
    }
}

#[test]
fn a_runtime_limit_that_needs_longer_records_holds_at_once_and_others_keep_what_they_used() {
    require_root!();
    if !has_records() {
        return;
    }
    let (lab, mut service) = Service::in_lab(ONE).unwrap();
    assert_eq!(words(&service), 1);
    assert_eq!(passed(&lab, LIMITED), 20);
    assert_eq!(passed_of(&lab, HALF, 12), 12);
    set(&service, "192.0.2.0/24", &THREE).unwrap();
    assert_eq!(words(&service), 4);
    assert_eq!(passed(&lab, PARTNER), 7);
    assert_eq!(passed(&lab, LIMITED), 0);
    assert_eq!(passed(&lab, HALF), 8);
    let check = service.rlctl(&["check", &PARTNER.to_string()]).unwrap();
    let used = "7 packets per 2h: 7 used";
    assert!(check.stdout.contains(used), "{check:?}");
    // They become shorter at a start alone.
    service
        .rlctl_ok(&["limit", "rm", "--prefix", "192.0.2.0/24"])
        .unwrap();
    assert_eq!(words(&service), 4);
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert_eq!(words(&service), 1);
    for source in [LIMITED, HALF] {
        assert_eq!(passed(&lab, source), 0, "{source}");
    }
    // With the same policies the next start keeps the maps.
    let before = id(&service);
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert_eq!(id(&service), before);
}

/// Usage during the growth of records is counted, except for packets while one program replaces
/// another.
#[test]
fn under_traffic_no_more_passes_than_the_limit() {
    const LIMIT: usize = 300;
    const FORGIVEN: usize = 30;
    require_root!();
    if !has_records() {
        return;
    }
    let (lab, service) = Service::in_lab(&ONE.replace("20", "300")).unwrap();
    let mut receiver = Receiver::new(&lab.near).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let sender = Sender::new(&lab.far).unwrap();
            let mut sent = 0;
            while !stop.load(Relaxed) {
                sender.send(&datagram(LIMITED)).unwrap();
                sent += 1;
                thread::sleep(Duration::from_millis(50));
            }
            for _ in 0..LIMIT + 100 {
                sender.send(&datagram(LIMITED)).unwrap();
            }
            sent
        });
        let limits: Vec<String> = (1..=8).map(|it| format!("packets={it}00,per=1h")).collect();
        let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
        for count in [2, 4, 8] {
            set(&service, "192.0.2.0/24", &limits[..count]).unwrap();
            assert_eq!(words(&service), count);
        }
        stop.store(true, Relaxed);
        println!("{} packets came meanwhile", traffic.join().unwrap());
    });
    let arrived = arrived(&mut receiver, LIMITED);
    println!("{arrived} passed");
    assert!((LIMIT..=LIMIT + FORGIVEN).contains(&arrived), "{arrived}");
}

#[test]
fn killed_while_records_become_longer_the_daemon_loses_nothing() {
    require_root!();
    if !has_records() {
        return;
    }
    let (lab, mut service) = Service::in_lab(ONE).unwrap();
    assert_eq!(passed(&lab, LIMITED), 20);
    assert_eq!(passed_of(&lab, HALF, 12), 12);
    for delay in [0, 60, 400] {
        thread::scope(|scope| {
            let command = scope.spawn(|| set(&service, "192.0.2.0/24", &THREE).is_ok());
            thread::sleep(Duration::from_millis(delay));
            service.signal("-KILL").unwrap();
            println!("after {delay} ms: set {}", command.join().unwrap());
        });
        service.stop("-KILL").unwrap();
        println!("{} words", words(&service));
        assert_eq!(passed(&lab, LIMITED), 0, "no daemon, after {delay} ms");
        service.start().unwrap();
        assert_eq!(passed(&lab, LIMITED), 0, "after {delay} ms");
        service
            .rlctl(&["limit", "rm", "--prefix", "192.0.2.0/24"])
            .unwrap();
        service.stop("-TERM").unwrap();
        service.start().unwrap();
        assert_eq!(words(&service), 1);
    }
    assert_eq!(passed(&lab, HALF), 8);
}

/// A daemon that dies with the longer records pinned leaves a program that reads the shorter ones,
/// which the next start replaces before the policy changes.
#[test]
fn a_start_after_one_that_was_killed_with_longer_records_lets_nothing_pass() {
    require_root!();
    if !has_records() {
        return;
    }
    let three = "[policy.default]\n\
                 limits = [{ packets = 900, per = \"1h\" }, { bytes = \"9MB\", per = \"1h\" }, \
                 { packets = 1, per = \"2h\" }]\n";
    let one = "[policy.default]\n\
               limits = []\n\
               [policy.own]\n\
               sources = [\"198.51.100.9\"]\n\
               limits = [{ packets = 20, per = \"1h\", match = \"udp\" }]\n";
    // The program with one limit keeps the features for three, so it needs no other for these.
    let (lab, mut service) = Service::in_lab(three).unwrap();
    service.stop("-TERM").unwrap();
    service.configure(one).unwrap();
    service.start().unwrap();
    assert_eq!(words(&service), 1);
    assert_eq!(passed(&lab, LIMITED), 20);
    service.stop("-KILL").unwrap();
    service.configure(three).unwrap();
    service.begin().unwrap();
    let maps = service.pins().join(format!("v{}/maps", layout::VERSION));
    let replaced = maps.join("SOURCES_V4_REPLACED_0");
    // The programs are replaced soon after.
    let begun = std::time::Instant::now();
    while !replaced.exists() {
        assert!(begun.elapsed() < PATIENCE, "the records became no longer");
        thread::sleep(Duration::from_millis(1));
    }
    service.stop("-KILL").unwrap();
    let mut receiver = Receiver::new(&lab.near).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Sender::new(&lab.far).unwrap();
            while !stop.load(Relaxed) {
                sender.send(&datagram(LIMITED)).unwrap();
                thread::sleep(Duration::from_micros(400));
            }
        });
        let started = service.start();
        stop.store(true, Relaxed);
        started.unwrap();
    });
    assert_eq!(words(&service), 4);
    // The last limit is new, and admits one.
    let arrived = arrived(&mut receiver, LIMITED);
    assert!(arrived <= 1, "{arrived} passed");
}

#[test]
fn a_reload_to_more_limits_keeps_what_was_used_and_one_to_another_store_has_all_words() {
    require_root!();
    if !has_records() {
        return;
    }
    let (lab, service) = Service::in_lab(ONE).unwrap();
    assert_eq!(passed(&lab, LIMITED), 20);
    let three = format!(
        "{ONE}[policy.partner]\n\
         sources = [\"192.0.2.0/24\"]\n\
         limits = [{{ packets = 100, per = \"1h\" }}, {{ bytes = \"1MB\", per = \"1h\" }}, \
         {{ packets = 7, per = \"2h\" }}]\n"
    );
    service.reload(&three).unwrap();
    assert_eq!(words(&service), 4);
    assert_eq!(passed(&lab, LIMITED), 0);
    assert_eq!(passed(&lab, PARTNER), 7);
    service.reload(ONE).unwrap();
    assert_eq!(words(&service), 4);
    assert_eq!(passed(&lab, LIMITED), 0);
    service
        .reload(&format!("{ONE}[source]\nstore = \"compact\"\n"))
        .unwrap();
    assert_eq!(passed(&lab, LIMITED), 20);
    service
        .reload(&format!("{three}[source]\nstore = \"lru\"\n"))
        .unwrap();
    assert_eq!(words(&service), 4);
    assert_eq!(passed(&lab, PARTNER), 7);
}

/// Records stay long after the configuration is rolled back.
#[test]
fn a_trial_that_needs_longer_records_goes_back_with_what_was_used() {
    require_root!();
    if !has_records() {
        return;
    }
    let (lab, service) = Service::in_lab(ONE).unwrap();
    assert_eq!(passed(&lab, LIMITED), 20);
    let aggregate = "[subnet]\n\
                     ipv4 = [{ prefix = 24, packets = 500, per = \"1h\" }, \
                     { prefix = 24, packets = 900, per = \"2h\" }]\n";
    let before = std::fs::read_to_string(service.config()).unwrap();
    let tried = service.path("tried.toml");
    std::fs::write(&tried, format!("{before}{aggregate}")).unwrap();
    let tried = tried.display().to_string();
    service
        .rlctl_ok(&["apply", &tried, "--confirm", "3s"])
        .unwrap();
    assert_eq!(words(&service), 2);
    assert_eq!(passed(&lab, LIMITED), 0);
    service.wait_for_log("rolled back").unwrap();
    assert_eq!(words(&service), 2);
    assert_eq!(passed(&lab, LIMITED), 0);
}

/// Returns a number of limits, the last of which has room for four.
fn mixed(limits: u32) -> Vec<Limit> {
    let amount = |index| if index + 1 == limits { 4 } else { 20 };
    let limit = |index: u32| {
        let amount = amount(index);
        match index % 3 {
            0 => Limit::new(TokenBucket::new(1, HOUR, amount).unwrap(), Unit::Packets),
            1 => Limit::new(FixedWindow::new(amount, HOUR).unwrap(), Unit::Packets),
            _ => Limit::new(SlidingWindow::new(amount, HOUR).unwrap(), Unit::Packets),
        }
    };
    (0..limits).map(limit).collect()
}

/// Returns how many of thirty packets of a source of each family pass, with records of this many
/// words.
fn passed_of_thirty(words: u32, limits: &[Limit]) -> [usize; 2] {
    cpu::pin(0);
    let constants = Constants {
        store: store::LRU,
        sources: 1_024,
        words,
        ..Constants::default()
    };
    let mut program = Program::load(&constants).unwrap();
    Scene::limited(limits).set_up(&mut program).unwrap();
    [
        Frame::ethernet().ipv4("192.0.2.1".parse().unwrap()),
        Frame::ethernet().ipv6("2001:db8::1".parse().unwrap()),
    ]
    .map(|frame| {
        let frame = frame.udp(53).build();
        let verdicts =
            (0..30).map(|_| Judge::judge(&mut program, &frame, Instant::from_nanos(START_NS)));
        verdicts
            .filter(|verdict| matches!(verdict, Verdict::Pass(_)))
            .count()
    })
}

/// The words of the records that are pinned.
#[track_caller]
fn words(service: &Service) -> usize {
    map(service).value_size() as usize / 8
}

fn id(service: &Service) -> u32 {
    map(service).id()
}

fn map(service: &Service) -> MapInfo {
    let maps = service.pins().join(format!("v{}/maps", layout::VERSION));
    MapInfo::from_pin(maps.join("SOURCES_V4")).unwrap()
}

fn set(service: &Service, prefix: &str, limits: &[&str]) -> anyhow::Result<String> {
    let mut arguments = vec!["limit", "set", "--prefix", prefix];
    arguments.extend(limits.iter().flat_map(|limit| ["--limit", limit]));
    service.rlctl_ok(&arguments)
}

/// Counts the packets that pass, of thirty.
#[track_caller]
fn passed(lab: &Lab, source: Ipv4Addr) -> usize {
    passed_of(lab, source, 30)
}

fn passed_of(lab: &Lab, source: Ipv4Addr, packets: usize) -> usize {
    lab.passed(&datagram(source), packets).unwrap()
}

fn arrived(receiver: &mut Receiver, source: Ipv4Addr) -> usize {
    let mut arrived = 0;
    while let Some(frame) = receiver.next(LATE).unwrap() {
        arrived += usize::from(frame.get(26..30) == Some(&source.octets()));
    }
    arrived
}
