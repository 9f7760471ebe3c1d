//! Lists as a whole: read from their files, replaced, taken away, told.

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_core::{
    api::{Changed, ListTarget, ListView, Refused},
    config::{Config, ListConfig},
    intent::{
        Edit, Intent,
        list::{Difference, List, ListEntry},
    },
    lists::{Entry, Merged, Reading, Reasons, merge},
};
use tracing::{info, warn};

use super::{
    adopt,
    controller::Controller,
    import::Ends,
    list_files::{Deadline, ListFile},
    queries,
};

/// The author of what a file says.
const CONFIGURATION: &str = "config";

/// What is different when what was read from a file takes the place of its list, and the change that does it.
pub fn from_file(intent: &Intent, file: &ListFile, reading: Reading) -> (Difference, Option<Edit>) {
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
    intent.list_edit(&file.name, Some(list))
}

/// Refuses to change a list by hand that is read from a file.
pub fn require_no_file(config: &Config, name: &str) -> Result<(), Refused> {
    let Some(config) = config.lists.get(name) else {
        return Ok(());
    };
    let file = config.file.display();
    Err(Refused::because(format!("the list `{name}` is read from {file}"))
        .hint(format!("change that file and run `rlctl reload`, or remove [list.{name}] from the configuration")))
}

/// The lists of files that the configuration does not name any more.
pub fn not_named(intent: &Intent, config: &Config) -> Vec<Arc<str>> {
    let lists = intent.lists().iter();
    let gone =
        lists.filter(|(name, list)| list.file.is_some() && !config.lists.contains_key(&***name));
    // What was kept from the kernel goes when the others were read.
    let gone = gone.filter(|(name, _)| !adopt::is_kept(name));
    gone.map(|(name, _)| Arc::clone(name)).collect()
}

impl Controller {
    /// Reads the files of all lists at the start, and takes away the lists whose files the configuration does not name any more.
    /// What cannot be read stays as it was. Answers what is different or went wrong, a line each.
    pub(super) fn read_lists(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for name in not_named(&self.state.intent, &self.state.intent.config) {
            self.list_files.gone(name);
            let _ = self.state.take(&mut self.list_files);
            lines.extend(self.list_files.line());
        }
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
        self.list_files.due_files(&self.state.intent.config.lists)
    }

    /// Puts what was read from a file in the place of the list, and says what is different or went wrong.
    pub fn take_list(
        &mut self,
        file: &ListFile,
        reading: Result<Reading, Refused>,
    ) -> Option<String> {
        if self.state.intent.config.lists.get(&*file.name) != Some(&file.config) {
            // A reload came in between.
            return None;
        }
        self.list_files.read(file.clone(), reading);
        let _ = self.state.take(&mut self.list_files);
        self.list_files.line()
    }

    /// The lists, by name: those that there are, and those that never could be read.
    #[must_use]
    pub fn lists(&self) -> Vec<ListView> {
        queries::lists::lists(&self.state, &self.list_files)
    }

    /// Takes a list away that was imported by hand.
    ///
    /// # Errors
    ///
    /// When there is none, or it is read from a file.
    pub fn remove_list(&mut self, request: ListTarget, author: &str) -> Result<Changed, Refused> {
        let name: Arc<str> = request.name.into();
        require_no_file(&self.state.intent.config, &name)?;
        let Some(list) = self.state.intent.lists().get(&name) else {
            return Err(Refused::because(format!("there is no list `{name}`"))
                .hint("`rlctl lists` shows those that there are"));
        };
        let removed = list.entries().len();
        let (_, edit) = self.state.intent.list_edit(&name, None);
        self.state.edit(edit.as_slice())?;
        info!(list = %name, removed, author, "list taken away");
        Ok(Changed {
            removed,
            ..Changed::default()
        })
    }
}

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
