//! A policy bans in the packet of the last strike: the kernel by itself, exactly, and as the host
//! would.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    time::Duration,
};

use fastrand::Rng;
use ratelimit_common::{
    Address, BanBudget, BanBudgets, BanRule, DropReason, Evidence, Family, Instant, Ipv4, Ipv6,
    Policy, PolicyBan, Refusals, Settings, Unit, Verdict, policy_ban::BanResult, refused::WAYS,
};
use ratelimit_tests::{
    Frame, Program, Scene, cpu,
    mutation::choose,
    packet::datagram,
    pool::Pooled,
    program::{CONFORMING, Constants, Events, LIMITED},
    require_cpus, require_root,
    scene::{Judge, limit},
};

const BANNED: Verdict = Verdict::Drop(DropReason::Banned);
const SOURCE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const SECOND: u64 = 1_000_000_000;
const START: u64 = 1 << 40;
/// Strikes within a second that ban for a minute.
const AFTER: u32 = 3;

/// Floods at any times: the kernel and the host ban alike, and no minute has more bans than there
/// may be.
#[test]
fn in_no_minute_are_more_banned_than_may_be() {
    const PER_MINUTE: u32 = 7;
    require_root!();
    let scene = scene(rule().including_forgeable(), PER_MINUTE);
    let program = program(&Constants::default(), &scene);
    let mut tables = scene.in_memory(&Constants::default());
    let (mut rng, mut now) = (Rng::with_seed(7), 0);
    let mut of_host = Vec::new();
    for host in 0..250 {
        now += choose(&mut rng, &[0, 1000, SECOND / 2, 3 * SECOND, 20 * SECOND]);
        let frame = ipv4(Ipv4Addr::new(203, 0, 113, host));
        program.set_clock(at(now)).unwrap();
        program.run_often(&frame, AFTER + 1).unwrap();
        let verdicts = (0..AFTER + 2).map(|_| Judge::judge(&mut tables, &frame, at(now)));
        if verdicts.last() == Some(BANNED) {
            of_host.push(now);
        }
    }
    let bans = program.ipv4.bans().unwrap().into_iter();
    let mut bans: Vec<u64> = bans.map(|(_, ban)| ban.at_ns - START).collect();
    bans.sort_unstable();
    assert_eq!(bans, of_host);
    assert!(bans.len() > 10 * PER_MINUTE as usize, "{}", bans.len());
    for (index, first) in bans.iter().enumerate() {
        let later = bans[index..].iter();
        let within = later.take_while(|at| *at - first < 60 * SECOND).count();
        assert!(within <= PER_MINUTE as usize, "{within} from {first} ns on");
    }
}

/// One CPU takes bans as packets do, the other as the daemon does, and moves time on from slot to
/// slot.
#[test]
fn a_policy_and_the_daemon_at_once_make_as_many_bans_in_a_minute_as_may_be() {
    const PER_MINUTE: u32 = 400_000;
    const TRIES: u32 = 500_000;
    require_root!();
    require_cpus!(2);
    let hour = Duration::from_hours(1);
    let rule = BanRule::new(NonZeroU32::MIN, hour, hour).unwrap();
    let mut scene = scene(rule.including_forgeable(), PER_MINUTE);
    // Bans are not enforced, so that each packet makes one.
    scene.settings = Settings::default();
    let program = program(&Constants::default(), &scene);
    let budget = forgeable(PER_MINUTE);
    for round in 0..3 {
        let start = round * 122 * SECOND;
        let before = tally(&program)[0];
        program.set_clock(at(start)).unwrap();
        let by_daemon: u64 = cpu::on_two(|cpu| {
            if cpu == 0 {
                program.run_often(&ipv4(SOURCE), TRIES).unwrap();
                return 0;
            }
            let take = |step| {
                let now = at(start + u64::from(step / 10_000) * SECOND);
                program.set_clock(now).unwrap();
                let takes =
                    (0..10_000).filter(|_| program.take_ban(budget, Evidence::Forgeable, now));
                takes.count() as u64
            };
            (0..TRIES).step_by(10_000).map(take).sum()
        })
        .into_iter()
        .sum();
        let by_policy = tally(&program)[0] - before;
        assert!(by_daemon > 0 && by_policy > 0);
        let most = u64::from(PER_MINUTE);
        let made = by_daemon + by_policy;
        assert!(
            (most - 2..=most).contains(&made),
            "{by_daemon} and {by_policy}"
        );
    }
}

#[test]
fn if_the_map_is_full_the_source_stays_limited_and_is_counted() {
    require_root!();
    let constants = Constants {
        policy_bans: 1,
        ..Constants::default()
    };
    let mut program = program(&constants, &scene(rule().including_forgeable(), 1000));
    let verdicts = judge_often(&mut program, &ipv4(SOURCE), 5);
    assert_eq!(verdicts[4], BANNED);
    let other = ipv4(Ipv4Addr::new(203, 0, 113, 78));
    let verdicts = judge_often(&mut program, &other, 7);
    assert_eq!(verdicts[1..], [LIMITED; 6]);
    assert_eq!(tally(&program), [1, 0, 0, 2]);
}

#[test]
fn a_ban_tells_who_until_when_and_why() {
    require_root!();
    let (program, mut ring) = with_ring(1 << 16);
    program.set_clock(at(7)).unwrap();
    for _ in 0..5 {
        program.run(&ipv4(SOURCE)).unwrap();
    }
    let (_, events) = ring.drain_all();
    let ban = PolicyBan {
        until_ns: START + 7 + 60 * SECOND,
        at_ns: START + 7,
        scope: 77,
        strikes: AFTER,
        limit: 0,
        reserved: 0,
    };
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].ban, ban);
    assert_eq!(events[0].source, Ipv4::from(SOURCE).octets());
    assert_eq!(events[0].family, Family::Ipv4 as u8);
    assert_eq!(program.ipv4.bans().unwrap(), [(SOURCE.into(), ban)]);
}

#[test]
fn a_ban_holds_though_its_event_is_lost() {
    require_root!();
    let (mut program, mut ring) = with_ring(4096);
    program.set_clock(at(0)).unwrap();
    for host in 0..=255 {
        for _ in 0..=AFTER {
            let frame = ipv4(Ipv4Addr::new(203, 0, 113, host));
            program.run(&frame).unwrap();
        }
    }
    let bans = program.ipv4.bans().unwrap();
    let lost = program.tally().unwrap().events_lost;
    let reported = ring.drain_all().1.len() as u64;
    assert_eq!((bans.len(), reported + lost), (256, 256));
    assert!(lost > 100, "{lost} events were lost");
    for host in 0..=255 {
        let frame = ipv4(Ipv4Addr::new(203, 0, 113, host));
        assert_eq!(program.judge_at(&frame, at(1)), BANNED);
    }
}

/// Bans are not enforced here, so that each CPU makes strikes all the time.
#[test]
fn two_cpus_ban_with_exactly_every_last_strike() {
    const PACKETS: u32 = 500_000;
    const AFTER: u32 = 7;
    require_root!();
    require_cpus!(2);
    let hour = Duration::from_hours(1);
    let rule = BanRule::new(NonZeroU32::new(AFTER).unwrap(), hour, hour).unwrap();
    let mut scene = scene(rule.including_forgeable(), 10_000_000);
    scene.settings = Settings::default();
    let program = program(&Constants::default(), &scene);
    for frame in [ipv4(SOURCE), ipv6(Ipv6Addr::LOCALHOST)] {
        let before = tally(&program)[0];
        cpu::on_two(|_| program.run_often(&frame, PACKETS).unwrap());
        let strikes = u64::from(2 * PACKETS) - 1;
        assert_eq!(tally(&program)[0] - before, strikes / u64::from(AFTER));
    }
    let refused = program.ipv4.refusals_of(&SOURCE.into()).unwrap().packets;
    assert_eq!(refused, u64::from(2 * PACKETS) - 1);
    let [(source, word)] = program.ipv4.strikes().unwrap()[..] else {
        panic!("all strikes are of one source");
    };
    assert_eq!(source, SOURCE.into());
    assert_eq!(rule.strikes(word, at(0)), refused % u64::from(AFTER));
    let network = Ipv6::from(Ipv6Addr::UNSPECIFIED);
    let of_network = program.ipv6.refusals_of(&network).unwrap();
    assert_eq!(of_network.packets, refused);
}

#[test]
fn of_more_sources_than_a_set_has_room_for_those_are_reported_that_were_refused_last() {
    require_root!();
    let mut scene = scene(rule(), 1000);
    scene.policies = vec![without_ban()];
    let mut program = program(&Constants::default(), &scene);
    let own = |address: &Ipv4Addr| Ipv4::from(*address).filter_bit();
    let rivals: Vec<Ipv4Addr> = (0x0a00_0000..)
        .map(Ipv4Addr::from)
        .filter(|address| own(address) == own(&SOURCE))
        .take(WAYS)
        .collect();
    cpu::pin(0);
    for (second, source) in (0..).zip([&[SOURCE], &rivals[..]].concat()) {
        let now = at(second * SECOND);
        let verdicts = [CONFORMING, LIMITED, LIMITED];
        for verdict in verdicts {
            assert_eq!(program.judge_at(&ipv4(source), now), verdict);
        }
    }
    let mut reported = program.ipv4.refusals().unwrap();
    reported.sort_by_key(|(_, refusals)| refusals.last_ns);
    let expected = (1..).zip(&rivals).map(|(second, source)| {
        let last_ns = at(second * SECOND).as_nanos();
        (
            Ipv4::from(*source),
            Refusals {
                packets: 2,
                last_ns,
            },
        )
    });
    assert_eq!(reported, expected.collect::<Vec<_>>());
}

/// One packet in two minutes, and no ban.
fn without_ban() -> Policy {
    let limits = [limit(1, Unit::Packets, Duration::from_mins(2))];
    Policy::new(&limits, 77, false).unwrap()
}

/// A source may send a packet in two minutes, and is banned by this rule.
fn scene(rule: BanRule, per_minute: u32) -> Scene {
    let limits = [limit(1, Unit::Packets, Duration::from_mins(2))];
    Scene {
        settings: Settings::default().with_policy_bans(),
        policies: vec![Policy::new(&limits, 77, false).unwrap().with_ban(rule)],
        ban_budgets: forgeable(per_minute),
        ..Scene::default()
    }
}

/// No bans of established sources: there are no connections here.
fn forgeable(per_minute: u32) -> BanBudgets {
    BanBudgets {
        forgeable: BanBudget::per_minute(NonZeroU32::new(per_minute).unwrap()),
        ..BanBudgets::default()
    }
}

fn rule() -> BanRule {
    let after = NonZeroU32::new(AFTER).unwrap();
    BanRule::new(after, Duration::from_secs(1), Duration::from_mins(1)).unwrap()
}

fn program(constants: &Constants, scene: &Scene) -> Pooled {
    let program = Pooled::with(constants, scene).expect("the program loads");
    program.set_clock(at(0)).unwrap();
    program
}

fn with_ring(bytes: u32) -> (Program, Events) {
    let constants = Constants {
        events_bytes: bytes,
        ..Constants::default()
    };
    // Its ring can be taken once.
    let mut program = Program::load(&constants).unwrap();
    scene(rule().including_forgeable(), 1000)
        .set_up(&mut program)
        .unwrap();
    let ring = program.take_events().unwrap();
    (program, ring)
}

fn judge_often(program: &mut Program, frame: &[u8], times: usize) -> Vec<Verdict> {
    (0..times).map(|_| program.judge_at(frame, at(0))).collect()
}

fn tally(program: &Program) -> [u64; BanResult::ALL.len()] {
    program.tally().unwrap().results
}

trait JudgeAt {
    fn judge_at(&mut self, frame: &[u8], now: Instant) -> Verdict;
}

impl JudgeAt for Program {
    fn judge_at(&mut self, frame: &[u8], now: Instant) -> Verdict {
        Judge::judge(self, frame, now)
    }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(START + nanos)
}

fn ipv4(source: Ipv4Addr) -> Vec<u8> {
    datagram(source)
}

fn ipv6(source: Ipv6Addr) -> Vec<u8> {
    Frame::ethernet().ipv6(source).udp(53).pad_to(80).build()
}
