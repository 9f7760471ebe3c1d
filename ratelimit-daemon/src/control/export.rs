//! `rlctl export`: bans, allows and lists as lines of text.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use ratelimit_common::Instant;

use super::{
    controller::Controller,
    list::List,
    store::{AllowRow, BanRow, FOREVER},
};
use crate::{
    api::{ExportFormat, ExportRequest, Exported, Refused},
    clock,
    lists::{Action, Line, json_line, plain_line},
    origin::Origin,
    prefix::Prefix,
};

/// What is to be written: the controller gives it away, and goes on.
#[derive(Clone, Debug)]
pub struct Export {
    format: ExportFormat,
    bans: Vec<(Prefix, Origin, BanRow)>,
    allows: Vec<(Prefix, AllowRow)>,
    lists: Vec<(Arc<str>, Arc<List>)>,
}

impl Controller {
    /// What is asked for.
    ///
    /// # Errors
    ///
    /// When there is no such list.
    pub fn export(&self, request: &ExportRequest) -> Result<Export, Refused> {
        let what = request.what;
        let name = request.list.as_deref().unwrap_or_default();
        if what == Exported::List && !self.intent.lists().contains_key(name) {
            return Err(Refused::because(format!("there is no list `{name}`"))
                .hint("`rlctl lists` shows those that there are"));
        }
        let has_bans = matches!(what, Exported::Kept | Exported::Bans | Exported::All);
        let has_allows = matches!(what, Exported::Kept | Exported::Allows | Exported::All);
        let has_list = |its_name: &str, list: &List| match what {
            Exported::Kept => list.file.is_none(),
            Exported::All => true,
            Exported::List => its_name == name,
            Exported::Bans | Exported::Allows => false,
        };
        let bans = self.intent.bans().iter().filter(|_| has_bans);
        let allows = self.intent.allows().iter().filter(|_| has_allows);
        let lists = self.intent.lists().iter();
        Ok(Export {
            format: request.format,
            bans: bans
                .map(|((prefix, origin), row)| (*prefix, origin.clone(), row.clone()))
                .collect(),
            allows: allows.map(|(prefix, row)| (*prefix, row.clone())).collect(),
            lists: lists
                .filter(|(name, list)| has_list(name, list))
                .map(|(name, list)| (Arc::clone(name), Arc::clone(list)))
                .collect(),
        })
    }
}

impl Export {
    /// The lines.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (prefix, origin, row) in &self.bans {
            self.line(
                &mut text,
                &Line {
                    prefix: prefix.to_string().into(),
                    action: Some(Action::Ban),
                    until: end(row.until),
                    reason: row.reason.as_deref().map(Cow::from),
                    author: Some((&*row.author).into()),
                    since: Some(row.since),
                    origin: Some(origin.to_string().into()),
                },
            );
        }
        for (prefix, row) in &self.allows {
            self.line(
                &mut text,
                &Line {
                    prefix: prefix.to_string().into(),
                    action: Some(Action::Allow),
                    until: None,
                    reason: row.reason.as_deref().map(Cow::from),
                    author: Some(row.author.as_str().into()),
                    since: Some(row.since),
                    origin: Some(Origin::Manual.to_string().into()),
                },
            );
        }
        for (name, list) in &self.lists {
            self.list(&mut text, name, list);
        }
        text
    }

    fn list(&self, text: &mut String, name: &str, list: &List) {
        let origin = Origin::list(name).to_string();
        for entry in list.entries() {
            self.line(
                text,
                &Line {
                    prefix: entry.prefix.to_string().into(),
                    action: Some(list.action),
                    until: end(entry.until),
                    reason: list.reasons.get(entry.reason).map(Cow::from),
                    author: Some((&*list.author).into()),
                    since: Some(list.since),
                    origin: Some(origin.as_str().into()),
                },
            );
        }
    }

    fn line(&self, text: &mut String, line: &Line<'_>) {
        text.push_str(&match self.format {
            ExportFormat::Json => json_line(line),
            ExportFormat::Plain => plain_line(line),
        });
        text.push('\n');
    }
}

fn end(until: Instant) -> Option<Timestamp> {
    (until != FOREVER).then(|| clock::to_wall(until))
}
