//! Lists as a whole: read from their files, replaced, taken away, told.

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, ListTarget, ListView, Listed, Refused, SparedEntries},
    config::ListConfig,
    intent::{
        Edit, FOREVER,
        list::{Difference, List, ListEntry},
    },
    lists::{Action, Entry, Merged, Reading, Reasons, merge},
    prefix::Prefix,
};
use tracing::{info, warn};

use super::{
    adopt,
    controller::Controller,
    import::Ends,
    list_files::{Deadline, ListFile},
    record::Cause,
    state::State,
};
use crate::clock;

/// The author of what a file says.
const CONFIGURATION: &str = "config";

impl State {
    /// What is different when what was read from a file takes the place of its list, and the change that does it.
    pub(super) fn list_from_file(
        &self,
        file: &ListFile,
        reading: Reading,
    ) -> (Difference, Option<Edit>) {
        let ListConfig {
            action, file: path, ..
        } = &file.config;
        let list = List::new(
            *action,
            Some(path.clone()),
            Timestamp::now(),
            CONFIGURATION.into(),
        );
        let (list, _) = fill(list, reading.entries, reading.reasons, &Ends::now(None));
        self.list_edit(&file.name, Some(list))
    }

    /// What is different when `list` takes the place of the one with its name, and the change that does it; none where
    /// nothing is.
    pub(super) fn list_edit(
        &self,
        name: &Arc<str>,
        mut list: Option<List>,
    ) -> (Difference, Option<Edit>) {
        let before = self.intent.lists().get(name);
        let difference = List::replace(before.map(|list| &**list), list.as_mut());
        let same = match (before, &list) {
            (Some(before), Some(after)) => {
                before.file == after.file && before.action == after.action
            }
            (None, None) => true,
            _ => false,
        };
        if same && difference.is_empty() {
            return (difference, None);
        }
        let touched: Arc<[Prefix]> = difference.touched.as_slice().into();
        let edit = Edit::List(Arc::clone(name), list.map(Arc::new), touched);
        (difference, Some(edit))
    }

    /// Refuses to change a list by hand that is read from a file.
    pub(super) fn require_no_file(&self, name: &str) -> Result<(), Refused> {
        let Some(config) = self.intent.config.lists.get(name) else {
            return Ok(());
        };
        let file = config.file.display();
        Err(Refused::because(format!("the list `{name}` is read from {file}"))
            .hint(format!("change that file and run `rlctl reload`, or remove [list.{name}] from the configuration")))
    }

    /// The entries of a list that ban, and stop at what is protected.
    pub(super) fn spared_of(&self, list: &List) -> SparedEntries {
        match list.action {
            Action::Ban => self.protection.spared(list.entries(), |entry| entry.prefix),
            Action::Allow => SparedEntries::default(),
        }
    }

    /// The entries of lists that hold an address.
    pub(super) fn listed(&self, prefix: Prefix, now: Instant) -> Vec<Listed> {
        let lists = self.intent.lists().iter();
        let entries = lists.flat_map(|(name, list)| {
            list.around(prefix, now).map(move |entry| Listed {
                list: Arc::clone(name),
                action: list.action,
                prefix: entry.prefix,
                until: (entry.until != FOREVER).then(|| clock::to_wall(entry.until)),
                reason: list.reasons.get(entry.reason).map(str::to_owned),
            })
        });
        entries.collect()
    }
}

impl Controller {
    /// Reads the files of all lists at the start, and takes away the lists whose files the configuration does not name any more.
    /// What cannot be read stays as it was. Answers what is different or went wrong, a line each.
    pub(super) fn read_lists(&mut self) -> Vec<String> {
        let mut lines = self.forget_lists();
        let lists = self.state.intent.config.lists.clone();
        self.list_files.retain(&lists);
        let deadline = Deadline::default();
        for (name, config) in &lists {
            let file = ListFile::new(name, config);
            let reading = file.read_by(&deadline);
            lines.extend(self.take_list(&file, reading));
        }
        lines
    }

    /// The files that are to be read again.
    pub fn due_lists(&mut self) -> Vec<ListFile> {
        self.list_files.due(&self.state.intent.config.lists)
    }

    /// Puts what was read from a file in the place of the list, and says what is different or went wrong.
    pub fn take_list(
        &mut self,
        file: &ListFile,
        reading: Result<Reading, Refused>,
    ) -> Option<String> {
        let name = &file.name;
        if self.state.intent.config.lists.get(&**name) != Some(&file.config) {
            // A reload came in between.
            return None;
        }
        let left_out = reading.as_ref().map_or(0, |reading| reading.bad.count);
        let answer = reading.and_then(|reading| {
            let (difference, edit) = self.state.list_from_file(file, reading);
            self.state.edit(edit.as_slice())?;
            Ok(difference)
        });
        match answer {
            Ok(difference) => {
                self.list_files.succeeded(name);
                told(name, left_out, &difference)
            }
            Err(refused) => {
                let line = format!(
                    "list {name}: not taken, and stays as it was: {}",
                    refused.error
                );
                if self.list_files.failed(name, refused.error.clone()) {
                    let error = refused.in_full();
                    warn!(list = %name, error, "a list was not taken, and stays as it was");
                }
                Some(line)
            }
        }
    }

    /// Takes a list away that was imported by hand.
    ///
    /// # Errors
    ///
    /// When there is none, or it is read from a file.
    pub fn remove_list(&mut self, request: ListTarget, author: &str) -> Result<Changed, Refused> {
        let name: Arc<str> = request.name.into();
        self.state.require_no_file(&name)?;
        let Some(list) = self.state.intent.lists().get(&name) else {
            return Err(Refused::because(format!("there is no list `{name}`"))
                .hint("`rlctl lists` shows those that there are"));
        };
        let removed = list.entries().len();
        let (_, edit) = self.state.list_edit(&name, None);
        self.state.edit(edit.as_slice())?;
        info!(list = %name, removed, author, "list taken away");
        Ok(Changed {
            removed,
            ..Changed::default()
        })
    }

    /// The lists, by name: those that there are, and those that never could be read.
    #[must_use]
    pub fn lists(&self) -> Vec<ListView> {
        let configured = self
            .state
            .intent
            .config
            .lists
            .keys()
            .map(|name| Arc::from(name.as_str()));
        let mut names: Vec<Arc<str>> = self
            .state
            .intent
            .lists()
            .keys()
            .cloned()
            .chain(configured)
            .collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| self.list_view(name)).collect()
    }

    fn list_view(&self, name: Arc<str>) -> ListView {
        let list = self.state.intent.lists().get(&name);
        let config = self.state.intent.config.lists.get(&*name);
        let state = self.list_files.state(&name);
        let action = list
            .map(|list| list.action)
            .or(config.map(|config| config.action));
        ListView {
            action: action.unwrap_or_default(),
            entries: list.map_or(0, |list| list.len_at(clock::now())),
            file: config.map(|config| config.file.display().to_string()),
            every_seconds: config.and_then(|config| Some(config.every?.as_secs_f64())),
            since: list.map(|list| list.since),
            read: state.read,
            errors: state.errors,
            error: state.error,
            spared: list.map_or_else(SparedEntries::default, |list| self.state.spared_of(list)),
            name,
        }
    }

    /// Forgets the entries of lists that have ended: at once, where they allow, and else from time to time, because the kernel
    /// lets nobody be banned by them.
    pub(super) fn forget_ended_entries(&mut self, now: Instant) -> Result<(), Refused> {
        let may_wait = self.pruned.elapsed() < PRUNE;
        let lists = self.state.intent.lists().iter();
        let due = lists.filter(|(_, list)| {
            list.soonest_end() <= now && (list.action == Action::Allow || !may_wait)
        });
        let due: Vec<(Arc<str>, List)> = due
            .map(|(name, list)| (Arc::clone(name), list.without_ended(now)))
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        self.pruned = std::time::Instant::now();
        for (name, list) in due {
            let (_, edit) = self.state.list_edit(&name, Some(list));
            self.state.apply(edit.as_slice(), Cause::Time)?;
        }
        Ok(())
    }

    /// Takes away the lists that a file of an earlier configuration had.
    fn forget_lists(&mut self) -> Vec<String> {
        let configured = &self.state.intent.config.lists;
        let lists = self.state.intent.lists().iter();
        let gone =
            lists.filter(|(name, list)| list.file.is_some() && !configured.contains_key(&***name));
        // What was kept from the kernel goes when the others were read.
        let gone = gone.filter(|(name, _)| !adopt::is_kept(name));
        let gone: Vec<Arc<str>> = gone.map(|(name, _)| Arc::clone(name)).collect();
        let mut lines = Vec::new();
        for name in gone {
            let (difference, edit) = self.state.list_edit(&name, None);
            match self.state.edit(edit.as_slice()) {
                Ok(_) => lines.push(format!(
                    "list {name}: removed, with {} entries",
                    difference.removed
                )),
                Err(refused) => {
                    warn!(list = %name, error = refused.error, "a list could not be taken away");
                    lines.push(format!("list {name}: not removed: {}", refused.error));
                }
            }
        }
        lines
    }
}

/// How often entries that have ended are forgotten.
const PRUNE: std::time::Duration = std::time::Duration::from_mins(1);

/// Logs what became of a list, and says what is different, if anything is.
pub(super) fn told(name: &str, left_out: usize, difference: &Difference) -> Option<String> {
    if left_out > 0 {
        warn!(list = %name, lines = left_out, "bad lines of a list were left out");
    }
    if difference.is_empty() {
        return None;
    }
    let Difference {
        added,
        removed,
        updated,
        kept,
        ..
    } = difference;
    info!(list = %name, added, removed, updated, kept, "list replaced");
    Some(format!(
        "list {name}: +{added} -{removed} ~{updated} ={kept}"
    ))
}

/// Puts entries into a list, and says which of them say nothing of their own.
pub(super) fn fill(
    list: List,
    mut entries: Vec<Entry>,
    reasons: Reasons,
    ends: &Ends,
) -> (List, Merged) {
    let merged = merge(&mut entries);
    let entries = entries.into_iter().map(|entry| ListEntry {
        prefix: entry.prefix,
        until: ends.of(entry.until),
        reason: entry.reason,
    });
    (list.with_entries(entries.collect(), reasons), merged)
}
