//! Assigns state slots to the limits of destinations and interfaces.
//!
//! A slot belongs to one scope. While a policy's words keep their meaning, so do scope and slot,
//! also over a restart. A new slot is one that no policy in the datapath uses; it is emptied before
//! its policy becomes active.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_common::{
    Policy,
    layout::{NODE_POLICIES, TOTALS_MAX},
};

use crate::policies::{Named, Role, TooManyPolicies};

/// Gives the policies of destinations and interfaces their slots, beside those that are in the
/// datapath.
///
/// # Errors
///
/// When no slot is free.
pub fn give(compiled: &mut [Named], used: &BTreeMap<u32, Policy>) -> Result<(), TooManyPolicies> {
    let held = used.values().filter(|policy| policy.has_given_slot());
    let held: BTreeMap<u32, u32> = held.map(|it| (it.scope(), it.slot())).collect();
    let mut taken: BTreeSet<u32> = held.values().copied().collect();
    let mut given = BTreeSet::new();
    let mut next = NODE_POLICIES;
    for named in compiled {
        match named.role {
            Role::Destination(_) | Role::Interface => {}
            Role::Sources | Role::Established | Role::Prefixes(..) | Role::Node => continue,
        }
        let scope = named.policy.scope();
        let own = held.get(&scope).copied();
        // If two scopes are equal (one pair in 2^32), the second gets another slot and starts from
        // zero.
        let slot = match own.filter(|slot| given.insert(*slot)) {
            Some(slot) => slot,
            None => free(&mut next, &mut taken)?,
        };
        named.policy = named.policy.in_slot(slot);
    }
    Ok(())
}

fn free(next: &mut u32, taken: &mut BTreeSet<u32>) -> Result<u32, TooManyPolicies> {
    while *next < TOTALS_MAX && !taken.insert(*next) {
        *next += 1;
    }
    if *next < TOTALS_MAX {
        Ok(*next)
    } else {
        Err(TooManyPolicies)
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{Instant, Settings};

    use super::*;
    use crate::{
        class_tables::ClassTables, compile::ClassNumbers, config, intent::Intent,
        policies::Policies,
    };

    #[test]
    fn a_meaning_keeps_its_slot_and_another_one_gets_another() {
        let mut lab = Lab::default();
        let first = lab.slots(&[("198.51.100.7", 5, "1s"), ("198.51.100.8", 5, "1s")]);
        assert_ne!(first[0], first[1]);
        assert!(first.iter().all(|slot| *slot >= NODE_POLICIES));
        // One comes in front of them, and another amount is no other meaning.
        let second = lab.slots(&[
            ("192.0.2.1", 5, "1s"),
            ("198.51.100.7", 9, "1s"),
            ("198.51.100.8", 5, "2s"),
        ]);
        assert_eq!(second[1], first[0]);
        assert!(!first.contains(&second[0]) && !first.contains(&second[2]));
        assert_ne!(second[0], second[2]);
    }

    #[test]
    fn what_is_over_makes_room() {
        let mut lab = Lab::default();
        let first = lab.slots(&[("198.51.100.7", 5, "1s")]);
        lab.slots(&[]);
        assert_eq!(lab.slots(&[("198.51.100.9", 5, "1s")]), first);
    }

    /// Configurations, one after the other.
    #[derive(Default)]
    struct Lab {
        policies: Policies,
        held: BTreeMap<u32, Policy>,
    }

    impl Lab {
        /// Returns the slots of destinations, each with a limit of packets per window.
        fn slots(&mut self, destinations: &[(&str, u32, &str)]) -> Vec<u32> {
            let tables = destinations.iter().map(|(prefix, packets, per)| {
                format!(
                    "[destination.\"{prefix}\"]\n\
                     limits = [{{ packets = {packets}, per = \"{per}\" }}]\n"
                )
            });
            let text = format!(
                "[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = []\n{}",
                tables.collect::<String>()
            );
            let file = config::File {
                path: "config.toml".into(),
                text,
            };
            let (config, _) = config::parse(&[file]).unwrap();
            let held = crate::compile::CurrentTables {
                policies: &self.held,
                retired: &BTreeMap::new(),
                classes: &ClassTables::default(),
                settings: Settings::default(),
                sets: None,
                moving: BTreeSet::new(),
                now: Instant::default(),
            };
            let intent = Intent::new(config);
            let numbers = &mut ClassNumbers::default();
            crate::compile::compile_policies(&mut self.policies, numbers, &intent, &held, 2)
                .unwrap();
            self.held = self.policies.by_index();
            let all = self.policies.of_destinations();
            let mut all: Vec<_> = all
                .map(|(prefix, _, it)| (prefix, it.policy.slot()))
                .collect();
            all.sort_unstable();
            all.into_iter().map(|(_, slot)| slot).collect()
        }
    }
}
