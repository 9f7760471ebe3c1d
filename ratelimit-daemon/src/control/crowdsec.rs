//! What the local API of `CrowdSec` decides, in force; and how the connection to it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ratelimit_core::{
    api::CrowdsecStatus,
    config::Crowdsec,
    intent::{BanRow, Edit},
    origin::Origin,
    prefix::Prefix,
};
use tokio::sync::watch;
use tracing::{info, warn};

use super::controller::Controller;
use crate::{
    crowdsec::{Ignored, Update, Wanted},
    protected::Word,
};

/// An answer tells how long a decision lasts from the moment at which it was made. Ends that differ by less are the same one.
const SAME_END_NS: u64 = 2_000_000_000;

/// The connection, as it was last seen.
#[derive(Debug)]
pub(super) struct Connection {
    wish: watch::Sender<Option<Crowdsec>>,
    /// `None` before the first answer or failure.
    connected: Option<bool>,
    since: Timestamp,
    pulled: Option<Timestamp>,
    error: Option<String>,
    pulls: u64,
    failures: u64,
    decisions: usize,
    ignored: BTreeMap<Ignored, u64>,
}

impl Connection {
    /// A connection that is yet to be made.
    pub fn new(wish: Option<Crowdsec>) -> Self {
        Self {
            wish: watch::Sender::new(wish),
            connected: None,
            since: Timestamp::now(),
            pulled: None,
            error: None,
            pulls: 0,
            failures: 0,
            decisions: 0,
            ignored: BTreeMap::new(),
        }
    }

    /// Whether all that the API decides is in force.
    pub fn has_answered(&self) -> bool {
        self.connected == Some(true) && self.error.is_none() && self.pulled.is_some()
    }

    /// Follows another configuration, where it is another one.
    pub fn wish(&mut self, wish: Option<&Crowdsec>) {
        let is_other = self.wish.send_if_modified(|before| {
            let is_other = before.as_ref() != wish;
            if is_other {
                *before = wish.cloned();
            }
            is_other
        });
        if is_other {
            (self.connected, self.error) = (None, None);
            self.since = Timestamp::now();
            self.decisions = 0;
        }
    }

    /// Notes whether the API answers, and tells whether that is new.
    fn turn(&mut self, connected: bool, error: Option<String>) -> bool {
        self.error = error;
        let is_new = self.connected != Some(connected);
        if is_new {
            self.connected = Some(connected);
            self.since = Timestamp::now();
        }
        is_new
    }

    /// Counts decisions that ban nobody; the first of each kind is logged.
    fn ignore(&mut self, reason: Ignored, count: u64, value: &str) {
        let counted = self.ignored.entry(reason).or_insert(0);
        if *counted == 0 {
            let reason = reason.label();
            info!(
                reason,
                value,
                "decisions of CrowdSec that ban nobody here are counted, and not logged again"
            );
        }
        *counted += count;
    }

    fn url(&self) -> Option<String> {
        let wish = self.wish.borrow();
        wish.as_ref().map(|config| config.address.to_string())
    }
}

impl Controller {
    /// Which API is to be followed, now and after each reload.
    #[must_use]
    pub fn crowdsec_wish(&self) -> watch::Receiver<Option<Crowdsec>> {
        self.crowdsec.wish.subscribe()
    }

    /// Puts what the API answered in force, and tells whether that worked: all of it, or nothing.
    pub fn take_decisions(&mut self, update: Update) -> bool {
        self.crowdsec.pulls += 1;
        self.crowdsec.pulled = Some(Timestamp::now());
        self.crowdsec.decisions = update.decisions;
        for (reason, (count, value)) in &update.ignored {
            self.crowdsec.ignore(*reason, *count, value);
        }
        let edits = self.decided(update);
        let error = self.state.edit(edits).err().map(|refused| refused.error);
        let (is_kept, was_kept) = (error.is_none(), self.crowdsec.error.is_none());
        let was_connected = self.crowdsec.connected == Some(true);
        if let Some(error) = error.as_ref().filter(|_| was_kept || !was_connected) {
            warn!(error, "what CrowdSec decided could not be put in force");
        }
        if self.crowdsec.turn(true, error) {
            let (url, bans) = (self.crowdsec.url(), self.crowdsec_bans().count());
            info!(url, bans, "CrowdSec answers");
        }
        is_kept
    }

    /// Notes that the API does not answer. Its bans stay.
    pub fn lose_crowdsec(&mut self, error: String) {
        self.crowdsec.failures += 1;
        if self.crowdsec.turn(false, Some(error)) {
            let (url, error) = (self.crowdsec.url(), self.crowdsec.error.as_ref());
            let bans = self.crowdsec_bans().count();
            warn!(url, error, bans, "CrowdSec does not answer; its bans stay");
        }
    }

    /// Ends the bans of an API that the configuration names no more.
    pub fn end_crowdsec_bans(&mut self) {
        let gone: Vec<Edit> = self
            .crowdsec_bans()
            .map(|prefix| edit(prefix, None))
            .collect();
        if gone.is_empty() {
            return;
        }
        match self.state.edit(gone) {
            Ok(changed) => info!(
                bans = changed.removed,
                "the configuration names no [crowdsec]: its bans ended"
            ),
            Err(refused) => warn!(
                error = refused.error,
                "the bans of CrowdSec could not be ended"
            ),
        }
    }

    /// How the connection is; `None` where the configuration names none.
    #[must_use]
    pub(super) fn crowdsec_status(&self) -> Option<CrowdsecStatus> {
        let connection = &self.crowdsec;
        let ignored = Ignored::ALL.into_iter();
        let ignored = ignored.map(|reason| {
            let count = connection.ignored.get(&reason);
            (
                reason.label().to_owned(),
                count.copied().unwrap_or_default(),
            )
        });
        Some(CrowdsecStatus {
            url: connection.url()?,
            connected: connection.connected,
            since: connection.since,
            pulled: connection.pulled,
            error: connection.error.clone(),
            bans: self.lasting_crowdsec_bans(),
            decisions: connection.decisions,
            pulls: connection.pulls,
            failures: connection.failures,
            ignored: ignored.collect(),
        })
    }

    /// The edits that bring the bans to what was decided: what comes in the order of prefixes, before what goes.
    fn decided(&mut self, update: Update) -> Vec<Edit> {
        let gone: Vec<Edit> = if update.whole {
            let gone = self.crowdsec_bans();
            let gone = gone.filter(|it| update.get(*it).is_none());
            gone.map(|prefix| edit(prefix, None)).collect()
        } else {
            Vec::new()
        };
        let mut edits = Vec::with_capacity(update.bans.len() + gone.len());
        for (prefix, wanted) in update.bans {
            let wanted = wanted.filter(|_| {
                let may = self.state.protection.vet(prefix, Word::Cluster).is_ok();
                if !may {
                    let value = prefix.to_string();
                    self.crowdsec.ignore(Ignored::Wide, 1, &value);
                }
                may
            });
            let row = self.state.intent.ban_of(prefix, &Origin::Crowdsec);
            match (row, wanted) {
                (None, None) => {}
                (Some(row), Some(wanted)) if is_same_end(row, &wanted) => {}
                (_, wanted) => edits.push(edit(prefix, wanted)),
            }
        }
        edits.extend(gone);
        edits
    }

    /// Those that have not ended; the others are forgotten with the next tick.
    fn lasting_crowdsec_bans(&self) -> usize {
        let now = crate::clock::now();
        let bans = self.state.intent.bans().iter();
        bans.filter(|((_, origin), row)| *origin == Origin::Crowdsec && row.until > now)
            .count()
    }

    fn crowdsec_bans(&self) -> impl Iterator<Item = Prefix> {
        let bans = self.state.intent.bans().keys();
        bans.filter(|(_, origin)| *origin == Origin::Crowdsec)
            .map(|(prefix, _)| *prefix)
    }
}

fn edit(prefix: Prefix, wanted: Option<Wanted>) -> Edit {
    let row = wanted.map(|wanted| BanRow {
        until: wanted.until,
        since: Timestamp::now(),
        reason: Some(wanted.reason).filter(|reason| !reason.is_empty()),
        author: wanted.author,
    });
    Edit::Ban(prefix, Origin::Crowdsec, row)
}

fn is_same_end(row: &BanRow, wanted: &Wanted) -> bool {
    row.until.as_nanos().abs_diff(wanted.until.as_nanos()) < SAME_END_NS
}
