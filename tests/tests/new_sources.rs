//! The budget for new sources: the kernel and the host give the same verdicts, exactly as many as
//! it says, in both stores.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    time::Duration,
};

use ratelimit_common::{
    DropReason, Instant, Limit, PassReason, Policy, Settings, Unit, Verdict,
    aggregate::{Aggregate, Aggregates},
    algorithm::SlidingLog,
    new_sources::Budget,
    settings::OverBudget,
};
use ratelimit_tests::{
    Frame,
    attached::Attached,
    cpu,
    pool::Pooled,
    program::{CONFORMING, Constants, LIMITED},
    require_root,
    scene::{Judge, Scene, limit},
    service::Service,
};

const PASSED: Verdict = Verdict::Pass(PassReason::NewSources);
const DROPPED: Verdict = Verdict::Drop(DropReason::NewSources);
/// A window, and the tick that it is rounded up to.
const WINDOW: u64 = 1_001_000_000;
const START: u64 = 1 << 40;

#[test]
fn exactly_the_budget_gets_state_in_each_window() {
    require_root!();
    for (over_budget, verdict) in [(OverBudget::Pass, PASSED), (OverBudget::Drop, DROPPED)] {
        for judge in &mut judges(&scene(5, over_budget, &[a_minute(3)])) {
            let mut source = 0;
            for window in 0..3 {
                for packet in 0..20 {
                    let expected = if packet < 5 { CONFORMING } else { verdict };
                    let at = START + window * WINDOW + packet;
                    assert_eq!(judge.send(ipv4(source), at), expected, "{}", judge.name());
                    source += 1;
                }
            }
        }
    }
}

#[test]
fn a_known_source_keeps_its_limit_and_no_more_while_a_flood_continues() {
    require_root!();
    for over_budget in [OverBudget::Pass, OverBudget::Drop, OverBudget::Aggregate] {
        for limits in [vec![a_minute(50)], vec![a_minute(50), a_minute(60)]] {
            for judge in &mut judges(&scene(5, over_budget, &limits)) {
                for packet in 0..60 {
                    let expected = if packet < 50 { CONFORMING } else { LIMITED };
                    let known = "198.51.100.7".parse().unwrap();
                    assert_eq!(judge.send(known, START), expected, "{}", judge.name());
                    for flood in 0..5 {
                        judge.send(ipv4(packet * 5 + flood), START + 1);
                    }
                }
            }
        }
    }
}

#[test]
fn over_budget_a_network_has_the_limits_of_one_source() {
    require_root!();
    let limits = [a_minute(3)];
    for judge in &mut judges(&scene(1, OverBudget::Aggregate, &limits)) {
        let mut send = |source: &str| judge.send(source.parse().unwrap(), START);
        assert_eq!(send("203.0.113.1"), CONFORMING, "within the budget");
        let late: Vec<Verdict> = (2..7)
            .map(|last| send(&format!("203.0.113.{last}")))
            .collect();
        assert_eq!(late, [PASSED, PASSED, PASSED, DROPPED, DROPPED]);
        assert_eq!(
            send("192.0.2.1"),
            DROPPED,
            "a second overflow bucket is over budget too"
        );
        assert_eq!(send("203.0.113.1"), CONFORMING, "it has state of its own");
        assert_eq!(
            send("203.0.113.0"),
            DROPPED,
            "it is not its overflow bucket"
        );
    }
    for judge in &mut judges(&scene(1, OverBudget::Aggregate, &limits)) {
        let mut send = |source: &str| judge.send(source.parse().unwrap(), START);
        assert_eq!(send("2001:db8:1::1"), CONFORMING);
        let late: Vec<Verdict> = (2..7)
            .map(|net| send(&format!("2001:db8:1:{net}::1")))
            .collect();
        assert_eq!(late, [PASSED, PASSED, PASSED, DROPPED, DROPPED]);
        assert_eq!(
            send("2001:db8:1::9"),
            CONFORMING,
            "the first /64 is not the overflow bucket of its /48"
        );
    }
}

#[test]
fn logs_and_several_limits_keep_to_the_budget_too() {
    require_root!();
    let log = SlidingLog::new(3, Duration::from_mins(1)).unwrap();
    let log = Limit::new(log, Unit::Packets);
    let several = [
        a_minute(3),
        a_minute(100),
        limit(9_000, Unit::Bytes, MINUTE),
    ];
    for limits in [vec![log], vec![a_minute(3), log], several.to_vec()] {
        for judge in &mut judges(&scene(2, OverBudget::Drop, &limits)) {
            let verdicts: Vec<Verdict> = [1, 2, 3, 1, 2, 3, 1, 1]
                .map(|source| judge.send(ipv4(source), START))
                .into();
            let expected = [
                CONFORMING, CONFORMING, DROPPED, CONFORMING, CONFORMING, DROPPED, CONFORMING,
                LIMITED,
            ];
            assert_eq!(verdicts, expected, "{}", judge.name());
        }
    }
}

#[test]
fn wider_limits_hold_over_budget_and_need_none() {
    require_root!();
    for (over_budget, verdict) in [(OverBudget::Pass, PASSED), (OverBudget::Aggregate, PASSED)] {
        let mut scene = scene(1, over_budget, &[a_minute(9)]);
        let wide = Policy::new(&[a_minute(4)], 1, false).unwrap();
        scene.policies.push(wide.for_prefixes());
        let level = Aggregate {
            prefix: 16,
            policy: 1,
        };
        scene.aggregates[0] = Aggregates::new(&[level]).unwrap();
        scene.settings = scene.settings.with_aggregates();
        for judge in &mut judges(&scene) {
            let verdicts: Vec<Verdict> = (0..6)
                .map(|source| judge.send(ipv4(source), START))
                .collect();
            let limited = Verdict::Drop(DropReason::AggregateLimited);
            let expected = [CONFORMING, verdict, verdict, verdict, limited, limited];
            assert_eq!(verdicts, expected, "{}", judge.name());
        }
    }
}

const MINUTE: Duration = Duration::from_mins(1);

/// A flood of four times as many forged sources as there is room passes completely, and an idle
/// source keeps its count. With an unlimited budget, the source would be evicted. The promises of
/// `compact` are in `floods.rs`.
#[test]
fn by_default_a_flood_passes_and_evicts_no_source() {
    const CAPACITY: u64 = 1 << 15;
    require_root!();
    for (more, passed_after) in [("", 2), ("new_sources = \"unlimited\"\n", 5)] {
        let toml = format!(
            "[source]\n\
             store = \"lru\"\n\
             capacity = {CAPACITY}\n\
             {more}[policy.default]\n\
             limits = [{{ packets = 5, per = \"1h\" }}]\n"
        );
        let (_lab, service) = Service::in_lab(&toml).unwrap();
        let program = Attached::of(&service).unwrap();
        cpu::pin(0);
        let known = frame(Ipv4Addr::new(203, 0, 113, 9).into());
        assert_eq!(program.passed(&known, 3).unwrap(), 3);
        let now = program.now().unwrap();
        for source in 0..4 * CAPACITY {
            // Without a budget, a source that the kernel has no element for at the moment is
            // dropped.
            if !now.passes(&frame(ipv4(source))).unwrap() && more.is_empty() {
                let verdicts = service.rlctl_ok(&["stats"]).unwrap();
                panic!("source {source} is dropped: {verdicts}");
            }
        }
        assert_eq!(program.passed(&known, 10).unwrap(), passed_after);
        let status = service.rlctl_ok(&["status"]).unwrap();
        let reported = "new sources: 2048 per 1s, excess passes";
        assert_eq!(status.contains(reported), more.is_empty(), "{status}");
    }
}

fn a_minute(packets: u64) -> Limit {
    limit(packets, Unit::Packets, MINUTE)
}

/// A scene with these limits for each source, and `count` new ones per second.
fn scene(count: u32, over_budget: OverBudget, limits: &[Limit]) -> Scene {
    let count = NonZeroU32::new(count).unwrap();
    Scene {
        settings: Settings::default().with_new_sources(over_budget),
        new_sources: Budget::new(count, Duration::from_secs(1), 2).unwrap(),
        ..Scene::limited(limits)
    }
}

/// The kernel, on one CPU, and the host.
fn judges(scene: &Scene) -> [Box<dyn Judge>; 2] {
    cpu::pin(0);
    let constants = Constants {
        logs: 1 << 10,
        ..Constants::default()
    };
    let kernel = Pooled::with(&constants, scene).expect("the program loads");
    [Box::new(kernel), Box::new(scene.in_memory(&constants))]
}

trait Send: Judge {
    /// Sends a packet of `source`.
    fn send(&mut self, source: IpAddr, at_ns: u64) -> Verdict {
        self.judge(&frame(source), Instant::from_nanos(at_ns))
    }
}

fn frame(source: IpAddr) -> Vec<u8> {
    match source {
        IpAddr::V4(source) => Frame::ethernet().ipv4(source).udp(1).build(),
        IpAddr::V6(source) => Frame::ethernet().ipv6(source).udp(1).build(),
    }
}

impl<T: Judge + ?Sized> Send for T {}

/// A source of a network that many share.
fn ipv4(number: u64) -> IpAddr {
    let number = u32::try_from(number).unwrap();
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number).into()
}
