//! From what is intended to what the datapath holds: policies, list entries, settings.

use std::{collections::BTreeMap, net::IpAddr};

use ratelimit_common::{Policy, Settings};

use super::{
    intent::Intent,
    policies::{DEFAULT, Named, Policies, TooManyPolicies},
    rules::Rules,
};
use crate::{config::Config, datapath::IpAddress, memory_tables::MemoryTables, prefix::Prefix};

/// Gives every policy that is to be its index, and forgets the others. `used` are the policies in the datapath.
///
/// # Errors
///
/// When no index is free.
pub fn compile_policies(
    policies: &mut Policies,
    intent: &Intent,
    used: &BTreeMap<u32, Policy>,
) -> Result<(), TooManyPolicies> {
    let wanted = intent.policies();
    for policy in &wanted {
        policies.assign(&policy.name, policy.limits, policy.observe, used)?;
    }
    policies.retain(|name| wanted.iter().any(|policy| policy.name == name));
    Ok(())
}

/// The rules of every prefix that something is said about.
pub fn compile_rules(policies: &Policies, intent: &Intent) -> Rules {
    let mut rules = Rules::default();
    for prefix in intent.prefixes() {
        compile_prefix(&mut rules, policies, intent, prefix);
    }
    rules
}

/// Brings the rules of one prefix to what is intended.
pub fn compile_prefix(rules: &mut Rules, policies: &Policies, intent: &Intent, prefix: Prefix) {
    let policy = intent.policy_name(prefix);
    let policy = policy
        .and_then(|name| policies.get(&name))
        .map(|named| named.index);
    rules.set_allowed(prefix, intent.is_allowed(prefix));
    rules.set_ban(prefix, intent.banned_until(prefix));
    rules.set_policy(prefix, policy);
}

/// The settings of an intent whose policies are compiled.
pub fn settings(policies: &Policies, intent: &Intent) -> Settings {
    let default = policies.get(DEFAULT).map(|named| named.index);
    Settings::new(default.unwrap_or_default(), intent.config.observe)
}

/// What a configuration puts into the datapath where nothing was set by hand: what `rlctl simulate` runs on.
pub struct Compiled {
    intent: Intent,
    policies: Policies,
    rules: Rules,
}

impl Compiled {
    /// Compiles a configuration as the daemon does.
    ///
    /// # Errors
    ///
    /// When it has more policies than the datapath holds.
    pub fn new(config: Config) -> Result<Self, TooManyPolicies> {
        let intent = Intent::new(config);
        let mut policies = Policies::default();
        compile_policies(&mut policies, &intent, &BTreeMap::new())?;
        let rules = compile_rules(&policies, &intent);
        Ok(Self {
            intent,
            policies,
            rules,
        })
    }

    /// What was compiled.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.intent.config
    }

    /// The tables, in memory, of which no source is known yet.
    #[must_use]
    pub fn memory_tables(&self) -> MemoryTables {
        let source = &self.config().source;
        let masks = (
            IpAddress::source_mask(source),
            IpAddress::source_mask(source),
        );
        let settings = settings(&self.policies, &self.intent);
        let mut tables = MemoryTables::new(settings, self.policies_in_order(), masks);
        for (prefix, entry) in self.rules.entries() {
            tables.set_list_entry(prefix, entry);
        }
        tables
    }

    /// The name and limits of the policy that packets of `address` are judged by.
    #[must_use]
    pub fn policy_of(&self, address: IpAddr) -> Option<(&str, &Named)> {
        let entry = self.rules.longest_match(address);
        let index = entry.and_then(|(_, entry)| entry.policy());
        let default = settings(&self.policies, &self.intent).default_policy();
        self.policies.at(index.unwrap_or(default))
    }

    /// The policies at their indices; empty ones between them.
    fn policies_in_order(&self) -> Vec<Policy> {
        let by_index = self.policies.by_index();
        let count = by_index.last_key_value().map_or(0, |(index, _)| index + 1);
        (0..count)
            .map(|index| by_index.get(&index).copied().unwrap_or_default())
            .collect()
    }
}
