//! Runtime limits over the policy around them: they add to its limits, or replace those that count
//! the same, and the others stay.

use std::borrow::Cow;

use super::{Intent, LimitRow, Target};
use crate::{ban::BanSpec, compile, limit::LimitSpec, policies::DEFAULT, prefix::Prefix};

/// The limits of a target, and when it bans.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InForce<'a> {
    /// The limits.
    pub limits: Cow<'a, [LimitSpec]>,
    /// Whether what they would drop passes.
    pub observe: bool,
    /// The rule for banning sources that keep exceeding them.
    pub ban: Option<BanSpec>,
}

impl Intent {
    /// Returns the current rules of a target.
    pub fn in_force(&self, target: Target) -> InForce<'_> {
        match self.limits_of(target) {
            Some(row) => self.with_row(target, row),
            None => self.below(target),
        }
    }

    /// Returns the rules of a target with these runtime limits.
    pub fn with_row<'a>(&'a self, target: Target, row: &'a LimitRow) -> InForce<'a> {
        if row.only {
            return InForce {
                limits: Cow::Borrowed(&row.limits),
                observe: row.observe,
                ban: None,
            };
        }
        let below = self.below(target);
        let limits = if row.is_of_cluster() {
            below.limits.into_owned()
        } else {
            self.of_this_node(&below.limits)
        };
        InForce {
            limits: merged(limits, &row.limits).into(),
            observe: row.observe,
            ban: below.ban,
        }
    }

    /// Returns the limits for this node alone, with its equal part of those that nodes share. Nodes
    /// share only what all of them have, and another node may lack these runtime limits.
    pub fn of_this_node(&self, limits: &[LimitSpec]) -> Vec<LimitSpec> {
        let nodes = compile::nodes(&self.config);
        let own = limits.iter().map(|limit| limit.part(nodes).alone());
        own.collect()
    }

    /// Returns the rules of a target without its own runtime limits.
    fn below(&self, target: Target) -> InForce<'_> {
        let default = &self.config.default_policy;
        let policy = match target {
            Target::Default => default,
            Target::Sources(prefix) => {
                let around = self.policy_around(prefix);
                match self.config.policies.get(&around) {
                    Some(policy) => policy,
                    None if around == DEFAULT => return self.in_force(Target::Default),
                    None => match around.parse::<Prefix>() {
                        Ok(outer) if outer != prefix => {
                            return self.in_force(Target::Sources(outer));
                        }
                        _ => default,
                    },
                }
            }
            Target::Destination(prefix) => {
                let configured = self.config.destinations.get(&prefix);
                return configured.map_or_else(InForce::default, |destination| InForce {
                    limits: Cow::Borrowed(&destination.limits),
                    observe: destination.observe,
                    ban: None,
                });
            }
        };
        InForce {
            limits: Cow::Borrowed(&policy.limits),
            observe: policy.observe,
            ban: policy.ban,
        }
    }
}

/// `limits` with those of `named` added, each in the place of those that it replaces: of the same
/// unit and class, and of the same window where there is one.
pub fn merged(mut limits: Vec<LimitSpec>, named: &[LimitSpec]) -> Vec<LimitSpec> {
    let replaced = |limit: &LimitSpec, by: &LimitSpec| {
        let has_its_window =
            |other: &LimitSpec| other.counts_as(by) && other.window() == by.window();
        limit.counts_as(by) && (limit.window() == by.window() || !limits.iter().any(has_its_window))
    };
    let places = limits.iter().map(|limit| {
        let by = named.iter().position(|by| replaced(limit, by));
        by.map_or(Merge::Stays, Merge::Replaced)
    });
    let places: Vec<Merge> = places.collect();
    let mut left: Vec<Option<&LimitSpec>> = named.iter().map(Some).collect();
    let mut place = places.into_iter();
    limits.retain_mut(|limit| match place.next() {
        Some(Merge::Replaced(by)) => match left[by].take() {
            Some(new) => {
                *limit = new.clone();
                true
            }
            None => false,
        },
        Some(Merge::Stays) | None => true,
    });
    limits.extend(left.into_iter().flatten().cloned());
    limits
}

/// Whether a limit stays or is replaced.
enum Merge {
    Stays,
    /// The index of the one that replaces it.
    Replaced(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Algorithm, LimitUnit};

    #[test]
    fn a_limit_replaces_those_that_count_the_same_and_the_others_stay() {
        let (syn, dns) = ("tcp-syn", "dns");
        let policy = [(1000, 1, ""), (20, 1, syn)];
        check(&policy, &[(5000, 1, "")], &[(5000, 1, ""), (20, 1, syn)]);
        check(&policy, &[(100, 1, syn)], &[(1000, 1, ""), (100, 1, syn)]);
        check(
            &policy,
            &[(500, 10, dns)],
            &[(1000, 1, ""), (20, 1, syn), (500, 10, dns)],
        );
        check(&policy, &[(9, 60, "")], &[(9, 60, ""), (20, 1, syn)]);
        check(&[], &[(9, 1, "")], &[(9, 1, "")]);
    }

    #[test]
    fn of_several_windows_the_same_one_is_replaced() {
        let policy = [(1000, 1, ""), (9000, 60, "")];
        check(&policy, &[(7, 60, "")], &[(1000, 1, ""), (7, 60, "")]);
        check(&policy, &[(7, 10, "")], &[(7, 10, "")]);
        check(
            &policy,
            &[(8, 60, ""), (7, 1, "")],
            &[(7, 1, ""), (8, 60, "")],
        );
    }

    #[test]
    fn bytes_and_packets_do_not_replace_each_other() {
        let packets = limit((5, 1, ""));
        let second = std::time::Duration::from_secs(1);
        let bytes = LimitSpec::new(9000, LimitUnit::Bytes, second, Algorithm::FixedWindow).unwrap();
        let both = merged(vec![packets.clone()], std::slice::from_ref(&bytes));
        assert_eq!(both, [packets, bytes]);
    }

    type Short = (u64, u64, &'static str);

    fn check(policy: &[Short], named: &[Short], expected: &[Short]) {
        let [policy, named, expected] = [policy, named, expected]
            .map(|limits| limits.iter().copied().map(limit).collect::<Vec<_>>());
        assert_eq!(merged(policy, &named), expected);
    }

    fn limit((amount, seconds, class): Short) -> LimitSpec {
        let window = std::time::Duration::from_secs(seconds);
        let limit = LimitSpec::new(amount, LimitUnit::Packets, window, Algorithm::FixedWindow);
        let limit = limit.unwrap();
        if class.is_empty() {
            limit
        } else {
            limit.of_class(crate::class::Match::Named(class.to_owned()))
        }
    }
}
