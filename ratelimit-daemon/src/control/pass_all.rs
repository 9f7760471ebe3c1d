//! `rlctl pass-all`: everything passes until somebody ends it. That it does is told everywhere meanwhile.
//!
//! A file in the state directory says so while it lasts. A file that is there and not understood still says so: it is the last
//! word of somebody who had a reason. The kernel comes first: neither does who needs everything open wait for a disk, nor the end.

use std::{io, path::Path, time::Duration};

use jiff::Timestamp;
use ratelimit_common::Instant;
use ratelimit_core::api::{PassAllRequest, PassAllStatus, Refused, What};
use serde::{Deserialize, Serialize};
use tracing::{error, info, warn};

use super::{kept::Kept, reminder::Reminder, state::State};
use crate::clock;

/// The longest time that is not "until somebody ends it": a year.
const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// The end where nothing is opened.
const CLOSED: Instant = Instant::from_nanos(0);

/// What is written down.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Document {
    pub(super) status: PassAllStatus,
    /// Its end on the monotonic clock, for as long as the machine is not booted again.
    until_boot_ns: Option<u64>,
    boot: String,
}

impl Document {
    fn is_of_this_boot(&self) -> bool {
        self.boot == clock::boot_id()
    }

    /// Its end on the clock of the kernel; never longer from now on than it was to last.
    fn until(&self) -> Instant {
        let Some(until) = self.status.until else {
            return Instant::from_nanos(u64::MAX);
        };
        if let Some(until) = self.until_boot_ns.filter(|_| self.is_of_this_boot()) {
            return Instant::from_nanos(until);
        }
        let length = until.duration_since(self.status.since);
        let left = until.duration_since(Timestamp::now()).min(length);
        clock::after(left.try_into().unwrap_or_default())
    }
}

/// Whether everything passes, and how that is kept.
pub struct PassAll {
    kept: Kept<Document>,
    pub(super) opened: Option<Document>,
    /// When that ends, on the clock of the kernel, which ends it by itself.
    until: Instant,
    reminder: Reminder,
}

impl PassAll {
    /// What the state directory says.
    pub fn restore(directory: &Path) -> Self {
        let kept = Kept::new(directory, "pass-all.json");
        let opened = kept.read().unwrap_or_else(|error| {
            // Whether there is a file is not known: nothing opens for that.
            let failed = error.downcast_ref::<io::Error>();
            if failed.is_some_and(|failed| failed.kind() == io::ErrorKind::PermissionDenied) {
                error!(
                    error = format!("{error:#}"),
                    "nobody knows whether everything is to pass, so it does not"
                );
                return None;
            }
            error!(
                error = format!("{error:#}"),
                "everything passes, since the file is there: `rlctl pass-all off` ends it"
            );
            Some(Document {
                status: PassAllStatus {
                    since: Timestamp::now(),
                    until: None,
                    author: "unknown".to_owned(),
                },
                until_boot_ns: None,
                boot: clock::boot_id(),
            })
        });
        let mut restored = Self {
            kept,
            until: opened.as_ref().map_or(CLOSED, Document::until),
            opened,
            reminder: Reminder::default(),
        };
        restored.tell();
        restored
    }

    /// Since when, until when, by whom; `None` when packets are judged.
    pub fn status(&self) -> Option<&PassAllStatus> {
        let opened = self.opened.as_ref().filter(|_| !self.is_over());
        opened.map(|document| &document.status)
    }

    /// Until when the kernel lets everything pass.
    pub const fn until(&self) -> Instant {
        self.until
    }

    /// Why the state directory says something else.
    pub fn behind(&self) -> Option<&str> {
        self.kept.behind()
    }

    /// Whether its time is over by the clock of the kernel, or of another boot by that of the wall, which may have been wrong when the
    /// machine came up.
    fn is_over(&self) -> bool {
        let Some(document) = &self.opened else {
            return false;
        };
        let by_wall = document
            .status
            .until
            .filter(|_| !document.is_of_this_boot());
        clock::now() >= self.until || by_wall.is_some_and(|until| Timestamp::now() >= until)
    }

    fn tell(&mut self) {
        let Some(document) = &self.opened else {
            return;
        };
        if self.reminder.is_due() {
            let status = &document.status;
            warn!(
                since = %status.since,
                until = ?status.until.map(|until| until.to_string()),
                author = status.author,
                "pass-all is on: everything passes, bans and limits included; `rlctl pass-all off` ends it"
            );
        }
    }
}

impl State {
    /// Whether everything passes, and since when.
    #[must_use]
    pub fn pass_all(&self) -> Option<&PassAllStatus> {
        self.pass_all.status()
    }

    /// Ends what is over, and says each minute that it lasts.
    pub(super) fn tick_pass_all(&mut self) {
        if self.pass_all.is_over() {
            match self.replace_pass_all(None) {
                Ok(()) => {
                    info!("pass-all is over: packets are judged again");
                    let over = What::PassAllOff { by: None };
                    self.journal.record(Timestamp::now(), over);
                }
                Err(error) => warn!(
                    error = format!("{error:#}"),
                    "pass-all is over and could not be ended"
                ),
            }
        }
        self.pass_all.tell();
        let PassAll { kept, opened, .. } = &mut self.pass_all;
        kept.catch_up(opened.as_ref());
    }

    /// Opens or closes the kernel, and then writes that down.
    pub(super) fn replace_pass_all(&mut self, opened: Option<Document>) -> anyhow::Result<()> {
        let until = opened.as_ref().map_or(CLOSED, Document::until);
        let before = std::mem::replace(&mut self.pass_all.opened, opened);
        let until_before = std::mem::replace(&mut self.pass_all.until, until);
        if let Err(error) = self.enforce_settings() {
            self.pass_all.opened = before;
            self.pass_all.until = until_before;
            return Err(error);
        }
        let PassAll {
            kept,
            opened,
            reminder,
            ..
        } = &mut self.pass_all;
        kept.keep(opened.as_ref());
        *reminder = Reminder::default();
        self.pass_all.tell();
        Ok(())
    }
}

/// What is written down of a request.
///
/// # Errors
///
/// When it is for too long.
pub fn document(request: PassAllRequest, author: &str) -> Result<Document, Refused> {
    let duration = request.seconds.map(duration).transpose()?;
    let until = duration.map(clock::after);
    Ok(Document {
        status: PassAllStatus {
            since: Timestamp::now(),
            until: until.map(clock::to_wall),
            author: author.to_owned(),
        },
        until_boot_ns: until.map(Instant::as_nanos),
        boot: clock::boot_id(),
    })
}

fn duration(seconds: f64) -> Result<Duration, Refused> {
    if seconds > 0.0 && seconds <= SECONDS_MAX {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(Refused::because(format!(
        "{seconds} seconds of pass-all are not between nothing and a year"
    ))
    .hint("without a time it lasts until `rlctl pass-all off`"))
}
