//! Applies the decisions of the local API of `CrowdSec`, and tracks the connection to it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, CrowdsecStatus, Refused},
    config::Crowdsec,
    intent::{Edit, EntryRow},
    origin::Origin,
    prefix::Prefix,
};
use strum::VariantArray as _;
use tokio::sync::watch;
use tracing::{info, warn};

use super::{Feed, connection::Connection};
use crate::{
    clock,
    control::{reports::rows, state::State},
    crowdsec::{Ignored, Update, Wanted},
    protected::Requester,
};

/// The API reports how long a decision lasts from the moment it was made. Ends that differ by less
/// are equal.
const SAME_END_NS: u64 = 2_000_000_000;

/// The connection to the API, and its decisions.
#[derive(Debug)]
pub struct CrowdsecFeed {
    connection: Connection<Crowdsec>,
    /// An update that is neither applied nor refused yet.
    update: Option<Update>,
    is_settled: bool,
    pulled: Option<Timestamp>,
    pulls: u64,
    decisions: usize,
    ignored: BTreeMap<Ignored, u64>,
}

impl CrowdsecFeed {
    /// Returns a connection that has not been made yet.
    pub fn new(wish: Option<Crowdsec>) -> Self {
        Self {
            connection: Connection::new(wish),
            update: None,
            is_settled: true,
            pulled: None,
            pulls: 0,
            decisions: 0,
            ignored: BTreeMap::new(),
        }
    }

    /// Returns the API to follow, now and after each reload.
    pub fn wishes(&self) -> watch::Receiver<Option<Crowdsec>> {
        self.connection.wishes()
    }

    /// Applies another configuration.
    pub fn wish(&mut self, wish: Option<&Crowdsec>) {
        if self.connection.wish(wish) {
            self.decisions = 0;
        }
    }

    /// Stores an update, to be proposed.
    pub fn take(&mut self, update: Update) {
        self.update = Some(update);
    }

    /// Returns the edits that apply an update: additions ordered by prefix, then removals.
    fn answered(&mut self, state: &State, update: Update) -> Vec<Edit> {
        self.pulls += 1;
        self.pulled = Some(clock::wall());
        self.decisions = update.decisions;
        for (reason, (count, value)) in &update.ignored {
            self.ignore(*reason, *count, value);
        }
        let gone: Vec<Edit> = if update.whole {
            let gone = bans(state).filter(|it| update.get(*it).is_none());
            gone.map(|prefix| edit(prefix, None)).collect()
        } else {
            Vec::new()
        };
        let mut edits = Vec::with_capacity(update.bans.len() + gone.len());
        for (prefix, wanted) in update.bans {
            let wanted = wanted.filter(|_| {
                let may = state.protection.vet(prefix, Requester::Other).is_ok();
                if !may {
                    let value = prefix.to_string();
                    self.ignore(Ignored::Wide, 1, &value);
                }
                may
            });
            let row = state.intent.ban_of(prefix, &Origin::Crowdsec);
            match (row, wanted) {
                (None, None) => {}
                (Some(row), Some(wanted)) if is_same_end(row, &wanted) => {}
                (_, wanted) => edits.push(edit(prefix, wanted)),
            }
        }
        edits.extend(gone);
        edits
    }

    /// Records whether the edits were applied, or why not.
    fn turn(&mut self, state: &State, error: Option<String>) {
        let is_known = self.connection.error.is_some() && self.connection.connected == Some(true);
        if let Some(error) = error.as_ref().filter(|_| !is_known) {
            warn!(error, "cannot apply decisions of CrowdSec");
        }
        if self.connection.turn(true, error) {
            let (url, bans) = (self.url(), bans(state).count());
            info!(url, bans, "CrowdSec answers");
        }
    }

    /// Records that the API does not respond. Its bans stay.
    pub fn lost(&mut self, state: &State, error: String) {
        if self.connection.lose(error) {
            let error = self.connection.error.as_ref();
            let (url, bans) = (self.url(), bans(state).count());
            warn!(
                url,
                error, bans, "CrowdSec is unreachable; its bans stay in force"
            );
        }
    }

    /// Returns whether all decisions of the API are in force.
    pub fn has_answered(&self) -> bool {
        self.connection.connected == Some(true)
            && self.connection.error.is_none()
            && self.pulled.is_some()
    }

    /// Returns the status of the connection, if it is configured.
    pub fn status(&self, state: &State) -> Option<CrowdsecStatus> {
        let ignored = Ignored::VARIANTS.iter().copied();
        let ignored = ignored.map(|reason| {
            let count = self.ignored.get(&reason);
            (
                reason.label().to_owned(),
                count.copied().unwrap_or_default(),
            )
        });
        Some(CrowdsecStatus {
            url: self.url()?,
            connected: self.connection.connected,
            since: self.connection.since,
            pulled: self.pulled,
            error: self.connection.error.clone(),
            bans: lasting_bans(state),
            decisions: self.decisions,
            pulls: self.pulls,
            failures: self.connection.failures,
            ignored: ignored.collect(),
        })
    }

    /// Counts decisions that ban nothing, and logs the first of each kind.
    fn ignore(&mut self, reason: Ignored, count: u64, value: &str) {
        let counted = self.ignored.entry(reason).or_insert(0);
        if *counted == 0 {
            let reason = reason.label();
            info!(
                reason,
                value, "ignored CrowdSec decisions; further ones are counted but not logged"
            );
        }
        *counted += count;
    }

    fn url(&self) -> Option<String> {
        self.connection
            .reported(|config| config.address.to_string())
    }
}

impl Feed for CrowdsecFeed {
    fn due(&mut self, state: &State, _: Instant) -> Result<Vec<Edit>, Refused> {
        let update = self.update.take();
        self.is_settled = update.is_none();
        Ok(update.map_or_else(Vec::new, |update| self.answered(state, update)))
    }

    fn settle(
        &mut self,
        state: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        if !std::mem::replace(&mut self.is_settled, true) {
            let error = answer.as_ref().err().map(|refused| refused.error.clone());
            self.turn(state, error);
        }
        answer
    }
}

/// Returns the ends of its bans.
pub fn ends(state: &State) -> Vec<Edit> {
    bans(state).map(|prefix| edit(prefix, None)).collect()
}

fn bans(state: &State) -> impl Iterator<Item = Prefix> {
    let bans = state.intent.bans().keys();
    bans.filter(|(_, origin)| *origin == Origin::Crowdsec)
        .map(|(prefix, _)| *prefix)
}

/// Counts its bans that have not ended. The next tick removes the others.
fn lasting_bans(state: &State) -> usize {
    let now = clock::now();
    let bans = state.intent.bans().iter();
    bans.filter(|((_, origin), row)| *origin == Origin::Crowdsec && row.until > now)
        .count()
}

fn edit(prefix: Prefix, wanted: Option<Wanted>) -> Edit {
    let row = wanted.map(|wanted| {
        let reason = Some(wanted.reason).filter(|reason| !reason.is_empty());
        rows::entry(wanted.until, reason, wanted.author)
    });
    Edit::Ban(prefix, Origin::Crowdsec, row)
}

fn is_same_end(row: &EntryRow, wanted: &Wanted) -> bool {
    row.until.as_nanos().abs_diff(wanted.until.as_nanos()) < SAME_END_NS
}
