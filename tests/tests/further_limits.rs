//! Further limits beside those of a policy: they can refuse more, and give back nothing that a
//! source has used.

use std::{net::IpAddr, time::Duration};

use fastrand::Rng;
use ratelimit_common::{
    Cursor, Instant, Limit, ListEntry, Policy, Settings, Unit, Verdict,
    algorithm::{Algorithm, FixedWindow, SlidingWindow, TokenBucket},
    compact::Region,
    layout::store,
};
use ratelimit_core::memory_tables::MemoryTables;
use ratelimit_tests::{
    Frame, Program, Scene, cpu,
    pool::Pooled,
    program::{CONFORMING, Constants, LIMITED},
    require_root,
    scene::{Judge, limit},
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
/// The indices of the policy, of the same with a further limit, and of that limit.
const OWN: u32 = 0;
const LIMITED_TOO: u32 = 1;
const FURTHER: u32 = 2;
const SOURCES: [&str; 2] = ["203.0.113.7", "2001:db8:7::1"];

#[test]
fn what_a_source_has_used_stays_used_when_a_further_limit_comes_and_goes() {
    for store in [store::LRU, store::COMPACT] {
        let constants = constants(store);
        let [hour, short] = [8, 2].map(|amount| limit(amount, Unit::Packets, HOUR));
        let scene = scene(&[hour], &[short]);
        run(&mut scene.in_memory(&constants));
        require_root!();
        cpu::pin(0);
        run(&mut *Pooled::with(&constants, &scene).unwrap());
    }
}

fn run(judge: &mut impl Under) {
    for source in SOURCES {
        let frame = frame(source.parse().unwrap());
        let check = |judge: &mut dyn Judge, expected: Verdict| {
            let verdict = judge.judge(&frame, at(0));
            assert_eq!(verdict, expected, "{} {source}", judge.name());
        };
        for _ in 0..5 {
            check(judge, CONFORMING);
        }
        for expected in [CONFORMING, CONFORMING, LIMITED, LIMITED] {
            judge.put_under(source, LIMITED_TOO);
            check(judge, expected);
        }
        judge.put_under(source, OWN);
        check(judge, CONFORMING);
        check(judge, LIMITED);
        judge.put_under(source, LIMITED_TOO);
        check(judge, LIMITED);
    }
}

#[test]
fn a_further_limit_is_reported_behind_those_of_the_policy() {
    let hour = limit(8, Unit::Packets, HOUR);
    let scene = scene(&[hour, hour, hour], &[hour, limit(1, Unit::Packets, HOUR)]);
    let mut tables = scene.in_memory(&constants(store::LRU));
    tables.put_under(SOURCES[0], LIMITED_TOO);
    let frame = frame(SOURCES[0].parse().unwrap());
    for expected in [CONFORMING, LIMITED] {
        assert_eq!(tables.judge(Cursor::new(&frame), at(0)), expected);
    }
    assert_eq!(tables.take_refusal().unwrap().limit, 4);
}

/// Whatever is admitted while a further limit comes and goes, the limits of the policy alone have
/// room for.
#[test]
fn a_further_limit_only_adds_refusals() {
    let (mut refused, mut admitted) = (0, 0);
    for seed in 0..if cfg!(debug_assertions) { 100 } else { 2_000 } {
        let mut rng = Rng::with_seed(seed);
        let constants = constants([store::LRU, store::COMPACT][rng.usize(..2)]);
        let mut limits = || -> Vec<Limit> {
            (0..rng.usize(1..=3))
                .map(|_| random_limit(&mut rng))
                .collect()
        };
        let (own, further) = (limits(), limits());
        let scene = scene(&own, &further);
        let [mut alone, mut beside] = [(); 2].map(|()| scene.in_memory(&constants));
        let mut now_ns = rng.u64(..1 << 50);
        for _ in 0..300 {
            let bits = rng.u8(1..30);
            now_ns += rng.u64(..1 << bits);
            let source = SOURCES[rng.usize(..2)];
            if rng.u8(..20) == 0 {
                beside.put_under(source, [OWN, LIMITED_TOO][rng.usize(..2)]);
            }
            let frame = frame(source.parse().unwrap());
            let now = Instant::from_nanos(now_ns);
            if Judge::judge(&mut beside, &frame, now) == LIMITED {
                refused += 1;
                continue;
            }
            admitted += 1;
            let verdict = Judge::judge(&mut alone, &frame, now);
            assert_eq!(verdict, CONFORMING, "seed {seed}");
        }
    }
    assert!(refused > 1_000 && admitted > 1_000, "{refused} {admitted}");
}

/// Judges that can set the policy of a source.
trait Under: Judge {
    fn put_under(&mut self, source: &str, policy: u32);
}

impl Under for Program {
    fn put_under(&mut self, source: &str, policy: u32) {
        let entry = ListEntry::new(false, None, Some(policy));
        self.set_list_entry(source.parse().unwrap(), entry).unwrap();
    }
}

impl Under for MemoryTables {
    fn put_under(&mut self, source: &str, policy: u32) {
        let entry = ListEntry::new(false, None, Some(policy));
        self.set_list_entry(source.parse().unwrap(), entry);
    }
}

/// A policy of `own` limits, and the same one with `further` limits: both have the same state.
fn scene(own: &[Limit], further: &[Limit]) -> Scene {
    let in_regions = |limits: &[Limit], scope: u32| {
        let regions: Vec<Region> = (0..8)
            .map(|index| Region::new((8 * scope + index) * 16, 16))
            .collect();
        let policy = Policy::new(limits, scope, false).unwrap();
        policy.in_regions(&regions)
    };
    let policy = in_regions(own, 0);
    Scene {
        settings: Settings::new(0, false).with_further(),
        policies: vec![policy, policy.with_further(FURTHER), in_regions(further, 1)],
        ..Scene::default()
    }
}

fn constants(store: u32) -> Constants {
    Constants {
        store,
        sets: 256,
        ..Constants::default()
    }
}

fn random_limit(rng: &mut Rng) -> Limit {
    let (amount, unit) = if rng.bool() {
        (rng.u64(1..50), Unit::Packets)
    } else {
        (rng.u64(1_000..5_000), Unit::Bytes)
    };
    let algorithm: Algorithm = match rng.u8(..3) {
        0 => FixedWindow::new(amount, SECOND).unwrap().into(),
        1 => SlidingWindow::new(amount, SECOND).unwrap().into(),
        _ => TokenBucket::new(amount, SECOND, amount).unwrap().into(),
    };
    Limit::new(algorithm, unit)
}

fn frame(source: IpAddr) -> Vec<u8> {
    let frame = match source {
        IpAddr::V4(source) => Frame::ethernet().ipv4(source),
        IpAddr::V6(source) => Frame::ethernet().ipv6(source),
    };
    frame.udp(53).pad_to(100).build()
}

fn at(ns: u64) -> Instant {
    Instant::from_nanos((1 << 40) + ns)
}
