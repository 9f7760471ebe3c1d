//! The tables other than the lists.

use std::{collections::BTreeMap, ops::BitOr as _};

use ratelimit_common::{
    BanBudgets, Instant, Policy, Settings,
    aggregate::Aggregates,
    challenge,
    features::{Feature, Features},
    interface::InterfaceRule,
    new_sources::Budget,
    parse::Tunnels,
};

use crate::class_tables::ClassTables;

/// The tables other than the lists, actual or desired.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// The policies that are not empty, by index.
    pub policies: BTreeMap<u32, Policy>,
    /// The retired policies: no packet uses them, but a `compact` table still has their state.
    pub retired: BTreeMap<u32, Policy>,
    /// The arrays by which classes are looked up.
    pub classes: ClassTables,
    /// The end of a time in which everything passes, where the settings say that there is one.
    pub pass_all_until: Instant,
    /// The limit on bans by policies.
    pub ban_budgets: BanBudgets,
    /// The tables that change in one step.
    pub switched: Switched,
    /// Settings for all packets, in any generation.
    pub settings: Settings,
}

/// The tables with a value for each generation, which the settings put in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Switched {
    /// The wider prefixes that have limits, by family.
    pub aggregates: [Aggregates; 2],
    /// The budget for sources that get state, on one CPU.
    pub new_sources: Budget,
    /// The tunnels whose inner packet is judged.
    pub tunnels: Tunnels,
    /// The rules of the challenge.
    pub challenge: challenge::Rules,
    /// The rules of interfaces, by name.
    pub interfaces: BTreeMap<String, InterfaceRule>,
}

impl Tables {
    /// Returns the features that a program needs to judge packets by these tables. Samples are
    /// always one of them: the daemon turns them on and off while it runs.
    pub fn features(&self) -> Features {
        let policies = self.policies.values().chain(self.retired.values());
        let policies = policies.map(Features::of_policy);
        let settings = Features::of_settings(self.settings)
            .with(Feature::Samples)
            .with_if(!self.switched.tunnels.is_empty(), Feature::Tunnels);
        policies.fold(settings, Features::bitor)
    }
}
