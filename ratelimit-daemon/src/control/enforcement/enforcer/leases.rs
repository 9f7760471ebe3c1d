//! Leases: what this node may admit, for a time, of limits that nodes share.
//!
//! The policies that leases name stand behind all others, in two halves. All leases are written anew in each period, with policies in the half that
//! none of them names. So no packet is judged by a policy while it is written.

use std::collections::{HashMap, HashSet};

use ratelimit_common::{
    Instant, Policy,
    detected::Filter,
    layout::{LEASED_MAX, LEASES_MAX, POLICIES_MAX},
    lease::Lease,
    source::LogKey,
};
use zerocopy::IntoBytes;

use super::Enforcer;
use crate::datapath::{self, DatapathError};

const HALF: u32 = LEASED_MAX / 2;

/// By what a key is judged until a time, and after that.
pub struct Leased {
    /// Whose lease it is.
    pub key: LogKey,
    /// Until the time.
    pub now: Policy,
    /// That time.
    pub until: Instant,
    /// After it.
    pub then: Policy,
}

/// What the kernel is to admit of limits that nodes share.
#[derive(Default)]
pub struct Leases {
    /// In place of all others.
    pub leases: Vec<Leased>,
    /// The keys whose packets are counted although they have none.
    pub counted: Vec<LogKey>,
}

/// The policies of a half, each at one index.
struct Half {
    first: u32,
    indices: HashMap<Vec<u8>, u32>,
}

impl Half {
    /// The index of a policy, and whether it is new there; `None` where the half is full.
    fn index(&mut self, policy: &Policy) -> Option<(u32, bool)> {
        if let Some(index) = self.indices.get(policy.as_bytes()) {
            return Some((*index, false));
        }
        let count = u32::try_from(self.indices.len()).ok()?;
        let index = (count < HALF).then_some(self.first + count)?;
        self.indices.insert(policy.as_bytes().to_vec(), index);
        Some((index, true))
    }
}

impl Enforcer {
    /// Has these leases in place of all others, and answers for how many there was no room. What packets of these keys and of those that are
    /// `counted` ask is counted, until the next call.
    ///
    /// # Errors
    ///
    /// When the datapath fails: then some are as before.
    pub fn lease(&mut self, wanted: &Leases) -> datapath::Result<usize> {
        let (wanted, counted) = (&wanted.leases, &wanted.counted);
        let before = self.datapath.leases()?;
        let leased = wanted.iter().map(|leased| &leased.key);
        let keys = counted.iter().chain(leased);
        let mut filters = [Filter::CLEAR; 2];
        for key in keys.chain(before.iter().map(|(key, _)| key)) {
            let (family, bit) = key.filter_bit();
            filters[family as usize].insert(bit);
        }
        // First: no key has a lease that the program does not look for.
        self.datapath.set_leased_filters(&filters)?;
        let is_in_first = |(_, lease): &(LogKey, Lease)| {
            let mut policies = lease.policies().into_iter();
            policies.any(|index| index < POLICIES_MAX + HALF)
        };
        let taken = if before.iter().any(is_in_first) {
            HALF
        } else {
            0
        };
        let mut half = Half {
            first: POLICIES_MAX + taken,
            indices: HashMap::new(),
        };
        let mut leases = Vec::with_capacity(wanted.len());
        for Leased {
            key,
            now,
            until,
            then,
        } in wanted.iter().take(LEASES_MAX as usize)
        {
            let mut put = |policy: &Policy| {
                let Some((index, is_new)) = half.index(policy) else {
                    return Ok(None);
                };
                if is_new {
                    self.datapath.set_policy(index, policy)?;
                }
                Ok::<_, DatapathError>(Some(index))
            };
            if let (Some(now), Some(then)) = (put(now)?, put(then)?) {
                leases.push((*key, Lease::new(now, *until, then)));
            }
        }
        let kept: HashSet<LogKey> = leases.iter().map(|(key, _)| *key).collect();
        let gone = before.iter().map(|(key, _)| *key);
        let gone: Vec<LogKey> = gone.filter(|key| !kept.contains(key)).collect();
        self.datapath.remove_leases(&gone)?;
        self.datapath.set_leases(&leases)?;
        Ok(wanted.len() - leases.len())
    }

    /// What is leased, of each key until the time and after it.
    pub fn leased(&self) -> datapath::Result<Vec<(LogKey, [Policy; 2])>> {
        let leases = self.datapath.leases()?.into_iter();
        let leased = leases.map(|(key, lease)| {
            let [now, then] = lease.policies();
            Ok((
                key,
                [self.datapath.policy(now)?, self.datapath.policy(then)?],
            ))
        });
        leased.collect()
    }

    /// The policy that is in force at a time of each key that has leased one.
    pub fn leased_at(&self, at: Instant) -> datapath::Result<HashMap<LogKey, Policy>> {
        let leases = self.datapath.leases()?.into_iter();
        let policies = leases.map(|(key, lease)| Ok((key, self.datapath.policy(lease.at(at))?)));
        policies.collect()
    }
}
