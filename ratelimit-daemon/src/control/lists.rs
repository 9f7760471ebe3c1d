//! How lists change: what takes the place of what, and what no operator may change.

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
use crate::{clock, control::time::lifetime::Ends, protected::Protected};

/// The author of what a file says.
const CONFIGURATION: &str = "config";

/// The lists of bans and of allows that come again. No file is called so: the configuration takes no such name.
pub const KEPT: [(&str, Action); 2] = [("[kept]", Action::Ban), ("[kept allows]", Action::Allow)];

/// Whether a list has what was kept from the kernel: it goes when all others were read.
pub fn is_kept(name: &str) -> bool {
    KEPT.iter().any(|(kept, _)| *kept == name)
}

/// What is different when what was read from a file takes the place of its list, and the change that does it. Refused is a list that
/// covers more than can be meant.
pub fn from_file(
    intent: &Intent,
    protected: &Protected,
    file: &ListFile,
    mut reading: Reading,
) -> Result<(ListRead, Option<Edit>), Refused> {
    let (action, connected) = (file.config.action, file.config.connected);
    let cut = match (action, connected) {
        (Action::Ban, None | Some(Connected::Exempt)) => protected.cut(&mut reading.entries).0,
        (Action::Ban, Some(Connected::Include)) | (Action::Allow, _) => Vec::new(),
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

/// Refuses what covers more than can be meant.
pub(super) fn too_wide(list: NoList) -> Refused {
    Refused::from(list).code(Code::TooWide)
}

/// What came of a file that was read.
#[derive(Debug, Default)]
pub struct ListRead {
    /// How many bad lines were left out.
    pub left_out: usize,
    /// What is different.
    pub difference: Difference,
    /// Entries of which connected networks were left out, where the configuration does not say that they are.
    pub unsaid: ExemptEntries,
    /// When it was last downloaded, as [`Reading::fetched`] has it.
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

/// The lists of files that the configuration does not name any more.
pub fn not_named(intent: &Intent, config: &Config) -> Vec<Arc<str>> {
    let lists = intent.lists().iter();
    let gone =
        lists.filter(|(name, list)| list.file.is_some() && !config.lists.contains_key(&***name));
    // What was kept from the kernel goes when the others were read.
    let gone = gone.filter(|(name, _)| !is_kept(name));
    gone.map(|(name, _)| Arc::clone(name)).collect()
}

/// Logs what became of a list that was put in force.
pub(super) fn log(name: &str, read: &ListRead) {
    if read.left_out > 0 {
        warn!(list = %name, lines = read.left_out, "skipped bad lines of a list");
    }
    if let Some(entry) = read.unsaid.first.first() {
        let (prefix, protected, why) = (entry.prefix, entry.protected, &entry.why);
        let count = read.unsaid.count;
        warn!(list = %name, entries = count, %prefix, network = %protected, why, "a list exempts connected networks: confirm with connected = \"exempt\", or ban them with connected = \"include\"");
    }
    let difference = &read.difference;
    if !difference.is_empty() {
        let (added, removed) = (difference.added, difference.removed);
        let (updated, kept) = (difference.updated, difference.kept);
        info!(list = %name, added, removed, updated, kept, "list replaced");
    }
}

/// Says what is different, if anything is.
pub(super) fn reported(name: &str, read: &ListRead) -> Option<String> {
    let unsaid = read.unsaid.first.first().map(|entry| {
        let (prefix, protected, why) = (entry.prefix, entry.protected, &entry.why);
        format!("list {name}: {prefix} exempts {protected}, {why}; confirm with connected = \"exempt\", or ban it with connected = \"include\"")
    });
    let it = &read.difference;
    let different = (!it.is_empty()).then(|| {
        let (added, removed, updated, kept) = (it.added, it.removed, it.updated, it.kept);
        format!("list {name}: +{added} -{removed} ~{updated} ={kept}")
    });
    let lines: Vec<String> = different.into_iter().chain(unsaid).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
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
