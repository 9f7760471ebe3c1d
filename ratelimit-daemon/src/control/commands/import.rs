//! `rlctl import`.

mod importer;

use std::sync::Arc;

use ratelimit_core::{
    api::{ImportInto, ImportRequest, Imported, Refused},
    intent::{Edit, Intent},
    lists::{Action, Reading},
    prefix::Prefix,
};
use tracing::info;

use self::importer::Importer;
use super::Command;
use crate::{
    clock,
    control::{controller::Controller, reports::cause::Cause, time::expiry},
};

/// Imports a list that was read, or reports what would change.
pub struct Import {
    /// The request.
    pub request: Arc<ImportRequest>,
    /// The list, already read.
    pub reading: Reading,
    /// The user who asked.
    pub author: Arc<str>,
}

impl Command for Import {
    type Answer = Result<Imported, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let (request, reading, author) = (&*self.request, self.reading, &*self.author);
        let default = request
            .seconds
            .map(|seconds| expiry::duration("a ban", seconds))
            .transpose()?;
        let ends = expiry::Ends::now(default);
        let mut answer = Imported {
            dry_run: request.dry_run,
            format: reading.format.to_string(),
            bad: reading.bad.count,
            bad_lines: (reading.bad.count > 0).then(|| reading.bad.to_string()),
            ..Imported::default()
        };
        answer.skipped.clone_from(&reading.skipped);
        answer.notes.clone_from(&reading.notes);
        let importer = Importer {
            intent: &controller.state.intent,
            protection: &controller.state.protection,
            before_trial: controller.feeds.trials.before(),
        };
        let edits = if request.into == ImportInto::List {
            importer.list(request, reading, &ends, author, &mut answer)?
        } else {
            importer.all(request, reading, &ends, author, &mut answer)?
        };
        answer.allowed = count_allowed(&controller.state.intent, &edits);
        if !request.dry_run && !edits.is_empty() {
            // The cost: each entry is written to the kernel, each change to the database.
            let entries = edits.iter().flat_map(Edit::prefixes).count();
            controller
                .about
                .workload
                .progress
                .begin((entries + edits.len()) as u64);
            let edited = controller.state.apply(edits, Cause::Origin);
            controller.about.workload.progress.end();
            edited?;
        }
        for target in &answer.targets {
            // Bans and allows are reported as changes.
            if !request.dry_run && !target.into.starts_with("list:") {
                continue;
            }
            info!(
                into = target.into,
                added = target.added,
                removed = target.removed,
                updated = target.updated,
                kept = target.kept,
                longer = target.longer,
                author,
                dry_run = request.dry_run,
                "imported"
            );
        }
        Ok(answer)
    }
}

/// Counts the new bans that have no effect because their prefixes are allowed.
fn count_allowed(intent: &Intent, edits: &[Edit]) -> usize {
    let banned = edits.iter().flat_map(|edit| {
        let is_ban = matches!(edit, Edit::Ban(_, _, Some(_)));
        let own = is_ban.then(|| edit.prefixes()).into_iter().flatten();
        let list = if let Edit::List(_, list, _) = edit {
            list.as_ref().filter(|list| list.action == Action::Ban)
        } else {
            None
        };
        let entries = list.into_iter().flat_map(|list| list.entries());
        own.chain(entries.map(|entry| entry.prefix))
    });
    let mut banned: Vec<Prefix> = banned.collect();
    banned.sort_unstable();
    banned.dedup();
    intent.count_allowed(&banned, clock::now())
}
