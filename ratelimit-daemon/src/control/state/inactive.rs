//! Deactivates runtime limits that do not fit the configuration. They are reported and kept, and
//! are in force again when they fit.
//!
//! A reload that removes their class is refused, but files can change while no daemon runs. A
//! daemon that refused to start because of that would enforce nothing, and the limits could not be
//! removed.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_core::intent::{Inactive, Intent, Target};
use tracing::{error, info};

use super::compiled::Compiled;
use crate::control::enforcement::enforcer::Enforcer;

/// The inputs and the result of compiling without inactive limits.
pub(crate) struct Compilation<'a> {
    pub intent: &'a mut Intent,
    pub compiled: &'a mut Compiled,
    pub enforcer: &'a Enforcer,
}

impl Compilation<'_> {
    /// Compiles the policies at start, without the runtime limits that make it fail.
    pub(crate) fn compile_at_start(&mut self) -> anyhow::Result<()> {
        let candidates = self.intent.limits().keys().copied().collect();
        self.compile_without(candidates, &BTreeMap::new())
    }

    /// Compiles another configuration. Inactive limits return if they fit. A rollback is not
    /// refused, and may deactivate others.
    pub(crate) fn recompile(&mut self, on_trial: bool) -> anyhow::Result<()> {
        let before = std::mem::take(&mut self.intent.inactive);
        let candidates = if on_trial {
            self.intent.limits().keys().copied().collect()
        } else {
            before.keys().copied().collect()
        };
        if let Err(error) = self.compile_without(candidates, &before) {
            self.intent.inactive = before;
            return Err(error);
        }
        for (target, _) in before {
            if self.intent.limits_of(target).is_some() {
                info!(
                    policy = target.policy_name(),
                    "runtime limits are in force again"
                );
            }
        }
        Ok(())
    }

    /// Compiles the policies without those of `candidates` that make it fail. Limits in `before`
    /// are already reported.
    fn compile_without(
        &mut self,
        mut candidates: BTreeSet<Target>,
        before: &BTreeMap<Target, Inactive>,
    ) -> anyhow::Result<()> {
        let before_all = self.compiled.policies_now();
        let mut inactive = Vec::new();
        while let Err(error) = self.compiled.compile_policies(self.intent, self.enforcer) {
            let Some(target) = error.limit_to_deactivate(self.intent, &candidates) else {
                return Err(error.into());
            };
            self.compiled.restore_policies(before_all.clone());
            candidates.remove(&target);
            self.intent.deactivate(target, error.to_string());
            inactive.push((target, error));
        }
        inactive.retain(|(target, _)| !before.contains_key(target));
        for (target, why) in inactive {
            error!(
                policy = target.policy_name(),
                error = why.to_string(),
                "runtime limits inactive: they do not fit the configuration"
            );
        }
        Ok(())
    }
}
