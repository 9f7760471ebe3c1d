//! The desired state as statements about prefixes, each with its counter slot.
//!
//! If a prefix is banned or allowed several times, the statement that ends last applies. If several
//! end at the same time, packets are counted for one that is not of a list.

use super::{FOREVER, Intent, list::List, renewed};
use crate::{
    counter_slots::{CounterSlots, Owner},
    lists::Action,
    origin::Origin,
    policies::{DEFAULT, Role, policy_of_list},
    prefix::Prefix,
    rules::{Counted, CountedPolicy, Statement, longer},
};

impl Intent {
    /// The allow of a prefix that lasts longest.
    pub fn allow_of(&self, prefix: Prefix, slots: &CounterSlots) -> Option<Counted> {
        let lists = self.lists_for(Action::Allow);
        let listed = lists.filter_map(|(name, list)| {
            let until = renewed::allow_in_list(list, list.get(prefix)?.until);
            let slot = slots.slot(Owner::List(name));
            Some(Counted { until, slot })
        });
        let runtime = self.allows.get(&prefix);
        let runtime = runtime.map(|allow| renewed::runtime_allow(allow.until));
        let configured = self.config.allow.binary_search(&prefix).ok();
        let configured = configured.map(|_| FOREVER);
        let slot = slots.slot(Owner::Allow(prefix));
        let own = configured.into_iter().chain(runtime);
        longest(listed.chain(own.map(|until| Counted { until, slot })))
    }

    /// Whether a prefix is on the allow list.
    pub fn is_allowed(&self, prefix: Prefix) -> bool {
        self.allow_of(prefix, &CounterSlots::default()).is_some()
    }

    /// The ban of a prefix that lasts longest.
    pub fn longest_ban(&self, prefix: Prefix, slots: &CounterSlots) -> Option<Counted> {
        let lists = self.lists_for(Action::Ban);
        let listed = lists.filter_map(|(name, list)| {
            let until = renewed::end_in_list(list, list.get(prefix)?.until);
            let slot = slots.slot(Owner::List(name));
            Some(Counted { until, slot })
        });
        let bans = self.bans_of(prefix).map(|(origin, ban)| Counted {
            until: renewed::end_of_ban(origin, ban.until),
            slot: slots.slot(Owner::Ban(prefix, origin)),
        });
        // The first of the origins is examined last.
        let bans: Vec<Counted> = bans.collect();
        longest(listed.chain(bans.into_iter().rev()))
    }

    /// Returns the ban of a prefix that was set with `--force`.
    pub fn forced_ban(&self, prefix: Prefix, slots: &CounterSlots) -> Option<Counted> {
        let forced = self.bans.get(&(prefix, Origin::Forced))?;
        Some(Counted {
            until: renewed::end_of_ban(&Origin::Forced, forced.until),
            slot: slots.slot(Owner::Ban(prefix, &Origin::Forced)),
        })
    }

    /// Returns the prefixes with forced bans.
    pub fn forced(&self) -> impl Iterator<Item = Prefix> {
        let forced = self.bans.keys();
        let forced = forced.filter(|(_, origin)| *origin == Origin::Forced);
        forced.map(|(prefix, _)| *prefix)
    }

    /// Everything that is said about prefixes; runtime limits come before those of the
    /// configuration, and those before databases of policies. Packets are counted for the last of
    /// those that end at the same time. `policy` is that of a name.
    pub fn statements(
        &self,
        slots: &CounterSlots,
        policy: impl Fn(&str) -> Option<CountedPolicy>,
    ) -> Vec<(Prefix, Statement)> {
        let lists = self.lists.values().map(|list| list.entries().len());
        let mut all = Vec::with_capacity(self.bans.len() + lists.sum::<usize>());
        for (name, list) in &self.lists {
            all.extend(of_list(list, slots.slot(Owner::List(name))));
        }
        let bans = self.bans.iter().rev();
        all.extend(bans.map(|((prefix, origin), ban)| {
            let until = renewed::end_of_ban(origin, ban.until);
            let slot = slots.slot(Owner::Ban(*prefix, origin));
            (*prefix, Statement::Banned(Counted { until, slot }))
        }));
        let allows = self.allows.iter();
        let allows = allows.map(|(prefix, row)| (*prefix, renewed::runtime_allow(row.until)));
        let configured = self.config.allow.iter().map(|prefix| (*prefix, FOREVER));
        all.extend(configured.chain(allows).map(|(prefix, until)| {
            let slot = slots.slot(Owner::Allow(prefix));
            (prefix, Statement::Allowed(Counted { until, slot }))
        }));
        all.extend(self.policy_statements(policy));
        all
    }

    fn policy_statements(
        &self,
        policy: impl Fn(&str) -> Option<CountedPolicy>,
    ) -> Vec<(Prefix, Statement)> {
        let mut all = Vec::new();
        for prefix in self.limited.keys() {
            let policy = policy(&self.limited_policy(*prefix).name());
            all.extend(policy.map(|policy| (*prefix, Statement::Policy(policy))));
        }
        for prefix in self
            .limits_in_force()
            .filter_map(|(target, _)| target.sources())
        {
            let policy = policy(&prefix.to_string());
            all.extend(policy.map(|policy| (prefix, Statement::Policy(policy))));
        }
        for (name, configured) in &self.config.policies {
            let policy = policy(name);
            let sources = configured.sources.iter();
            all.extend(sources.filter_map(|prefix| Some((*prefix, Statement::Policy(policy?)))));
        }
        for (name, list) in self.selected_under(&self.config) {
            let Some(policy) = policy(name) else { continue };
            let prefixes = list.entries().iter().map(|entry| entry.prefix);
            all.extend(prefixes.map(|prefix| (prefix, Statement::Policy(policy))));
        }
        all
    }

    /// Everything that packets are counted for, except policies.
    pub fn owners(&self) -> impl Iterator<Item = Owner<'_>> {
        let lists = self.lists.keys().map(|name| &**name);
        // A list whose file could not be read yet keeps its counter.
        let named = self.config.lists.keys().map(String::as_str);
        let lists = lists.chain(named);
        // Packets from there are counted for the policy.
        let lists = lists
            .filter(|name| policy_of_list(name).is_none())
            .map(Owner::List);
        let configured = self.config.allow.iter().copied();
        let allows = configured.chain(self.allows.keys().copied());
        let bans = self.bans.keys();
        let bans = bans.map(|(prefix, origin)| Owner::Ban(*prefix, origin));
        lists.chain(allows.map(Owner::Allow)).chain(bans)
    }

    /// The names of the policies that packets are counted for: those that list entries name.
    pub fn counted_policies(&self) -> Vec<String> {
        let policies = self.policies().into_iter();
        let named = policies.filter(|it| it.role == Role::Sources && it.name != DEFAULT);
        named.map(|policy| policy.name).collect()
    }
}

fn longest(all: impl Iterator<Item = Counted>) -> Option<Counted> {
    all.fold(None, |longest, one| longer(longest, Some(one)))
}

fn of_list(list: &List, slot: u16) -> impl Iterator<Item = (Prefix, Statement)> + '_ {
    list.entries().iter().filter_map(move |entry| {
        let counted = |until| Counted { until, slot };
        let statement = match list.action {
            Action::Ban => Statement::Banned(counted(renewed::end_in_list(list, entry.until))),
            Action::Allow => Statement::Allowed(counted(renewed::allow_in_list(list, entry.until))),
            Action::Policy => return None,
        };
        Some((entry.prefix, statement))
    })
}
