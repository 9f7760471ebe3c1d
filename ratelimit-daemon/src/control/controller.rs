//! The one owner of what is intended and of the datapath.
//!
//! It runs on a thread of its own and does one thing at a time. Others hold a [`Handle`] and send it closures.

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::Context;
use jiff::Timestamp;
use ratelimit_common::{Settings, policy::LIMITS_MAX};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::{
    enforcer::{Changes, Enforcer},
    intent::{Edit, Intent},
    policies::{DEFAULT, Policies},
    reload,
    rules::Rules,
    store::{AllowRow, BanRow, FOREVER, LimitRow, Store},
};
use crate::{
    api::{
        AllowRequest, BanRequest, Changed, Detached, LimitRequest, LimitTarget, PrefixesRequest,
        Refused, Reloaded,
    },
    clock,
    config::{self, Config},
    datapath::Datapath,
    prefix::Prefix,
};

/// The longest ban that is not forever: 100 years.
const BAN_MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// Requests that may wait for their turn.
const QUEUE: usize = 64;

/// Owns what is intended, the database and the datapath.
pub struct Controller {
    pub(super) intent: Intent,
    pub(super) rules: Rules,
    pub(super) policies: Policies,
    pub(super) enforcer: Enforcer,
    store: Store,
    pub(super) started: Timestamp,
    pub(super) reloads: Reloads,
    pub(super) fill: super::views::Fill,
}

/// What became of the configuration so far.
#[derive(Clone, Debug)]
pub struct Reloads {
    /// When it was last applied.
    pub applied: Timestamp,
    /// Why it was last refused; `None` when it was not.
    pub error: Option<String>,
}

type Job = Box<dyn FnOnce(&mut Controller) + Send>;

/// Sends the controller requests.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
}

/// The controller has stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the daemon is stopping")]
pub struct Stopped;

impl Handle {
    /// Runs `request` when its turn comes.
    ///
    /// # Errors
    ///
    /// When the controller has stopped.
    pub async fn call<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Controller) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |controller| {
            // Nobody may wait any more: the client hung up.
            let _ = sender.send(request(controller));
        });
        self.jobs.send(job).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}

impl Controller {
    /// Takes the datapath over, and brings it to what `config` and `store` say.
    ///
    /// # Errors
    ///
    /// When the database or the datapath cannot be read, or the datapath cannot hold what is intended.
    pub fn new(config: Config, store: Store, datapath: Box<dyn Datapath>) -> anyhow::Result<Self> {
        let mut intent = Intent::new(config);
        for (prefix, row) in store.bans()? {
            intent.edit(Edit::Ban(prefix, Some(row)));
        }
        for (prefix, row) in store.allows()? {
            intent.edit(Edit::Allow(prefix, Some(row)));
        }
        for (target, row) in store.limits()? {
            intent.edit(Edit::Limits(target, Some(row)));
        }
        let mut controller = Self {
            intent,
            rules: Rules::default(),
            policies: Policies::default(),
            enforcer: Enforcer::adopt(datapath).context("reading the tables in the kernel")?,
            store,
            started: Timestamp::now(),
            reloads: Reloads {
                applied: Timestamp::now(),
                error: None,
            },
            fill: super::views::Fill::default(),
        };
        controller.forget_ended_bans()?;
        controller.compile_all()?;
        controller
            .enforce_all()
            .context("filling the tables in the kernel")?;
        Ok(controller)
    }

    /// Puts the programs on their interfaces: the tables are filled.
    ///
    /// # Errors
    ///
    /// The first interface that fails.
    pub fn attach(&mut self) -> anyhow::Result<()> {
        self.enforcer.datapath_mut().attach()?;
        for interface in self.status().interfaces {
            let mode = interface.mode.unwrap_or_default();
            info!(
                interface = interface.name,
                mode,
                wanted = interface.mode_wanted,
                "attached"
            );
        }
        Ok(())
    }

    /// Runs on a thread of its own until every handle is gone, and then gives itself back.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn spawn(mut self) -> std::io::Result<(Handle, thread::JoinHandle<Self>)> {
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let thread = thread::Builder::new()
            .name("controller".into())
            .spawn(move || {
                while let Some(job) = queue.blocking_recv() {
                    job(&mut self);
                }
                self
            })?;
        Ok((Handle { jobs }, thread))
    }

    /// Bans prefixes.
    ///
    /// # Errors
    ///
    /// Why none of them was banned.
    pub fn ban(&mut self, request: BanRequest, author: &str) -> Result<Changed, Refused> {
        let until = match request.seconds {
            None => FOREVER,
            Some(seconds) => clock::after(ban_duration(seconds)?),
        };
        if let Some(everything) = request.prefixes.iter().find(|prefix| prefix.is_empty()) {
            return Err(
                Refused::because(format!("a ban of {everything} would cut this host off"))
                    .hint("ban the prefixes that do harm"),
            );
        }
        let since = Timestamp::now();
        let row = BanRow {
            until,
            since,
            reason: request.reason,
            author: author.to_owned(),
        };
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, Some(row.clone()));
        let edits: Vec<Edit> = request.prefixes.iter().map(edit).collect();
        let mut changed = self.edit(&edits)?;
        changed.until = (until != FOREVER).then(|| clock::to_wall(until));
        info!(prefixes = request.prefixes.len(), author, until = ?changed.until, "banned");
        Ok(changed)
    }

    /// Ends bans.
    ///
    /// # Errors
    ///
    /// Why none of them was ended.
    pub fn unban(&mut self, request: PrefixesRequest, author: &str) -> Result<Changed, Refused> {
        let (present, absent) =
            self.partition(request, |intent, prefix| intent.bans().contains_key(prefix));
        let edits: Vec<Edit> = present
            .iter()
            .map(|prefix| Edit::Ban(*prefix, None))
            .collect();
        let changed = self.edit(&edits)?;
        info!(prefixes = present.len(), author, "unbanned");
        Ok(Changed { absent, ..changed })
    }

    /// Puts prefixes on the allow list.
    ///
    /// # Errors
    ///
    /// Why none of them was allowed.
    pub fn allow(&mut self, request: AllowRequest, author: &str) -> Result<Changed, Refused> {
        let row = AllowRow {
            since: Timestamp::now(),
            reason: request.reason,
            author: author.to_owned(),
        };
        let edit = |prefix: &Prefix| Edit::Allow(*prefix, Some(row.clone()));
        let edits: Vec<Edit> = request.prefixes.iter().map(edit).collect();
        let changed = self.edit(&edits)?;
        info!(prefixes = request.prefixes.len(), author, "allowed");
        Ok(changed)
    }

    /// Takes prefixes off the allow list.
    ///
    /// # Errors
    ///
    /// Why none of them was taken off.
    pub fn disallow(&mut self, request: PrefixesRequest, author: &str) -> Result<Changed, Refused> {
        let configured = |prefix: &&Prefix| {
            self.intent.config.allow.contains(prefix) && !self.intent.allows().contains_key(prefix)
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
        let changed = self.edit(&edits)?;
        info!(prefixes = present.len(), author, "taken off the allow list");
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
        let row = LimitRow {
            limits: request.limits,
            observe: request.observe,
            since: Timestamp::now(),
            author: author.to_owned(),
        };
        let changed = self.edit(&[Edit::Limits(request.prefix, Some(row))])?;
        info!(target = %target(request.prefix), author, "limits set");
        Ok(changed)
    }

    /// Takes limits set by hand away.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn remove_limits(
        &mut self,
        request: &LimitTarget,
        author: &str,
    ) -> Result<Changed, Refused> {
        if !self.intent.limits().contains_key(&request.prefix) {
            return Err(Refused::because(format!(
                "no limits were set by hand for {}",
                target(request.prefix)
            )));
        }
        let changed = self.edit(&[Edit::Limits(request.prefix, None)])?;
        info!(target = %target(request.prefix), author, "limits set by hand taken away");
        Ok(changed)
    }

    /// Reads the configuration again, and applies it whole or not at all.
    ///
    /// # Errors
    ///
    /// Why the configuration before stays in force.
    pub fn reload(&mut self) -> Result<Reloaded, Refused> {
        let answer = self.try_reload();
        match &answer {
            Ok(reloaded) => {
                self.reloads = Reloads {
                    applied: Timestamp::now(),
                    error: None,
                };
                info!(changes = reloaded.changes.len(), "configuration applied");
            }
            Err(refused) => {
                self.reloads.error = Some(refused.error.clone());
                warn!(
                    error = refused.error,
                    "the configuration was refused, the one before stays in force"
                );
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
        let detachment = self.enforcer.datapath_mut().detach()?;
        info!(interfaces = ?detachment.interfaces, author, "detached");
        Ok(Detached {
            interfaces: detachment.interfaces,
        })
    }

    /// What is due from time to time: bans end.
    pub fn tick(&mut self) {
        if let Err(error) = self.forget_ended_bans() {
            warn!(
                error = format!("{error:#}"),
                "bans that ended could not be forgotten"
            );
        }
    }

    /// Compares what the kernel holds with what is intended, and puts right what is different.
    pub fn reconcile(&mut self) {
        let answer = self
            .enforcer
            .reread()
            .map_err(anyhow::Error::from)
            .and_then(|()| self.enforce_all());
        match answer {
            Ok(0) => {}
            Ok(different) => warn!(
                different,
                "the kernel's tables were not as intended, and are again"
            ),
            Err(error) => warn!(
                error = format!("{error:#}"),
                "the kernel's tables could not be compared"
            ),
        }
    }

    fn try_reload(&mut self) -> Result<Reloaded, Refused> {
        let Some(path) = self.intent.config.files.first().cloned() else {
            return Err(Refused::because(
                "the configuration came from the command line: there is no file to read again",
            ));
        };
        let config = config::load(&path).map_err(|error| Refused::because(error.to_string()))?;
        if let Some(part) = reload::needs_restart(&self.intent.config, &config) {
            return Err(Refused::because(format!(
                "{part} is different, which takes effect at a restart only"
            ))
            .hint("restart ratelimitd: limits and bans go on being enforced meanwhile"));
        }
        let changes = reload::changes(&self.intent.config, &config);
        let files = config
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let before = std::mem::replace(&mut self.intent.config, config);
        let (rules, policies) = (self.rules.clone(), self.policies.clone());
        if let Err(error) = self.compile_all().and_then(|()| self.enforce_all()) {
            self.intent.config = before;
            (self.rules, self.policies) = (rules, policies);
            return Err(error.into());
        }
        Ok(Reloaded { files, changes })
    }

    fn partition(
        &self,
        request: PrefixesRequest,
        is_there: impl Fn(&Intent, &Prefix) -> bool,
    ) -> (Vec<Prefix>, Vec<Prefix>) {
        request
            .prefixes
            .into_iter()
            .partition(|prefix| is_there(&self.intent, prefix))
    }

    /// Makes changes by hand: in the database, in the datapath, and here, or nowhere.
    fn edit(&mut self, edits: &[Edit]) -> Result<Changed, Refused> {
        let reverse: Vec<Edit> = edits
            .iter()
            .cloned()
            .map(|edit| self.intent.edit(edit))
            .collect();
        if let Err(error) = self.try_edit(edits) {
            for edit in reverse.iter().rev() {
                self.intent.edit(edit.clone());
            }
            // What failed took itself back; this does the same where it was the database that failed.
            if let Err(error) = self.compile(&reverse).and_then(|()| self.enforce(&reverse)) {
                warn!(
                    error = format!("{error:#}"),
                    "a change that failed could not be taken back"
                );
            }
            return Err(error.into());
        }
        Ok(summary(edits, &reverse))
    }

    fn try_edit(&mut self, edits: &[Edit]) -> anyhow::Result<()> {
        self.compile(edits)?;
        let changes = self.changes(edits);
        let policies = policies_if(edits, &self.policies);
        let settings = self.settings();
        let Self {
            store, enforcer, ..
        } = self;
        // The kernel comes before the commit: what was acknowledged is in both, and what is in the kernel alone after a
        // crash is taken away at the next start.
        store.transaction(|writer| {
            edits.iter().try_for_each(|edit| writer.write(edit))?;
            Ok(enforcer.apply(policies.as_ref(), changes, settings)?)
        })
    }

    /// Compiles what `edits` are about from what is intended.
    fn compile(&mut self, edits: &[Edit]) -> anyhow::Result<()> {
        if edits.iter().any(Edit::is_of_policy) {
            self.compile_policies()?;
        }
        for prefix in edits.iter().filter_map(Edit::prefix) {
            self.compile_prefix(prefix);
        }
        Ok(())
    }

    fn compile_all(&mut self) -> anyhow::Result<()> {
        self.compile_policies()?;
        self.rules = Rules::default();
        for prefix in self.intent.prefixes() {
            self.compile_prefix(prefix);
        }
        Ok(())
    }

    fn compile_policies(&mut self) -> anyhow::Result<()> {
        let wanted = self.intent.policies();
        for policy in &wanted {
            self.policies.assign(
                &policy.name,
                policy.limits,
                policy.observe,
                self.enforcer.policies(),
            )?;
        }
        self.policies
            .retain(|name| wanted.iter().any(|policy| policy.name == name));
        Ok(())
    }

    fn compile_prefix(&mut self, prefix: Prefix) {
        let policy = self.intent.policy_name(prefix);
        let policy = policy
            .and_then(|name| self.policies.get(&name))
            .map(|named| named.index);
        self.rules
            .set_allowed(prefix, self.intent.is_allowed(prefix));
        self.rules.set_ban(prefix, self.intent.banned_until(prefix));
        self.rules.set_policy(prefix, policy);
    }

    fn enforce(&mut self, edits: &[Edit]) -> anyhow::Result<()> {
        let changes = self.changes(edits);
        let policies = policies_if(edits, &self.policies);
        Ok(self
            .enforcer
            .apply(policies.as_ref(), changes, self.settings())?)
    }

    /// Brings the whole datapath to what is compiled, and answers how many entries were different.
    fn enforce_all(&mut self) -> anyhow::Result<usize> {
        let wanted: BTreeMap<_, _> = self.rules.entries().collect();
        let changes = self.enforcer.difference(&wanted);
        let different = changes.len();
        self.enforcer
            .apply(Some(&self.policies.by_index()), changes, self.settings())?;
        Ok(different)
    }

    fn changes(&self, edits: &[Edit]) -> Changes {
        let entries = edits.iter().filter_map(Edit::prefix).flat_map(|prefix| {
            let within = self
                .rules
                .within(prefix)
                .filter(move |inner| *inner != prefix);
            std::iter::once(prefix).chain(within)
        });
        entries
            .map(|prefix| (prefix, self.rules.entry(prefix)))
            .collect()
    }

    fn settings(&self) -> Settings {
        let default = self.policies.get(DEFAULT).map(|named| named.index);
        Settings::new(default.unwrap_or_default(), self.intent.config.observe)
    }

    fn forget_ended_bans(&mut self) -> anyhow::Result<()> {
        let ended = self.intent.ended(clock::now());
        if ended.is_empty() {
            return Ok(());
        }
        let count = ended.len();
        let edits: Vec<Edit> = ended
            .into_iter()
            .map(|prefix| Edit::Ban(prefix, None))
            .collect();
        self.edit(&edits)
            .map_err(|refused| anyhow::anyhow!(refused.error))?;
        info!(count, "bans ended");
        Ok(())
    }
}

/// The policies, when one of `edits` changed them.
fn policies_if(
    edits: &[Edit],
    policies: &Policies,
) -> Option<BTreeMap<u32, ratelimit_common::Policy>> {
    edits
        .iter()
        .any(Edit::is_of_policy)
        .then(|| policies.by_index())
}

fn summary(edits: &[Edit], reverse: &[Edit]) -> Changed {
    let mut changed = Changed::default();
    for (edit, before) in edits.iter().zip(reverse) {
        match (exists(before), exists(edit)) {
            (false, true) => changed.added += 1,
            (true, true) => changed.updated += 1,
            (true, false) => changed.removed += 1,
            (false, false) => {}
        }
    }
    changed
}

fn exists(edit: &Edit) -> bool {
    match edit {
        Edit::Ban(_, row) => row.is_some(),
        Edit::Allow(_, row) => row.is_some(),
        Edit::Limits(_, row) => row.is_some(),
    }
}

fn ban_duration(seconds: f64) -> Result<Duration, Refused> {
    let duration = Duration::try_from_secs_f64(seconds).ok();
    let duration = duration.filter(|duration| !duration.is_zero() && *duration <= BAN_MAX);
    duration.ok_or_else(|| {
        Refused::because(format!(
            "a ban of {seconds} seconds is not between 1ns and 100 years"
        ))
        .hint("a ban without `seconds` is forever")
    })
}

fn target(prefix: Option<Prefix>) -> String {
    prefix.map_or_else(
        || "the default policy".to_owned(),
        |prefix| prefix.to_string(),
    )
}

#[cfg(test)]
mod tests;
