//! The attacks that are going on, and what is done about their sources.

use std::collections::BTreeMap;

use ratelimit_common::Standing;
use ratelimit_core::{
    api::AttackView,
    compile,
    detection::{Answer, Attack, Kind, Rules, Step},
    intent::{BanRow, Edit, renewed::later},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{debug, info, warn};

use super::controller::Controller;
use crate::clock;

/// What was found by looking at samples of all packets.
#[derive(Clone, Debug, Default)]
pub struct Attacks {
    going_on: Vec<Attack>,
    /// How many were found, by kind, since the daemon started.
    pub found: BTreeMap<Kind, u64>,
    /// How many sources were limited, by the attack, since the daemon started.
    pub limited: BTreeMap<Kind, u64>,
}

impl Controller {
    /// What is looked for.
    #[must_use]
    pub fn attack_rules(&self) -> Rules {
        self.state.intent.config.attacks.clone()
    }

    /// Takes over what was found, and bans the sources that are to be.
    pub fn note_attacks(&mut self, step: &Step, going_on: Vec<Attack>) {
        for attack in &step.began {
            let (kind, subject) = (attack.kind.label(), attack.subject);
            let (packets_per_second, sources) = (attack.packets_per_second, attack.sources);
            info!(kind, %subject, packets_per_second, sources, "an attack has begun");
            *self.attacks.found.entry(attack.kind).or_default() += 1;
        }
        for attack in &step.ended {
            let (kind, subject) = (attack.kind.label(), attack.subject);
            let (packets_per_second, sources) = (attack.packets_per_second, attack.sources);
            info!(kind, %subject, packets_per_second, sources, "an attack has ended");
        }
        self.attacks.going_on = going_on;
        if self.state.intent.config.observe {
            for (kind, source) in &step.to_blame {
                let kind = kind.label();
                debug!(%source, kind, "a source has part in an attack: in a dry run nothing is done about it");
            }
            return;
        }
        self.ban_attackers(&step.to_blame);
        self.limit_attackers(&step.to_blame);
    }

    /// The attacks that are going on.
    #[must_use]
    pub fn attack_views(&self) -> Vec<AttackView> {
        let view = |attack: &Attack| AttackView {
            kind: attack.kind,
            subject: attack.subject.to_string(),
            packets_per_second: attack.packets_per_second,
            sources: attack.sources,
            since: clock::to_wall(attack.since),
        };
        self.attacks.going_on.iter().map(view).collect()
    }

    fn ban_attackers(&mut self, to_blame: &[(Kind, Prefix)]) {
        let mut edits = BTreeMap::new();
        for (kind, source) in to_blame {
            let rule = self.state.intent.config.attacks.get(kind).cloned();
            let Some(rule) = rule.filter(|rule| rule.answer == Answer::Ban) else {
                continue;
            };
            let is_banned = self.state.intent.banned_until(*source).is_some();
            if is_banned || edits.contains_key(source) || self.state.is_spared(*source) {
                continue;
            }
            if !self.may_answer() {
                break;
            }
            let row = BanRow {
                until: later(clock::now(), rule.length),
                since: clock::to_wall(clock::now()),
                reason: Some(kind.label().into()),
                author: "detection".into(),
            };
            edits.insert(*source, Edit::Ban(*source, Origin::Detected, Some(row)));
        }
        if edits.is_empty() {
            return;
        }
        let edits: Vec<Edit> = edits.into_values().collect();
        if let Err(refused) = self.state.edit(edits) {
            let error = refused.error;
            warn!(error, "sources of attacks could not be banned");
        }
    }

    /// Takes one ban or limit of this minute, if there is one left. What samples show of a source is what came without a
    /// connection, so its address may be forged.
    pub(super) fn may_answer(&mut self) -> bool {
        let budgets = compile::detection_limit(&self.state.intent.config);
        let datapath = self.state.enforcer.datapath_mut();
        let answer = datapath.take_ban(budgets, Standing::Unverified, clock::now());
        answer.unwrap_or_else(|error| {
            let error = error.to_string();
            warn!(error, "the bans of this minute could not be counted");
            false
        })
    }
}
