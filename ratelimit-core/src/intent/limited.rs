//! Temporary further limits of sources that attack or have too many connections, in addition to
//! their policy.
//!
//! A limited source gets a policy of its own name: its original policy with the same state, and the
//! further limits with separate state. It is therefore never less strict than before, also if the
//! original policy changes, and no usage is lost. All sources with the same policy and further
//! limits share it. A nested prefix with its own policy is not affected.

use std::collections::BTreeMap;

use ratelimit_common::limit::LIMITS_MAX;

use super::{Edit, Intent, LimitedRow, Target, WantedPolicy};
use crate::{
    config::interface,
    limit::LimitSpec,
    policies::{DEFAULT, DETECTED},
    prefix::Prefix,
    tcp_connections,
};

/// The policy of a prefix that is limited.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct LimitedPolicy {
    /// The policy that it would be under.
    base: String,
    /// The further limits: those of the prefixes around it too, the widest first, and those of
    /// interfaces last.
    pub(super) further: Vec<LimitSpec>,
}

impl LimitedPolicy {
    /// Returns the name: `[detected] default + 10 packets per 1s`.
    pub fn name(&self) -> String {
        let further = self.further.iter().map(|limit| format!(" + {limit}"));
        format!("{DETECTED}{}{}", self.base, further.collect::<String>())
    }
}

impl Intent {
    /// The policy of a prefix that is limited.
    pub(super) fn limited_policy(&self, prefix: Prefix) -> LimitedPolicy {
        let mut narrower = prefix.supernets().rev();
        let base = narrower.find_map(|outer| self.lasting_policy_name(outer));
        let mut further = Vec::new();
        for row in prefix
            .supernets()
            .filter_map(|outer| self.limited.get(&outer))
        {
            // A class may have gone from the configuration.
            let select = |class| self.config.classes.select(class);
            let is_known = row.limit.class().is_none_or(|class| select(class).is_ok());
            let own = is_known.then(|| row.limit.clone());
            let full = row.is_full.then(tcp_connections::limit);
            for limit in own.into_iter().chain(full) {
                if !further.contains(&limit) {
                    further.push(limit);
                }
            }
        }
        self.combined(base, further)
    }

    /// The policy of sources under `base` that have these further limits.
    fn combined(&self, base: Option<String>, mut further: Vec<LimitSpec>) -> LimitedPolicy {
        if base.is_none() && !further.is_empty() {
            // With these it is looser on no interface.
            further.extend(interface::limits_of_sources(&self.config));
        }
        LimitedPolicy {
            base: base.unwrap_or_else(|| DEFAULT.to_owned()),
            further,
        }
    }

    /// The policies of sources with as many connections as they may have. They exist before there
    /// is one, so that it takes a single entry to limit it.
    fn policies_of_connections(&self) -> impl Iterator<Item = LimitedPolicy> {
        let default = [(None, &self.config.default_policy)].into_iter();
        let policies = self.config.policies.iter();
        let policies = policies.map(|(name, policy)| (Some(name.clone()), policy));
        let limiting = default
            .chain(policies)
            .filter(|(_, policy)| policy.connections_in_force().is_some());
        limiting.map(|(base, _)| self.combined(base, vec![tcp_connections::limit()]))
    }

    /// The prefixes that are under such a policy.
    pub fn limited_under(&self, name: &str) -> Vec<Prefix> {
        let prefixes = self.limited.keys().copied();
        prefixes
            .filter(|prefix| self.limited_policy(*prefix).name() == name)
            .collect()
    }

    /// Returns the combined policies for `wanted`.
    ///
    /// Limits in a dry run do not count: only the further limits apply then.
    pub(super) fn limited_policies<'a>(
        &self,
        wanted: &[WantedPolicy<'a>],
    ) -> Vec<WantedPolicy<'a>> {
        let prefixes = self.limited.keys();
        let policies: BTreeMap<String, LimitedPolicy> = prefixes
            .map(|prefix| self.limited_policy(*prefix))
            .chain(self.policies_of_connections())
            .map(|policy| (policy.name(), policy))
            .collect();
        let compiled = policies.into_iter().filter_map(|(name, policy)| {
            let base = wanted.iter().find(|base| base.name == policy.base)?;
            let limits = if base.observe {
                Vec::new()
            } else {
                base.limits.to_vec()
            };
            let mut further = policy.further;
            further.truncate(LIMITS_MAX);
            Some(WantedPolicy {
                name,
                base: Some(policy.base),
                around: None,
                limits: limits.into(),
                further,
                observe: false,
                further_observe: false,
                role: base.role,
                ban: base.ban.filter(|_| !base.observe),
                established: None,
            })
        });
        compiled.collect()
    }

    /// The prefixes whose policies depend on what `edit` changes: those with further limits have
    /// the limits of the policy around them, and those with runtime limits its state.
    pub fn dependents(&self, edit: &Edit) -> Vec<Prefix> {
        let within = |prefix: Prefix| {
            let limited = self.limited.range(prefix..).map(|(inner, _)| *inner);
            let runtime = self
                .limits()
                .range(Target::Sources(prefix)..)
                .map_while(|it| it.0.sources());
            let is_inside = move |inner: &Prefix| prefix.covers(*inner);
            let limited = limited.take_while(is_inside);
            limited.chain(runtime.take_while(is_inside))
        };
        match edit {
            Edit::Limits(Target::Default, _) => {
                let runtime = self.limits().keys().filter_map(|target| target.sources());
                self.limited.keys().copied().chain(runtime).collect()
            }
            Edit::Limits(Target::Sources(prefix), _) | Edit::Limited(prefix, _) => {
                within(*prefix).collect()
            }
            Edit::Limits(Target::Destination(_), _)
            | Edit::Ban(..)
            | Edit::Allow(..)
            | Edit::List(..)
            | Edit::Offence(..)
            | Edit::Config(_)
            | Edit::PassAll(_) => vec![],
        }
    }

    /// The sources that have a further limit.
    pub const fn limited(&self) -> &BTreeMap<Prefix, LimitedRow> {
        &self.limited
    }

    /// Whether a source has the limit of an attack already, its own or this one of a prefix around
    /// it.
    pub fn is_limited_in_attack(&self, source: Prefix, limit: &LimitSpec) -> bool {
        let own = self.limited.get(&source);
        own.is_some_and(|row| row.kind.is_some())
            || self.limited_policy(source).further.contains(limit)
    }
}
