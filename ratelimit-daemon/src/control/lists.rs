//! Changes of lists: what replaces what, and which changes are refused.

pub mod configured;
pub mod copies;
pub mod export;
pub mod file;
pub mod files;

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_core::{
    api::{Code, ExemptEntries, Refused},
    config::Config,
    intent::{
        Edit, Intent,
        list::{Difference, List, ListEntry},
    },
    lists::{Action, Connected, Entry, Merged, NoList, Reading, Reasons, merge},
};
use tracing::{info, warn};

use self::file::ListFile;
use crate::{clock, control::time::expiry::Ends, protected::Protected};

/// The author of entries from a file.
const CONFIGURATION: &str = "config";

/// The lists of bans and allows that will be reported again. The brackets cannot occur in a
/// configured name.
pub const KEPT: [(&str, Action); 2] = [("[kept]", Action::Ban), ("[kept allows]", Action::Allow)];

/// Returns whether a list was kept from the kernel. It is removed once all others were read.
pub fn is_kept(name: &str) -> bool {
    KEPT.iter().any(|(kept, _)| *kept == name)
}

/// Returns the change that replaces a list with the content of its file, and the differences.
/// Refuses a list that is implausibly wide.
pub fn from_file(
    intent: &Intent,
    protected: &Protected,
    file: &ListFile,
    mut reading: Reading,
) -> Result<(ListRead, Option<Edit>), Refused> {
    let (action, connected) = (file.config.action, file.config.connected);
    let cut = match (action, connected) {
        (Action::Ban, None | Some(Connected::Exempt)) => protected.cut(&mut reading.entries).0,
        (Action::Ban, Some(Connected::Include)) | (Action::Allow | Action::Policy, _) => Vec::new(),
    };
    let unsaid = match connected {
        None => protected.describe_cut(&cut),
        Some(_) => ExemptEntries::default(),
    };
    let (left_out, fetched) = (reading.bad.count, reading.fetched);
    let path = Some(file.config.file.clone());
    let mut list = List::new(action, path, clock::wall(), CONFIGURATION.into());
    list.cut = cut;
    let (list, _) = fill(list, reading.entries, reading.reasons, &Ends::now(None));
    if !file.config.allow_wide {
        let name = file.config.file.display().to_string();
        let before = intent.lists().get(&file.name).map(|list| list.coverage());
        let vetted = list.coverage().vet(&name, before);
        vetted.map_err(too_wide)?;
    }
    let (difference, edit) = intent.list_edit(&file.name, Some(list));
    let read = ListRead {
        left_out,
        difference,
        unsaid,
        fetched,
    };
    Ok((read, edit))
}

/// Refuses an implausibly wide list.
pub(super) fn too_wide(list: NoList) -> Refused {
    Refused::from(list).code(Code::TooWide)
}

/// The result of reading a file.
#[derive(Debug, Default)]
pub struct ListRead {
    /// The number of bad lines, which were skipped.
    pub left_out: usize,
    pub difference: Difference,
    /// Entries from which connected networks were cut although the configuration does not say so.
    pub unsaid: ExemptEntries,
    /// The time of the last download, see [`Reading::fetched`].
    pub fetched: Option<Timestamp>,
}

/// Refuses to change a list that is read from a file.
pub fn require_no_file(config: &Config, name: &str) -> Result<(), Refused> {
    let Some(config) = config.lists.get(name) else {
        return Ok(());
    };
    let file = config.file.display();
    Err(
        Refused::because(format!("the list `{name}` is loaded from {file}")).hint(format!(
            "edit that file and run `rlctl reload`, or remove [list.{name}]"
        )),
    )
}

/// Returns the lists of files that the configuration no longer names.
pub fn not_named(intent: &Intent, config: &Config) -> Vec<Arc<str>> {
    let lists = intent.lists().iter();
    let gone =
        lists.filter(|(name, list)| list.file.is_some() && !config.lists.contains_key(&***name));
    // Lists kept from the kernel are removed after the others were read.
    let gone = gone.filter(|(name, _)| !is_kept(name));
    gone.map(|(name, _)| Arc::clone(name)).collect()
}

/// Logs the result for a list that was put in force.
pub(super) fn log(name: &str, read: &ListRead) {
    if read.left_out > 0 {
        warn!(list = %name, lines = read.left_out, "skipped bad lines of a list");
    }
    if let Some(entry) = read.unsaid.first.first() {
        let (prefix, protected, why) = (entry.prefix, entry.protected, &entry.why);
        let count = read.unsaid.count;
        warn!(
            list = %name, entries = count, %prefix, network = %protected, why,
            "a list exempts connected networks: confirm with connected = \"exempt\", or ban them \
             with connected = \"include\""
        );
    }
    let difference = &read.difference;
    if !difference.is_empty() {
        let (added, removed) = (difference.added, difference.removed);
        let (updated, kept) = (difference.updated, difference.kept);
        info!(list = %name, added, removed, updated, kept, "list replaced");
    }
}

/// Describes the differences, if any.
pub(super) fn reported(name: &str, read: &ListRead) -> Option<String> {
    let unsaid = read.unsaid.first.first().map(|entry| {
        let (prefix, protected, why) = (entry.prefix, entry.protected, &entry.why);
        format!(
            "list {name}: {prefix} exempts {protected}, {why}; confirm with connected = \
             \"exempt\", or ban it with connected = \"include\""
        )
    });
    let it = &read.difference;
    let different = (!it.is_empty()).then(|| {
        let (added, removed, updated, kept) = (it.added, it.removed, it.updated, it.kept);
        format!("list {name}: +{added} -{removed} ~{updated} ={kept}")
    });
    let lines: Vec<String> = different.into_iter().chain(unsaid).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Fills a list with entries, and returns those that others made redundant.
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
