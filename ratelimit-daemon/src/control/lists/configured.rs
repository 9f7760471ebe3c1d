//! Reads the list files of a configuration, to be put in force with it. Needs nothing of the
//! controller.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_core::{
    api::Refused,
    config::Config,
    intent::{Edit, Intent},
    lists::Reading,
};

use super::{
    ListRead,
    file::{Deadline, ListFile},
    files::ListFiles,
    from_file, log, not_named, reported,
};
use crate::protected::Protected;

/// The lists of a configuration, by name.
pub struct ConfiguredLists(BTreeMap<Arc<str>, (ListFile, Reading)>);

impl ConfiguredLists {
    /// Reads the files of all lists.
    pub fn read(config: &Config) -> Result<Self, Refused> {
        let deadline = Deadline::default();
        let files = files(config).map(|file| {
            let reading = file.read_before_deadline(&deadline).map_err(|refused| {
                let named = |error: &str| format!("list {}: {error}", file.name);
                let quoting = named(refused.in_full());
                let error = named(&refused.error);
                let refused = Refused { error, ..refused }.quoting(quoting);
                if refused.hint.is_some() {
                    return refused;
                }
                refused.hint(
                    "the previous configuration and lists stay active because they change together",
                )
            })?;
            Ok((Arc::clone(&file.name), (file, reading)))
        });
        files.collect::<Result<_, _>>().map(Self)
    }

    /// Reads those of the files that can be read, and returns why the others cannot.
    pub fn read_some(
        files: impl IntoIterator<Item = ListFile>,
    ) -> (Self, Vec<(Arc<str>, Refused)>) {
        let deadline = Deadline::default();
        let (mut read, mut failed) = (BTreeMap::new(), Vec::new());
        for file in files {
            let name = Arc::clone(&file.name);
            match file.read_before_deadline(&deadline) {
                Ok(reading) => drop(read.insert(name, (file, reading))),
                Err(refused) => failed.push((name, refused)),
            }
        }
        (Self(read), failed)
    }
}

/// Returns the list files of a configuration.
pub fn files(config: &Config) -> impl Iterator<Item = ListFile> {
    let lists = config.lists.iter();
    lists.map(|(name, config)| ListFile::new(name, config))
}

/// Refuses a trial that would replace an imported list with a file: a rollback could not restore
/// it.
pub fn require_none_imported(intent: &Intent, config: &Config) -> Result<(), Refused> {
    let mut lists = intent.lists().iter();
    let replaced =
        lists.find(|(name, list)| list.file.is_none() && config.lists.contains_key(&***name));
    match replaced {
        None => Ok(()),
        Some((name, _)) => Err(Refused::because(format!(
            "the list `{name}` was imported and a rollback would not restore it"
        ))
        .hint(format!(
            "rename [list.{name}], or run `rlctl import --remove {name}` first"
        ))),
    }
}

/// Changes of lists when a configuration replaces another.
#[derive(Default)]
pub struct ListChanges {
    /// The edits for the same step.
    pub edits: Vec<Edit>,
    /// The lists whose files were read.
    pub(crate) read: Vec<(Arc<str>, ListRead)>,
    /// Lists that are no longer configured, with the number of their entries.
    pub(crate) gone: Vec<(Arc<str>, usize)>,
}

impl ListChanges {
    /// Records lists that were put in force with `config`, and logs the results.
    pub(crate) fn note(&self, files: &mut ListFiles, config: &Config) {
        files.retain(&config.lists);
        for (name, read) in &self.read {
            files.succeeded(name, read.fetched);
            log(name, read);
        }
    }

    /// Describes the differences, one per line.
    pub(crate) fn reported(&self) -> Vec<String> {
        let gone = self.gone.iter();
        let gone =
            gone.map(|(name, removed)| format!("list {name}: removed, with {removed} entries"));
        let read = self.read.iter();
        let read = read.filter_map(|(name, read)| reported(name, read));
        gone.chain(read).collect()
    }
}

/// Returns the changes from the current lists to those of `config`. Removes lists of files that it
/// does not name.
pub fn changes(
    intent: &Intent,
    protected: &Protected,
    config: &Config,
    lists: ConfiguredLists,
) -> Result<ListChanges, Refused> {
    let mut changes = ListChanges::default();
    for name in not_named(intent, config) {
        let (difference, edit) = intent.list_edit(&name, None);
        changes.edits.extend(edit);
        changes.gone.push((name, difference.removed));
    }
    for (name, (file, reading)) in lists.0 {
        let read = from_file(intent, protected, &file, reading);
        let (read, edit) = read.map_err(|refused| {
            let error = format!("list {name}: {}", refused.error);
            Refused { error, ..refused }
        })?;
        changes.edits.extend(edit);
        changes.read.push((name, read));
    }
    Ok(changes)
}
