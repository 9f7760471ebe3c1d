//! Divisions are monotone and within the limit; members drop each other on one side only.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::division::{Division, Wish, divide};
use super::members::{GONE_AFTER, Members, Views};
use super::*;
use crate::name::NodeName;

fn limit(amount: u64, is_equal: bool) -> Limit {
    Limit {
        amount,
        division: if is_equal {
            Division::Equal
        } else {
            Division::Proportional
        },
        window: 1_000,
    }
}

/// The parts of all.
fn parts(limit: &Limit, wishes: &[Wish]) -> Vec<u64> {
    let others = |me: usize| {
        wishes
            .iter()
            .enumerate()
            .filter(move |(other, _)| *other != me)
            .map(|(_, wish)| (*wish, 1))
    };
    wishes
        .iter()
        .enumerate()
        .map(|(me, mine)| {
            let others = others(me).collect::<Vec<_>>();
            let parts = divide(limit, wishes.len() as u64, *mine, &others, 0);
            assert!(parts.mine + parts.others <= limit.amount);
            parts.mine
        })
        .collect()
}

#[track_caller]
fn check(is_equal: bool, wishes: &[(u64, u64)], expected: &[u64]) {
    let wishes: Vec<_> = wishes
        .iter()
        .zip(0..)
        .map(|((claim, demand), place)| Wish {
            claim: *claim,
            demand: *demand,
            place,
        })
        .collect();
    assert_eq!(parts(&limit(1000, is_equal), &wishes), expected);
}

#[test]
fn equal_parts_give_what_one_does_not_need_to_the_others() {
    check(true, &[(0, 5000), (0, 5000), (0, 100)], &[450, 450, 100]);
    check(true, &[(333, 100), (0, 5000)], &[333, 667]);
    check(true, &[(0, 100), (0, 100)], &[500, 500]);
    check(true, &[(0, 5000); 3], &[334, 333, 333]);
    check(true, &[(333, 5000), (0, 5000), (0, 332)], &[334, 334, 332]);
}

#[test]
fn proportional_parts_follow_demand_and_keep_claims() {
    check(false, &[(0, 800), (0, 150), (0, 50)], &[800, 150, 50]);
    check(false, &[(0, 900), (300, 100)], &[700, 300]);
    check(false, &[(0, u64::MAX), (0, 1000)], &[500, 500]);
}

fn any_wish(amount: u64, nodes: u64) -> impl Strategy<Value = Wish> {
    (
        0..=amount / nodes,
        prop_oneof![0..=amount, Just(0), Just(u64::MAX)],
    )
        .prop_map(|(claim, demand)| Wish {
            claim,
            demand,
            place: 0,
        })
}

fn any_wishes() -> impl Strategy<Value = (u64, Vec<Wish>)> {
    let amount = prop_oneof![1..2000u64, 1..=AMOUNT_MAX, Just(AMOUNT_MAX)];
    (amount, 1..9u64)
        .prop_flat_map(|(amount, nodes)| {
            (
                Just(amount),
                prop::collection::vec(any_wish(amount, nodes), usize::try_from(nodes).unwrap()),
            )
        })
        .prop_map(|(amount, mut wishes)| {
            wishes
                .iter_mut()
                .zip(0..)
                .for_each(|(wish, place)| wish.place = place);
            (amount, wishes)
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 2_000, ..ProptestConfig::default()
    })]

    #[test]
    fn parts_are_within_the_limit_and_not_below_claims(
        (amount, wishes) in any_wishes(), is_equal in any::<bool>(),
    ) {
        let parts = parts(&limit(amount, is_equal), &wishes);
        prop_assert!(parts.iter().sum::<u64>() <= amount);
        prop_assert!(parts.iter().zip(&wishes).all(|(part, wish)| *part >= wish.claim));
    }

    /// Budgets rely on this: a node that knows less about the others, and assumes the worst, takes
    /// less.
    #[test]
    fn more_claim_or_demand_of_one_never_raises_the_part_of_another(
        (amount, wishes) in any_wishes(), is_equal in any::<bool>(),
        which in any::<prop::sample::Index>(), is_known in any::<bool>(),
    ) {
        let limit = limit(amount, is_equal);
        let which = which.index(wishes.len());
        let before = parts(&limit, &wishes);
        let mut worst = wishes.clone();
        let place = if is_known { which as u64 } else { 0 };
        worst[which] = Wish { claim: limit.equal(wishes.len() as u64), demand: u64::MAX, place };
        let after = parts(&limit, &worst);
        let others = (0..wishes.len()).filter(|other| *other != which);
        prop_assert!(
            others
                .into_iter()
                .all(|other| after[other] <= before[other]),
            "{:?} {:?}",
            before,
            after
        );
    }

    #[test]
    fn nearly_all_is_given_out_where_it_is_wanted(
        (amount, mut wishes) in any_wishes(), is_equal in any::<bool>(),
    ) {
        wishes[0].demand = u64::MAX;
        let sum: u64 = parts(&limit(amount, is_equal), &wishes).iter().sum();
        let lost = if is_equal { 0 } else { wishes.len() as u64 + amount / 10_000 };
        prop_assert!(sum + lost >= amount, "{} of {}", sum, amount);
    }
}

/// Two nodes that divide a limit of one key, of which each is asked so much in each period.
struct Two {
    nodes: [Budget<Vec<u8>>; 2],
    period: u64,
    reported: Vec<Report<Vec<u8>>>,
}

impl Two {
    fn new() -> Self {
        let views = Views {
            at_least: 2,
            ..Views::default()
        };
        let node = |node| Budget::new(name(node), 1000, views.clone(), [].into(), 2);
        let (nodes, reported) = ([node(0), node(1)], Vec::new());
        let period = 10;
        Self {
            nodes,
            period,
            reported,
        }
    }

    /// Goes on to the next period, where messages are read or lost.
    fn go_on(&mut self, is_read: bool) {
        self.period += 1;
        let (period, limit) = (self.period, |_: &Vec<u8>| Some(limit(1000, true)));
        for report in std::mem::take(&mut self.reported)
            .iter()
            .filter(|_| is_read)
        {
            let [from, to] = if report.entries[0].demand < 1000 {
                [1, 0]
            } else {
                [0, 1]
            };
            self.nodes[to].members_mut().heard(&name(from), report.view);
            self.nodes[from]
                .members_mut()
                .heard(&name(from), report.view);
            self.nodes[to]
                .take(&name(from), report.clone(), 0, limit)
                .unwrap();
        }
        for (node, demand) in self.nodes.iter_mut().zip([5000, 400]) {
            let count = Count {
                key: vec![7],
                admitted: 0,
                refused: demand,
                passed: 0,
            };
            let report = node.advance(
                period * 1000,
                period * 1000,
                0,
                limit,
                |_, _| WindowUsage::default(),
                vec![count],
            );
            self.reported.extend(report);
        }
    }
}

#[test]
fn a_node_tells_what_the_others_have_and_why_it_does_not_know() {
    let mut two = Two::new();
    assert_eq!(two.nodes[0].fallback(), Some(&Fallback::NoClock));
    two.go_on(true);
    assert_eq!(two.nodes[0].fallback(), Some(&Fallback::Started));
    (0..8).for_each(|_| two.go_on(true));
    for (node, (mine, others)) in two.nodes.iter().zip([(600, 400), (400, 600)]) {
        assert_eq!(node.fallback(), None);
        assert_eq!(node.shares().next().unwrap().1.amount, mine);
        assert_eq!(node.others(&vec![7]), Some(others));
        assert_eq!(node.others(&vec![8]), None);
    }
    (0..3).for_each(|_| two.go_on(false));
    let unheard = Fallback::Unheard {
        members: vec![name(1)],
        more: 0,
    };
    assert_eq!(two.nodes[0].fallback(), Some(&unheard));
    assert_eq!(two.nodes[0].others(&vec![7]), None);
}

/// Reports of one period and the resulting shares: two nodes know each other and a limit of 1,000
/// for the key 7.
fn answers(reports: [Report<Vec<u8>>; 2]) -> Vec<Result<(), String>> {
    answers_in(0, reports)
}

/// The same of a node that has `context` in common with others by now, and had 0 when the period
/// began.
fn answers_in(context: u64, reports: [Report<Vec<u8>>; 2]) -> Vec<Result<(), String>> {
    let mut two = Two::new();
    (0..8).for_each(|_| two.go_on(true));
    let view = two.nodes[0].members().view();
    let limit = |key: &Vec<u8>| (*key == [7]).then(|| limit(1000, true));
    let reports = reports.map(|report| Report {
        period: two.period,
        view: view ^ report.view,
        ..report
    });
    let mut take = |report| two.nodes[0].take(&name(1), report, context, limit);
    reports
        .map(|report| take(report).map_err(|refusal| refusal.to_string()))
        .into()
}

/// A report of a claim to a key.
fn claims(key: u8, claim: u64) -> Report<Vec<u8>> {
    let entry = KeyReport {
        key: vec![key],
        claim,
        demand: 0,
        held: 0,
        passed: 0,
    };
    Report {
        period: 0,
        view: 0,
        unheard: Vec::new(),
        entries: vec![entry],
    }
}

#[test]
fn a_claim_above_the_limit_divided_by_the_nodes_or_of_an_unknown_limit_is_refused() {
    let refused = |answer: &Result<(), String>| {
        let text = answer.as_ref().unwrap_err();
        assert!(
            text.contains("`node-1` reports a claim above") && text.contains("compare its limits"),
            "{text}"
        );
    };
    assert_eq!(answers([claims(7, 500), claims(7, 500)]), [Ok(()), Ok(())]);
    // Refused reports are not stored: the first valid report of the period counts.
    for wrong in [claims(7, 501), claims(8, 1)] {
        let answers = answers([wrong, claims(7, 500)]);
        refused(&answers[0]);
        assert_eq!(answers[1], Ok(()));
    }
    // A node that sees other members or limits may be right, so its report does not count for nodes
    // that see these.
    let other = Report {
        view: 1,
        ..claims(8, 501)
    };
    assert_eq!(answers([other.clone(), other]), [Ok(()), Ok(())]);
    // It had the limits of before, until the next period.
    let of_before = || claims(7, 501);
    let answers = answers_in(9, [of_before(), of_before()]);
    assert_eq!(answers, [Ok(()), Ok(())]);
}

#[test]
fn a_second_report_of_a_period_is_refused_and_neither_counts() {
    let [first, second] = &answers([claims(7, 500), claims(7, 499)])[..] else {
        unreachable!()
    };
    assert_eq!(*first, Ok(()));
    let text = second.as_ref().unwrap_err();
    assert!(
        text.contains("`node-1` sent two reports for period")
            && text.contains("second node with this name"),
        "{text}"
    );
    let mut reports = reports::Reports::default();
    let view = claims(7, 500).view;
    assert!(reports.take(&name(1), claims(7, 500)));
    assert!(reports.of(0, &name(1), view).is_some());
    assert!(!reports.take(&name(1), claims(7, 499)));
    assert!(reports.of(0, &name(1), view).is_none());
}

fn name(node: usize) -> NodeName {
    NodeName::new(&format!("node-{node}")).unwrap()
}

fn names(nodes: impl IntoIterator<Item = usize>) -> BTreeSet<NodeName> {
    nodes.into_iter().map(name).collect()
}

/// Nodes that have agreed on each other.
fn cluster(size: usize) -> Vec<Members> {
    let mut all: Vec<_> = (0..size)
        .map(|node| {
            Members::new(
                name(node),
                7,
                Views {
                    at_least: size as u64,
                    ..Views::default()
                },
            )
        })
        .collect();
    (0..3).for_each(|_| one_period(&mut all, &[&(0..size).collect::<Vec<_>>()]));
    assert!(
        all.iter()
            .all(|members| members.views().agreed == names(0..size))
    );
    all
}

/// Nodes of a group hear each other.
fn one_period(all: &mut [Members], groups: &[&[usize]]) {
    let views: Vec<_> = all.iter().map(Members::view).collect();
    for group in groups {
        for (to, from) in group
            .iter()
            .flat_map(|to| group.iter().map(move |from| (*to, *from)))
        {
            all[to].heard(&name(from), views[from]);
        }
    }
    all.iter_mut().for_each(Members::period_over);
}

fn after_partition(size: usize, groups: &[&[usize]]) -> Vec<u64> {
    let mut all = cluster(size);
    (0..3 * GONE_AFTER).for_each(|_| one_period(&mut all, groups));
    all.iter().map(Members::size).collect()
}

#[test]
fn more_than_half_drops_the_others_and_they_do_not() {
    assert_eq!(after_partition(5, &[&[0, 1, 2], &[3, 4]]), [3, 3, 3, 5, 5]);
    assert_eq!(after_partition(5, &[&[1, 2, 4]]), [5, 3, 3, 5, 3]);
}

#[test]
fn of_two_halves_the_one_with_the_first_name_drops_the_other() {
    assert_eq!(after_partition(4, &[&[0, 3], &[1, 2]]), [2, 4, 4, 2]);
    assert_eq!(after_partition(2, &[&[1]]), [2, 2]);
    assert_eq!(after_partition(2, &[&[0]]), [1, 2]);
}

#[test]
fn who_does_not_hear_itself_drops_nobody() {
    assert_eq!(after_partition(3, &[]), [3, 3, 3]);
}

#[test]
fn a_view_that_was_tried_and_not_agreed_counts() {
    let mut all = cluster(3);
    // Node 0 hears node 1 and itself and drops node 2; node 1 still hears node 2, so no two nodes
    // agree.
    for _ in 0..=GONE_AFTER {
        let views: Vec<_> = all.iter().map(Members::view).collect();
        for (to, from) in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 1), (2, 2)] {
            all[to].heard(&name(from), views[from]);
        }
        all.iter_mut().for_each(Members::period_over);
    }
    assert_eq!(all[0].names(), &names([0, 1]));
    // It is alone then: one of two would be enough with the first name, and is not one of three.
    (0..20).for_each(|_| one_period(&mut all, &[&[0], &[1, 2]]));
    assert_eq!(all[0].size(), 2);
    assert_eq!(all[1].names(), &names([1, 2]));
}

#[test]
fn a_node_that_is_back_is_a_member_again() {
    let mut all = cluster(3);
    (0..10).for_each(|_| one_period(&mut all, &[&[0, 1], &[2]]));
    assert_eq!(all[0].size(), 2);
    (0..3).for_each(|_| one_period(&mut all, &[&[0, 1, 2]]));
    assert!(
        all.iter()
            .all(|members| members.views().agreed == names(0..3))
    );
}

#[test]
fn a_revoked_node_is_dropped_at_once() {
    let mut all = cluster(2);
    all[1].revoke(&name(0));
    assert_eq!(all[1].size(), 1);
}
