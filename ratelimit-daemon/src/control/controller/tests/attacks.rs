//! The handling of attacks that were found.

use ratelimit_common::{
    Evidence, Policy,
    challenge::{self, Period, Trigger, Verified},
};
use ratelimit_core::{
    api::What,
    detection::{Answer, Attack, Kind, Rule, Step, Subject},
};

use super::*;
use crate::protected::Why;

#[test]
fn an_attack_is_reported_while_it_continues_and_counted() {
    let mut lab = Lab::new(config());
    let attack = attack();
    let step = Step {
        began: vec![attack.clone()],
        ..Step::default()
    };
    lab.note_attacks(&step, vec![attack.clone()]);
    let reported = lab.status().attacks;
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].subject, "from 192.0.2.1");
    assert_eq!(
        lab.snapshot(Sources::default()).unwrap().attacks[&Kind::HeavyHitter],
        1
    );
    let over = Step {
        ended: vec![attack],
        ..Step::default()
    };
    lab.note_attacks(&over, vec![]);
    assert_eq!(lab.status().attacks, []);
    let events = lab.events();
    let events: Vec<&What> = events.iter().map(|event| &event.what).collect();
    assert!(
        matches!(
            events[..], [What::AttackBegan(began), What::AttackEnded(_)] if *began == reported[0],
        ),
        "{events:?}"
    );
    assert_eq!(
        lab.snapshot(Sources::default()).unwrap().attacks[&Kind::HeavyHitter],
        1
    );
}

#[test]
fn a_source_is_banned_where_the_rule_says_so() {
    let mut lab = Lab::new(answering(Answer::Observe));
    lab.blame(&["192.0.2.1"]);
    assert_eq!(lab.bans(), []);
    let mut lab = Lab::new(answering(Answer::Ban));
    lab.blame(&["192.0.2.1", "198.51.100.0/24"]);
    let expected = [(prefix("192.0.2.1"), 600), (prefix("198.51.100.0/24"), 600)];
    assert_eq!(lab.bans(), expected);
    let ban = &lab.listed_bans()[0];
    assert_eq!(
        (ban.origin.clone(), ban.reason.as_deref()),
        (Origin::Automatic, Some("heavy-hitter"))
    );
}

#[test]
fn a_challenged_source_that_never_answers_is_not_banned_or_limited() {
    for answer in [Answer::Ban, Answer::Limit] {
        for kind in [
            Kind::SynFlood,
            Kind::TcpFlags,
            Kind::UdpFlood,
            Kind::HeavyHitter,
        ] {
            let rule = Rule {
                answer,
                ..Rule::of(kind)
            };
            let over = Trigger::Over(NonZeroU32::new(1000).unwrap());
            let mut lab = Lab::new(Config {
                attacks: [(kind, rule)].into(),
                challenge: Some(verified::challenge(over, over, &[53])),
                ..config()
            });
            let answered = |lab: &mut Lab, step| {
                lab.note_attacks(&step, vec![]);
                lab.bans().len() + lab.status().limited
            };
            let later = Instant::from_nanos(clock::now().as_nanos() + 60_000_000_000);
            // The challenge of the other kind does not affect these sources.
            let mut taken = challenge::SharedState::default();
            taken.periods[usize::from(kind == Kind::UdpFlood)].until_ns = later.as_nanos();
            set(&lab.memory, "CHALLENGE_TAKEN", 0, taken);
            let verified = Verified::here(later);
            for (source, verified) in [
                ("192.0.2.1", verified),
                ("2001:db8::", verified),
                // A forger may have caused the reset of a live host.
                ("192.0.2.2", verified.by_reset()),
            ] {
                verified::verify(&lab, source, verified);
            }
            let forged = ["192.0.2.2", "198.51.100.7"];
            let is_proof = kind != Kind::HeavyHitter;
            let before = answered(&mut lab, blaming_for(kind, &forged));
            assert_eq!(before, if is_proof { 0 } else { 2 }, "{kind:?}");
            // A verified source is answered, also for another address of its /64.
            let proved = ["192.0.2.1", "2001:db8::5"];
            assert_eq!(answered(&mut lab, blaming_for(kind, &proved)), before + 2);
            // While the challenge is off, no source can be verified.
            taken.periods = [Period::default(); 2];
            set(&lab.memory, "CHALLENGE_TAKEN", 0, taken);
            let all = answered(&mut lab, blaming_for(kind, &forged));
            assert_eq!(all, 4, "{kind:?}");
        }
    }
}

#[test]
fn what_is_allowed_protected_or_too_wide_is_not_bans() {
    let mut protected = Protected::default();
    protected.add(prefix("203.0.113.1"), Why::Gateway("eth0".into()));
    let mut lab = Lab::protecting(answering(Answer::Ban), protected);
    // The second is in the allow list of the configuration.
    let blamed = [
        "203.0.113.1",
        "192.0.2.10",
        "203.0.113.0/24",
        "198.51.0.0/16",
    ];
    lab.blame(&blamed);
    assert_eq!(lab.bans(), []);
}

#[test]
fn there_are_no_more_bans_in_a_minute_than_the_configuration_says() {
    let mut config = answering(Answer::Ban);
    config.forgeable_per_minute = NonZeroU32::new(2).unwrap();
    let mut lab = Lab::new(config);
    lab.blame(&["192.0.2.1"]);
    // A banned source takes no room.
    lab.blame(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    assert_eq!(lab.bans().len(), 2);
}

#[test]
fn policies_and_attacks_share_the_bans_of_a_minute() {
    let mut config = answering(Answer::Ban);
    config.forgeable_per_minute = NonZeroU32::new(3).unwrap();
    config.default_policy.ban = policy_bans::banning().default_policy.ban;
    let mut lab = Lab::new(config);
    // The kernel bans, and the daemon does not know of it.
    assert!(lab.take_ban(Evidence::Forgeable));
    let blamed = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    lab.blame(&blamed);
    assert_eq!(lab.bans().len(), 2);
    assert!(
        !lab.take_ban(Evidence::Forgeable),
        "the kernel knows what the daemon took"
    );
}

#[test]
fn forgeable_sources_leave_the_budget_of_established_ones_alone() {
    for answer in [Answer::Ban, Answer::Limit] {
        let mut config = answering(answer);
        config.bans_per_minute = NonZeroU32::new(2).unwrap();
        config.forgeable_per_minute = NonZeroU32::new(3).unwrap();
        let mut lab = Lab::new(config.clone());
        for second in 0..4 {
            let forged: Vec<_> = (0..100).map(|at| format!("192.0.{second}.{at}")).collect();
            let forged: Vec<_> = forged.iter().map(String::as_str).collect();
            lab.blame(&forged);
        }
        let answered = lab.bans().len() + lab.status().limited;
        assert_eq!(answered, 3);
        assert!(!lab.take_ban(Evidence::Forgeable));
        lab.restart_with(config);
        assert!(lab.take_ban(Evidence::Established));
        assert!(lab.take_ban(Evidence::Established));
        assert!(!lab.take_ban(Evidence::Established));
    }
}

#[test]
fn a_restart_gives_no_bans_back() {
    let mut config = answering(Answer::Ban);
    config.forgeable_per_minute = NonZeroU32::new(2).unwrap();
    let mut lab = Lab::new(config.clone());
    assert!(lab.take_ban(Evidence::Forgeable));
    lab.restart_with(config);
    let blamed = ["192.0.2.1", "192.0.2.2"];
    lab.blame(&blamed);
    assert_eq!(lab.bans().len(), 1);
}

#[test]
fn in_a_dry_run_nothing_is_banned_or_limited() {
    for answer in [Answer::Ban, Answer::Limit] {
        let mut config = answering(answer);
        config.observe = true;
        let mut lab = Lab::new(config);
        lab.blame(&["192.0.2.1"]);
        assert_eq!(lab.bans(), []);
        assert_eq!(lab.status().limited, 0);
    }
}

#[test]
fn the_kernel_samples_while_something_is_looked_for() {
    let mut lab = Lab::new(config());
    assert!(!lab.settings().has_samples());
    lab.restart_with(answering(Answer::Observe));
    assert!(lab.settings().has_samples());
}

#[test]
fn a_source_is_limited_beside_what_its_policy_says_and_for_a_time() {
    let mut lab = Lab::new(answering(Answer::Limit));
    lab.blame(&["192.0.2.1"]);
    assert_eq!(lab.bans(), []);
    let check = lab.checked("192.0.2.1");
    let reported = check.limited.unwrap();
    assert_eq!(
        (reported.prefix, reported.kind),
        (prefix("192.0.2.1"), Some(Kind::HeavyHitter))
    );
    assert_eq!(reported.limit.to_string(), "5 packets per 1s");
    let before = lab.checked("192.0.2.2");
    assert_eq!(before.limited, None);
    assert_eq!(check.limits[..before.limits.len()], before.limits[..]);
    assert_eq!(
        texts(&lab, "192.0.2.1")[before.limits.len()..],
        ["5 packets per 1s"]
    );
    // Reported twice, it is limited once.
    lab.blame(&["192.0.2.1"]);
    let snapshot = lab.snapshot(Sources::default()).unwrap();
    assert_eq!(snapshot.limited[&Kind::HeavyHitter], 1);
    assert_eq!(snapshot.status.limited, 1);
    lab.restart();
    assert!(lab.checked("192.0.2.1").limited.is_some());
    let mut row = lab.state.intent.limited()[&prefix("192.0.2.1")].clone();
    row.until = clock::now();
    let over = Edit::Limited(prefix("192.0.2.1"), Some(row));
    lab.edit(&[over]);
    lab.tick();
    assert_eq!(
        lab.checked("192.0.2.1").limits,
        lab.checked("192.0.2.2").limits
    );
    assert_eq!(lab.status().limited, 0);
}

#[test]
fn a_further_limit_never_loosens_what_holds_for_a_source() {
    let mut lab = Lab::new(answering(Answer::Limit));
    lab.limit(Some("198.51.100.0/24"), 2).unwrap();
    lab.blame(&["198.51.100.7", "203.0.113.0/24", "203.0.113.9"]);
    let further = "5 packets per 1s";
    assert_eq!(
        texts(&lab, "198.51.100.7"),
        [&limit(2).to_string(), further]
    );
    // The wider one comes later, and a runtime limit beneath both.
    lab.limit(Some("203.0.113.0/24"), 2).unwrap();
    for source in ["203.0.113.9", "203.0.113.10"] {
        assert_eq!(texts(&lab, source), [&limit(2).to_string(), further]);
    }
    // A source with a narrower policy keeps it.
    lab.limit(Some("203.0.113.11"), 2).unwrap();
    assert_eq!(texts(&lab, "203.0.113.11"), [limit(2).to_string()]);
    assert_eq!(lab.checked("203.0.113.11").limited, None);
    assert!(lab.checked("203.0.113.10").limited.is_some());
    assert_eq!(lab.state.enforce_all().unwrap(), 0);
    lab.unlimit(Some("198.51.100.7")).unwrap();
    assert_eq!(texts(&lab, "198.51.100.7"), [limit(2).to_string()]);
}

#[test]
fn limits_of_a_user_and_of_detection_that_go_at_once_are_one_event() {
    let mut lab = Lab::new(answering(Answer::Limit));
    lab.limit(Some("192.0.2.1"), 2).unwrap();
    lab.blame(&["192.0.2.1"]);
    lab.unlimit(Some("192.0.2.1")).unwrap();
    let events = lab.events();
    let removed = events.iter().map(|event| &event.what);
    let removed = removed.filter(|what| matches!(what, What::LimitsRemoved { .. }));
    assert_eq!(removed.count(), 1);
    assert_eq!(texts(&lab, "192.0.2.1"), texts(&lab, "192.0.2.2"));
}

/// The policy of a limited source replaces that of an interface.
#[test]
fn a_further_limit_loosens_nothing_where_an_interface_has_a_policy() {
    let mut config = answering(Answer::Limit);
    let lan = PolicyConfig {
        limits: vec![limit(2)],
        ..PolicyConfig::default()
    };
    config.policies.insert("lan".to_owned(), lan);
    config.interfaces[0].policy = Some("lan".to_owned());
    // If limits differ only in the amount, the lowest suffices.
    let dmz = PolicyConfig {
        limits: vec![limit(7)],
        ..PolicyConfig::default()
    };
    config.policies.insert("dmz".to_owned(), dmz);
    let interface = Interface {
        name: "dmz0".to_owned(),
        policy: Some("dmz".to_owned()),
        ..config.interfaces[0].clone()
    };
    config.interfaces.push(interface);
    let mut lab = Lab::new(config);
    lab.limit(Some("203.0.113.0/24"), 3).unwrap();
    lab.blame(&["198.51.100.7", "203.0.113.9"]);
    let [further, lan] = ["5 packets per 1s", "2 packets per 1s"];
    let own = texts(&lab, "198.51.100.8");
    let limited = texts(&lab, "198.51.100.7");
    assert_eq!(limited[..own.len()], own[..]);
    assert_eq!(limited[own.len()..], [further, lan]);
    // A policy of its own applies on all interfaces.
    assert_eq!(texts(&lab, "203.0.113.9"), [&limit(3).to_string(), further]);
}

#[test]
fn limits_of_a_dry_run_are_not_enforced_beside_a_further_one() {
    let mut lab = Lab::new(answering(Answer::Limit));
    let dry = LimitRequest {
        prefix: Some(prefix("198.51.100.0/24")),
        limits: vec![limit(2)],
        observe: true,
        ..LimitRequest::default()
    };
    lab.set_limits(dry, "root").unwrap();
    lab.blame(&["198.51.100.7"]);
    assert_eq!(texts(&lab, "198.51.100.7"), ["5 packets per 1s"]);
    assert_eq!(texts(&lab, "198.51.100.8"), [limit(2).to_string()]);
}

#[test]
fn what_is_allowed_or_protected_is_not_limited_and_the_budget_is_that_of_bans() {
    let mut protected = Protected::default();
    protected.add(prefix("203.0.113.1"), Why::Gateway("eth0".into()));
    let mut config = answering(Answer::Limit);
    config.forgeable_per_minute = NonZeroU32::new(2).unwrap();
    let mut lab = Lab::protecting(config, protected);
    let blamed = ["203.0.113.1", "192.0.2.10", "203.0.113.0/24"];
    lab.blame(&blamed);
    assert_eq!(lab.status().limited, 0);
    let blamed = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    lab.blame(&blamed);
    assert_eq!(lab.status().limited, 2);
}

#[test]
fn sources_in_a_banned_prefix_take_nothing_from_the_budget() {
    let mut config = answering(Answer::Ban);
    config.forgeable_per_minute = NonZeroU32::new(1).unwrap();
    let mut lab = Lab::new(config);
    lab.ban(&["203.0.113.0/24"], Some(60.0)).unwrap();
    lab.blame(&["203.0.113.1", "203.0.113.2"]);
    assert_eq!(lab.bans().len(), 1);
    lab.blame(&["192.0.2.1"]);
    assert_eq!(lab.bans().len(), 2);
}

#[test]
fn sources_that_are_limited_alike_share_a_policy() {
    let mut lab = Lab::new(answering(Answer::Limit));
    lab.blame(&["192.0.2.1", "192.0.2.2"]);
    let views = queries::limits(&lab.state);
    let limited: Vec<_> = views
        .iter()
        .filter(|view| view.origin == Origin::Automatic)
        .collect();
    assert_eq!(limited.len(), 1);
    assert_eq!(limited[0].name, "[detected] default + 5 packets per 1s");
    assert_eq!(limited[0].prefixes, ["192.0.2.1", "192.0.2.2"].map(prefix));
}

/// The store is what it is while a limit comes, the configuration and the daemon change, and it
/// ends.
#[test]
fn what_is_limited_further_keeps_the_state_of_its_policy() {
    for sets in [None, Some(200_000)] {
        let mut config = answering(Answer::Limit);
        if sets.is_some() {
            config.source.store = StateStore::Compact;
        }
        let mut lab = Lab::with_sets(config.clone(), sets);
        let before = lab.policy_of("192.0.2.2");
        lab.blame(&["192.0.2.1", "198.51.100.0/24"]);
        let beside = lab.check_beside(&before);
        config.default_policy.limits[0] = limit(9);
        lab.switches().writes.clear();
        lab.replace(config.clone()).unwrap();
        assert_eq!(lab.policy_amount("192.0.2.1"), 9);
        assert_eq!(lab.check_beside(&before), beside);
        lab.restart_with(config);
        assert_eq!(lab.check_beside(&before), beside);
        let writes = lab.writes();
        let is_of_region =
            |write: &Write| matches!(write, Write::Region(_) | Write::CopiedRegion(..));
        assert!(!writes.iter().any(is_of_region), "{writes:?}");
    }
}

#[test]
fn a_policy_with_as_many_limits_as_may_be_has_room_for_a_further_one() {
    let mut config = answering(Answer::Limit);
    config.default_policy.limits = (1..=8).map(limit).collect();
    let mut lab = Lab::new(config);
    lab.blame(&["192.0.2.1"]);
    let reported = texts(&lab, "192.0.2.1");
    assert_eq!(
        (reported.len(), reported[8].as_str()),
        (9, "5 packets per 1s")
    );
}

#[test]
fn a_ban_of_who_is_limited_is_told_by_the_name_of_the_policy() {
    let mut config = answering(Answer::Limit);
    config.default_policy.ban = policy_bans::banning().default_policy.ban;
    let mut lab = Lab::new(config);
    lab.blame(&["192.0.2.1"]);
    let (_, named) = lab
        .state
        .compiled
        .policies
        .at(lab.policy_index("192.0.2.1"))
        .unwrap();
    let scope = named.policy.scope();
    let found = lab.state.compiled.policies.banning(scope);
    assert_eq!(found.map(|(name, _)| name), Some("default"));
}

impl Lab {
    /// Reports these sources as those of an attack.
    pub(super) fn blame(&mut self, sources: &[&str]) {
        self.note_attacks(&blaming(sources), vec![]);
    }

    /// Checks that the limited sources have the state of a policy and share a further policy, and
    /// returns that policy.
    fn check_beside(&self, policy: &Policy) -> Policy {
        let state = |policy: &Policy| -> (u32, Vec<_>) {
            let regions = policy.limits().map(ratelimit_common::Limit::region);
            (policy.scope(), regions.collect())
        };
        let further = ["192.0.2.1", "198.51.100.9"].map(|address| {
            let own = self.policy_of(address);
            assert_eq!(state(&own), state(policy), "{address}");
            self.tables().policies.get(own.further().unwrap()).unwrap()
        });
        assert_eq!(further[0], further[1]);
        assert_ne!(further[0].scope(), policy.scope());
        assert_eq!(self.policy_of("192.0.2.2").further(), None);
        further[0]
    }

    /// Takes a ban of this minute as the kernel does, by the budget that it was given.
    fn take_ban(&self, evidence: Evidence) -> bool {
        let bans = &self.tables().policy_bans;
        let budgets = bans.budgets().unwrap();
        bans.take(budgets, evidence, clock::now()).unwrap()
    }
}

pub(super) fn texts(lab: &Lab, address: &str) -> Vec<String> {
    let limits = lab.checked(address).limits;
    limits.iter().map(|state| state.limit.to_string()).collect()
}

pub(super) fn answering(answer: Answer) -> Config {
    let rule = Rule {
        answer,
        limit: limit(5),
        ..Rule::of(Kind::HeavyHitter)
    };
    Config {
        attacks: [(Kind::HeavyHitter, rule)].into(),
        ..config()
    }
}

fn blaming(sources: &[&str]) -> Step {
    blaming_for(Kind::HeavyHitter, sources)
}

fn blaming_for(kind: Kind, sources: &[&str]) -> Step {
    let to_blame = sources.iter();
    let to_blame = to_blame.map(|source| (kind, prefix(source)));
    Step {
        to_blame: to_blame.collect(),
        ..Step::default()
    }
}

fn attack() -> Attack {
    Attack {
        kind: Kind::HeavyHitter,
        subject: Subject::Source(prefix("192.0.2.1")),
        packets_per_second: 30_000,
        sources: 1,
        since: clock::now(),
        last: clock::now(),
    }
}
