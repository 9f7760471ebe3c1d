//! The sentence an operator can say: allow beats ban beats limit.

use crate::{
    Address, Arrival, ClassSet, Cursor, DropReason, Family, Flow, Instant, PassReason, Tables,
    Verdict,
    charge::Refusal,
    flow::Content,
    layers,
    parse::{self, Payload, ipv4, ipv6},
    tables::FamilyTables,
};

/// Judges the packet in `frame`, a cursor at its front, which arrived at `now`, and counts it once under its verdict.
#[inline(always)]
pub fn decide(frame: Cursor<'_>, now: Instant, tables: &impl Tables) -> Verdict {
    let mut cursor = frame;
    let truncated = Verdict::Drop(DropReason::Truncated);
    let payload = parse::payload(&mut cursor);
    if tables.settings().pass_all() {
        let verdict = Verdict::Pass(PassReason::PassAll);
        tables.count(family_of(payload), verdict, frame.frame_bytes());
        return verdict;
    }
    let (family, verdict) = match payload {
        Ok(Payload::Ipv4) => {
            let flow = ipv4::flow(&mut cursor);
            let verdict = flow.map_or(truncated, |flow| judge(&flow, frame, now, tables));
            (Family::Ipv4, verdict)
        }
        Ok(Payload::Ipv6) => {
            let flow = ipv6::flow(&mut cursor, |cursor, first| tables.walk(cursor, first));
            let verdict = flow.map_or(truncated, |flow| judge(&flow, frame, now, tables));
            (Family::Ipv6, verdict)
        }
        Ok(Payload::Other) => (Family::Other, Verdict::Pass(PassReason::NotIp)),
        Err(reason) => (Family::Other, Verdict::Drop(reason)),
    };
    let verdict = if tables.settings().observe() {
        verdict.observed()
    } else {
        verdict
    };
    tables.count(family, verdict, frame.frame_bytes());
    verdict
}

/// The family that a packet counts under when nothing more of it is read.
#[inline(always)]
fn family_of(payload: Result<Payload, DropReason>) -> Family {
    match payload {
        Ok(Payload::Ipv4) => Family::Ipv4,
        Ok(Payload::Ipv6) => Family::Ipv6,
        Ok(Payload::Other) | Err(_) => Family::Other,
    }
}

#[inline(always)]
fn judge<A, T>(flow: &Flow<A>, frame: Cursor<'_>, now: Instant, tables: &T) -> Verdict
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    if flow.content == Content::NeighbourDiscovery {
        return Verdict::Pass(PassReason::NeighbourDiscovery);
    }
    let entry = tables.list_entry(flow.source).unwrap_or_default();
    if entry.is_allowed() {
        return Verdict::Pass(PassReason::Allowed);
    }
    if entry.is_banned(now) {
        return refuse(
            flow.source,
            Refusal::without_limit(DropReason::Banned),
            tables,
        );
    }
    if flow.content == Content::TooDeep {
        return refuse(
            flow.source,
            Refusal::without_limit(DropReason::ExtensionDepth),
            tables,
        );
    }
    let settings = tables.settings();
    let arrival = Arrival {
        at: now,
        bytes: frame.frame_bytes(),
        classes: if settings.has_classes() {
            tables.classify(frame, flow.upper)
        } else {
            ClassSet::OTHER
        },
    };
    let policy = tables.policy(entry.policy().unwrap_or(settings.default_policy()));
    let source = flow.source.masked(tables.source_mask());
    let outcome = if settings.has_wider_limits() {
        layers::charge(&source, policy, &arrival, tables)
    } else {
        tables.charge_source(&source, policy, &arrival)
    };
    let Some(refusal) = outcome.refusal() else {
        return Verdict::Pass(if outcome.is_counted() {
            PassReason::Conforming
        } else {
            PassReason::Unlimited
        });
    };
    if refusal.reason.is_of_source() {
        tables.strike(source);
    }
    let verdict = refuse(source, refusal, tables);
    if outcome.is_enforced() {
        verdict
    } else {
        verdict.observed()
    }
}

#[inline(always)]
fn refuse<A: Address>(source: A, refusal: Refusal, tables: &impl FamilyTables<A>) -> Verdict {
    tables.sample(source, refusal);
    Verdict::Drop(refusal.reason)
}

#[cfg(test)]
mod tests {
    use core::{
        cell::{Cell, RefCell},
        time::Duration,
    };
    use std::{vec, vec::Vec};

    use super::*;
    use crate::{
        Ipv4, Ipv6, Limit, ListEntry, Policy, Record, Settings, SourceKey, Unit, absent::Absent,
        aggregate::Aggregates, algorithm::FixedWindow, charge::Words, parse::transport::Kind,
        policy::LIMITS_MAX, tables::InsertError,
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
        assert_eq!(limited.strikes.get(), 0);
        assert!(limited.record.borrow().is_none());
        let closed = limited.settings.with_pass_all(false);
        assert_eq!(closed, Fake::new(1, false).settings);
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
    fn each_refusal_is_a_strike_and_a_ban_is_none() {
        let limited = Fake::new(1, false);
        check(&limited, &[CONFORMING, LIMITED, LIMITED]);
        assert_eq!(limited.strikes.get(), 2);
        let banned = Fake::new(1, false).listed(false, Some(LATER));
        check(&banned, &[BANNED]);
        assert_eq!(banned.strikes.get(), 0);
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
    fn a_source_for_which_there_is_no_room_is_refused() {
        let fake = Fake {
            race: Race::NoRoom,
            ..Fake::new(2, false)
        };
        check(&fake, &[Verdict::Drop(DropReason::NoState); 2]);
        assert_eq!(fake.strikes.get(), 2);
    }

    const NOW: Instant = Instant::from_nanos(5_000_000_000);
    const ARRIVAL: Arrival = Arrival {
        at: NOW,
        bytes: 34,
        classes: ClassSet::OTHER,
    };
    const LATER: Instant = Instant::from_nanos(5_000_000_001);

    /// Sends packets of one source; each must get its verdict, and be counted once under it.
    fn check(fake: &Fake, expected: &[Verdict]) {
        let frame = [
            &[0; 12][..],
            &[0x08, 0],
            &[0x45; 12],
            &[192, 0, 2, 1],
            &[0; 4],
        ]
        .concat();
        for verdict in expected {
            assert_eq!(decide(Cursor::new(&frame), NOW, fake), *verdict);
        }
        let counted: Vec<_> = expected
            .iter()
            .map(|verdict| (Family::Ipv4, *verdict, 34))
            .collect();
        assert_eq!(*fake.counted.borrow(), counted);
    }

    /// What happens when state is made for a source.
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
        policy: Policy,
        entry: Option<ListEntry>,
        race: Race,
        record: RefCell<Option<Record>>,
        strikes: Cell<u32>,
        samples: RefCell<Vec<DropReason>>,
        counted: RefCell<Vec<(Family, Verdict, u32)>>,
    }

    impl Fake {
        fn new(amount: u64, observe: bool) -> Self {
            let window = FixedWindow::new(amount, Duration::from_secs(1)).unwrap();
            Self {
                settings: Settings::default(),
                policy: Policy::new(&[Limit::new(window, Unit::Packets)], 0, observe).unwrap(),
                entry: None,
                race: Race::Won,
                record: RefCell::default(),
                strikes: Cell::default(),
                samples: RefCell::default(),
                counted: RefCell::new(vec![]),
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

        fn policy(&self, index: u32) -> Option<&Policy> {
            (index == 0).then_some(&self.policy)
        }

        type Node<'a> = Absent;

        fn classes_of(&self, _: Kind) -> ClassSet {
            unreachable!()
        }

        fn classes_from(&self, _: u32) -> ClassSet {
            unreachable!()
        }

        fn classes_to(&self, _: u32) -> ClassSet {
            unreachable!()
        }

        fn node(&self) -> Absent {
            unreachable!()
        }

        fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32) {
            self.counted
                .borrow_mut()
                .push((family, verdict, frame_bytes));
        }
    }

    impl FamilyTables<Ipv4> for Fake {
        type Words<'a> = &'a Fake;

        fn source_mask(&self) -> Ipv4 {
            Ipv4::new([0xff; 4])
        }

        fn aggregates(&self) -> Aggregates {
            unreachable!()
        }

        fn list_entry(&self, _: Ipv4) -> Option<ListEntry> {
            self.entry
        }

        fn words(&self, _: &SourceKey<Ipv4>) -> Option<&Fake> {
            self.record.borrow().map(|_| self)
        }

        fn insert(&self, _: &SourceKey<Ipv4>) -> Result<(), InsertError> {
            if self.race == Race::NoRoom {
                return Err(InsertError::Full);
            }
            self.record.replace(Some(Record::default()));
            match self.race {
                Race::Lost => {
                    let outcome = self.charge(&Ipv4::default(), Some(&self.policy), &ARRIVAL);
                    assert!(!outcome.is_refused());
                    Err(InsertError::Exists)
                }
                Race::Won | Race::NoRoom => Ok(()),
            }
        }

        fn strike(&self, _: Ipv4) {
            self.strikes.set(self.strikes.get() + 1);
        }

        fn sample(&self, _: Ipv4, refusal: Refusal) {
            self.samples.borrow_mut().push(refusal.reason);
        }
    }

    /// No packet of these tests is one of IPv6.
    impl FamilyTables<Ipv6> for Fake {
        type Words<'a> = &'a Fake;

        fn source_mask(&self) -> Ipv6 {
            unreachable!()
        }

        fn aggregates(&self) -> Aggregates {
            unreachable!()
        }

        fn list_entry(&self, _: Ipv6) -> Option<ListEntry> {
            unreachable!()
        }

        fn words(&self, _: &SourceKey<Ipv6>) -> Option<&Fake> {
            unreachable!()
        }

        fn insert(&self, _: &SourceKey<Ipv6>) -> Result<(), InsertError> {
            unreachable!()
        }

        fn strike(&self, _: Ipv6) {
            unreachable!()
        }

        fn sample(&self, _: Ipv6, _: Refusal) {
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
}
