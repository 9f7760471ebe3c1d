//! Replaces lists with the content of their files.

use std::sync::Arc;

use ratelimit_core::{api::Refused, intent::Edit, lists::Reading};
use tracing::warn;

use crate::control::{
    lists::{
        ListRead,
        configured::{self, ConfiguredLists},
        file::{Deadline, ListFile},
        files::ListFiles,
        from_file, log, not_named,
    },
    reports::cause::Cause,
    state::State,
};

/// Reads the files of all lists at start, and applies the configuration with them in one step, like
/// a reload. Removes lists whose files it no longer names. Lists that cannot be read stay as they
/// are. Logs the result.
pub fn read_all(state: &mut State, files: &mut ListFiles) {
    let config = state.intent.config.clone();
    let (lists, failed) = ConfiguredLists::read_some(configured::files(&config));
    let together = configured::changes(&state.intent, state.protection.all(), &config, lists);
    let together = together.and_then(|mut changes| {
        let mut edits = std::mem::take(&mut changes.edits);
        edits.push(Edit::Config(Box::new(config)));
        state.apply(edits, Cause::Origin)?;
        Ok(changes)
    });
    let changes = match together {
        Ok(changes) => changes,
        Err(refused) => {
            let error = refused.in_full();
            warn!(error, "cannot update the lists together; trying one by one");
            return read_one_by_one(state, files);
        }
    };
    changes.note(files, &state.intent.config);
    for (name, refused) in failed {
        note_failure(files, &name, &refused);
    }
}

/// Reads the files one by one, after removing old lists to make room.
fn read_one_by_one(state: &mut State, files: &mut ListFiles) {
    for name in not_named(&state.intent, &state.intent.config) {
        let (_, edit) = state.intent.list_edit(&name, None);
        if let Err(refused) = state.apply(edit.as_slice(), Cause::Origin) {
            let error = refused.error;
            warn!(list = %name, error, "cannot remove a list");
        }
    }
    let lists = state.intent.config.lists.clone();
    files.retain(&lists);
    let deadline = Deadline::default();
    for (name, config) in &lists {
        let file = ListFile::new(name, config);
        let reading = file.read_before_deadline(&deadline);
        take(state, files, &file, reading);
    }
}

/// Replaces a list with the content of its file, unless a reload came in between. Logs the result.
pub fn take(
    state: &mut State,
    files: &mut ListFiles,
    file: &ListFile,
    reading: Result<Reading, Refused>,
) {
    let name = &file.name;
    if state.intent.config.lists.get(&**name) != Some(&file.config) {
        return;
    }
    match reading.and_then(|reading| put_in_force(state, file, reading)) {
        Ok(read) => {
            files.succeeded(name, read.fetched);
            log(name, &read);
        }
        Err(refused) => note_failure(files, name, &refused),
    }
}

fn note_failure(files: &mut ListFiles, name: &Arc<str>, refused: &Refused) {
    if files.failed(name, refused.error.clone()) {
        let error = refused.in_full();
        warn!(list = %name, error, "cannot load a list; keeping its previous entries");
    }
}

fn put_in_force(state: &mut State, file: &ListFile, reading: Reading) -> Result<ListRead, Refused> {
    let (read, edit) = from_file(&state.intent, state.protection.all(), file, reading)?;
    state.apply(edit.as_slice(), Cause::Origin)?;
    Ok(read)
}
