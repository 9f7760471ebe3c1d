//! The clock that the daemon chooses keeps a limit whole; the other one would not.

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::{Policy, Settings, Unit, algorithm::TokenBucket, layout};
use ratelimit_core::api::{ClockStatus, KernelClock, Status};
use ratelimit_daemon::clock;
use ratelimit_tests::{
    Program, Scene,
    attached::{self, Attached},
    packet::datagram,
    program::{Action, Constants},
    require_root,
    scene::limit,
    service::Service,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// About a second of them.
const SENT: usize = 490;

#[test]
fn of_490_packets_a_second_none_is_refused_by_a_limit_of_500() {
    require_root!();
    let (_lab, service) = Service::in_lab(&policy("auto")).unwrap();
    assert_eq!(status(&service).clock, KernelClock::Precise);
    assert!(!attached::settings(&service).unwrap().coarse_clock());
    let program = Attached::of(&service).unwrap();
    let frame = datagram(SOURCE);
    for packet in 0..SENT {
        assert!(program.passes(&frame).unwrap(), "packet {packet}");
        // The next one comes later than the limit asks for, however late it is.
        thread::sleep(gap());
    }
}

#[test]
fn by_the_coarse_clock_packets_that_keep_to_the_limit_are_refused() {
    const PATIENCE: Duration = Duration::from_mins(1);
    require_root!();
    let (_lab, service) = Service::in_lab(&policy("coarse")).unwrap();
    let status = status(&service);
    assert_eq!((status.clock, status.suits), (KernelClock::Coarse, false));
    assert!(attached::settings(&service).unwrap().coarse_clock());
    assert!(service.log().contains("too coarse"), "{}", service.log());
    let program = Attached::of(&service).unwrap().now().unwrap();
    let frame = datagram(SOURCE);
    let start = Instant::now();
    let mut sent = 0;
    while program.passes(&frame).unwrap() {
        sent += 1;
        assert!(start.elapsed() < PATIENCE, "all {sent} packets passed");
        spin(gap());
    }
}

#[test]
fn the_coarse_clock_shows_a_time_within_the_tick_that_is_running() {
    const PACKETS: usize = 500;
    /// The kernel moves its jiffies a moment before its coarse clock.
    const MOMENT_NS: u64 = 1_000_000;
    require_root!();
    let constants = Constants {
        clock: layout::clock::KERNEL,
        ..Constants::default()
    };
    let limits = [limit(1, Unit::Packets, Duration::from_mins(2))];
    let scene = Scene {
        settings: Settings::default().with_coarse_clock(),
        policies: vec![Policy::new(&limits, 77, false).unwrap()],
        ..Scene::default()
    };
    let mut program = Program::load(&constants).unwrap();
    scene.set_up(&mut program).unwrap();
    let frame = datagram(SOURCE);
    assert_eq!(program.run(&frame).unwrap(), Action::Pass);
    let mut stamps = BTreeSet::new();
    for _ in 0..PACKETS {
        let tick_ns = last_tick_ns();
        assert_eq!(program.run(&frame).unwrap(), Action::Drop);
        let now_ns = clock::now().as_nanos();
        let stamp_ns = program.ipv4.refusals_of(&SOURCE.into()).unwrap().last_ns;
        assert!(stamp_ns <= now_ns, "{stamp_ns} is later than {now_ns}");
        let is_of_tick = stamp_ns + MOMENT_NS >= tick_ns;
        assert!(is_of_tick, "{stamp_ns} is before the tick at {tick_ns}");
        stamps.insert(stamp_ns);
    }
    assert!(stamps.len() > 1, "no tick in {PACKETS} packets");
}

/// A bucket of one packet that is full again after half a tick of the coarse clock: 500 packets a
/// second, with 250 ticks.
fn policy(clock: &str) -> String {
    let rate = rate();
    assert!(TokenBucket::new(rate, Duration::from_secs(1), 1).is_ok());
    format!(
        "clock = \"{clock}\"\n\
         [policy.default]\n\
         limits = \
         [{{ packets = {rate}, per = \"1s\", algorithm = \"token-bucket\", burst = 1 }}]\n"
    )
}

fn rate() -> u64 {
    let ticks = Duration::from_secs(1).as_nanos() / clock::tick().as_nanos();
    u64::try_from(2 * ticks).unwrap()
}

/// The time between two of 490 packets a second where the limit is 500.
fn gap() -> Duration {
    Duration::from_secs(1) * 500 / 490 / u32::try_from(rate()).unwrap()
}

/// Waits no longer than it must.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn status(service: &Service) -> ClockStatus {
    let status: Status = service.json(&["status"]).unwrap();
    status.clock
}

/// The time of the last tick, in nanoseconds since boot.
fn last_tick_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists since Linux 2.6.32, and `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap());
    seconds * 1_000_000_000 + nanos
}
