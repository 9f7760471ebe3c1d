//! `rlctl pass-all`: all packets pass until it is turned off. This is reported everywhere in the
//! meantime.
//!
//! A file in the state directory records it. A file that exists but cannot be parsed still counts,
//! because an operator had a reason to create it. The kernel is changed first, so neither turning
//! it on nor turning it off waits for a disk.

use std::{io, path::Path, time::Duration};

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, PassAllRequest, PassAllStatus, Refused},
    intent::{Edit, FOREVER},
};
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::Feed;
use crate::{
    clock,
    control::{
        persistence::state_file::StateFile,
        reports::{cause::Cause, log_throttle::Reminder},
        state::State,
    },
};

/// The longest limited duration: a year.
const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// The content of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Document {
    status: PassAllStatus,
    /// The end on the monotonic clock, valid within this boot.
    until_boot_ns: Option<u64>,
    boot: String,
}

impl Document {
    fn is_of_this_boot(&self) -> bool {
        self.boot == clock::boot_id()
    }

    /// Returns its end on the clock of the kernel, at most its full duration from now.
    fn until(&self) -> Instant {
        let Some(until) = self.status.until else {
            return FOREVER;
        };
        if let Some(until) = self.until_boot_ns.filter(|_| self.is_of_this_boot()) {
            return Instant::from_nanos(until);
        }
        let length = until.duration_since(self.status.since);
        let left = until.duration_since(clock::wall()).min(length);
        clock::after(left.try_into().unwrap_or_default())
    }
}

/// The state of pass-all, and its file.
pub struct PassAll {
    kept: StateFile<Document>,
    opened: Option<Opened>,
    reminder: Reminder,
    /// Whether it is about to end because it expired.
    is_ending: bool,
}

/// An active pass-all.
pub struct Opened {
    document: Document,
    /// The end on the clock of the kernel, which ends it by itself.
    pub until: Instant,
}

impl From<Document> for Opened {
    fn from(document: Document) -> Self {
        Self {
            until: document.until(),
            document,
        }
    }
}

impl PassAll {
    /// Restores the state from the state directory.
    pub fn restore(directory: &Path) -> Self {
        let kept = StateFile::new(directory, "pass-all.json");
        let opened = kept.read().unwrap_or_else(|error| {
            // Whether the file exists is unknown, so treat it as missing.
            let failed = error.downcast_ref::<io::Error>();
            if failed.is_some_and(|failed| failed.kind() == io::ErrorKind::PermissionDenied) {
                error!(
                    error = format!("{error:#}"),
                    "cannot read pass-all.json; treating pass-all as off"
                );
                return None;
            }
            error!(
                error = format!("{error:#}"),
                "pass-all is on because its file exists; turn it off with `rlctl pass-all off`"
            );
            Some(Document {
                status: PassAllStatus {
                    since: clock::wall(),
                    until: None,
                    author: "unknown".to_owned(),
                },
                until_boot_ns: None,
                boot: clock::boot_id(),
            })
        });
        let mut restored = Self {
            kept,
            opened: opened.map(Opened::from),
            reminder: Reminder::default(),
            is_ending: false,
        };
        restored.report();
        restored
    }

    /// Records that pass-all was turned on or off.
    pub fn note(&mut self, opened: Option<Opened>) {
        self.opened = opened;
        self.kept.keep(document(self.opened.as_ref()));
        self.reminder = Reminder::default();
        self.report();
    }

    /// Returns the last pass-all, even if it has just expired.
    pub fn last(&self) -> Option<&PassAllStatus> {
        document(self.opened.as_ref()).map(|document| &document.status)
    }

    /// Returns its status while it is active.
    pub fn status(&self) -> Option<&PassAllStatus> {
        self.last().filter(|_| !self.is_over())
    }

    /// Returns the time until which the kernel passes all packets.
    pub fn until(&self) -> Option<Instant> {
        self.opened.as_ref().map(|opened| opened.until)
    }

    /// Returns why the file is outdated, if it is.
    pub fn behind(&self) -> Option<&str> {
        self.kept.behind()
    }

    /// Returns whether it has expired: by the clock of the kernel, or after a reboot by the wall
    /// clock, which may have been wrong at boot.
    fn is_over(&self) -> bool {
        let Some(Opened { document, until }) = &self.opened else {
            return false;
        };
        let by_wall = document
            .status
            .until
            .filter(|_| !document.is_of_this_boot());
        clock::now() >= *until || by_wall.is_some_and(|until| clock::wall() >= until)
    }

    fn report(&mut self) {
        let Some(status) = document(self.opened.as_ref()).map(|document| &document.status) else {
            return;
        };
        if self.reminder.is_due() {
            warn!(
                since = %status.since,
                until = ?status.until.map(|until| until.to_string()),
                author = status.author,
                "pass-all is on: limits and bans are not enforced; turn it off with `rlctl \
                 pass-all off`"
            );
        }
    }
}

/// Ends an expired pass-all, and repeats a warning while it is on.
impl Feed for PassAll {
    const CAUSE: Cause<'static> = Cause::Time;

    fn due(&mut self, _: &State, _: Instant) -> Result<Vec<Edit>, Refused> {
        self.is_ending = self.is_over();
        Ok(self
            .is_ending
            .then_some(Edit::PassAll(None))
            .into_iter()
            .collect())
    }

    fn settle(
        &mut self,
        _: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        match &answer {
            _ if !self.is_ending => self.kept.catch_up(document(self.opened.as_ref())),
            Ok(_) => self.note(None),
            Err(refused) => warn!(
                error = refused.error,
                "pass-all expired but cannot be turned off"
            ),
        }
        self.report();
        answer
    }
}

fn document(opened: Option<&Opened>) -> Option<&Document> {
    opened.map(|opened| &opened.document)
}

/// Parses a request to turn it on for a time, or until it is turned off.
pub fn asked(request: &PassAllRequest, author: &str) -> Result<Opened, Refused> {
    let duration = request.seconds.map(duration).transpose()?;
    let until = duration.map(clock::after);
    let document = Document {
        status: PassAllStatus {
            since: clock::wall(),
            until: until.map(clock::to_wall),
            author: author.to_owned(),
        },
        until_boot_ns: until.map(Instant::as_nanos),
        boot: clock::boot_id(),
    };
    Ok(document.into())
}

fn duration(seconds: f64) -> Result<Duration, Refused> {
    if seconds > 0.0 && seconds <= SECONDS_MAX {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(Refused::because(format!(
        "the duration of {seconds} s is not between 0 and a year"
    ))
    .hint("omit the duration to keep it on until `rlctl pass-all off`"))
}
