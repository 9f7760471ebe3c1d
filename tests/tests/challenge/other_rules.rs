//! The challenge beside allows, bans, limits, budgets and dry runs.

use std::{cell::Cell, num::NonZeroU32, time::Duration};

use ratelimit_common as common;
use ratelimit_common::{
    BanBudget, BanBudgets, BanRule, ClassSet, DropReason, Policy, Settings, Unit, Verdict,
    challenge::{Rules, Trigger},
};
use ratelimit_tests::{Frame, require_root, scene::limit, service::Service, wait_until};

use super::*;

/// Packets of the limit of the node.
const LIMIT: u64 = 2_000;

#[test]
fn allowed_sources_and_connections_that_stand_are_not_challenged_and_banned_ones_not_answered() {
    require_root!();
    let lab = lab();
    let plain = generic(&ALWAYS.replace("always", "never"));
    let service = Service::started(&lab, &plain).unwrap();
    let server = Server::new(&lab, NEAR[0]);
    let mut standing = connect(&lab, NEAR[0]);
    service.reload(&generic(ALWAYS)).unwrap();
    exchange(&mut standing, &[7]);
    service.rlctl_ok(&["allow", "add", FAR[0]]).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    service.rlctl_ok(&["allow", "rm", FAR[0]]).unwrap();
    service.rlctl_ok(&["ban", FAR[0]]).unwrap();
    let address = server.address;
    let refused = lab
        .far
        .enter(|| TcpStream::connect_timeout(&address, Duration::from_millis(300)));
    assert!(refused.is_err());
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    service.rlctl_ok(&["unban", FAR[0]]).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    // And off again, under way.
    service.reload(&plain).unwrap();
    let challenged = service.packets("drop", "challenged").unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), challenged);
}

/// The pair test of the challenge, the limit by source and that of the node.
#[test]
fn a_verified_source_is_served_when_a_flood_of_others_has_spent_its_part_of_the_limit_of_the_node()
{
    require_root!();
    let toml = |prefer: &str| {
        let source = "limits = [{ packets = 300, per = \"1h\" }]";
        generic(&format!(
            "[policy.default]\n\
             {source}\n\
             [challenge.tcp]\n\
             when = \"always\"\n\
             method = \"syncookie\"\n\
             [node]\n\
             {prefer}\n\
             limits = [{{ packets = {LIMIT}, per = \"1h\" }}]\n"
        ))
    };
    let lab = lab();
    sysctl(&lab.near, "net/ipv4/tcp_syncookies", "2");
    let service = Service::started(&lab, &toml("prefer = \"verified\"")).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    let mut verified = connect(&lab, NEAR[0]);
    let sender = Sender::new(&lab.far).unwrap();
    let refused = || service.packets("drop", "node-limited").unwrap();
    let numbers = Cell::new(0x6000_0000);
    let flood = || {
        let enough = refused() + 1_000;
        let is_spent = || {
            let judged = service.received().unwrap() + 200;
            for _ in 0..200 {
                let source = Ipv4Addr::from(numbers.replace(numbers.get() + 1));
                sender.send(&datagram(source)).unwrap();
            }
            wait_until("all were judged", || service.received().unwrap() >= judged);
            refused() >= enough
        };
        wait_until("the flood is refused", is_spent);
    };
    // The second half of the limit is for verified sources.
    flood();
    let passed = service.packets("pass", "conforming").unwrap();
    assert!(passed <= LIMIT / 2 + LIMIT / 128, "{passed}");
    let before = refused();
    for _ in 0..20 {
        exchange(&mut verified, &[7]);
    }
    connect(&lab, NEAR[0]);
    assert_eq!(refused(), before);
    let check = |address: &str| service.rlctl(&["check", address]).unwrap().stdout;
    let forged = check("96.0.0.1");
    assert!(forged.contains("node-limited"), "{forged}");
    let kept = "SYNs are challenged; half of each node limit is reserved for verified sources";
    assert!(forged.contains(kept), "{forged}");
    let far = check(FAR[0]);
    assert!(far.contains("conforming"), "{far}");
    let status = service.rlctl_ok(&["status"]).unwrap();
    let preferred = "verified sources have precedence in node limits";
    assert!(status.contains(preferred), "{status}");
    // A verified source has its own limit, and leaves the rest to the others.
    let far: Ipv4Addr = FAR[0].parse().unwrap();
    let is_limited = || {
        for _ in 0..100 {
            sender.send(&datagram(far)).unwrap();
        }
        service.packets("drop", "limited").unwrap() >= 100
    };
    wait_until("its own limit holds", is_limited);
    assert!(service.packets("pass", "conforming").unwrap() < LIMIT);
    // Without the preference the flood takes what is left.
    service.reload(&toml("")).unwrap();
    flood();
    let far = check(FAR[1]);
    assert!(far.contains("node-limited"), "{far}");
    let passed = service.packets("pass", "conforming").unwrap();
    assert!(passed > LIMIT - LIMIT / 64, "{passed}");
}

#[test]
fn if_everything_passes_or_one_interface_is_a_dry_run_nothing_is_answered() {
    require_root!();
    let lab = lab();
    let service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    service
        .rlctl_ok(&["pass-all", "on", "--for", "1m"])
        .unwrap();
    connect(&lab, NEAR[0]);
    service.rlctl_ok(&["pass-all", "off"]).unwrap();
    let observing = format!("{}observe = true\n", generic(ALWAYS));
    service.reload(&observing).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("observe", "challenged").unwrap(), 1);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    service.reload(&generic(ALWAYS)).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 1);
}

#[test]
fn a_client_that_is_challenged_uses_nothing_of_the_budget_for_new_sources() {
    require_root!();
    let toml = |when: &str| {
        generic(&format!(
            "[source]\nnew_sources = {{ count = 50, per = \"1h\", over_budget = \"drop\" }}\n\
             [policy.default]\nlimits = [{{ packets = 1_000, per = \"1h\" }}]\n\
             [challenge.tcp]\nwhen = \"{when}\"\n"
        ))
    };
    for when in ["always", "never"] {
        let lab = lab();
        let service = Service::started(&lab, &toml(when)).unwrap();
        let _server = Server::new(&lab, NEAR[0]);
        burst(&lab, 1_000);
        let refused = service.packets("drop", "new-sources").unwrap();
        if when == "always" {
            connect(&lab, NEAR[0]);
            assert_eq!(
                (refused, service.packets("pass", "verified").unwrap()),
                (0, 1)
            );
        } else {
            assert!(refused > 800, "{refused}");
        }
    }
}

/// Even if the policy bans sources that may be forged, as otherwise a forger could get a client
/// banned.
#[test]
fn who_has_to_prove_itself_is_not_banned_for_what_is_asked_in_its_name_over_the_budget() {
    let now = common::Instant::from_nanos(1 << 40);
    let rules = |connections| {
        let lasts = Duration::from_mins(10);
        let rules = Rules::new(connections, lasts, NonZeroU32::MIN, 1).unwrap();
        let rules = rules.asking_queries(Trigger::Always, [53, 0, 0, 0, 0, 0, 0, 0], 1);
        rules.unwrap()
    };
    let second = Duration::from_secs(1);
    let rule = BanRule::new(NonZeroU32::MIN, second, second * 600);
    let policy = Policy::new(&[limit(1, Unit::Packets, second * 60)], 0, false).unwrap();
    let many = NonZeroU32::new(1_000).unwrap();
    let scene = |challenge| Scene {
        settings: Settings::default().with_policy_bans().with_challenge(true),
        policies: vec![policy.with_ban(rule.unwrap().including_forgeable())],
        ban_budgets: BanBudgets {
            established: BanBudget::per_minute(many),
            forgeable: BanBudget::per_minute(many),
        },
        challenge,
        ..Scene::default()
    };
    let [banned, limited] = [DropReason::Banned, DropReason::Limited].map(Verdict::Drop);
    let datagram = |number, near, port| forged::frame(number, near).udp(port).build_to(near);
    for near in NEAR {
        for (challenge, frame, expected) in [
            (rules(Trigger::Always), forged(1, near), limited),
            (rules(Trigger::Never), forged(2, near), banned),
            (rules(Trigger::Always), datagram(3, near, 53), limited),
            (rules(Trigger::Always), datagram(4, near, 54), banned),
            (
                rules(Trigger::Never).of_classes(ClassSet::NONE, false),
                forged(5, near),
                banned,
            ),
            (
                rules(Trigger::Always).of_classes(ClassSet::NONE, false),
                forged(6, near),
                banned,
            ),
        ] {
            for mut judge in scene(challenge).judges(&Constants::default()) {
                let verdicts: Vec<_> = (0..9).map(|_| judge.judge(&frame, now)).collect();
                assert_eq!(
                    verdicts[8],
                    expected,
                    "{} {near}: {verdicts:?}",
                    judge.name()
                );
            }
        }
    }
}

/// A datagram to a port without a socket.
fn datagram(source: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet().ipv4(source).udp(PORT).build()
}
