use core::{
    cell::{Cell, RefCell},
    num::NonZeroU32,
    time::Duration,
};
use std::{vec, vec::Vec};

use super::*;
use crate::{
    BanRule, ClassSet, Evidence, Ipv4, Ipv6, Limit, ListEntry, Policy, PolicyBan, Record, Settings,
    SourceKey, Tables, Unit,
    absent::Absent,
    aggregate::Aggregates,
    algorithm::FixedWindow,
    challenge::ChallengeState,
    charge::Words,
    class::Property,
    lease::{self, Demanded},
    limit::LIMITS_MAX,
    list::{Listed, Slots},
    new_sources::Newcomer,
    policy_ban::BanResult,
    settings::OverBudget,
    store::{InsertError, Store},
    strikes::Strike,
};

const CONFORMING: Verdict = Verdict::Pass(PassReason::Conforming);
const LIMITED: Verdict = Verdict::Drop(DropReason::Limited);
const BANNED: Verdict = Verdict::Drop(DropReason::Banned);

#[test]
fn allow_beats_ban_beats_limit() {
    let ban = Some(LATER);
    check(&Fake::new(1, false), &[CONFORMING, LIMITED]);
    check(&Fake::new(1, false).listed(false, ban), &[BANNED, BANNED]);
    check(
        &Fake::new(1, false).listed(true, ban),
        &[Verdict::Pass(PassReason::Allowed); 2],
    );
    check(
        &Fake::new(1, false).listed(false, Some(NOW)),
        &[CONFORMING, LIMITED],
    );
}

#[test]
fn if_an_allow_has_ended_the_ban_beneath_it_holds() {
    let allowed_until = |end| {
        let ban = ListEntry::new(false, Some(LATER), None);
        let entry = Some(ban.with_allow_until(end));
        Fake {
            entry,
            ..Fake::new(1, false)
        }
    };
    let allowed = Verdict::Pass(PassReason::Allowed);
    check(&allowed_until(LATER), &[allowed; 2]);
    check(&allowed_until(EARLIER), &[BANNED; 2]);
}

#[test]
fn a_packet_is_counted_for_what_decides_about_it() {
    let slots = Slots::new(2, 3, 4);
    let check_counted = |observe: bool, allowed, banned_until, expected: &[u16]| {
        let fake = Fake {
            settings: Settings::new(0, observe),
            entry: Some(ListEntry::new(allowed, banned_until, Some(0)).counted_in(slots)),
            ..Fake::new(1, false)
        };
        let frame = frame();
        for slot in expected {
            let _ = decide(Cursor::new(&frame), NOW, &fake);
            assert_eq!(fake.entry_counters.take(), [(*slot, 34)]);
        }
        let open = Fake {
            settings: fake.settings.with_pass_all(true),
            ..fake
        };
        let _ = decide(Cursor::new(&frame), NOW, &open);
        assert_eq!(
            open.entry_counters.take(),
            [],
            "what passes all counts for no entry"
        );
    };
    for observe in [false, true] {
        check_counted(observe, false, None, &[4, 4, 4]);
        check_counted(observe, false, Some(LATER), &[3, 3]);
        check_counted(observe, true, Some(LATER), &[2, 2]);
        check_counted(observe, false, Some(NOW), &[4, 4]);
    }
}

#[test]
fn a_packet_of_a_source_that_is_not_listed_is_counted_for_nothing() {
    let fake = Fake::new(1, false);
    check(&fake, &[CONFORMING, LIMITED]);
    assert_eq!(fake.entry_counters.take(), []);
}

#[test]
fn a_packet_that_a_policy_has_banned_did_not_meet_its_limits() {
    let fake = Fake {
        entry: Some(ListEntry::new(false, None, Some(0)).counted_in(Slots::new(0, 0, 4))),
        ..Fake::banning()
    };
    check(&fake, &[CONFORMING, LIMITED, LIMITED, BANNED]);
    let slots: Vec<u16> = fake
        .entry_counters
        .take()
        .into_iter()
        .map(|(slot, _)| slot)
        .collect();
    assert_eq!(slots, [4, 4, 4]);
}

#[test]
fn a_source_of_which_nothing_is_said_is_unlimited() {
    let fake = Fake {
        policy: Policy::default(),
        ..Fake::new(1, false)
    };
    check(&fake, &[Verdict::Pass(PassReason::Unlimited); 2]);
}

#[test]
fn a_dry_run_counts_what_it_would_drop_and_passes_it() {
    let observed = Verdict::Observe(DropReason::Limited);
    check(&Fake::new(1, true), &[CONFORMING, observed]);
    let everything = Fake {
        settings: Settings::new(0, true),
        ..Fake::new(1, false)
    };
    check(&everything, &[CONFORMING, observed]);
}

#[test]
fn an_operator_can_open_everything_and_nothing_is_charged_meanwhile() {
    let opened = |fake: Fake| Fake {
        settings: fake.settings.with_pass_all(true),
        ..fake
    };
    let passed = Verdict::Pass(PassReason::PassAll);
    let ban = Some(LATER);
    check(&opened(Fake::new(1, false).listed(false, ban)), &[passed]);
    let limited = opened(Fake::new(1, false));
    check(&limited, &[passed; 3]);
    assert_eq!(limited.refusals.get(), 0);
    assert!(limited.record.borrow().is_none());
    let closed = limited.settings.with_pass_all(false);
    assert_eq!(closed, Fake::new(1, false).settings);
}

#[test]
fn what_an_operator_opened_ends_by_itself() {
    let fake = Fake {
        settings: Settings::default().with_pass_all(true),
        pass_all_until: NOW,
        ..Fake::new(1, false)
    };
    check(&fake.listed(false, Some(LATER)), &[BANNED; 2]);
}

#[test]
fn what_cannot_be_read_passes_too_while_everything_is_open() {
    let settings = Settings::default().with_pass_all(true);
    let fake = Fake {
        settings,
        ..Fake::new(1, false)
    };
    let tags = [&[0; 12][..], &[0x81, 0, 0, 1].repeat(3), &[0x08, 0]].concat();
    let cut = [&[0; 12][..], &[0x08, 0, 0x45]].concat();
    for (frame, family) in [(tags, Family::Other), (cut, Family::Ipv4)] {
        let verdict = Verdict::Pass(PassReason::PassAll);
        assert_eq!(decide(Cursor::new(&frame), NOW, &fake), verdict);
        let (counted, ..) = *fake.counted.borrow().last().unwrap();
        assert_eq!(counted, family);
    }
}

#[test]
fn a_dry_run_of_a_policy_does_not_lift_a_ban() {
    check(&Fake::new(1, true).listed(false, Some(LATER)), &[BANNED]);
}

#[test]
fn each_refusal_is_counted_and_a_ban_is_none() {
    let limited = Fake::new(1, false);
    check(&limited, &[CONFORMING, LIMITED, LIMITED]);
    assert_eq!(limited.refusals.get(), 2);
    let banned = Fake::new(1, false).listed(false, Some(LATER));
    check(&banned, &[BANNED]);
    assert_eq!(banned.refusals.get(), 0);
}

#[test]
fn every_drop_of_a_source_may_be_sampled_and_no_pass() {
    let limited = Fake::new(1, true);
    check(
        &limited,
        &[CONFORMING, Verdict::Observe(DropReason::Limited)],
    );
    assert_eq!(*limited.samples.borrow(), [DropReason::Limited]);
    let banned = Fake::new(1, false).listed(false, Some(LATER));
    check(&banned, &[BANNED]);
    assert_eq!(*banned.samples.borrow(), [DropReason::Banned]);
}

#[test]
fn the_second_of_two_first_packets_is_charged_to_the_state_of_the_first() {
    let fake = Fake {
        race: Race::Lost,
        ..Fake::new(2, false)
    };
    check(&fake, &[CONFORMING, LIMITED]);
}

#[test]
fn a_source_for_which_there_is_no_room_is_not_at_fault() {
    let fake = Fake {
        race: Race::NoRoom,
        ..Fake::new(2, false)
    };
    check(&fake, &[Verdict::Drop(DropReason::NoState); 2]);
    assert_eq!(fake.refusals.get(), 0);
}

#[test]
fn the_last_strike_bans_from_the_next_packet_on() {
    let fake = Fake::banning();
    check(&fake, &[CONFORMING, LIMITED, LIMITED, BANNED, BANNED]);
    assert_eq!(*fake.results.borrow(), [BanResult::Banned]);
    let ban = fake.ban.get().unwrap();
    assert_eq!((ban.at_ns, ban.until_ns), (NOW.as_nanos(), 6_000_000_000));
    assert_eq!((ban.strikes, ban.limit, ban.scope), (2, 0, 0));
    assert_eq!(fake.strikes.get(), 2, "a ban is no strike");
    assert_eq!(fake.refusals.get(), 2, "a ban is no refusal by a limit");
}

#[test]
fn a_limit_that_admits_nothing_makes_no_strikes() {
    let window = |amount| FixedWindow::new(amount, Duration::from_secs(1)).unwrap();
    let bytes = |amount| Limit::new(window(amount), Unit::Bytes);
    let packets = Limit::new(window(9), Unit::Packets);
    for (limits, is_banned) in [
        (&[bytes(1)][..], false),
        (&[bytes(19)], false),
        (&[packets, bytes(1)], false),
        (&[bytes(20)], true),
        (&[packets, bytes(20)], true),
    ] {
        let fake = Fake {
            policy: Policy::new(limits, 0, false).unwrap(),
            ..Fake::new(1, false)
        };
        let last = if is_banned { BANNED } else { LIMITED };
        check(&fake.with_ban(|rule| rule), &[LIMITED, LIMITED, last]);
    }
}

#[test]
fn a_ban_of_a_policy_ends_at_its_end() {
    let fake = Fake::banning();
    let until = |until_ns| PolicyBan {
        until_ns,
        ..PolicyBan::default()
    };
    fake.ban.set(Some(until(NOW.as_nanos() + 1)));
    check(&fake, &[BANNED]);
    let fake = Fake::banning();
    fake.ban.set(Some(until(NOW.as_nanos())));
    check(&fake, &[CONFORMING]);
}

#[test]
fn a_source_that_may_be_forged_stays_limited_unless_the_policy_says_otherwise() {
    let forged = Fake {
        is_connected: false,
        ..Fake::banning()
    };
    check(&forged, &[CONFORMING, LIMITED, LIMITED, LIMITED, LIMITED]);
    assert_eq!(*forged.results.borrow(), [BanResult::Forgeable; 2]);
    let banned = forged_and_banned();
    check(&banned, &[CONFORMING, LIMITED, LIMITED, BANNED]);
}

fn forged_and_banned() -> Fake {
    Fake {
        is_connected: false,
        ..Fake::new(1, false).with_ban(BanRule::including_forgeable)
    }
}

#[test]
fn if_no_ban_can_be_had_the_source_stays_limited() {
    let too_many = Fake {
        may_ban: [false; 2],
        ..Fake::banning()
    };
    check(&too_many, &[CONFORMING, LIMITED, LIMITED, LIMITED]);
    assert_eq!(*too_many.results.borrow(), [BanResult::TooMany]);
    let full = Fake {
        has_room: false,
        ..Fake::banning()
    };
    check(&full, &[CONFORMING, LIMITED, LIMITED, LIMITED]);
    assert_eq!(*full.results.borrow(), [BanResult::NoRoom]);
}

#[test]
fn forged_sources_and_connected_ones_are_banned_out_of_budgets_of_their_own() {
    for established in [false, true] {
        let may_ban = [established, !established];
        let connected = Fake {
            may_ban,
            ..Fake::new(1, false).with_ban(BanRule::including_forgeable)
        };
        let last = |is_banned| if is_banned { BANNED } else { LIMITED };
        check(
            &connected,
            &[CONFORMING, LIMITED, LIMITED, last(established)],
        );
        let forged = Fake {
            may_ban,
            ..forged_and_banned()
        };
        check(&forged, &[CONFORMING, LIMITED, LIMITED, last(!established)]);
    }
}

#[test]
fn a_dry_run_of_a_policy_bans_no_source() {
    let fake = Fake::new(1, true).with_ban(|rule| rule);
    let observed = Verdict::Observe(DropReason::Limited);
    check(&fake, &[CONFORMING, observed, observed, observed]);
    assert_eq!(*fake.results.borrow(), []);
    assert_eq!((fake.refusals.get(), fake.strikes.get()), (3, 0));
}

#[test]
fn a_dry_run_of_everything_shows_who_would_be_banned() {
    let fake = Fake::banning();
    let fake = Fake {
        settings: Settings::new(0, true).with_policy_bans(),
        ..fake
    };
    let observed = Verdict::Observe(DropReason::Limited);
    let banned = Verdict::Observe(DropReason::Banned);
    check(&fake, &[CONFORMING, observed, observed, banned]);
}

#[test]
fn only_packets_over_a_limit_lead_to_a_ban() {
    let fake = Fake {
        race: Race::NoRoom,
        ..Fake::banning()
    };
    check(&fake, &[Verdict::Drop(DropReason::NoState); 4]);
    assert_eq!(*fake.results.borrow(), []);
}

#[test]
fn a_protected_address_is_limited_and_never_banned_by_a_policy() {
    let protect = |fake: Fake| Fake {
        entry: Some(ListEntry::default().protected()),
        ..fake
    };
    let fake = protect(Fake::banning());
    check(&fake, &[CONFORMING, LIMITED, LIMITED, LIMITED]);
    assert_eq!(fake.results.take(), []);
}

#[test]
fn an_allow_beats_the_ban_of_a_policy() {
    let fake = Fake::banning().listed(true, None);
    fake.ban.set(Some(PolicyBan {
        until_ns: u64::MAX,
        ..PolicyBan::default()
    }));
    check(&fake, &[Verdict::Pass(PassReason::Allowed); 2]);
}

const OVER_BUDGET: Verdict = Verdict::Pass(PassReason::NewSources);
const DROPPED: Verdict = Verdict::Drop(DropReason::NewSources);

#[test]
fn a_new_source_takes_one_of_the_budget_and_a_known_one_none() {
    let fake = Fake::new(2, false).with_budget(OverBudget::Drop, [1, 0]);
    check(&fake, &[CONFORMING, CONFORMING, LIMITED]);
    assert_eq!(fake.budgets[0].get(), 0);
}

#[test]
fn over_budget_no_state_is_made_and_the_verdict_is_the_one_that_is_set() {
    for (over_budget, verdict) in [(OverBudget::Pass, OVER_BUDGET), (OverBudget::Drop, DROPPED)] {
        let fake = Fake::new(1, false).with_budget(over_budget, [0, 9]);
        check(&fake, &[verdict; 3]);
        assert!(fake.record.borrow().is_none());
        assert_eq!(
            fake.refusals.get(),
            0,
            "a source that comes late is not at fault"
        );
    }
}

#[test]
fn a_source_for_which_there_is_no_room_is_over_budget_where_there_is_one() {
    for (over_budget, verdict) in [(OverBudget::Pass, OVER_BUDGET), (OverBudget::Drop, DROPPED)] {
        let fake = Fake {
            race: Race::NoRoom,
            ..Fake::new(2, false)
        };
        check(&fake.with_budget(over_budget, [9, 9]), &[verdict; 2]);
    }
}

#[test]
fn over_budget_sources_of_a_network_share_the_limits_of_one() {
    let fake = Fake::new(2, false).with_budget(OverBudget::Aggregate, [0, 1]);
    check(&fake, &[OVER_BUDGET, OVER_BUDGET, DROPPED]);
    assert_eq!(fake.recorded.get(), Ipv4::new([255, 192, 0, 2]));
    assert_eq!(fake.refusals.get(), 0, "its neighbours are not its fault");
}

#[test]
fn if_an_overflow_bucket_cannot_get_state_either_the_packet_is_dropped() {
    let fake = Fake::new(2, false).with_budget(OverBudget::Aggregate, [0, 0]);
    check(&fake, &[DROPPED; 2]);
    assert!(fake.record.borrow().is_none());
}

#[test]
fn a_dry_run_shows_what_would_be_dropped_over_budget() {
    let fake = Fake::new(1, true).with_budget(OverBudget::Drop, [0, 0]);
    check(&fake, &[Verdict::Observe(DropReason::NewSources)]);
    assert_eq!(*fake.samples.borrow(), [DropReason::NewSources]);
}

#[test]
fn a_source_without_limits_needs_no_state_and_no_budget() {
    let fake = Fake {
        policy: Policy::default(),
        ..Fake::new(1, false).with_budget(OverBudget::Drop, [0, 0])
    };
    check(&fake, &[Verdict::Pass(PassReason::Unlimited); 2]);
}

#[test]
fn state_of_wider_prefixes_needs_no_budget() {
    let fake = Fake::new(1, false).with_budget(OverBudget::Drop, [0, 0]);
    let fake = Fake {
        policy: fake.policy.for_prefixes(),
        ..fake
    };
    check(&fake, &[CONFORMING, LIMITED]);
}

const SOURCE: Ipv4 = Ipv4::new([192, 0, 2, 1]);
const EARLIER: Instant = Instant::from_nanos(4_000_000_000);
const NOW: Instant = Instant::from_nanos(5_000_000_000);
const ARRIVAL: Arrival = Arrival {
    at: NOW,
    bytes: 34,
    classes: ClassSet::NONE,
    settings: Settings::new(0, false),
};
const LATER: Instant = Instant::from_nanos(5_000_000_001);

/// Sends packets of one source; each must get its verdict, and be counted once under it.
#[test]
fn a_source_with_a_limit_that_nodes_share_is_counted_from_its_first_refusal_on() {
    let fake = Fake::new(2, false).shared(7, None);
    check(&fake, &[CONFORMING, CONFORMING, LIMITED, LIMITED]);
    assert_eq!(*fake.demands.borrow(), [Demanded::Refused; 2]);
    let observed = Verdict::Observe(DropReason::Limited);
    let fake = Fake::new(1, true).shared(7, None);
    check(&fake, &[CONFORMING, observed]);
    assert_eq!(*fake.demands.borrow(), [Demanded::Refused]);
    let fake = Fake::new(1, false);
    check(&fake, &[CONFORMING, LIMITED]);
    assert_eq!(*fake.demands.borrow(), [], "of a limit that nobody shares");
}

#[test]
fn a_source_is_judged_by_what_it_has_leased_on_the_terms_of_its_policy() {
    use Demanded::{Admitted, Refused};
    let lease = |terms| Some(Fake::new(3, false).policy.on_terms(terms));
    let fake = Fake::new(1, false).shared(7, lease(7).as_ref());
    check(&fake, &[CONFORMING, CONFORMING, CONFORMING, LIMITED]);
    let counted = [Admitted, Admitted, Admitted, Refused];
    assert_eq!(*fake.demands.borrow(), counted);
    let fake = Fake::new(1, false).shared(7, lease(8).as_ref());
    check(&fake, &[CONFORMING, LIMITED]);
}

fn frame() -> Vec<u8> {
    let ipv4 = [&[0x45; 12][..], &[192, 0, 2, 1], &[0; 4]].concat();
    [&[0; 12][..], &[0x08, 0], &ipv4].concat()
}

fn check(fake: &Fake, expected: &[Verdict]) {
    let frame = frame();
    for verdict in expected {
        assert_eq!(decide(Cursor::new(&frame), NOW, fake), *verdict);
    }
    let counted: Vec<_> = expected
        .iter()
        .map(|verdict| (Family::Ipv4, *verdict, 34))
        .collect();
    assert_eq!(*fake.counted.borrow(), counted);
}

/// The result of creating state for a source.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Race {
    Won,
    /// Another CPU has charged one packet just before.
    Lost,
    NoRoom,
}

/// The tables of one source.
struct Fake {
    settings: Settings,
    pass_all_until: Instant,
    policy: Policy,
    entry: Option<ListEntry>,
    race: Race,
    record: RefCell<Option<Record>>,
    refusals: Cell<u64>,
    strikes: Cell<u64>,
    ban: Cell<Option<PolicyBan>>,
    is_connected: bool,
    may_ban: [bool; 2],
    admits_discovery: bool,
    has_room: bool,
    /// New sources and overflow buckets that may get state.
    budgets: [Cell<u32>; 2],
    /// The source that the record belongs to.
    recorded: Cell<Ipv4>,
    results: RefCell<Vec<BanResult>>,
    samples: RefCell<Vec<DropReason>>,
    counted: RefCell<Vec<(Family, Verdict, u32)>>,
    entry_counters: RefCell<Vec<(u16, u32)>>,
    /// The leased policy of its source.
    leased: Option<Policy>,
    /// Whether its source is looked for among leases.
    may_have_lease: Cell<bool>,
    demands: RefCell<Vec<Demanded>>,
}

impl Fake {
    fn new(amount: u64, observe: bool) -> Self {
        let window = FixedWindow::new(amount, Duration::from_secs(1)).unwrap();
        Self {
            settings: Settings::default(),
            pass_all_until: LATER,
            policy: Policy::new(&[Limit::new(window, Unit::Packets)], 0, observe).unwrap(),
            entry: None,
            race: Race::Won,
            record: RefCell::default(),
            refusals: Cell::default(),
            strikes: Cell::default(),
            ban: Cell::default(),
            is_connected: true,
            may_ban: [true; 2],
            admits_discovery: true,
            has_room: true,
            budgets: [const { Cell::new(0) }; 2],
            recorded: Cell::default(),
            results: RefCell::default(),
            samples: RefCell::default(),
            counted: RefCell::new(vec![]),
            entry_counters: RefCell::new(vec![]),
            leased: None,
            may_have_lease: Cell::default(),
            demands: RefCell::default(),
        }
    }

    /// A policy whose limits nodes share on these terms, with the leased policy of its source.
    fn shared(self, terms: u64, leased: Option<&Policy>) -> Self {
        Self {
            settings: self.settings.with_cluster(),
            policy: self.policy.on_terms(terms),
            leased: leased.copied(),
            may_have_lease: Cell::new(leased.is_some()),
            ..self
        }
    }

    /// A policy with a limit of one packet that bans its source for a second with the second packet
    /// over it.
    fn banning() -> Self {
        Self::new(1, false).with_ban(|rule| rule)
    }

    fn with_ban(self, change: impl Fn(BanRule) -> BanRule) -> Self {
        let (two, second) = (NonZeroU32::new(2).unwrap(), Duration::from_secs(1));
        let rule = BanRule::new(two, second, second).unwrap();
        Self {
            settings: self.settings.with_policy_bans(),
            policy: self.policy.with_ban(change(rule)),
            ..self
        }
    }

    fn with_budget(self, over_budget: OverBudget, budgets: [u32; 2]) -> Self {
        Self {
            settings: self.settings.with_new_sources(over_budget),
            budgets: budgets.map(Cell::new),
            ..self
        }
    }

    fn listed(self, allowed: bool, banned_until: Option<Instant>) -> Self {
        let entry = Some(ListEntry::new(allowed, banned_until, None));
        Self { entry, ..self }
    }
}

impl Tables for Fake {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn pass_all_until(&self) -> Instant {
        self.pass_all_until
    }

    fn policy(&self, index: u32) -> Option<&Policy> {
        match index {
            0 => Some(&self.policy),
            1 => self.leased.as_ref(),
            _ => None,
        }
    }

    type PooledLimits<'a> = Absent;

    fn excluded(&self, _: Property, _: u32) -> ClassSet {
        unreachable!()
    }

    fn node(&self) -> Absent {
        unreachable!()
    }

    fn admits_neighbour_discovery(&self, now: Instant) -> bool {
        assert_eq!(now, NOW);
        self.admits_discovery
    }

    fn take_ban(&self, evidence: Evidence, now: Instant) -> bool {
        assert_eq!(now, NOW);
        self.may_ban[evidence as usize]
    }

    fn count_ban_result(&self, result: BanResult) {
        self.results.borrow_mut().push(result);
    }

    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32) {
        self.counted
            .borrow_mut()
            .push((family, verdict, frame_bytes));
    }

    fn count_entry(&self, listed: Listed, frame_bytes: u32) {
        if listed.slot() != 0 {
            self.entry_counters
                .borrow_mut()
                .push((listed.slot(), frame_bytes));
        }
    }
}

/// The steps that need the store.
macro_rules! in_the_store {
    ($address:ty) => {
        fn challenge(
            &self,
            source: &$address,
            frame: Cursor<'_>,
            flow: &crate::Flow<$address>,
            listed: Listed,
            now: Instant,
        ) -> crate::challenge::Effect {
            crate::challenge::judge_packet(source, frame, flow, listed, now, self)
        }

        fn check(&self, address: &$address, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
            crate::source_limits::check(address, policy, arrival, self)
        }

        fn charge(
            &self,
            address: &$address,
            policy: Option<&Policy>,
            arrival: &Arrival,
        ) -> Outcome {
            crate::source_limits::charge(address, policy, arrival, self)
        }

        fn charge_source(
            &self,
            source: &$address,
            policy: Option<&Policy>,
            arrival: &Arrival,
        ) -> Outcome {
            crate::source_limits::charge_source(source, policy, arrival, self, self)
        }
    };
}

impl FamilyTables<Ipv4> for Fake {
    fn source_mask(&self) -> Ipv4 {
        Ipv4::new([0xff; 4])
    }

    fn aggregates(&self) -> Aggregates {
        unreachable!()
    }

    fn listed(&self, _: Ipv4, now: Instant) -> Listed {
        self.entry.map(|entry| entry.at(now)).unwrap_or_default()
    }

    fn may_have_lease(&self, _: &Ipv4) -> bool {
        self.may_have_lease.get()
    }

    fn leased(&self, _: &Ipv4, policy: &Policy, now: Instant) -> u32 {
        assert_eq!((policy, now), (&self.policy, NOW));
        self.leased.map_or(lease::NONE, |_| 1)
    }

    fn count_demand(&self, _: &Ipv4, _: &Policy, _: &Arrival, demanded: Demanded) {
        self.demands.borrow_mut().push(demanded);
        self.may_have_lease.set(true);
    }

    fn policy_ban(&self, source: &Ipv4) -> Option<PolicyBan> {
        assert_eq!(*source, SOURCE);
        self.ban.get()
    }

    fn count_refusal(&self, _: &Ipv4, now: Instant) {
        assert_eq!(now, NOW);
        self.refusals.set(self.refusals.get() + 1);
    }

    /// Every `after`-th strike bans, whenever the others came.
    fn count_strike(&self, _: &Ipv4, rule: &BanRule, _: Instant) -> bool {
        self.strikes.set(self.strikes.get() + 1);
        self.strikes.get().is_multiple_of(rule.after())
    }

    fn confirm_strike(&self, _: &Ipv4, _: &Policy, _: &Strike<'_>, is_connected: bool) -> bool {
        is_connected
    }

    fn is_connected(&self, frame: Cursor<'_>) -> bool {
        assert_eq!(frame.frame_bytes(), 34);
        self.is_connected
    }

    fn ban(&self, source: &Ipv4, ban: PolicyBan) -> bool {
        assert_eq!(*source, SOURCE);
        self.has_room.then(|| self.ban.set(Some(ban))).is_some()
    }

    fn sample(&self, _: Ipv4, refusal: Refusal) {
        self.samples.borrow_mut().push(refusal.reason);
    }

    in_the_store!(Ipv4);
}

/// No packet of these tests is one of IPv6.
impl FamilyTables<Ipv6> for Fake {
    fn source_mask(&self) -> Ipv6 {
        unreachable!()
    }

    fn aggregates(&self) -> Aggregates {
        unreachable!()
    }

    fn listed(&self, _: Ipv6, _: Instant) -> Listed {
        unreachable!()
    }

    fn policy_ban(&self, _: &Ipv6) -> Option<PolicyBan> {
        unreachable!()
    }

    fn count_refusal(&self, _: &Ipv6, _: Instant) {
        unreachable!()
    }

    fn count_strike(&self, _: &Ipv6, _: &BanRule, _: Instant) -> bool {
        unreachable!()
    }

    fn confirm_strike(&self, _: &Ipv6, _: &Policy, _: &Strike<'_>, _: bool) -> bool {
        unreachable!()
    }

    fn is_connected(&self, _: Cursor<'_>) -> bool {
        unreachable!()
    }

    fn ban(&self, _: &Ipv6, _: PolicyBan) -> bool {
        unreachable!()
    }

    fn sample(&self, _: Ipv6, _: Refusal) {
        unreachable!()
    }

    in_the_store!(Ipv6);
}

impl ChallengeState<Ipv4> for Fake {}

impl ChallengeState<Ipv6> for Fake {}

impl Store<Ipv4> for Fake {
    type Key<'a> = SourceKey<Ipv4>;
    type Words<'a> = &'a Fake;
    type Denial<'a> = Absent;

    fn key(&self, source: &Ipv4, scope: u32) -> SourceKey<Ipv4> {
        SourceKey::new(*source, scope)
    }

    fn words<'a>(&'a self, key: &'a SourceKey<Ipv4>) -> Option<&'a Fake> {
        let is_recorded = self.recorded.get() == key.address();
        self.record.borrow().filter(|_| is_recorded).map(|_| self)
    }

    fn insert(&self, key: &SourceKey<Ipv4>) -> Result<(), InsertError> {
        self.recorded.set(key.address());
        if self.race == Race::NoRoom {
            return Err(InsertError::Full);
        }
        self.record.replace(Some(Record::default()));
        match self.race {
            Race::Lost => {
                let outcome = self.charge(&key.address(), Some(&self.policy), &ARRIVAL);
                assert!(!outcome.is_refused());
                Err(InsertError::Exists)
            }
            Race::Won | Race::NoRoom => Ok(()),
        }
    }

    fn admits(&self, newcomer: Newcomer, arrival: &Arrival) -> bool {
        assert_eq!(arrival.at, NOW);
        let budget = &self.budgets[newcomer as usize];
        let left = budget.get().checked_sub(1);
        left.map(|left| budget.set(left)).is_some()
    }
}

/// No packet of these tests is one of IPv6.
impl Store<Ipv6> for Fake {
    type Key<'a> = SourceKey<Ipv6>;
    type Words<'a> = &'a Fake;
    type Denial<'a> = Absent;

    fn key(&self, source: &Ipv6, scope: u32) -> SourceKey<Ipv6> {
        SourceKey::new(*source, scope)
    }

    fn words<'a>(&'a self, _: &'a SourceKey<Ipv6>) -> Option<&'a Fake> {
        unreachable!()
    }

    fn insert(&self, _: &SourceKey<Ipv6>) -> Result<(), InsertError> {
        unreachable!()
    }

    fn admits(&self, _: Newcomer, _: &Arrival) -> bool {
        unreachable!()
    }
}

impl Words for &Fake {
    type Ring = Absent;

    fn ring(&self, _: usize) -> Option<Absent> {
        None
    }

    fn make_ring(&self, _: usize) -> Option<Absent> {
        None
    }

    fn load(&self, index: usize) -> u64 {
        assert!(index < LIMITS_MAX);
        self.record.borrow().unwrap().words[index]
    }

    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        let mut record = self.record.borrow_mut();
        let word = &mut record.as_mut().unwrap().words[index];
        if *word != current {
            return Err(*word);
        }
        *word = new;
        Ok(())
    }
}
