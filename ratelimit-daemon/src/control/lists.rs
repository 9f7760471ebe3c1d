//! How lists change: what takes the place of what, and what may not be changed by hand.

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_core::{
    api::Refused,
    config::{Config, ListConfig},
    intent::{
        Edit, Intent,
        list::{Difference, List, ListEntry},
    },
    lists::{Action, Entry, Merged, Reading, Reasons, merge},
};
use tracing::{info, warn};

use super::{list_files::ListFile, term::Ends};

/// The author of what a file says.
const CONFIGURATION: &str = "config";

/// The lists of bans and of allows that come again. No file is called so: the configuration takes no such name.
pub const KEPT: [(&str, Action); 2] = [("[kept]", Action::Ban), ("[kept allows]", Action::Allow)];

/// Whether a list has what was kept from the kernel: it goes when all others were read.
#[must_use]
pub fn is_kept(name: &str) -> bool {
    KEPT.iter().any(|(kept, _)| *kept == name)
}

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
    let gone = gone.filter(|(name, _)| !is_kept(name));
    gone.map(|(name, _)| Arc::clone(name)).collect()
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
