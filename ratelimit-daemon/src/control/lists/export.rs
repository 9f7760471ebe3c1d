//! `rlctl export`: bans, allows and lists as lines of text.

use std::{borrow::Cow, ops::Bound, sync::Arc};

use ratelimit_core::{
    api::{ExportFormat, ExportRequest, Exported, Refused},
    intent::{
        EntryRow, Intent,
        list::{List, ListEntry},
    },
    lists::{Action, Line},
    origin::Origin,
    prefix::Prefix,
};

use crate::{clock, control::time::expiry};

/// Entries per write.
const PART: usize = 4096;

/// A ban with its key.
pub type BanEntry = (Prefix, Origin, EntryRow);

/// An export of everything but bans. Bans are read in parts: those that exist all the time appear
/// once.
#[derive(Clone, Debug)]
pub struct Export {
    format: ExportFormat,
    /// Whether bans are requested.
    pub has_bans: bool,
    allows: Vec<(Prefix, EntryRow)>,
    lists: Vec<(Arc<str>, Arc<List>)>,
}

/// Prepares the requested export.
pub fn export(intent: &Intent, request: &ExportRequest) -> Result<Export, Refused> {
    let what = request.what;
    let name = request.list.as_deref().unwrap_or_default();
    if what == Exported::List && !intent.lists().contains_key(name) {
        return Err(Refused::because(format!("no list `{name}`")).hint("see `rlctl list lists`"));
    }
    let has_bans = matches!(what, Exported::Kept | Exported::Bans | Exported::All);
    let has_allows = matches!(what, Exported::Kept | Exported::Allows | Exported::All);
    let has_list = |its_name: &str, list: &List| match what {
        Exported::Kept => list.file.is_none(),
        // The entries of policies are the configuration's.
        Exported::All => list.action != Action::Policy,
        Exported::List => its_name == name,
        Exported::Bans | Exported::Allows => false,
    };
    let allows = intent.allows().iter().filter(|_| has_allows);
    let lists = intent.lists().iter();
    Ok(Export {
        format: request.format,
        has_bans,
        allows: allows.map(|(prefix, row)| (*prefix, row.clone())).collect(),
        lists: lists
            .filter(|(name, list)| has_list(name, list))
            .map(|(name, list)| (Arc::clone(name), Arc::clone(list)))
            .collect(),
    })
}

/// Returns the next bans after `behind`, ordered by prefix. Empty at the end.
pub fn some_bans(intent: &Intent, behind: Option<&(Prefix, Origin)>) -> Vec<BanEntry> {
    let behind = behind.map_or(Bound::Unbounded, Bound::Excluded);
    let bans = intent.bans().range((behind, Bound::Unbounded));
    let now = clock::now();
    let lasting = bans.filter(|(_, row)| row.until > now);
    lasting
        .take(PART)
        .map(|((prefix, origin), row)| (*prefix, origin.clone(), row.clone()))
        .collect()
}

impl Export {
    /// Exports a single list with all details of its entries.
    pub fn of_single_list(name: Arc<str>, list: Arc<List>) -> Self {
        Self {
            format: ExportFormat::Json,
            has_bans: false,
            allows: Vec::new(),
            lists: vec![(name, list)],
        }
    }

    /// Formats bans, without folds: their bans are formatted too.
    pub fn of_bans(&self, bans: &[BanEntry]) -> String {
        let bans = bans
            .iter()
            .filter(|(_, origin, _)| *origin != Origin::Folded);
        let rows = bans.map(|(prefix, origin, row)| (*prefix, origin, row));
        self.of_rows(Action::Ban, rows)
    }

    /// Formats everything but bans, part by part.
    pub fn others(&self) -> impl Iterator<Item = String> + '_ {
        let allows = self.allows.chunks(PART).map(|part| self.of_allows(part));
        let lists = self.lists.iter().flat_map(|(name, list)| {
            let parts = list.entries().chunks(PART);
            parts.map(|part| self.of_list(name, list, part))
        });
        allows.chain(lists)
    }

    fn of_allows(&self, allows: &[(Prefix, EntryRow)]) -> String {
        let now = clock::now();
        let allows = allows.iter().filter(|(_, row)| row.until > now);
        let rows = allows.map(|(prefix, row)| (*prefix, &Origin::Manual, row));
        self.of_rows(Action::Allow, rows)
    }

    fn of_rows<'r>(
        &self,
        action: Action,
        rows: impl Iterator<Item = (Prefix, &'r Origin, &'r EntryRow)>,
    ) -> String {
        self.lines(rows.map(|(prefix, origin, row)| Line {
            prefix: prefix.to_string().into(),
            action: Some(action),
            until: expiry::reported(row.until),
            reason: row.reason.as_deref().map(Cow::from),
            author: Some((&*row.author).into()),
            since: Some(row.since),
            origin: Some(origin.to_string().into()),
        }))
    }

    fn of_list(&self, name: &str, list: &List, entries: &[ListEntry]) -> String {
        let origin = Origin::list(name).to_string();
        let now = clock::now();
        let lasting = entries.iter().filter(|entry| entry.until > now);
        self.lines(lasting.map(|entry| Line {
            prefix: entry.prefix.to_string().into(),
            action: Some(list.action),
            until: expiry::reported(entry.until),
            reason: list.reasons.get(entry.reason).map(Cow::from),
            author: Some((&*list.author).into()),
            since: Some(list.since),
            origin: Some(origin.as_str().into()),
        }))
    }

    fn lines<'l>(&self, lines: impl Iterator<Item = Line<'l>>) -> String {
        let mut text = String::new();
        for line in lines {
            text.push_str(&match self.format {
                ExportFormat::Json => line.json(),
                ExportFormat::Plain => line.plain(),
            });
            text.push('\n');
        }
        text
    }
}
