//! The daemon dies and is restarted: bans and runtime settings stay.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::Ipv4Addr,
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use ratelimit_common::layout;
use ratelimit_core::api::{Allow, Ban, EntryCounter, PolicyView};
use ratelimit_tests::{
    Lab,
    lab::{INTERFACE, Receiver, Sender},
    packet::datagram,
    require_root,
    service::Service,
};

const BANNED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const LIMITED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const LIMIT: u64 = 20;
/// The longest time until a frame that passed arrives.
const LATE: Duration = Duration::from_millis(500);

#[test]
fn what_is_set_after_somebody_removed_the_database_is_there_after_a_kill() {
    require_root!();
    let (_lab, mut service) = Service::in_lab("[policy.default]\nlimits = []\n").unwrap();
    let set = |service: &Service, number: u32| {
        let source = format!("192.0.2.{number}");
        let limit = format!("limit set --packets 7 --per 1m --prefix {source}");
        let words: Vec<&str> = limit.split(' ').collect();
        service.rlctl_ok(&words).unwrap();
        service.rlctl_ok(&["ban", &source]).unwrap();
    };
    let told = |part: &str| {
        let status = service.rlctl_ok(&["status"]).unwrap();
        status.contains("failure of database") && status.contains(part)
    };
    set(&service, 1);
    let [state, away] = ["state", "away"].map(|name| service.path(name));
    let file = state.join("state.db");
    fs::remove_file(&file).unwrap();
    service.wait_until("creating it again", || told("creating it again"));
    service.wait_until("it is over", || !told(""));
    set(&service, 2);
    // The directory is not the daemon's to make.
    fs::rename(&state, &away).unwrap();
    service.wait_until("it is told", || told("will be lost when ratelimitd stops"));
    fs::rename(&away, &state).unwrap();
    service.wait_until("it is over", || !told(""));
    set(&service, 3);
    let before = intent(&service);
    assert_eq!((before.0.len(), before.2.len()), (3, 4));
    let copy = state.join("copy.db");
    fs::copy(&file, &copy).unwrap();
    fs::rename(&copy, &away).unwrap();
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert_eq!(intent(&service), before);
    // Another one is left to the next start.
    fs::rename(&away, &file).unwrap();
    let told = || service.rlctl_ok(&["status"]).unwrap();
    service.wait_until("it is told", || told().contains("state.db is another file"));
}

#[test]
fn killed_under_traffic_the_daemon_lets_no_forbidden_packet_pass() {
    require_root!();
    let lab = Lab::new().unwrap();
    // One window for the whole test: the limited source gets the limit once, however often the
    // daemon starts.
    let toml = format!("[policy.default]\nlimits = [{{ packets = {LIMIT}, per = \"10m\" }}]\n");
    let mut service = Service::started(&lab, &toml).unwrap();
    service
        .rlctl_ok(&["ban", "203.0.113.0/24", "--for", "1h", "--reason", "test"])
        .unwrap();
    let runtime = [
        "limit",
        "set",
        "--prefix",
        "192.0.2.0/24",
        "--packets",
        "7",
        "--per",
        "1m",
    ];
    service.rlctl_ok(&runtime).unwrap();
    let before = intent(&service);

    let mut receiver = Receiver::new(&lab.near).unwrap();
    let stop = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let traffic = scope.spawn(|| send_until(&lab, &stop));
        for _ in 0..3 {
            service.stop("-KILL").unwrap();
            thread::sleep(Duration::from_millis(50));
            service.start().unwrap();
        }
        stop.store(true, Relaxed);
        traffic.join().unwrap()
    });

    let mut arrived = Vec::new();
    while let Some(frame) = receiver.next(LATE).unwrap() {
        arrived.push(source(&frame));
    }
    assert!(sent > 10 * LIMIT, "{sent} packets are too few to tell");
    assert_eq!(
        arrived.iter().filter(|source| **source == BANNED).count(),
        0
    );
    assert_eq!(
        arrived.iter().filter(|source| **source == LIMITED).count() as u64,
        LIMIT
    );
    assert_same(intent(&service), &before);
}

#[test]
fn on_stop_follows_the_last_reload() {
    require_root!();
    let lab = Lab::new().unwrap();
    let toml = |word| format!("on_stop = \"{word}\"\n[policy.default]\nlimits = []\n");
    for (first, then) in [("detach", "keep"), ("keep", "detach")] {
        let mut service = Service::started(&lab, &toml(first)).unwrap();
        service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
        let said = service.reload(&toml(then)).unwrap();
        assert!(
            said.contains(&format!("on_stop: {first} -> {then}")),
            "{said}"
        );
        service.stop("-TERM").unwrap();
        assert_eq!(passes(&lab, BANNED), then == "detach", "{then}");
        assert_eq!(service.pins().exists(), then == "keep", "{then}");
    }
}

#[test]
fn who_reads_nothing_of_an_answer_does_not_hold_the_end_up() {
    require_root!();
    let (_lab, mut service) = Service::in_lab("[policy.default]\nlimits = []\n").unwrap();
    let list = service.path("list.txt");
    // More than the buffers on the way take.
    let addresses = (0..50_000).map(|number| Ipv4Addr::from_bits(0x0b00_0000 + 2 * number));
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    fs::write(&list, addresses.join("\n")).unwrap();
    service
        .rlctl_ok(&["import", list.to_str().unwrap(), "--ban"])
        .unwrap();
    let mut client = UnixStream::connect(service.path("run/control.sock")).unwrap();
    let request = b"GET /v1/export HTTP/1.1\r\nhost: ratelimitd\r\n\r\n";
    client.write_all(request).unwrap();
    client.read_exact(&mut [0; 64]).unwrap();
    let start = Instant::now();
    service.stop("-TERM").unwrap();
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(
        service.log().contains("aborted requests in progress"),
        "{}",
        service.log()
    );
}

#[test]
fn after_rlctl_detach_everything_passes_and_the_next_start_attaches_again() {
    require_root!();
    let (lab, mut service) = Service::in_lab("[policy.default]\nlimits = []\n").unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    service.rlctl_ok(&["detach"]).unwrap();
    assert!(passes(&lab, BANNED));
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert!(!passes(&lab, BANNED));
}

#[test]
fn a_daemon_with_another_layout_takes_over_in_each_mode() {
    require_root!();
    let lab = Lab::new().unwrap();
    let config = |mode: &str| {
        format!(
            "[policy.default]\n\
             limits = []\n\
             [[interface]]\n\
             name = \"{INTERFACE}\"\n\
             mode = \"{mode}\"\n"
        )
    };
    let mut service = Service::started(&lab, &config("native")).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    let own = service.pins().join(format!("v{}", layout::VERSION));
    let older = service.pins().join("v1");
    for mode in ["native", "generic"] {
        service.stop("-KILL").unwrap();
        fs::rename(&own, &older).unwrap();
        service.configure(&config(mode)).unwrap();
        let mut receiver = Receiver::new(&lab.near).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| send_until(&lab, &stop));
            service.start().unwrap();
            stop.store(true, Relaxed);
        });
        while let Some(frame) = receiver.next(LATE).unwrap() {
            // The link is taken off for another mode.
            assert!(source(&frame) != BANNED || mode == "generic");
        }
        assert!(!passes(&lab, BANNED), "{mode}");
        assert!(passes(&lab, LIMITED), "{mode}");
        let reported = service.rlctl_ok(&["status"]).unwrap();
        assert!(reported.contains(mode), "{reported}");
        assert!(!older.exists(), "{mode}");
    }
    let why = "another version of ratelimitd made the tables";
    let log = service.log();
    let warned = |line: &&str| line.contains("WARN") && line.contains(why);
    assert_eq!(log.lines().filter(warned).count(), 2, "{log}");
    let events = service.rlctl_ok(&["events"]).unwrap();
    let told = events.lines().filter(|line| line.contains(why));
    assert_eq!(told.count(), 2, "{events}");
}

/// The intent as `rlctl` lists it, without counters.
type Intent = (Vec<Ban>, Vec<Allow>, Vec<PolicyView>);

/// The ends of bans are on the kernel's clock, and shown on the wall's: they may be apart by a
/// moment.
fn assert_same(mut after: Intent, before: &Intent) {
    const MOMENT: SignedDuration = SignedDuration::from_millis(10);
    for (ban, before) in after.0.iter_mut().zip(&before.0) {
        let ends = ban.until.zip(before.until);
        if ends.is_some_and(|(one, other)| one.duration_since(other).abs() <= MOMENT) {
            ban.until = before.until;
        }
    }
    assert_eq!(after, *before);
}

fn intent(service: &Service) -> Intent {
    let list = |list| service.rlctl_ok(&["--json", "list", list]).unwrap();
    let mut bans: Vec<Ban> = serde_json::from_str(&list("bans")).unwrap();
    for ban in &mut bans {
        ban.counter = EntryCounter::default();
    }
    let mut allows: Vec<Allow> = serde_json::from_str(&list("allows")).unwrap();
    for allow in &mut allows {
        allow.counter = EntryCounter::default();
    }
    let mut policies: Vec<PolicyView> = serde_json::from_str(&list("limits")).unwrap();
    for policy in &mut policies {
        policy.counter = EntryCounter::default();
    }
    (bans, allows, policies)
}

fn send_until(lab: &Lab, stop: &AtomicBool) -> u64 {
    let sender = Sender::new(&lab.far).unwrap();
    let mut sent = 0;
    while !stop.load(Relaxed) {
        for source in [BANNED, LIMITED] {
            sender.send(&datagram(source)).unwrap();
            sent += 1;
        }
        thread::sleep(Duration::from_micros(500));
    }
    sent
}

fn passes(lab: &Lab, source: Ipv4Addr) -> bool {
    lab.passes(&datagram(source)).unwrap()
}

fn source(frame: &[u8]) -> Ipv4Addr {
    let octets: [u8; 4] = frame[26..30].try_into().unwrap();
    octets.into()
}
