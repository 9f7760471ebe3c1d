//! Lists: `rlctl import --remove` removes imported ones, and the files of others are read again.

use std::sync::Arc;

use ratelimit_core::{
    api::{Changed, ListTarget, Refused},
    lists::Reading,
};

use super::Command;
use crate::control::{
    controller::Controller,
    feeds::list_files::take,
    lists::{file::ListFile, require_no_file},
    reports::cause::Cause,
};

/// Takes a list away that was imported.
pub struct RemoveList(pub ListTarget, pub Arc<str>);

impl Command for RemoveList {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let author = &*author;
        let name: Arc<str> = request.name.into();
        require_no_file(&controller.state.intent.config, &name)?;
        let Some(list) = controller.state.intent.lists().get(&name) else {
            return Err(
                Refused::because(format!("no list `{name}`")).hint("see `rlctl list lists`")
            );
        };
        let removed = list.entries().len();
        let (_, edit) = controller.state.intent.list_edit(&name, None);
        controller
            .state
            .apply(edit.as_slice(), Cause::User(author))?;
        Ok(Changed {
            removed,
            ..Changed::default()
        })
    }
}

/// Answers the files that are to be read again.
pub struct DueLists;

impl Command for DueLists {
    type Answer = Vec<ListFile>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let configured = &controller.state.intent.config.lists;
        controller.feeds.list_files.due_files(configured)
    }
}

/// Puts what was read from a file in the place of its list. How it went is logged.
pub struct TakeList {
    /// The file.
    pub file: ListFile,
    /// The result of reading the list.
    pub reading: Result<Reading, Refused>,
}

impl Command for TakeList {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { file, reading } = self;
        let Controller { feeds, state, .. } = controller;
        take(state, &mut feeds.list_files, &file, reading);
    }
}
