//! The slots of counters: their owners, when they can be reused, and their counts.
//!
//! A slot is cleared before an entry names it. A released slot is not reused until no packet that
//! may still count in it is under way.

use std::{cell::Cell, collections::BTreeSet};

use ratelimit_common::layout::Counter;
use ratelimit_core::{
    api::EntryCounter,
    counter_slots::{CounterSlots, GONE, Owner},
    intent::{Edit, Intent},
    policies::DEFAULT,
    prefix::Prefix,
};
use tracing::warn;

use crate::datapath::{self, Datapath, DatapathError};

#[derive(Debug, Default)]
pub struct EntryCounters {
    slots: CounterSlots,
    policies: BTreeSet<String>,
    /// The last count of the default policy. It is a difference of growing numbers, and must not
    /// shrink.
    of_default: Cell<Counter>,
}

impl EntryCounters {
    /// Adopts the slots of the datapath. If they cannot be read, nothing is counted.
    pub(crate) fn adopt(datapath: &mut Datapath) -> Self {
        let slots = read(datapath).unwrap_or_else(|error| {
            let error = error.to_string();
            warn!(
                error,
                "cannot count packets of bans, allows, lists and policies"
            );
            CounterSlots::default()
        });
        Self {
            slots,
            ..Self::default()
        }
    }

    pub const fn slots(&self) -> &CounterSlots {
        &self.slots
    }

    /// Gives an owner a slot, if one is free.
    fn take(&mut self, owner: Owner<'_>, datapath: &mut Datapath) {
        let Some((slot, hash)) = self.slots.take(owner) else {
            return;
        };
        if let Err(error) = hand_over(slot, hash, datapath) {
            self.slots.release(owner);
            report(&error);
        }
    }

    fn release(&mut self, owner: Owner<'_>, datapath: &mut Datapath) {
        if let Some(slot) = self.slots.release(owner) {
            release_slots(&[slot], datapath);
        }
    }
}

fn read(datapath: &mut Datapath) -> datapath::Result<CounterSlots> {
    let mut owners = datapath.counters.owners()?;
    let seed = owners.remove(&0).unwrap_or_else(rand_seed);
    datapath.counters.set_owner(0, seed)?;
    Ok(CounterSlots::new(seed, owners))
}

/// Returns a number that outsiders cannot guess, not 0.
fn rand_seed() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0).max(1)
}

/// Clears a slot for its new owner, and records the owner.
fn hand_over(slot: u16, hash: u64, datapath: &mut Datapath) -> datapath::Result<()> {
    datapath.counters.set(slot, Counter::default())?;
    datapath.counters.set_owner(slot, hash)
}

/// Releases slots. Counts of policies are kept as a sum, as the count of the default policy is
/// derived from all others.
fn release_slots(slots: &[u16], datapath: &mut Datapath) {
    let mut policies = slots
        .iter()
        .filter(|slot| CounterSlots::is_of_policy(**slot))
        .peekable();
    if policies.peek().is_some() {
        datapath.programs.wait_for_packets();
    }
    let mut answer = Ok(());
    for slot in policies {
        answer = answer.and(add_to_gone(*slot, datapath));
    }
    for slot in slots {
        answer = answer.and(datapath.counters.set_owner(*slot, 0));
    }
    if let Err(error) = answer {
        report(&error);
    }
}

fn add_to_gone(slot: u16, datapath: &mut Datapath) -> datapath::Result<()> {
    let sum = datapath
        .counters
        .of_slot(GONE)?
        .plus(datapath.counters.of_slot(slot)?);
    datapath.counters.set(GONE, sum)?;
    datapath.counters.set(slot, Counter::default())
}

fn report(error: &DatapathError) {
    let error = error.to_string();
    warn!(
        error,
        "cannot change a counter of bans, allows, lists or policies"
    );
}

impl EntryCounters {
    /// Gives everything in the intent a slot when the daemon starts. Existing counts continue.
    pub(crate) fn count_all(&mut self, intent: &Intent, datapath: &mut Datapath) {
        let names = intent.counted_policies();
        for owner in intent.owners() {
            self.take(owner, datapath);
        }
        self.count_policies(names, datapath);
    }

    /// Releases the slots of everything not in the intent, once no entry names them.
    pub(crate) fn forget_others(&mut self, intent: &Intent, datapath: &mut Datapath) {
        let names = intent.counted_policies();
        let policies = names.iter().map(|name| Owner::Policy(name));
        let gone = self.slots.keep_only(policies.chain(intent.owners()));
        release_slots(&gone, datapath);
    }

    /// Gives the additions in `edits` a slot, before the entries are compiled.
    pub(crate) fn count_added(&mut self, edits: &[Edit], intent: &Intent, datapath: &mut Datapath) {
        for owner in owners(edits) {
            if is_intended(intent, owner) {
                self.take(owner, datapath);
            }
        }
        if edits.iter().any(Edit::is_config) {
            for prefix in &intent.config.allow {
                self.take(Owner::Allow(*prefix), datapath);
            }
        }
        if edits.iter().any(Edit::is_of_policy) {
            let names = intent.counted_policies();
            self.count_policies(names, datapath);
        }
    }

    fn count_policies(&mut self, names: Vec<String>, datapath: &mut Datapath) {
        for name in names {
            self.take(Owner::Policy(&name), datapath);
            self.policies.insert(name);
        }
    }

    /// Releases the slots of the removals in `edits`, once no entry names them.
    pub(crate) fn forget_removed(
        &mut self,
        edits: &[Edit],
        intent: &Intent,
        datapath: &mut Datapath,
    ) {
        for owner in owners(edits) {
            if !is_intended(intent, owner) {
                self.release(owner, datapath);
            }
        }
        if edits.iter().any(Edit::is_of_policy) {
            let names: BTreeSet<String> = intent.counted_policies().into_iter().collect();
            let before = std::mem::take(&mut self.policies);
            for name in before.difference(&names) {
                self.release(Owner::Policy(name), datapath);
            }
            self.policies = names;
        }
    }

    /// Reclaims released slots when new ones are needed.
    pub fn free(&mut self, datapath: &Datapath) {
        if self.slots.is_short() {
            datapath.programs.wait_for_packets();
            self.slots.rest();
        }
    }

    /// Returns the packets that matched a ban, an allow or a list, if they are counted.
    pub fn counter(&self, owner: Owner<'_>, datapath: &Datapath) -> EntryCounter {
        EntryCounter::from(count_of(datapath, self.slots.slot(owner)))
    }

    /// Returns the packets that matched a policy of sources, if they are counted.
    pub fn policy_counter(&self, name: &str, intent: &Intent, datapath: &Datapath) -> EntryCounter {
        let config = &intent.config;
        EntryCounter::from(if name == DEFAULT {
            self.default_counter(intent, datapath)
        } else if config.is_of_interface(name) {
            None
        } else {
            count_of(datapath, self.slots.slot(Owner::Policy(name)))
        })
    }

    /// Counts the packets of the default policy as the packets that limits judged minus those of
    /// all other policies, so that they pay for no counter. `None` if another policy has no
    /// counter, or if an interface has its own policy, whose packets no slot counts.
    fn default_counter(&self, intent: &Intent, datapath: &Datapath) -> Option<Counter> {
        let mut interfaces = intent.config.interfaces.iter();
        if interfaces.any(|it| it.policy.is_some()) {
            return None;
        }
        let slots = &self.slots;
        let policies = self.policies.iter();
        let policies = policies.map(|name| slots.slot(Owner::Policy(name)));
        let mut last = GONE;
        for slot in policies {
            if slot == 0 {
                return None;
            }
            last = last.max(slot);
        }
        // Unowned slots in between are empty.
        let counted = u32::from(GONE)..u32::from(last) + 1;
        let others = datapath.counters.of_slots(counted).ok()?;
        let others = others.into_iter().fold(Counter::default(), Counter::plus);
        let now = less(datapath.counters.judged().ok()?, others);
        let most = most(self.of_default.get(), now);
        self.of_default.set(most);
        Some(most)
    }
}

fn count_of(datapath: &Datapath, slot: u16) -> Option<Counter> {
    if slot == 0 {
        return None;
    }
    datapath.counters.of_slot(slot).ok()
}

fn less(all: Counter, others: Counter) -> Counter {
    Counter {
        packets: all.packets.saturating_sub(others.packets),
        bytes: all.bytes.saturating_sub(others.bytes),
    }
}

fn most(one: Counter, other: Counter) -> Counter {
    Counter {
        packets: one.packets.max(other.packets),
        bytes: one.bytes.max(other.bytes),
    }
}

/// Returns the owners that changes name, except policies.
fn owners(edits: &[Edit]) -> impl Iterator<Item = Owner<'_>> {
    let named = edits.iter().filter_map(|edit| match edit {
        Edit::Ban(prefix, origin, _) => Some(Owner::Ban(*prefix, origin)),
        Edit::Allow(prefix, _) => Some(Owner::Allow(*prefix)),
        Edit::List(name, ..) => Some(Owner::List(name)),
        Edit::Limits(..)
        | Edit::Limited(..)
        | Edit::Offence(..)
        | Edit::Config(_)
        | Edit::PassAll(_) => None,
    });
    let configured = edits.iter().filter_map(|edit| {
        let Edit::Config(before) = edit else {
            return None;
        };
        Some(before.allow.iter().copied().map(Owner::Allow))
    });
    named.chain(configured.flatten())
}

fn is_intended(intent: &Intent, owner: Owner<'_>) -> bool {
    let is_allowed = |prefix: Prefix| {
        intent.allows().contains_key(&prefix) || intent.config.allow.binary_search(&prefix).is_ok()
    };
    match owner {
        Owner::Ban(prefix, origin) => intent.ban_of(prefix, origin).is_some(),
        Owner::Allow(prefix) => is_allowed(prefix),
        Owner::List(name) => {
            intent.lists().contains_key(name) || intent.config.lists.contains_key(name)
        }
        Owner::Policy(_) => true,
    }
}
