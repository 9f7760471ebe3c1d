//! The compiled intent: policies, classes, the rules of prefixes, and the clock.
//!
//! It depends only on the intent, and on the state of the kernel where that must be kept. It
//! changes neither.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ratelimit_common::{ClassSet, Instant, features::Features};
use ratelimit_core::{
    api::{ClockStatus, KernelClock},
    class::{Class, Selected},
    compile::{
        self, CompileError, CurrentTables, Tables, Unsettled, carried::Scopes,
        class_numbers::ClassNumbers, clock_choice,
    },
    counter_slots::CounterSlots,
    intent::{Edit, Intent, Target},
    policies::Policies,
    prefix::Prefix,
    rules::Rules,
};
use tracing::{info, warn};

use crate::{
    clock,
    control::{
        configuration::syncookies,
        enforcement::enforcer::{Changes, Enforcer},
    },
    cpus,
};

/// The intent, compiled for this machine.
pub struct Compiled {
    pub(crate) rules: Rules,
    /// Shared with scans, which keep the version of their beginning.
    pub(crate) policies: Arc<Policies>,
    classes: ClassNumbers,
    /// Parts of a `compact` table that are temporary.
    unsettled: Unsettled,
    /// Whether the kernel currently samples packets although the configuration does not require it.
    pub(crate) samples: bool,
    /// The CPUs that share the limits of the node.
    cpus: u32,
    /// The CPUs that may receive packets.
    online_cpus: u32,
    /// The resolution of the coarse clock.
    coarse_tick: Duration,
}

/// A saved version of the policies and classes.
#[derive(Clone)]
pub struct CompiledPolicies(Arc<Policies>, ClassNumbers);

impl Compiled {
    /// Returns an empty compilation.
    pub fn nothing() -> anyhow::Result<Self> {
        Ok(Self {
            rules: Rules::default(),
            policies: Arc::default(),
            classes: ClassNumbers::default(),
            unsettled: Unsettled::default(),
            samples: false,
            cpus: cpus::possible()?,
            online_cpus: cpus::online()?,
            coarse_tick: clock::tick(),
        })
    }

    /// Compiles the policies and classes, next to those that `enforcer` still has.
    pub fn compile_policies(
        &mut self,
        intent: &Intent,
        enforcer: &Enforcer,
    ) -> Result<(), CompileError> {
        let held = CurrentTables {
            sets: enforcer.datapath().sources.table_sets(),
            moving: std::mem::take(&mut self.unsettled.small),
            ..held_by(enforcer)
        };
        let (policies, classes) = (Arc::make_mut(&mut self.policies), &mut self.classes);
        self.unsettled = compile::compile_policies(policies, classes, intent, &held, self.cpus)?;
        Ok(())
    }

    /// Compiles the rules of all prefixes.
    pub fn compile_rules(&mut self, intent: &Intent, slots: &CounterSlots) {
        self.rules = compile::compile_rules(&self.policies, intent, slots);
    }

    /// Compiles the rules of one prefix.
    pub fn compile_prefix(&mut self, intent: &Intent, slots: &CounterSlots, prefix: Prefix) {
        compile::compile_prefix(&mut self.rules, &self.policies, intent, slots, prefix);
    }

    /// Saves the policies and classes.
    pub fn policies_now(&self) -> CompiledPolicies {
        CompiledPolicies(Arc::clone(&self.policies), self.classes.clone())
    }

    /// Restores saved policies and classes.
    pub fn restore_policies(&mut self, CompiledPolicies(policies, classes): CompiledPolicies) {
        (self.policies, self.classes) = (policies, classes);
    }

    /// Restores policies and classes, if `enforcer` is also back in its previous state.
    pub fn restore(&mut self, policies: CompiledPolicies, enforcer: &Enforcer) {
        self.restore_policies(policies);
        self.unsettled = Unsettled {
            retired: enforcer.held().retired.clone(),
            ..Unsettled::default()
        };
    }

    /// Returns whether limits replaced others and have temporary, smaller regions.
    pub fn has_small_regions(&self) -> bool {
        !self.unsettled.small.is_empty()
    }

    /// Returns the scopes of the state of a target's sources, and of prefixes with runtime limits.
    pub fn scopes(&self, intent: &Intent, target: Target) -> Scopes {
        let prefixes = intent.limits().keys().filter_map(|it| it.sources());
        Scopes::new(&self.rules, &self.policies, target, prefixes)
    }

    /// Returns the scopes if `intent` were applied.
    pub fn scopes_of(
        &self,
        intent: &Intent,
        enforcer: &Enforcer,
        target: Target,
    ) -> Result<Scopes, CompileError> {
        let policies = self.policies_of(intent, enforcer)?;
        Ok(Scopes::of_intent(intent, &policies, target))
    }

    /// Returns the scopes of the sources, and the clock, if `intent` were applied.
    pub fn scopes_and_clock_under(
        &self,
        intent: &Intent,
        enforcer: &Enforcer,
    ) -> Result<(Scopes, ClockStatus), CompileError> {
        let policies = self.policies_of(intent, enforcer)?;
        let clock = choose_clock(intent, self.coarse_tick, &policies);
        let scopes = Scopes::of_intent(intent, &policies, Target::Default);
        Ok((scopes, clock))
    }

    /// Returns the features that programs would need if `intent` were applied.
    pub fn features_of(
        &self,
        intent: &Intent,
        enforcer: &Enforcer,
    ) -> Result<Features, CompileError> {
        let (policies, classes) = self.compiled_of(intent, enforcer)?;
        Ok(self.tables_of(&policies, &classes, intent).features())
    }

    fn policies_of(&self, intent: &Intent, enforcer: &Enforcer) -> Result<Policies, CompileError> {
        self.compiled_of(intent, enforcer)
            .map(|(policies, _)| policies)
    }

    fn compiled_of(
        &self,
        intent: &Intent,
        enforcer: &Enforcer,
    ) -> Result<(Policies, ClassNumbers), CompileError> {
        let CompiledPolicies(policies, mut classes) = self.policies_now();
        let mut policies = Arc::unwrap_or_clone(policies);
        let held = held_by(enforcer);
        compile::compile_policies(&mut policies, &mut classes, intent, &held, self.cpus)?;
        Ok((policies, classes))
    }

    /// Returns the bit of a class in packets.
    pub fn set_of(&self, class: Class) -> ClassSet {
        self.classes.set_of(&Selected::Class(class), ClassSet::NONE)
    }

    /// Returns the entries that the kernel should have for `prefixes`, and for those inside them.
    pub fn changes_of(&self, prefixes: impl Iterator<Item = Prefix>) -> Changes {
        let entries = prefixes.flat_map(|prefix| {
            let within = self.rules.within(prefix);
            std::iter::once(prefix).chain(within.filter(move |inner| *inner != prefix))
        });
        entries
            .map(|prefix| (prefix, self.rules.entry(prefix)))
            .collect()
    }

    /// Returns the tables other than the lists that the kernel should have.
    pub fn tables(&self, intent: &Intent) -> Tables {
        self.tables_of(&self.policies, &self.classes, intent)
    }

    fn tables_of(&self, policies: &Policies, classes: &ClassNumbers, intent: &Intent) -> Tables {
        let mut tables = compile::tables(policies, classes, intent, self.online_cpus);
        let options = syncookies::listener_options(&intent.config);
        tables.switched.challenge = tables.switched.challenge.with_listener_options(options);
        let pass_all = intent.pass_all();
        let clock = choose_clock(intent, self.coarse_tick, policies);
        Tables {
            settings: clock_choice::apply(tables.settings, clock.clock)
                .sampling(tables.settings.has_samples() || self.samples)
                .with_pass_all(pass_all.is_some_and(|until| clock::now() < until)),
            pass_all_until: pass_all.unwrap_or(Instant::from_nanos(0)),
            retired: self.unsettled.retired.clone(),
            ..tables
        }
    }

    /// Returns these tables if one of `edits` changes them.
    pub fn tables_if(&self, edits: &[Edit], intent: &Intent) -> Option<Tables> {
        let is_of_tables = |edit: &Edit| edit.is_of_policy() || matches!(edit, Edit::PassAll(_));
        edits.iter().any(is_of_tables).then(|| self.tables(intent))
    }

    /// Returns the clock for the policies.
    pub fn clock(&self, intent: &Intent) -> ClockStatus {
        choose_clock(intent, self.coarse_tick, &self.policies)
    }

    /// Logs a change of the clock, and warns if the configured one is not suitable.
    pub fn report_clock(&self, intent: &Intent, before: Option<&ClockStatus>) {
        let status = self.clock(intent);
        if before == Some(&status) {
            return;
        }
        if status.clock == KernelClock::Coarse && !status.suits {
            warn!("{status}");
        } else if before.is_none_or(|before| before.clock != status.clock) {
            info!("{status}");
        }
    }
}

fn choose_clock(intent: &Intent, coarse_tick: Duration, policies: &Policies) -> ClockStatus {
    let limits = policies
        .iter()
        .map(|(name, named)| (name, named.limits.as_slice()));
    clock_choice::choose(intent.config.clock, coarse_tick, limits)
}

/// Returns what the kernel has and policies must be compiled next to, without the sets of its
/// tables.
fn held_by(enforcer: &Enforcer) -> CurrentTables<'_> {
    let held = enforcer.held();
    CurrentTables {
        policies: &held.policies,
        retired: &held.retired,
        classes: &held.classes,
        settings: held.settings,
        sets: None,
        moving: BTreeSet::new(),
        now: clock::now(),
    }
}
