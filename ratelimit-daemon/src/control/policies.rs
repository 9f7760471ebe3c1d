//! The policies by name, and the indices under which the datapath knows them.

use std::collections::BTreeMap;

use ratelimit_common::{Policy, layout::POLICIES_MAX};

use crate::limit::LimitSpec;

/// The name of the policy for sources that no other is for.
pub const DEFAULT: &str = "default";

/// A policy under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Its index in the datapath.
    pub index: u32,
    /// What the datapath reads.
    pub policy: Policy,
    /// Its limits as people say them.
    pub limits: Vec<LimitSpec>,
}

/// The policies that are in force, or are to be.
///
/// A policy is never changed in place: packets that are judged by it at this moment would see a mix. One with other limits
/// gets another index, and then the entries that name it are changed, each at once.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    by_name: BTreeMap<String, Named>,
    /// Where the search for a free index begins, so that an index is used again as late as possible.
    next: u32,
}

/// More policies than the datapath holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there are more than {POLICIES_MAX} policies")]
pub struct TooManyPolicies;

impl Policies {
    /// Gives a name its limits: under the index it has when they are the same, else under a free one.
    ///
    /// `used` are the policies in the datapath. A free index is one that none of them has, except that a policy which is there
    /// already, from before a restart, is taken over.
    ///
    /// # Errors
    ///
    /// When no index is free.
    pub fn assign(
        &mut self,
        name: &str,
        limits: &[LimitSpec],
        observe: bool,
        used: &BTreeMap<u32, Policy>,
    ) -> Result<u32, TooManyPolicies> {
        let policy = compile(name, limits, observe);
        if let Some(named) = self
            .by_name
            .get(name)
            .filter(|named| named.policy == policy)
        {
            return Ok(named.index);
        }
        let index = match self.adoptable(&policy, used) {
            Some(index) => index,
            None => self.free(used)?,
        };
        self.next = (index + 1) % POLICIES_MAX;
        self.by_name.insert(
            name.to_owned(),
            Named {
                index,
                policy,
                limits: limits.to_vec(),
            },
        );
        Ok(index)
    }

    /// Keeps the names that `keep` says, and forgets the others.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.by_name.retain(|name, _| keep(name));
    }

    /// The policy of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Named> {
        self.by_name.get(name)
    }

    /// The name and policy at an index.
    #[must_use]
    pub fn at(&self, index: u32) -> Option<(&str, &Named)> {
        self.iter().find(|(_, named)| named.index == index)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Named)> {
        self.by_name
            .iter()
            .map(|(name, named)| (name.as_str(), named))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// What the datapath is to hold, by index.
    #[must_use]
    pub fn by_index(&self) -> BTreeMap<u32, Policy> {
        self.by_name
            .values()
            .map(|named| (named.index, named.policy))
            .collect()
    }

    fn adoptable(&self, policy: &Policy, used: &BTreeMap<u32, Policy>) -> Option<u32> {
        let same = used
            .iter()
            .filter(|(_, used)| *used == policy)
            .map(|(index, _)| *index);
        same.into_iter().find(|index| self.at(*index).is_none())
    }

    fn free(&self, used: &BTreeMap<u32, Policy>) -> Result<u32, TooManyPolicies> {
        let taken: std::collections::BTreeSet<u32> =
            self.by_name.values().map(|named| named.index).collect();
        (0..POLICIES_MAX)
            .map(|step| (self.next + step) % POLICIES_MAX)
            .find(|index| !taken.contains(index) && !used.contains_key(index))
            .ok_or(TooManyPolicies)
    }
}

/// Whether what sources have used under a policy is kept when its limits change from `before` to `after`.
#[must_use]
pub fn keeps_state(before: &[LimitSpec], after: &[LimitSpec]) -> bool {
    let scope = |limits| compile("", limits, false).scope();
    scope(before) == scope(after)
}

fn compile(name: &str, limits: &[LimitSpec], observe: bool) -> Policy {
    let limits: Vec<_> = limits.iter().map(LimitSpec::compile).collect();
    Policy::new(&limits, scope(name, &limits), observe)
        .expect("the configuration refuses more limits")
}

/// What the state of a policy's sources is kept under.
///
/// It is derived from the name and the meaning of the words, so it is the same after a restart: what sources have used is
/// kept. A change of an amount or a burst that leaves the words their meaning keeps it too; another algorithm, window or
/// rate of a bucket does not, and what sources have used under it starts anew. Two policies with the same scope, one pair
/// in 2^32, would only matter to a source that moves from one to the other.
fn scope(name: &str, limits: &[ratelimit_common::Limit]) -> u32 {
    let mut hash = Fnv::default();
    hash.write(name.as_bytes());
    for limit in limits {
        hash.write(&[0xff, limit.unit() as u8]);
        for part in limit.algorithm().meaning() {
            hash.write(&part.to_le_bytes());
        }
    }
    hash.0
}

/// FNV-1a, 32 bits (Fowler, Noll, Vo; RFC 9923): the standard library's hashes may change between releases.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limit::{Algorithm, LimitUnit};

    #[test]
    fn other_limits_get_another_index_and_the_same_ones_keep_theirs() {
        let mut policies = Policies::default();
        let first = policies
            .assign("a", &[limit(10)], false, &BTreeMap::new())
            .unwrap();
        let used = policies.by_index();
        assert_eq!(policies.assign("a", &[limit(10)], false, &used), Ok(first));
        let second = policies.assign("a", &[limit(2000)], false, &used).unwrap();
        assert_ne!(second, first);
        assert_ne!(policies.assign("b", &[limit(10)], false, &used), Ok(first));
    }

    #[test]
    fn what_is_in_the_datapath_from_before_a_restart_is_taken_over() {
        let mut before = Policies::default();
        before
            .assign("x", &[limit(1)], false, &BTreeMap::new())
            .unwrap();
        let index = before
            .assign("a", &[limit(10)], false, &BTreeMap::new())
            .unwrap();
        let mut after = Policies::default();
        assert_eq!(
            after.assign("a", &[limit(10)], false, &before.by_index()),
            Ok(index)
        );
    }

    #[test]
    fn an_amount_may_change_without_the_sources_losing_their_state() {
        let scope = |name, amount| compile(name, &[limit(amount)], false).scope();
        assert_eq!(scope("a", 600), scope("a", 1000));
        assert_ne!(scope("a", 600), scope("a", 60));
        assert_ne!(scope("a", 600), scope("b", 600));
    }

    #[test]
    fn words_are_kept_only_where_they_mean_the_same() {
        let second = Duration::from_secs(1);
        let spec = |amount, window, algorithm| {
            LimitSpec::new(amount, LimitUnit::Packets, window, algorithm).unwrap()
        };
        let bucket = |amount, burst| spec(amount, second, Algorithm::TokenBucket { burst });
        let fixed = |amount| spec(amount, second, Algorithm::FixedWindow);
        let sliding = |amount, window| spec(amount, window, Algorithm::SlidingWindow);
        let log = |amount, window| spec(amount, window, Algorithm::SlidingLog);
        let cases = [
            (fixed(600), fixed(1000), true),
            // The counts of both have ticks of a nanosecond, and 7 and 8 bits.
            (fixed(100), fixed(200), false),
            (fixed(600), sliding(600, second), false),
            (fixed(600), bucket(600, 600), false),
            (sliding(600, second), sliding(1000, second), true),
            (sliding(600, second), sliding(600, 2 * second), false),
            (sliding(600, second), bucket(600, 600), false),
            (bucket(600, 600), bucket(600, 900), true),
            (bucket(600, 600), bucket(601, 600), false),
            // A ring has as many times as the amount says, whatever the window.
            (log(600, second), log(600, 2 * second), true),
            (log(600, second), log(601, second), false),
            (log(600, second), sliding(600, second), false),
        ];
        for (before, after, expected) in cases {
            assert_eq!(
                keeps_state(&[before], &[after]),
                expected,
                "{before} -> {after}"
            );
        }
        assert!(!keeps_state(&[fixed(9)], &[fixed(9), fixed(9)]));
    }

    fn limit(amount: u64) -> LimitSpec {
        LimitSpec::new(
            amount,
            LimitUnit::Packets,
            Duration::from_secs(1),
            Algorithm::FixedWindow,
        )
        .unwrap()
    }
}
