//! Leases: the share of this node in limits that nodes share, for a limited time.
//!
//! The policies of leases are stored behind all others, in two halves. Each period, all leases are
//! written again, with policies in the half that no lease names. So no packet is judged by a policy
//! while it is being written.

use std::collections::{HashMap, HashSet};

use ratelimit_common::{
    Instant, Policy,
    layout::{LEASED_MAX, LEASES_MAX, POLICIES_MAX},
    lease::Lease,
    source::LogKey,
    source_filter::Filter,
};
use zerocopy::IntoBytes;

use super::Enforcer;
use crate::datapath::{self, DatapathError};

const HALF: u32 = LEASED_MAX / 2;

/// The policies of a key: one until a time, and one after it.
pub struct Leased {
    pub key: LogKey,
    pub now: Policy,
    pub until: Instant,
    pub then: Policy,
}

/// The leases that the kernel should have.
#[derive(Default)]
pub struct Leases {
    /// All leases; others end.
    pub leases: Vec<Leased>,
    /// Keys whose packets are counted although they have no lease.
    pub counted: Vec<LogKey>,
}

/// The policies of a half, each at one index.
struct Half {
    first: u32,
    indices: HashMap<Vec<u8>, u32>,
}

impl Half {
    /// Returns the index of the policy, and whether it is new. `None` if the half is full.
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
    /// Replaces all leases, and returns how many did not fit. Until the next call, the demand of
    /// packets with these keys, and with `counted` keys, is counted.
    ///
    /// # Errors
    ///
    /// If the datapath fails, some leases are as before.
    pub fn lease(&mut self, wanted: &Leases) -> datapath::Result<usize> {
        let (wanted, counted) = (&wanted.leases, &wanted.counted);
        let before = self.datapath.leases.all()?;
        let leased = wanted.iter().map(|leased| &leased.key);
        let keys = counted.iter().chain(leased);
        let mut filters = [Filter::CLEAR; 2];
        for key in keys.chain(before.iter().map(|(key, _)| key)) {
            let (family, bit) = key.filter_bit();
            filters[family as usize].insert(bit);
        }
        // First, so that the program looks for every key that has a lease.
        self.datapath.leases.set_filters(&filters)?;
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
        self.datapath.leases.remove(&gone)?;
        self.datapath.leases.set(&leases)?;
        Ok(wanted.len() - leases.len())
    }

    /// Returns the leases: for each key the policy until its time, and the one after it.
    pub fn leased(&self) -> datapath::Result<Vec<(LogKey, [Policy; 2])>> {
        let leases = self.datapath.leases.all()?.into_iter();
        let leased = leases.map(|(key, lease)| {
            let [now, then] = lease.policies();
            Ok((
                key,
                [
                    self.datapath.policies.get(now)?,
                    self.datapath.policies.get(then)?,
                ],
            ))
        });
        leased.collect()
    }

    /// Returns the policy of each leased key at a given time.
    pub fn leased_at(&self, at: Instant) -> datapath::Result<HashMap<LogKey, Policy>> {
        let leases = self.datapath.leases.all()?.into_iter();
        let policies =
            leases.map(|(key, lease)| Ok((key, self.datapath.policies.get(lease.at(at))?)));
        policies.collect()
    }
}
