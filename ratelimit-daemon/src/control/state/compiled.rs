//! What the intent compiles to: policies, classes, what holds of each prefix, and the clock that suits.
//!
//! It is derived from the intent alone, and from what the kernel holds where that has to stay. It changes neither.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ratelimit_common::{ClassSet, Instant};
use ratelimit_core::{
    api::{ClockStatus, KernelClock},
    class::{Class, Selected},
    compile::{
        self, CompileError, Held, Tables, Unsettled, carried::Scopes, class_numbers::ClassNumbers,
        clock_choice,
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

/// What the intent compiles to, on this machine.
pub struct Compiled {
    pub(crate) rules: Rules,
    /// Those who scan the tables of sources have them too, as they were.
    pub(crate) policies: Arc<Policies>,
    classes: ClassNumbers,
    /// What of a `compact` table is not as it is to stay.
    unsettled: Unsettled,
    /// Whether the kernel samples packets at the moment, beside what the configuration asks for.
    pub(crate) samples: bool,
    /// The CPUs that share the limits of the node.
    cpus: u32,
    /// Those of them at which packets arrive.
    online_cpus: u32,
    /// How often the coarse clock moves on.
    coarse_tick: Duration,
}

/// The policies and classes at a moment, to come back to.
#[derive(Clone)]
pub struct CompiledPolicies(Arc<Policies>, ClassNumbers);

impl Compiled {
    /// What nothing compiles to.
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

    /// Compiles the policies and classes, beside those that `enforcer` still holds.
    pub fn compile_policies(
        &mut self,
        intent: &Intent,
        enforcer: &Enforcer,
    ) -> Result<(), CompileError> {
        let held = Held {
            sets: enforcer.datapath().table_sets(),
            moving: std::mem::take(&mut self.unsettled.small),
            ..held_by(enforcer)
        };
        let (policies, classes) = (Arc::make_mut(&mut self.policies), &mut self.classes);
        self.unsettled = compile::compile_policies(policies, classes, intent, &held, self.cpus)?;
        Ok(())
    }

    /// Compiles what holds of every prefix.
    pub fn compile_rules(&mut self, intent: &Intent, slots: &CounterSlots) {
        self.rules = compile::compile_rules(&self.policies, intent, slots);
    }

    /// Compiles what holds of one prefix.
    pub fn compile_prefix(&mut self, intent: &Intent, slots: &CounterSlots, prefix: Prefix) {
        compile::compile_prefix(&mut self.rules, &self.policies, intent, slots, prefix);
    }

    /// The policies and classes as they are.
    pub fn policies_now(&self) -> CompiledPolicies {
        CompiledPolicies(Arc::clone(&self.policies), self.classes.clone())
    }

    /// Comes back to policies and classes of before.
    pub fn restore_policies(&mut self, CompiledPolicies(policies, classes): CompiledPolicies) {
        (self.policies, self.classes) = (policies, classes);
    }

    /// Comes back to all of before, where `enforcer` holds what it held then.
    pub fn restore(&mut self, rules: Rules, policies: CompiledPolicies, enforcer: &Enforcer) {
        self.rules = rules;
        self.restore_policies(policies);
        self.unsettled = Unsettled {
            retired: enforcer.held().retired.clone(),
            ..Unsettled::default()
        };
    }

    /// Whether limits took the place of others, in regions that are smaller than they are to be.
    pub fn has_small_regions(&self) -> bool {
        !self.unsettled.small.is_empty()
    }

    /// What the state of the sources of a target is kept under, and of the prefixes with runtime limits.
    pub fn scopes(&self, intent: &Intent, target: Target) -> Scopes {
        let prefixes = intent.limits().keys().filter_map(|it| it.sources());
        Scopes::new(&self.rules, &self.policies, target, prefixes)
    }

    /// What that would be if `intent` came to be.
    pub fn scopes_of(
        &self,
        intent: &Intent,
        enforcer: &Enforcer,
        target: Target,
    ) -> Result<Scopes, CompileError> {
        let policies = self.policies_of(intent, enforcer)?;
        Ok(Scopes::of_intent(intent, &policies, target))
    }

    /// What the state of the sources would be kept under if `intent` came to be, and the clock that would suit then.
    pub fn outlook(
        &self,
        intent: &Intent,
        enforcer: &Enforcer,
    ) -> Result<(Scopes, ClockStatus), CompileError> {
        let policies = self.policies_of(intent, enforcer)?;
        let clock = choose_clock(intent, self.coarse_tick, &policies);
        let scopes = Scopes::of_intent(intent, &policies, Target::Default);
        Ok((scopes, clock))
    }

    fn policies_of(&self, intent: &Intent, enforcer: &Enforcer) -> Result<Policies, CompileError> {
        let CompiledPolicies(policies, mut classes) = self.policies_now();
        let mut policies = Arc::unwrap_or_clone(policies);
        let held = held_by(enforcer);
        compile::compile_policies(&mut policies, &mut classes, intent, &held, self.cpus)?;
        Ok(policies)
    }

    /// The number of a class, as packets have it.
    pub fn set_of(&self, class: Class) -> ClassSet {
        self.classes.set_of(&Selected::Class(class), ClassSet::NONE)
    }

    /// What the kernel is to hold of `prefixes`, and of those inside them.
    pub fn changes_of(&self, prefixes: impl Iterator<Item = Prefix>) -> Changes {
        let entries = prefixes.flat_map(|prefix| {
            let within = self.rules.within(prefix);
            std::iter::once(prefix).chain(within.filter(move |inner| *inner != prefix))
        });
        entries
            .map(|prefix| (prefix, self.rules.entry(prefix)))
            .collect()
    }

    /// What the tables besides the lists are to hold.
    pub fn tables(&self, intent: &Intent) -> Tables {
        let tables = compile::tables(&self.policies, &self.classes, intent, self.online_cpus);
        let pass_all = intent.pass_all();
        Tables {
            settings: clock_choice::apply(tables.settings, self.clock(intent).clock)
                .sampling(tables.settings.has_samples() || self.samples)
                .with_pass_all(pass_all.is_some_and(|until| clock::now() < until)),
            pass_all_until: pass_all.unwrap_or(Instant::from_nanos(0)),
            challenge: tables
                .challenge
                .with_listener_options(syncookies::listener_options(&intent.config)),
            retired: self.unsettled.retired.clone(),
            ..tables
        }
    }

    /// The same, when one of `edits` changed it.
    pub fn tables_if(&self, edits: &[Edit], intent: &Intent) -> Option<Tables> {
        let is_of_tables = |edit: &Edit| edit.is_of_policy() || matches!(edit, Edit::PassAll(_));
        edits.iter().any(is_of_tables).then(|| self.tables(intent))
    }

    /// The clock that suits the policies.
    pub fn clock(&self, intent: &Intent) -> ClockStatus {
        choose_clock(intent, self.coarse_tick, &self.policies)
    }

    /// Logs the clock where it is not as `before`, and warns of one that is asked for and does not suit.
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

/// What the kernel holds, and policies compile beside; without the sets of its tables.
fn held_by(enforcer: &Enforcer) -> Held<'_> {
    let held = enforcer.held();
    Held {
        policies: &held.policies,
        retired: &held.retired,
        classes: &held.classes,
        settings: held.settings,
        sets: None,
        moving: BTreeSet::new(),
        now: clock::now(),
    }
}
