//! The commands: what `rlctl` asks for, a method each.

use std::net::IpAddr;

use jiff::Timestamp;
use ratelimit_common::policy::LIMITS_MAX;
use ratelimit_core::{
    api::{
        AllowRequest, BanRequest, Changed, Check, ClockStatus, Detached, Held, LimitRequest,
        LimitTarget, PrefixesRequest, Refused, Reloaded, SuggestRequest, Suggested, What,
    },
    config::Config,
    intent::{self, AllowRow, BanRow, Edit, Intent, LimitRow},
    limit::LimitSpec,
    origin::Origin,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::{
    candidate::Candidate,
    configured_lists::ConfiguredLists,
    controller::{CONFIGURATION, Controller, Reloads},
    queries,
    record::Cause,
    reload, term,
    troubles::Loudness,
};
use crate::{clock, protected::Word};

impl Controller {
    /// What would happen to a packet of `address`.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn check(&self, address: IpAddr) -> Result<Check, Refused> {
        queries::check::check(&self.state, &self.links, address)
    }

    /// The limits that would have let the asked part of all windows through, with headroom.
    ///
    /// # Errors
    ///
    /// When what is asked for makes no sense, or of no limit enough was seen.
    pub fn suggest(&self, request: &SuggestRequest) -> Result<Suggested, Refused> {
        queries::suggest::suggest(&self.state, &self.history, self.started, request)
    }

    /// Bans prefixes.
    ///
    /// # Errors
    ///
    /// Why none of them was banned.
    pub fn ban(&mut self, request: BanRequest, author: &str) -> Result<Changed, Refused> {
        require_prefixes(&request.prefixes)?;
        let until = term::until("a ban", request.seconds)?;
        let word = Word::Hand {
            forced: request.force,
        };
        for prefix in &request.prefixes {
            self.state.protection.vet(*prefix, word)?;
        }
        let since = Timestamp::now();
        let row = BanRow {
            until,
            since,
            reason: request.reason.map(Into::into),
            author: author.into(),
        };
        let (origin, other) = if request.force {
            (Origin::Forced, Origin::Manual)
        } else {
            (Origin::Manual, Origin::Forced)
        };
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, origin.clone(), Some(row.clone()));
        let mut edits: Vec<Edit> = request.prefixes.iter().map(edit).collect();
        // What is typed last holds, also in place of a longer ban.
        let replaced = |prefix: &&Prefix| {
            self.state
                .intent
                .bans_of(**prefix)
                .any(|(own, _)| *own == other)
        };
        let replaced = request.prefixes.iter().filter(replaced);
        edits.extend(replaced.map(|prefix| Edit::Ban(*prefix, other.clone(), None)));
        let mut changed = self.state.edit(edits)?;
        changed.added -= changed.removed;
        changed.updated += std::mem::take(&mut changed.removed);
        changed.until = term::told(until);
        Ok(changed)
    }

    /// Ends the bans of prefixes, of whatever origin but lists: those are told, as are the bans of wider prefixes.
    ///
    /// # Errors
    ///
    /// Why none of them was ended.
    pub fn unban(&mut self, request: PrefixesRequest, author: &str) -> Result<Changed, Refused> {
        require_prefixes(&request.prefixes)?;
        // What the kernel has banned a moment ago is ended as well.
        self.detections.look_again();
        self.take_detected()?;
        let mut unbanned = Changed::default();
        let mut edits = Vec::new();
        for prefix in request.prefixes.iter().copied() {
            let origins = self.state.intent.bans_of(prefix).map(|(origin, _)| origin);
            let ended = edits.len();
            edits.extend(
                origins
                    .filter(|origin| !matches!(origin, Origin::List(_)))
                    .map(|origin| Edit::Ban(prefix, origin.clone(), None)),
            );
            if edits.len() > ended {
                let offence = self.state.intent.offence(prefix);
                edits.extend(offence.map(|_| Edit::Offence(prefix, None)));
                unbanned.removed += 1;
            } else {
                unbanned.absent.push(prefix);
            }
        }
        self.state.apply(edits, Cause::User(author))?;
        self.lift_in_cluster(&request.prefixes, author);
        // Those that were ended together with it hold no more.
        let named = request.prefixes.into_iter();
        unbanned.held = named.flat_map(|prefix| self.held(prefix)).collect();
        Ok(unbanned)
    }

    /// The bans that hold for all of a prefix, but for one that is allowed.
    fn held(&self, prefix: Prefix) -> Vec<Held> {
        let (now, said) = (clock::now(), self.state.rules.sum(prefix));
        if !said.is_banned(now) || said.is_allowed(now) {
            return Vec::new();
        }
        // Others stop at an address that is protected.
        let is_exempt =
            prefix.is_address() && self.state.protection.why(prefix.address()).is_some();
        let bans = self.state.intent.bans_that_hold(prefix, now);
        bans.filter(|(_, origin)| !is_exempt || *origin == Origin::Forced)
            .map(|(banned, origin)| Held {
                prefix,
                banned,
                origin,
            })
            .collect()
    }

    /// Puts prefixes on the allow list.
    ///
    /// # Errors
    ///
    /// Why none of them was allowed.
    pub fn allow(&mut self, request: AllowRequest, author: &str) -> Result<Changed, Refused> {
        require_prefixes(&request.prefixes)?;
        let until = term::until("an allow", request.seconds)?;
        let row = AllowRow {
            until,
            since: Timestamp::now(),
            reason: request.reason,
            author: author.to_owned(),
        };
        let edit = |prefix: &Prefix| Edit::Allow(*prefix, Some(row.clone()));
        let edits: Vec<Edit> = request.prefixes.iter().map(edit).collect();
        let mut changed = self.state.edit(edits)?;
        changed.until = term::told(until);
        Ok(changed)
    }

    /// Takes prefixes off the allow list.
    ///
    /// # Errors
    ///
    /// Why none of them was taken off.
    pub fn disallow(&mut self, request: PrefixesRequest, author: &str) -> Result<Changed, Refused> {
        require_prefixes(&request.prefixes)?;
        let configured = |prefix: &&Prefix| {
            self.state.intent.config.allow.contains(prefix)
                && !self.state.intent.allows().contains_key(prefix)
        };
        if let Some(prefix) = request.prefixes.iter().find(configured) {
            return Err(Refused::because(format!(
                "{prefix} is on the allow list of the configuration"
            ))
            .hint("remove it there, and run `rlctl reload`"));
        }
        let (present, absent) = self.partition(request, |intent, prefix| {
            intent.allows().contains_key(prefix)
        });
        let edits: Vec<Edit> = present
            .iter()
            .map(|prefix| Edit::Allow(*prefix, None))
            .collect();
        let changed = self.state.apply(edits, Cause::User(author))?;
        Ok(Changed { absent, ..changed })
    }

    /// Gives a prefix, or the default policy, limits of its own.
    ///
    /// # Errors
    ///
    /// Why it did not get them.
    pub fn set_limits(&mut self, request: LimitRequest, author: &str) -> Result<Changed, Refused> {
        if request.limits.is_empty() {
            return Err(Refused::because("no limit was given")
                .hint("to let a source through unlimited, use `rlctl allow add`"));
        }
        if request.limits.len() > LIMITS_MAX {
            return Err(Refused::because(format!(
                "a policy has at most {LIMITS_MAX} limits"
            )));
        }
        let until = term::until("a limit", request.seconds)?;
        self.require_classes(&request.limits)?;
        self.require_room(intent::longest(&request.limits))
            .map_err(|refused| {
                refused.hint(
                    "write a sliding-log of as many packets into the configuration and run `rlctl reload`, or use another \
                     algorithm",
                )
            })?;
        let row = LimitRow {
            limits: request.limits,
            observe: request.observe,
            until,
            since: Timestamp::now(),
            reason: request.reason,
            author: author.to_owned(),
        };
        let before = self.state.scopes(request.prefix);
        let mut changed = self.state.edit([Edit::Limits(request.prefix, Some(row))])?;
        let after = self.state.scopes(request.prefix);
        changed.starts_anew = before.start_anew_as(&after);
        changed.until = term::told(until);
        if changed.until.is_some() {
            changed.ends_anew = after.start_anew_as(&self.state.scopes_without(request.prefix)?);
        }
        Ok(changed)
    }

    /// Takes limits set by hand away.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn remove_limits(
        &mut self,
        request: LimitTarget,
        author: &str,
    ) -> Result<Changed, Refused> {
        let further = request
            .prefix
            .filter(|prefix| self.state.intent.limited().contains_key(prefix));
        let by_hand = self.state.intent.limits().contains_key(&request.prefix);
        if !by_hand && further.is_none() {
            return Err(Refused::because(format!(
                "no runtime limits of {}",
                target(request.prefix)
            )));
        }
        let by_hand = by_hand.then_some(Edit::Limits(request.prefix, None));
        let further = further.map(|prefix| Edit::Limited(prefix, None));
        let edits: Vec<Edit> = by_hand.into_iter().chain(further).collect();
        let before = self.state.scopes(request.prefix);
        let mut changed = self.state.apply(edits, Cause::User(author))?;
        changed.starts_anew = before.start_anew_as(&self.state.scopes(request.prefix));
        Ok(changed)
    }

    /// Reads the configuration again, and applies it whole or not at all.
    ///
    /// # Errors
    ///
    /// Why the configuration before stays in force.
    pub fn reload(&mut self) -> Result<Reloaded, Refused> {
        let candidate = self
            .reloaded_file()
            .and_then(|main| Candidate::of_files(&main));
        self.take_reload(candidate)
    }

    /// Applies what was read again, whole or not at all.
    ///
    /// # Errors
    ///
    /// Why the configuration before stays in force.
    pub fn take_reload(
        &mut self,
        candidate: Result<Candidate, Refused>,
    ) -> Result<Reloaded, Refused> {
        let answer = candidate.and_then(|candidate| self.try_reload(candidate));
        match &answer {
            Ok(reloaded) => {
                self.reloads = Reloads {
                    applied: Timestamp::now(),
                    error: None,
                };
                info!(changes = reloaded.changes.len(), "configuration applied");
                let changes = reloaded.changes.clone();
                self.state
                    .journal
                    .record(Timestamp::now(), What::Reloaded { changes });
            }
            Err(refused) => {
                self.reloads.error = Some(refused.error.clone());
                warn!(
                    error = refused.in_full(),
                    "the configuration was refused, the one before stays in force"
                );
                let error = refused.error.clone();
                self.state
                    .journal
                    .record(Timestamp::now(), What::ReloadRefused { error });
            }
        }
        answer
    }

    /// Takes the programs off their interfaces. What was set by hand stays in the database.
    ///
    /// # Errors
    ///
    /// What could not be taken off.
    pub fn detach(&mut self, author: &str) -> Result<Detached, Refused> {
        self.links.detach(author);
        let detachment = self.state.enforcer.datapath_mut().detach();
        self.tend_links();
        let detachment = detachment?;
        info!(interfaces = ?detachment.interfaces, author, "detached");
        let detached = What::Detached {
            interfaces: detachment.interfaces.clone(),
            by: author.into(),
        };
        self.state.journal.record(Timestamp::now(), detached);
        Ok(Detached {
            interfaces: detachment.interfaces,
        })
    }

    fn try_reload(&mut self, candidate: Candidate) -> Result<Reloaded, Refused> {
        self.trials.require_none_pending()?;
        let Candidate {
            texts,
            config,
            lists,
        } = candidate;
        let files = config
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let changes = self.replace_with(config, lists)?;
        self.trials.reloaded(texts);
        self.keep_last_good();
        self.note_trouble(CONFIGURATION, Loudness::Error, None);
        Ok(Reloaded { files, changes })
    }

    /// Puts another configuration in force with these lists, unless it waits for a restart, and answers what is different. Other lists
    /// that it names stay as they are.
    pub(super) fn replace_with(
        &mut self,
        config: Config,
        lists: ConfiguredLists,
    ) -> Result<Vec<String>, Refused> {
        if let Some(part) = reload::needs_restart(&self.state.intent.config, &config) {
            return Err(Refused::because(format!(
                "{part} is different, which takes effect at a restart only"
            ))
            .hint("restart ratelimitd: limits and bans go on being enforced meanwhile"));
        }
        // What was banned in a dry run is not kept when that ends.
        self.take_missed();
        let clock = self.state.clock();
        let mut changes = reload::changes(&self.state.intent.config, &config);
        let before = self.state.intent.config.clone();
        let scopes = self.state.scopes(None);
        let lists = self.state.list_changes(&config, lists);
        if self.state.needs_other_tables(&config) {
            self.replace_on_other_tables(config, &lists.edits)?;
        } else {
            self.replace_config(config, &lists.edits)?;
        }
        changes.extend(scopes.changes_by_hand(&self.state.scopes(None)));
        changes.extend(self.reattach(&before.interfaces));
        if before.metrics != self.state.intent.config.metrics {
            self.open_metrics();
            changes.extend(self.troubles().of("metrics").map(str::to_owned));
        }
        let is_other = |after: &ClockStatus| (after.clock, after.wish) != (clock.clock, clock.wish);
        changes.extend(
            Some(self.state.clock())
                .filter(is_other)
                .map(|after| after.to_string()),
        );
        changes.extend(self.note_lists(lists));
        Ok(changes)
    }

    /// Refuses limits of classes that have no such name.
    fn require_classes(&self, limits: &[LimitSpec]) -> Result<(), Refused> {
        let classes = &self.state.intent.config.classes;
        let before = self.trials.before();
        for class in limits.iter().filter_map(LimitSpec::class) {
            if let Err(unknown) = classes.select(class) {
                let names: Vec<&str> = classes.names().collect();
                return Err(Refused::because(unknown.to_string())
                    .hint(format!("write one of {}", names.join(", "))));
            }
            let is_lost = |before: &Config| before.classes.select(class).is_err();
            if before.as_ref().is_some_and(is_lost) {
                return Err(Refused::because(format!(
                    "the class `{class}` is only in the configuration that waits for its confirmation"
                ))
                .hint("run `rlctl confirm` first"));
            }
        }
        Ok(())
    }

    /// Refuses sliding logs that are longer than those that room was made for.
    fn require_room(&self, times: u32) -> Result<(), Refused> {
        let size = self.state.enforcer.datapath().log_size();
        if times <= size.times {
            return Ok(());
        }
        let room = match size.times {
            0 => "no room for sliding logs".to_owned(),
            times => format!("room for sliding logs of {times} packets"),
        };
        Err(Refused::because(format!(
            "a sliding-log of {times} packets is too long: their map is made with the configuration, and has {room}"
        )))
    }

    fn partition(
        &self,
        request: PrefixesRequest,
        is_there: impl Fn(&Intent, &Prefix) -> bool,
    ) -> (Vec<Prefix>, Vec<Prefix>) {
        request
            .prefixes
            .into_iter()
            .partition(|prefix| is_there(&self.state.intent, prefix))
    }
}

/// Refuses an empty list.
pub(super) fn require_prefixes(prefixes: &[Prefix]) -> Result<(), Refused> {
    if prefixes.is_empty() {
        return Err(Refused::because(
            "no prefix was given: an empty list is not taken for anything",
        ));
    }
    Ok(())
}

fn target(prefix: Option<Prefix>) -> String {
    prefix.map_or_else(
        || "the default policy".to_owned(),
        |prefix| prefix.to_string(),
    )
}
