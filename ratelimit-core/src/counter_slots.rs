//! Assigns the counter slots of the datapath to bans, allows, lists and policies.
//!
//! The number of slots is fixed; entries that find none free are not counted. The datapath keeps a
//! hash of the owner with each slot, so counts survive a restart of the daemon.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use ratelimit_common::layout::{POLICY_SLOTS, SLOTS_MAX};

use crate::{origin::Origin, prefix::Prefix};

/// The owner of a counter.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Owner<'a> {
    /// The ban of a prefix that is of this origin.
    Ban(Prefix, &'a Origin),
    /// The allow of a prefix.
    Allow(Prefix),
    /// The list of this name, with all its entries.
    List(&'a str),
    /// The policy of this name.
    Policy(&'a str),
}

/// Slots that only lists get when the others are taken.
const OF_LISTS: usize = 256;

/// The slot of removed policies. No packet matches it.
pub const GONE: u16 = (POLICY_SLOTS & 0xffff) as u16;

/// The slots, by their owners.
#[derive(Clone, Debug, Default)]
pub struct CounterSlots {
    seed: u64,
    by_owner: HashMap<u64, u16>,
    others: Pool,
    policies: Pool,
}

/// Free slots.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Slots that were never used.
    unused: Range<u32>,
    free: VecDeque<u16>,
    /// Released slots in which packets under way may still count.
    resting: Vec<u16>,
}

impl CounterSlots {
    /// The slots as the datapath has them: those that are taken, each with the hash of its owner,
    /// made with `seed`.
    pub fn new(seed: u64, taken: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let by_owner: HashMap<u64, u16> =
            taken.into_iter().map(|(slot, hash)| (hash, slot)).collect();
        let taken: HashSet<u16> = by_owner.values().copied().collect();
        Self {
            seed,
            by_owner,
            others: Pool::of(1..POLICY_SLOTS, &taken),
            policies: Pool::of(POLICY_SLOTS + 1..SLOTS_MAX, &taken),
        }
    }

    /// Returns the slot of an owner; 0 if it has none.
    pub fn slot(&self, owner: Owner<'_>) -> u16 {
        if self.by_owner.is_empty() {
            return 0;
        }
        let slot = self.by_owner.get(&self.hash(owner));
        slot.copied().unwrap_or_default()
    }

    /// Gives an owner a slot, and returns it with the hash. `None` if it has one, or none is free.
    pub fn take(&mut self, owner: Owner<'_>) -> Option<(u16, u64)> {
        let hash = self.hash(owner);
        if self.by_owner.contains_key(&hash) {
            return None;
        }
        let (pool, kept) = match owner {
            Owner::Policy(_) => (&mut self.policies, 0),
            Owner::List(_) => (&mut self.others, 0),
            Owner::Ban(..) | Owner::Allow(_) => (&mut self.others, OF_LISTS),
        };
        if pool.len() <= kept {
            return None;
        }
        let slot = pool.pop()?;
        self.by_owner.insert(hash, slot);
        Some((slot, hash))
    }

    /// Releases the slot of an owner, and returns it. It can be reused after a
    /// [`rest`](Self::rest).
    pub fn release(&mut self, owner: Owner<'_>) -> Option<u16> {
        let slot = self.by_owner.remove(&self.hash(owner))?;
        self.pool(slot).resting.push(slot);
        Some(slot)
    }

    /// Releases the slots of all other owners, and returns them.
    pub fn keep_only<'a>(&mut self, owners: impl IntoIterator<Item = Owner<'a>>) -> Vec<u16> {
        let owners: HashSet<u64> = owners.into_iter().map(|owner| self.hash(owner)).collect();
        let gone = |(hash, slot): (&u64, &u16)| (!owners.contains(hash)).then_some(*slot);
        let gone: Vec<u16> = self.by_owner.iter().filter_map(gone).collect();
        self.by_owner.retain(|hash, _| owners.contains(hash));
        for slot in &gone {
            self.pool(*slot).resting.push(*slot);
        }
        gone
    }

    /// Whether slots that rest are wanted soon: few others are free.
    pub fn is_short(&self) -> bool {
        [&self.others, &self.policies]
            .into_iter()
            .any(|pool| !pool.resting.is_empty() && pool.len() < OF_LISTS + pool.resting.len())
    }

    /// Frees the released slots, once no packet that may use them is being processed.
    pub fn rest(&mut self) {
        for pool in [&mut self.others, &mut self.policies] {
            pool.free.extend(pool.resting.drain(..));
        }
    }

    /// Whether a slot belongs to a policy.
    pub fn is_of_policy(slot: u16) -> bool {
        u32::from(slot) >= POLICY_SLOTS
    }

    fn pool(&mut self, slot: u16) -> &mut Pool {
        if Self::is_of_policy(slot) {
            &mut self.policies
        } else {
            &mut self.others
        }
    }

    fn hash(&self, owner: Owner<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, owner).hash(&mut hasher);
        // 0 means no owner.
        hasher.finish().max(1)
    }
}

impl Pool {
    fn of(slots: Range<u32>, taken: &HashSet<u16>) -> Self {
        let ours = taken
            .iter()
            .filter(|slot| slots.contains(&u32::from(**slot)));
        let unused = ours.max().map_or(slots.start, |last| u32::from(*last) + 1);
        let before = (slots.start..unused).filter_map(|slot| u16::try_from(slot).ok());
        Self {
            unused: unused..slots.end,
            free: before.filter(|slot| !taken.contains(slot)).collect(),
            resting: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        self.unused.len() + self.free.len()
    }

    fn pop(&mut self) -> Option<u16> {
        let unused = self.unused.next().and_then(|slot| u16::try_from(slot).ok());
        unused.or_else(|| self.free.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_a_slot_of_its_own_until_it_is_gone() {
        let mut slots = CounterSlots::new(7, []);
        let (first, _) = slots.take(ban("192.0.2.1")).unwrap();
        let (second, _) = slots.take(ban("192.0.2.2")).unwrap();
        assert!(first != 0 && second != 0 && first != second);
        assert_eq!(slots.take(ban("192.0.2.1")), None);
        assert_eq!(slots.slot(ban("192.0.2.1")), first);
        assert_eq!(slots.slot(Owner::Allow(prefix("192.0.2.1"))), 0);
        assert_eq!(slots.release(ban("192.0.2.1")), Some(first));
        assert_eq!(slots.release(ban("192.0.2.1")), None);
        assert_eq!(slots.slot(ban("192.0.2.1")), 0);
    }

    #[test]
    fn origins_of_a_ban_and_names_of_one_word_are_other_owners() {
        let mut slots = CounterSlots::new(7, []);
        let prefix = prefix("192.0.2.1");
        let mut taken = HashSet::new();
        for owner in [
            Owner::Ban(prefix, &Origin::Manual),
            Owner::Ban(prefix, &Origin::Automatic),
            Owner::Allow(prefix),
            Owner::List("same"),
            Owner::Policy("same"),
        ] {
            assert!(taken.insert(slots.take(owner).unwrap()));
        }
    }

    #[test]
    fn a_slot_rests_before_another_owner_gets_it() {
        let mut slots = CounterSlots::new(7, []);
        let names: Vec<String> = (0..).map(|n| n.to_string()).take(20_000).collect();
        let taken = names
            .iter()
            .filter_map(|name| slots.take(Owner::Policy(name)));
        let taken: Vec<u16> = taken.map(|(slot, _)| slot).collect();
        assert_eq!(taken.len(), (SLOTS_MAX - POLICY_SLOTS) as usize - 1);
        assert!(taken.iter().all(|slot| *slot > GONE));
        let gone = slots.release(Owner::Policy("5")).unwrap();
        assert!(slots.is_short());
        assert_eq!(slots.take(Owner::Policy("new")), None);
        slots.rest();
        assert_eq!(slots.take(Owner::Policy("new")).unwrap().0, gone);
    }

    #[test]
    fn a_list_gets_a_slot_when_bans_took_all_others() {
        let mut slots = CounterSlots::new(7, []);
        let addresses = (0..POLICY_SLOTS)
            .map(|n| Prefix::from(std::net::IpAddr::from(std::net::Ipv4Addr::from(n))));
        let taken = addresses.filter_map(|at| slots.take(Owner::Ban(at, &Origin::Manual)));
        assert_eq!(taken.count(), POLICY_SLOTS as usize - 1 - OF_LISTS);
        assert_eq!(slots.take(Owner::Allow(prefix("::1"))), None);
        assert!(slots.take(Owner::List("spamhaus")).is_some());
    }

    #[test]
    fn owners_keep_their_slots_over_a_restart_and_others_give_theirs() {
        let mut before = CounterSlots::new(7, []);
        let owners = [ban("192.0.2.1"), ban("192.0.2.2"), Owner::Policy("partner")];
        let owners = owners.map(|owner| before.take(owner).unwrap());
        let mut after = CounterSlots::new(7, owners);
        let kept = [ban("192.0.2.2"), Owner::Policy("partner")];
        let gone = after.keep_only(kept);
        assert_eq!(gone, [before.slot(ban("192.0.2.1"))]);
        for owner in kept {
            assert_eq!(after.slot(owner), before.slot(owner));
            assert_eq!(after.take(owner), None);
        }
        let (fresh, _) = after.take(ban("192.0.2.3")).unwrap();
        assert!(owners.iter().all(|(slot, _)| *slot != fresh));
        assert_eq!(CounterSlots::new(8, owners).slot(kept[0]), 0);
    }

    fn ban(text: &str) -> Owner<'static> {
        Owner::Ban(prefix(text), &Origin::Manual)
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }
}
