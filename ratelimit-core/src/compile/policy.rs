//! Compiles the limits of a policy for the datapath.

use ratelimit_common::{
    ClassSet, Limit, Policy, algorithm::Algorithm as Compiled, node::share_shift,
};

use zerocopy::IntoBytes;

use crate::{
    class::{Action, Catalogue, Selected, UnknownClass},
    compile::{class_numbers::ClassNumbers, node_scope},
    config::SourceConfig,
    intent::WantedPolicy,
    limit::{Algorithm, LimitSpec},
    policies::{Further, Named, Role, scope, wide_hash},
};

/// A share that is what the packet costs, and nothing beyond: no CPU keeps any of the limit to
/// itself.
const NO_SHARES: u8 = 63;

/// Scope of further limits: it belongs to a source under any policy.
const FURTHER: &str = "[further]";

/// Inputs of the compilation besides the policy.
pub struct Compiler<'a> {
    pub catalogue: &'a Catalogue,
    pub numbers: &'a ClassNumbers,
    /// The policy of the node that is in force.
    pub held_node: Option<&'a Policy>,
    /// The CPUs that share the limits of the node.
    pub cpus: u32,
    /// The nodes that divide shared limits.
    pub nodes: u64,
    /// The definition of a source.
    pub source: &'a SourceConfig,
}

impl Compiler<'_> {
    /// The policy as the datapath reads it, with the state of the policy `state`; its indices are
    /// not known yet.
    pub fn compile(&self, wanted: &WantedPolicy<'_>, state: &str) -> Named {
        let is_total = wanted.role.is_total();
        let shift = is_total.then(|| self.share_shift(&wanted.limits));
        let counted = self.counted(wanted.limits.iter());
        let kept = match wanted.role {
            Role::Sources | Role::Established => self.of_sources(state.to_owned()),
            Role::Prefixes(..) | Role::Destination(_) | Role::Interface | Role::Node => {
                state.to_owned()
            }
        };
        let (limits, named) = self.limits(&kept, &wanted.limits, counted, shift);
        let scope = match wanted.role {
            Role::Node => node_scope::of(named, self.held_node),
            Role::Sources
            | Role::Established
            | Role::Prefixes(..)
            | Role::Destination(_)
            | Role::Interface => named,
        };
        let policy = policy(&limits, scope, wanted.observe);
        let policy = match &wanted.ban {
            Some(ban) => policy.with_ban(ban.compile()),
            None => policy,
        };
        let policy = match wanted.role {
            Role::Prefixes(..) => policy.for_prefixes(),
            Role::Sources => {
                policy.with_actions(self.acted_on(Action::Drop), self.acted_on(Action::Exempt))
            }
            Role::Established => policy.for_established(),
            Role::Destination(_) => policy.for_destination(),
            Role::Interface | Role::Node => policy,
        };
        let further = (!wanted.further.is_empty()).then(|| {
            let counted = self.counted(wanted.all_limits());
            let kept = self.of_sources(further_name(wanted));
            let (limits, scope) = self.limits(&kept, &wanted.further, counted, None);
            let policy = self::policy(&limits, scope, wanted.further_observe);
            let policy = match wanted.role {
                Role::Destination(_) => policy.for_destination(),
                Role::Sources
                | Role::Established
                | Role::Prefixes(..)
                | Role::Interface
                | Role::Node => policy,
            };
            Further { index: 0, policy }
        });
        Named {
            index: 0,
            role: wanted.role,
            policy: shift.map_or(policy, |shift| policy.in_shares(shift)),
            limits: wanted.all_limits().cloned().collect(),
            ban: wanted.ban,
            further,
            has_state_of_another: state != wanted.name,
        }
    }

    /// The scope of the state of sources. The first address of a prefix can also be a narrower
    /// source; both have separate state.
    fn of_sources(&self, name: String) -> String {
        let default = SourceConfig::default();
        let SourceConfig {
            ipv4_prefix,
            ipv6_prefix,
            ..
        } = self.source;
        if (default.ipv4_prefix, default.ipv6_prefix) == (*ipv4_prefix, *ipv6_prefix) {
            return name;
        }
        format!("{name} of /{ipv4_prefix} and /{ipv6_prefix}")
    }

    /// The classes of which the configuration says that this happens to their packets.
    fn acted_on(&self, action: Action) -> ClassSet {
        let actions = self.catalogue.actions().filter(|(.., own)| *own == action);
        let selected = actions.map(|(_, class, _)| Selected::Class(class));
        self.numbers.counted(selected.collect::<Vec<_>>().iter())
    }

    /// The classes that limits count: `other` is none of them.
    fn counted<'a>(&self, limits: impl Iterator<Item = &'a LimitSpec>) -> ClassSet {
        let selected: Vec<Selected> = limits.filter_map(|limit| self.selected(limit)).collect();
        self.numbers.counted(selected.iter())
    }

    fn selected(&self, limit: &LimitSpec) -> Option<Selected> {
        select(limit, self.catalogue).expect("it was selected before")
    }

    /// The limits of a policy as the datapath reads them, and what their state is kept under.
    fn limits(
        &self,
        name: &str,
        limits: &[LimitSpec],
        counted: ClassSet,
        shift: Option<u8>,
    ) -> (Vec<Limit>, u32) {
        let compiled = limits.iter().map(|spec| {
            let selected = self.selected(spec);
            let classes = selected.as_ref().map_or(ClassSet::ALL, |selected| {
                self.numbers.set_of(selected, counted)
            });
            (self.limit(spec, shift).for_classes(classes), selected)
        });
        let compiled: Vec<(Limit, Option<Selected>)> = compiled.collect();
        let scope = scope(
            name,
            compiled
                .iter()
                .map(|(limit, class)| (limit, class.as_ref())),
        );
        let limits = compiled.into_iter().map(|(limit, _)| limit);
        (limits.collect(), scope)
    }

    /// The limit as the datapath reads it, drawn in shares where there is a `shift`.
    fn limit(&self, spec: &LimitSpec, shift: Option<u8>) -> Limit {
        let spec = &spec.part(self.nodes);
        let in_shares = shift.and_then(|shift| self.without_shares(spec, shift));
        in_shares.as_ref().unwrap_or(spec).compile()
    }

    /// The power of two by which limits of the node are divided into shares. None are made where a
    /// bucket less its shares is one that a word cannot keep.
    fn share_shift(&self, limits: &[LimitSpec]) -> u8 {
        let shift = share_shift(self.cpus);
        let can_be_kept =
            |spec: &LimitSpec| !has_burst(spec) || self.without_shares(spec, shift).is_some();
        if limits.iter().all(can_be_kept) {
            shift
        } else {
            NO_SHARES
        }
    }

    /// Reduces the burst of a token bucket by the shares of all CPUs. A share does not expire, so
    /// tokens that CPUs have drawn would add to a full bucket.
    fn without_shares(&self, spec: &LimitSpec, shift: u8) -> Option<LimitSpec> {
        let Algorithm::TokenBucket { burst } = spec.algorithm() else {
            return None;
        };
        let in_shares = burst
            .checked_shr(shift.into())?
            .saturating_mul(self.cpus.into());
        let algorithm = Algorithm::TokenBucket {
            burst: burst.saturating_sub(in_shares),
        };
        LimitSpec::new(spec.amount(), spec.unit(), spec.window(), algorithm).ok()
    }
}

/// The scope of further limits. Several token buckets can exist at once, because each rate has its
/// own clock.
fn further_name(wanted: &WantedPolicy<'_>) -> String {
    if let Role::Destination(_) = wanted.role {
        return format!("{} of each source", wanted.name);
    }
    let buckets = wanted.further.iter().filter(|limit| has_burst(limit));
    let rates = buckets.map(|limit| format!(" {}/{:?}", limit.amount(), limit.window()));
    format!("{FURTHER}{}", rates.collect::<String>())
}

/// The terms of a lease of this policy if nodes share some of its limits, otherwise 0.
pub fn terms(policy: &Policy, limits: &[LimitSpec]) -> u64 {
    let mut own = limits.iter().take(policy.len());
    if own.any(|limit| limit.division().is_some()) {
        wide_hash(policy.on_terms(0).as_bytes()).max(1)
    } else {
        0
    }
}

fn policy(limits: &[Limit], scope: u32, observe: bool) -> Policy {
    Policy::new(limits, scope, observe).expect("the configuration refuses more limits")
}

/// Whether the limit is a token bucket.
fn has_burst(spec: &LimitSpec) -> bool {
    matches!(spec.algorithm(), Algorithm::TokenBucket { .. })
}

/// The packets that a limit counts; `None` for all.
pub fn select(spec: &LimitSpec, catalogue: &Catalogue) -> Result<Option<Selected>, UnknownClass> {
    spec.class()
        .map(|class| catalogue.select(class))
        .transpose()
}

/// Whether what is used is kept when limits change from `before` to `after`, each with the classes
/// of its configuration.
pub fn keeps_state(before: (&[LimitSpec], &Catalogue), after: (&[LimitSpec], &Catalogue)) -> bool {
    let scope = |(limits, catalogue): (&[LimitSpec], &Catalogue)| {
        let limits: Vec<_> = limits
            .iter()
            .map(|limit| (limit.compile(), select(limit, catalogue).ok().flatten()))
            .collect();
        scope(
            "",
            limits.iter().map(|(limit, class)| (limit, class.as_ref())),
        )
    };
    scope(before) == scope(after)
}

/// Whether runtime limits may have the state of the policy around them. Token buckets may where
/// they have its rates: each rate has a clock, and the words of one say nothing by that of another.
pub fn shares_state(
    runtime: &WantedPolicy<'_>,
    around: &WantedPolicy<'_>,
    classes: &Catalogue,
) -> bool {
    let limits = || runtime.limits.iter().zip(around.limits.iter());
    keeps_state((&runtime.limits, classes), (&around.limits, classes))
        && limits().all(|(own, other)| has_rate_of(own, other))
}

/// Whether two limits of one meaning go by one clock.
fn has_rate_of(own: &LimitSpec, other: &LimitSpec) -> bool {
    match (own.compile().algorithm(), other.compile().algorithm()) {
        (Compiled::TokenBucket(own), Compiled::TokenBucket(other)) => own.has_rate_of(&other),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
