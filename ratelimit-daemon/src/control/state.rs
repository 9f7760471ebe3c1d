//! The intent, the compiled state, the database and the datapath. A change takes effect in all of
//! them, or in none.

pub mod adopt_from_kernel;
pub mod compiled;
pub mod edit_events;
pub mod fallback_directory;
pub mod fitting;
pub mod inactive;
pub mod lockout;
mod new_tables;
pub mod protected_now;
pub mod reconcile;
pub mod unshared;
mod upkeep;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::Context;
use ratelimit_common::{Evidence, Instant, PolicyBan};
use ratelimit_core::{
    api::{Changed, ClockStatus, EntryCounter, Refused, Unfolded, What},
    compile::{self, carried::Scopes},
    config::Config,
    counter_slots::Owner,
    folding::{self, Touched, Unjudged},
    intent::{Edit, Inactive, Intent, Target},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{info, warn};

use self::{
    adopt_from_kernel::Adoption,
    compiled::{Compiled, CompiledPolicies},
    edit_events::record_edits,
    inactive::Compilation,
    protected_now::Protection,
    unshared::Unshared,
};
use crate::{
    clock,
    control::{
        enforcement::{
            enforcer::{Changes, Enforcer, leases::Leases},
            entry_counters::EntryCounters,
            list_room::{Filling, Room},
        },
        lists::copies::ListCopies,
        persistence::{
            store::{Found, Store},
            unwritten::{self, Unwritten},
        },
        reports::{Reports, cause::Cause, progress::Progress},
        sources::snapshot::{self, Restored},
    },
    datapath::{self, Datapath, DatapathError},
    protected::Protected,
};

/// Changes of fewer prefixes, or of a smaller part of all entries, are made prefix by prefix.
const BULK: usize = 4096;
const BULK_PART: usize = 16;

/// The intent, and everything derived from it.
pub struct State {
    /// The configuration and the runtime settings.
    pub(crate) intent: Intent,
    /// The intent, compiled.
    pub(super) compiled: Compiled,
    /// The kernel's state.
    pub(super) enforcer: Enforcer,
    /// The owners of the kernel's counters.
    pub(super) entry_counters: EntryCounters,
    /// Persistent state.
    pub(crate) kept: Kept,
    /// Events and troubles.
    pub(crate) reports: Reports,
    /// Addresses that no ban may cover.
    pub(crate) protection: Protection,
    /// Results of changes, for components that follow them.
    pub(crate) noted: Noted,
}

/// Persistent state.
pub(crate) struct Kept {
    pub store: Store,
    pub unwritten: Unwritten,
    pub list_copies: ListCopies,
}

/// Results of changes.
#[derive(Default)]
pub(crate) struct Noted {
    /// The time since which every packet is judged by the policies in force.
    pub policies_since: Instant,
    /// The number of times that tables were created again.
    pub renewals: u64,
    /// The fill level of the lists.
    pub filling: Filling,
    /// Bans to announce to the cluster.
    pub unshared: Unshared,
    /// Prefixes that may have to be folded.
    pub unjudged: Unjudged,
    /// The number of applied changes.
    pub edits: u64,
    /// Whether enforcing the compiled plan failed, so that the tables may lack a part of it. The
    /// comparison of each second then enforces it again.
    pub is_behind: bool,
}

/// The state before a change of policies.
struct Before {
    inactive: BTreeMap<Target, Inactive>,
    policies: CompiledPolicies,
    /// Whether the new configuration needs other tables.
    renews: bool,
}

impl State {
    /// Adopts the datapath, with the intent of `config` and `store`. The datapath is brought to the
    /// intent if no program is running yet. Everything passes until `pass_all`.
    pub(super) fn new(
        config: Config,
        store: Store,
        datapath: Datapath,
        protected: Protected,
        progress: &Progress,
        pass_all: Option<Instant>,
    ) -> anyhow::Result<Self> {
        let reports = Reports::open(&config.paths.state);
        let list_copies = ListCopies::beside(&config.paths.state);
        let intent = store.restore(config)?;
        let mut state = Self {
            protection: Protection::new(protected),
            reports,
            kept: Kept {
                list_copies,
                unwritten: Unwritten::default(),
                store,
            },
            intent,
            compiled: Compiled::nothing()?,
            enforcer: Enforcer::adopt(datapath).context("reading the tables in the kernel")?,
            noted: Noted::default(),
            entry_counters: EntryCounters::default(),
        };
        state.entry_counters = EntryCounters::adopt(state.enforcer.datapath_mut());
        state.enforcer.progress = progress.clone();
        state.kept.store.progress = progress.clone();
        state.intent.edit(Edit::PassAll(pass_all));
        state.drop_ended();
        state
            .entry_counters
            .count_all(&state.intent, state.enforcer.datapath_mut());
        state.compilation().compile_at_start()?;
        state.compile_rules();
        state.adopt().context("adopting the state of the kernel")?;
        state.kept.list_copies.reconcile(state.intent.lists());
        // Until the files of lists are read, the rules of the previous daemon stay in force.
        if !state.enforcer.attachments().runs() {
            let are_new = !state.enforcer.held().settings.are_written();
            state.fill()?;
            if are_new {
                state.restore_usage();
            }
        }
        state
            .entry_counters
            .forget_others(&state.intent, state.enforcer.datapath_mut());
        state.compiled.report_clock(&state.intent, None);
        state.protection.report(&state.compiled.rules);
        Ok(state)
    }

    /// Fills the tables at start.
    pub(super) fn fill(&mut self) -> anyhow::Result<()> {
        self.enforce_all()
            .context("filling the tables in the kernel")?;
        // Until here, packets were judged by the rules of the previous daemon.
        self.noted.policies_since = clock::now();
        Ok(())
    }

    /// Restores the usage from before a reboot. An unusable snapshot is reported, but does not
    /// prevent the start.
    fn restore_usage(&mut self) {
        if self.intent.config.snapshot.every.is_none() {
            return;
        }
        let file = snapshot::file(&self.intent.config.paths.state);
        let now = clock::now();
        let restored = snapshot::restore(
            &file,
            &self.compiled.policies,
            self.enforcer.datapath_mut(),
            (now, self.kept.store.time(now)),
        );
        match restored {
            Ok(None) => {}
            Ok(Some(Restored { sources, taken_ago })) => info!(
                sources,
                ?taken_ago,
                "restored the usage of sources from the snapshot"
            ),
            Err(error) => {
                let why = format!(
                    "usage was not restored, and sources start with unused limits: {error:#}"
                );
                self.reports.record(What::UsageReset { why });
            }
        }
    }

    /// Adopts what the kernel has and the database has lost.
    fn adopt(&mut self) -> anyhow::Result<()> {
        if *self.kept.store.found() == Found::Sound {
            return Ok(());
        }
        let mut adoption = Adoption {
            intent: &mut self.intent,
            compiled: &mut self.compiled,
            enforcer: &mut self.enforcer,
            entry_counters: &mut self.entry_counters,
        };
        let edits = adoption.adopt(self.kept.list_copies.read());
        self.kept
            .unwritten
            .write(&edits, &self.intent, &mut self.kept.store);
        self.kept.store.end_adoption()
    }

    /// Applies changes in the datapath and here, or nowhere. They are written to the database as
    /// well, or as soon as that is possible.
    pub fn apply(
        &mut self,
        edits: impl Into<Vec<Edit>>,
        cause: Cause<'_>,
    ) -> Result<Changed, Refused> {
        let edits = edits.into();
        if edits.is_empty() {
            return Ok(Changed::default());
        }
        let (intent, enforcer) = (&self.intent, &self.enforcer);
        let mut all = Room { intent, enforcer }.make_for(&edits)?;
        let count = all.len();
        if count == 0 {
            all = edits;
        } else {
            all.extend(edits);
        }
        let changed = self.edit_all(all, count, cause)?;
        self.noted.filling.note_evicted(count);
        Ok(changed)
    }

    /// Writes the leases of limits that nodes share, and returns how many had no room. Leases end
    /// within seconds, so they are not stored.
    pub fn lease(&mut self, wanted: &Leases) -> datapath::Result<usize> {
        self.enforcer.lease(wanted)
    }

    /// Turns sampling in the kernel on or off. It is always on if the configuration has a table of
    /// `[detection]`.
    pub fn sample(&mut self, samples: bool) -> datapath::Result<()> {
        self.compiled.samples = samples;
        let always = !self.intent.config.attacks.is_empty();
        self.enforcer.sample(samples || always)
    }

    /// Makes changes wait for [`end_group`](Self::end_group), to share a transaction.
    pub(super) fn begin_group(&mut self) {
        self.kept.unwritten.begin_group();
    }

    /// Stores the changes of a group.
    pub(super) fn end_group(&mut self) {
        self.kept
            .unwritten
            .end_group(&self.intent, &mut self.kept.store);
    }

    /// Applies changes. The first `evicted` ones make room for the others, and are not reported. To
    /// avoid copies of a million changes, the intent absorbs them and returns those that undo them.
    fn edit_all(
        &mut self,
        mut edits: Vec<Edit>,
        evicted: usize,
        cause: Cause<'_>,
    ) -> Result<Changed, Refused> {
        let clock = edits.iter().any(Edit::is_of_policy).then(|| self.clock());
        let interfaces = match clock {
            Some(_) => self.intent.config.interfaces.clone(),
            None => Vec::new(),
        };
        let ending = self.ending_limits(&edits, cause);
        let before = clock.is_some().then(|| Before {
            inactive: self.intent.inactive.clone(),
            policies: self.compiled.policies_now(),
            renews: edits.iter().any(|edit| self.needs_other_tables(edit)),
        });
        let renews = before.as_ref().is_some_and(|before| before.renews);
        self.intent.edit_all(&mut edits);
        let touched = Touched::by(&edits[evicted..], &self.intent, clock::now());
        edits.extend(touched.lift(&mut self.intent));
        let renews = renews || clock.is_some() && self.needs_longer_records();
        let mut reverse = edits;
        let datapath = self.enforcer.datapath_mut();
        self.entry_counters
            .count_added(&reverse, &self.intent, datapath);
        let mut tables = if renews {
            self.renew_beside_programs()
        } else {
            Ok(())
        };
        if renews {
            tables = tables.and_then(|()| self.lengthen(&interfaces));
        }
        if let Err(error) = tables.and_then(|()| self.try_edit(&reverse, evicted, cause)) {
            reverse.reverse();
            self.intent.edit_all(&mut reverse);
            if let Err(error) = self.go_back(&reverse, before) {
                self.noted.is_behind = true;
                warn!(error = format!("{error:#}"), "cannot undo a failed change");
            }
            self.forget_removed(&reverse);
            if clock.is_some() {
                self.noted.policies_since = clock::now();
            }
            return Err(refusal(error));
        }
        self.forget_removed(&reverse);
        self.enlarge_regions();
        if reverse.iter().any(Edit::is_config) {
            self.retry_inactive(cause == Cause::Rollback);
            if !renews {
                self.narrow();
            }
        }
        if clock.is_some() {
            self.noted.policies_since = clock::now();
            self.compiled.report_clock(&self.intent, clock.as_ref());
        }
        if reverse.iter().any(|edit| self.protection.is_met_by(edit)) {
            self.protection.report(&self.compiled.rules);
        }
        // The kernel comes before the database. So an acknowledged change is in both, or reported
        // as not saved, and a change that only the kernel has after a crash is removed at the next
        // start.
        match cause {
            // Expired rows are removed together with the others of this second.
            Cause::Time => self.kept.unwritten.later(&reverse),
            Cause::Origin | Cause::Rollback | Cause::User(_) => {
                self.kept
                    .unwritten
                    .write(&reverse, &self.intent, &mut self.kept.store);
            }
        }
        self.kept.list_copies.keep(&reverse, self.intent.lists());
        let anew = ending
            .into_iter()
            .filter(|(target, before)| before.start_anew_as(&self.scopes(*target)));
        let anew: BTreeSet<Target> = anew.map(|(target, _)| target).collect();
        record_edits(
            &self.intent,
            &mut self.reports.journal,
            &reverse,
            cause,
            &anew,
        );
        self.noted.unshared.note(&reverse[evicted..], cause);
        self.noted.unjudged.note(touched);
        self.noted.edits += 1;
        Ok(self.summary(&reverse[evicted..]))
    }

    /// Returns the runtime limits that expire, with the scopes of their state.
    fn ending_limits(&self, edits: &[Edit], cause: Cause<'_>) -> Vec<(Target, Scopes)> {
        let ending = edits.iter().filter(|_| cause == Cause::Time);
        let ended = ending.filter_map(Edit::ended_limits);
        ended.map(|target| (target, self.scopes(target))).collect()
    }

    fn try_edit(&mut self, edits: &[Edit], evicted: usize, cause: Cause<'_>) -> anyhow::Result<()> {
        self.compile(edits, cause)?;
        let (first, then) = edits.split_at(evicted);
        let freed = self
            .compiled
            .changes_of(first.iter().flat_map(Edit::prefixes));
        let changes = self.changes(then);
        let tables = self.compiled.tables_if(edits, &self.intent);
        self.enforcer.apply(freed, None)?;
        Ok(self.enforcer.apply(changes, tables)?)
    }

    /// Enforces the plan before a failed change. `reverse` led the intent back to it.
    fn go_back(&mut self, reverse: &[Edit], before: Option<Before>) -> anyhow::Result<()> {
        let mut renewed = Ok(());
        if let Some(before) = before {
            self.intent.inactive = before.inactive;
            self.compiled.restore(before.policies, &self.enforcer);
            if before.renews {
                renewed = self.renew_tables().and_then(|()| self.compile_policies());
            }
        }
        self.compile_rules_of(reverse);
        let changes = self.changes(reverse);
        let tables = self.compiled.tables_if(reverse, &self.intent);
        let enforced = self.enforcer.apply(changes, tables);
        renewed.and(Ok(enforced?))
    }

    /// Removes unused features from the programs. Changes at runtime only add features, because
    /// loading a program takes a good part of a second.
    pub(super) fn narrow(&mut self) {
        if let Err(error) = self.enforcer.narrow() {
            warn!(
                error = format!("{error:#}"),
                "the program keeps features that nothing uses any more"
            );
        }
    }

    /// Compiles the parts of the intent that `edits` affect.
    fn compile(&mut self, edits: &[Edit], cause: Cause<'_>) -> anyhow::Result<()> {
        if edits.iter().any(Edit::is_config) {
            let on_trial = cause == Cause::Rollback;
            self.compilation().recompile(on_trial)?;
        } else if edits.iter().any(Edit::is_of_policy) {
            self.compile_policies()?;
        }
        self.compile_rules_of(edits);
        Ok(())
    }

    fn compile_rules_of(&mut self, edits: &[Edit]) {
        if self.is_bulk(edits) {
            self.compile_rules();
            return;
        }
        for prefix in self.touched(edits) {
            self.compile_prefix(prefix);
        }
    }

    const fn compilation(&mut self) -> Compilation<'_> {
        Compilation {
            intent: &mut self.intent,
            compiled: &mut self.compiled,
            enforcer: &self.enforcer,
        }
    }

    /// Retries limits that had no room next to those of the previous configuration.
    fn retry_inactive(&mut self, on_trial: bool) {
        if self.intent.inactive_limits().next().is_none() {
            return;
        }
        let compiled = self.compilation().recompile(on_trial);
        self.compile_rules();
        if let Err(error) = compiled.and_then(|()| self.enforce_all()) {
            warn!(error = format!("{error:#}"), "cannot apply inactive limits");
        }
    }

    /// Returns whether compiling and comparing everything, in order, is cheaper than looking up the
    /// prefixes of `edits`.
    fn is_bulk(&self, edits: &[Edit]) -> bool {
        let all = usize::try_from(self.enforcer.len()).unwrap_or(usize::MAX);
        let prefixes = edits.iter().flat_map(Edit::prefixes);
        let enough = BULK.max(all / BULK_PART);
        edits.iter().any(Edit::is_config) || prefixes.take(enough).count() == enough
    }

    pub(super) fn compile_all(&mut self) -> anyhow::Result<()> {
        self.compile_policies()?;
        self.compile_rules();
        Ok(())
    }

    fn compile_rules(&mut self) {
        let slots = self.entry_counters.slots();
        self.compiled.compile_rules(&self.intent, slots);
        self.protection.configure(&self.intent.config.protected);
        let protected = self.protection.prefixes();
        self.compiled.rules.set_protected(protected);
    }

    /// Returns the scopes of the state of a target's sources, and of prefixes with runtime limits.
    pub(super) fn scopes(&self, target: Target) -> Scopes {
        self.compiled.scopes(&self.intent, target)
    }

    /// Returns these scopes without the runtime limits of the target.
    pub(super) fn scopes_without(&mut self, target: Target) -> anyhow::Result<Scopes> {
        let mut edits = [Edit::Limits(target, None)];
        self.intent.edit_all(&mut edits);
        let scopes = self
            .compiled
            .scopes_of(&self.intent, &self.enforcer, target);
        self.intent.edit_all(&mut edits);
        Ok(scopes?)
    }

    /// Returns the scopes and the clock that another configuration would result in.
    pub(super) fn scopes_and_clock_under(
        &self,
        config: &Config,
    ) -> anyhow::Result<(Scopes, ClockStatus)> {
        let intent = self.intent.policies_under(config.clone());
        Ok(self
            .compiled
            .scopes_and_clock_under(&intent, &self.enforcer)?)
    }

    fn compile_policies(&mut self) -> anyhow::Result<()> {
        Ok(self
            .compiled
            .compile_policies(&self.intent, &self.enforcer)?)
    }

    pub(super) fn compile_prefix(&mut self, prefix: Prefix) {
        let slots = self.entry_counters.slots();
        self.compiled.compile_prefix(&self.intent, slots, prefix);
    }

    /// Brings the whole datapath to the compiled state, and returns the number of differences.
    pub(super) fn enforce_all(&mut self) -> anyhow::Result<usize> {
        let changes = self.enforcer.difference(&self.compiled.rules.entries());
        let tables = self.compiled.tables(&self.intent);
        let different = changes.len() + usize::from(tables != *self.enforcer.held());
        let applied = self.enforcer.apply(changes, Some(tables));
        self.noted.is_behind = applied.is_err();
        applied?;
        Ok(different)
    }

    /// Changes the protected addresses, and adjusts the bans around them.
    pub fn protect(&mut self, change: impl FnOnce(&mut Protection)) {
        change(&mut self.protection);
        if !self.protection.join() {
            return;
        }
        match self.enforce_protection() {
            Ok(()) => info!(prefixes = self.protection.prefixes().len(), "protected"),
            Err(error) => {
                self.noted.is_behind = true;
                warn!(
                    error = format!("{error:#}"),
                    "cannot update protected addresses in the kernel"
                );
            }
        }
        self.protection.report(&self.compiled.rules);
    }

    /// Removes adopted bans from the program's own map, and marks the sources that are `exempt`.
    pub(super) fn forget_policy_bans(
        &mut self,
        bans: &[(IpAddr, PolicyBan)],
        exempt: &[IpAddr],
    ) -> datapath::Result<()> {
        if bans.is_empty() {
            return Ok(());
        }
        let tables = &mut self.enforcer.datapath_mut().policy_bans;
        tables.forget(bans)?;
        tables.exempt(exempt)
    }

    fn forget_removed(&mut self, edits: &[Edit]) {
        let datapath = self.enforcer.datapath_mut();
        self.entry_counters
            .forget_removed(edits, &self.intent, datapath);
    }

    /// Returns the packets that matched a ban, an allow or a list, if they are counted.
    pub fn counter(&self, owner: Owner<'_>) -> EntryCounter {
        self.entry_counters.counter(owner, self.enforcer.datapath())
    }

    /// Returns the packets that matched a policy of sources, if they are counted.
    pub fn policy_counter(&self, name: &str) -> EntryCounter {
        self.entry_counters
            .policy_counter(name, &self.intent, self.enforcer.datapath())
    }

    /// Records the state of `what`, and reports a change: `None` means that it works.
    pub(super) fn report(&mut self, what: &'static str, error: Option<String>) {
        self.reports.report(what, error);
    }

    /// Exempts the protected addresses, and no others.
    fn enforce_protection(&mut self) -> anyhow::Result<()> {
        let different = self
            .compiled
            .rules
            .set_protected(self.protection.prefixes());
        let changes = self.compiled.changes_of(different.into_iter());
        Ok(self.enforcer.apply(changes, None)?)
    }

    fn changes(&self, edits: &[Edit]) -> Changes {
        if self.is_bulk(edits) {
            return self.enforcer.difference(&self.compiled.rules.entries());
        }
        self.compiled.changes_of(self.touched(edits).into_iter())
    }

    /// Returns the prefixes of `edits`, and those whose policies depend on them.
    fn touched(&self, edits: &[Edit]) -> Vec<Prefix> {
        let own = edits.iter().flat_map(Edit::prefixes);
        let limited = edits.iter().flat_map(|edit| self.intent.dependents(edit));
        own.chain(limited).collect()
    }

    /// Returns the clock for the compiled policies.
    pub(super) fn clock(&self) -> ClockStatus {
        self.compiled.clock(&self.intent)
    }

    /// Takes a ban or limit from the budget of this minute, if one is left. Sampled sources may be
    /// forged, because samples show packets without a connection.
    pub(super) fn may_answer(&self) -> bool {
        let budgets = compile::ban_budgets(&self.intent.config);
        let datapath = self.enforcer.datapath();
        let answer = datapath
            .policy_bans
            .take(budgets, Evidence::Forgeable, clock::now());
        answer.unwrap_or_else(|error| {
            let error = error.to_string();
            warn!(error, "cannot count the bans of this minute");
            false
        })
    }

    /// Summarizes the changes that these edits would undo.
    fn summary(&self, reverse: &[Edit]) -> Changed {
        let mut changed = Changed {
            dry_run: self.intent.config.observe,
            ..Changed::default()
        };
        for before in reverse {
            let after = unwritten::intended(before, &self.intent);
            if let (Edit::Ban(prefix, Origin::Folded, Some(_)), Edit::Ban(_, _, None)) =
                (before, &after)
            {
                changed.unfolded.push(Unfolded {
                    prefix: *prefix,
                    bans: folding::members(&self.intent, *prefix).count(),
                });
                continue;
            }
            match (exists(before), exists(&after)) {
                (false, true) => changed.added += 1,
                (true, true) => changed.updated += 1,
                (true, false) => changed.removed += 1,
                (false, false) => {}
            }
        }
        changed
    }
}

/// Returns a refusal, with a hint if a map is full.
fn refusal(error: anyhow::Error) -> Refused {
    let full = matches!(
        error.downcast_ref::<DatapathError>(),
        Some(DatapathError::Full { .. })
    );
    let refused = Refused::from(error);
    if full {
        return refused.hint("remove bans or shorten lists; see `rlctl status --maps`");
    }
    refused
}

fn exists(edit: &Edit) -> bool {
    match edit {
        Edit::Ban(..) | Edit::Allow(..) | Edit::Limits(..) | Edit::List(..) | Edit::Limited(..) => {
            edit.adds()
        }
        Edit::Offence(_, row) => row.is_some(),
        Edit::Config(_) => true,
        Edit::PassAll(until) => until.is_some(),
    }
}
