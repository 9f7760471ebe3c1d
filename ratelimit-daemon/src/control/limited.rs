//! Sources of attacks that get a further limit for a time, beside those of their policy.
//!
//! A source that is limited is under a policy of its own name, which has all that its policy has and the further limit. So it
//! is never looser than what the source had before, also when that changes meanwhile. All sources with the same policy and
//! the same further limits share it. A prefix inside with a policy of its own stays under that.

use std::{collections::BTreeMap, ops::Bound};

use ratelimit_common::policy::LIMITS_MAX;
use ratelimit_core::{
    api::Limited,
    detection::{Answer, Kind, Rule},
    limit::LimitSpec,
    prefix::Prefix,
};
use tracing::warn;

use super::{
    controller::Controller,
    intent::{Edit, Intent, WantedPolicy},
    policies::DEFAULT,
    store::LimitedRow,
};
use crate::clock;

/// How the names of such policies begin. No policy of a configuration can have such a name.
const MARK: &str = "[detected] ";

/// The policy of a prefix that is limited.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct LimitedPolicy {
    /// The policy that it would be under.
    base: String,
    /// The further limits: those of the prefixes around it too, the widest first.
    further: Vec<LimitSpec>,
}

/// Whether a policy is one of those.
#[must_use]
pub fn is_name(name: &str) -> bool {
    name.starts_with(MARK)
}

impl LimitedPolicy {
    /// Its name: `[detected] default + 10 packets per 1s`.
    #[must_use]
    pub fn name(&self) -> String {
        let further = self.further.iter().map(|limit| format!(" + {limit}"));
        format!("{MARK}{}{}", self.base, further.collect::<String>())
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
            if is_known && !further.contains(&row.limit) {
                further.push(row.limit.clone());
            }
        }
        LimitedPolicy {
            base: base.unwrap_or_else(|| DEFAULT.to_owned()),
            further,
        }
    }

    /// The prefixes that are under such a policy.
    pub(super) fn limited_under(&self, name: &str) -> Vec<Prefix> {
        let prefixes = self.limited.keys().copied();
        prefixes
            .filter(|prefix| self.limited_policy(*prefix).name() == name)
            .collect()
    }

    /// Those policies, made of what is `wanted` without them.
    ///
    /// The limits of a dry run are no limits: beside the further one there is nothing then. Where there is no room for one, it
    /// is left out.
    pub(super) fn limited_policies<'a>(
        &self,
        wanted: &[WantedPolicy<'a>],
    ) -> Vec<WantedPolicy<'a>> {
        let prefixes = self.limited.keys();
        let policies: BTreeMap<String, LimitedPolicy> = prefixes
            .map(|prefix| self.limited_policy(*prefix))
            .map(|policy| (policy.name(), policy))
            .collect();
        let compiled = policies.into_iter().filter_map(|(name, policy)| {
            let base = wanted.iter().find(|base| base.name == policy.base)?;
            let mut limits = if base.observe {
                Vec::new()
            } else {
                base.limits.to_vec()
            };
            for limit in policy.further {
                if limits.len() < LIMITS_MAX && !limits.contains(&limit) {
                    limits.push(limit);
                }
            }
            Some(WantedPolicy {
                name,
                limits: limits.into(),
                observe: false,
                role: base.role,
                ban: base.ban.filter(|_| !base.observe),
            })
        });
        compiled.collect()
    }

    /// The prefixes that are limited and whose policies depend on what `edit` changes.
    pub(super) fn limited_by(&self, edit: &Edit) -> Vec<Prefix> {
        let within = |prefix: Prefix| {
            let from_here = (Bound::Included(prefix), Bound::Unbounded);
            let within = self.limited.range(from_here).map(|(inner, _)| *inner);
            within.take_while(move |inner| prefix.covers(*inner))
        };
        match edit {
            Edit::Limits(None, _) => self.limited.keys().copied().collect(),
            Edit::Limits(Some(prefix), _) | Edit::Limited(prefix, _) => within(*prefix).collect(),
            Edit::Ban(..) | Edit::Allow(..) | Edit::List(..) | Edit::Offence(..) => vec![],
        }
    }
}

impl Controller {
    /// Limits the sources that are to be.
    pub(super) fn limit_attackers(&mut self, to_blame: &[(Kind, Prefix)]) {
        let mut edits: BTreeMap<Prefix, Edit> = BTreeMap::new();
        for (kind, source) in to_blame {
            let rule = self.intent.config.attacks.get(kind).cloned();
            let Some(rule) = rule.filter(|rule| rule.answer == Answer::Limit) else {
                continue;
            };
            let is_limited = edits.contains_key(source) || self.has_further(*source, &rule);
            if is_limited || self.intent.banned_until(*source).is_some() || self.is_spared(*source)
            {
                continue;
            }
            if !self.may_answer() {
                break;
            }
            let row = LimitedRow {
                until: super::detected::later(clock::now(), rule.length),
                since: clock::to_wall(clock::now()),
                kind: *kind,
                limit: rule.limit,
            };
            *self.attacks.limited.entry(*kind).or_default() += 1;
            edits.insert(*source, Edit::Limited(*source, Some(row)));
        }
        if edits.is_empty() {
            return;
        }
        let edits: Vec<Edit> = edits.into_values().collect();
        if let Err(refused) = self.edit(&edits) {
            let error = refused.error;
            warn!(error, "sources of attacks could not be limited");
        }
    }

    /// Whether a source has the limit of a rule already.
    fn has_further(&self, source: Prefix, rule: &Rule) -> bool {
        self.intent.limited.contains_key(&source)
            || self
                .intent
                .limited_policy(source)
                .further
                .contains(&rule.limit)
    }

    /// The further limit of the narrowest prefix around `source` that has one.
    pub(super) fn limited_view(&self, source: Prefix) -> Option<Limited> {
        source.supernets().rev().find_map(|prefix| {
            let row = self.intent.limited.get(&prefix)?;
            Some(Limited {
                prefix,
                until: clock::to_wall(row.until),
                since: row.since,
                kind: row.kind,
                limit: row.limit.clone(),
            })
        })
    }
}
