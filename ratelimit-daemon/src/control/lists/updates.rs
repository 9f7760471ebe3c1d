//! Lists as their files are: what was read from a file takes the place of the list.

use ratelimit_core::{api::Refused, lists::Reading};

use super::{
    file::{Deadline, ListFile},
    not_named,
};
use crate::control::{feeds::lists::ListFiles, state::State};

/// Reads the files of all lists at the start, and takes away the lists whose files the configuration does not name any more.
/// What cannot be read stays as it was. Answers what is different or went wrong, a line each.
pub fn read_all(state: &mut State, files: &mut ListFiles) -> Vec<String> {
    let mut lines = Vec::new();
    for name in not_named(&state.intent, &state.intent.config) {
        files.gone(name);
        let _ = state.take(files);
        lines.extend(files.line());
    }
    let lists = state.intent.config.lists.clone();
    files.retain(&lists);
    let deadline = Deadline::default();
    for (name, config) in &lists {
        let file = ListFile::new(name, config);
        let reading = file.read_by(&deadline);
        lines.extend(take(state, files, &file, reading));
    }
    lines
}

/// Puts what was read from a file in the place of the list, and says what is different or went wrong.
pub fn take(
    state: &mut State,
    files: &mut ListFiles,
    file: &ListFile,
    reading: Result<Reading, Refused>,
) -> Option<String> {
    if state.intent.config.lists.get(&*file.name) != Some(&file.config) {
        // A reload came in between.
        return None;
    }
    files.read(file.clone(), reading);
    let _ = state.take(files);
    files.line()
}
