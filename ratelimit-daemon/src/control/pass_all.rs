//! `rlctl pass-all`: everything passes until somebody ends it. That it does is told everywhere meanwhile.
//!
//! A file in the state directory says so while it lasts. A file that is there and not understood still says so: it is the last
//! word of somebody who had a reason.

use std::{
    path::Path,
    time::{Duration, Instant as Stopwatch},
};

use jiff::Timestamp;
use ratelimit_common::Instant;
use serde::{Deserialize, Serialize};
use tracing::{error, info, warn};

use super::{controller::Controller, kept::Kept};
use crate::{
    api::{PassAllRequest, PassAllStatus, Refused, What},
    clock,
};

/// How often the log says that everything passes.
const TOLD_EVERY: Duration = Duration::from_mins(1);
/// The longest time that is not "until somebody ends it": a year.
const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// What is written down.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Document {
    status: PassAllStatus,
    /// Its end on the monotonic clock, for as long as the machine is not booted again.
    until_boot_ns: Option<u64>,
    boot: String,
}

/// Whether everything passes, and how that is kept.
pub struct PassAll {
    kept: Kept<Document>,
    opened: Option<Document>,
    told: Stopwatch,
}

impl PassAll {
    /// What the state directory says.
    pub fn restore(directory: &Path) -> Self {
        let kept = Kept::new(directory, "pass-all.json");
        let opened = kept.read().unwrap_or_else(|error| {
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
            opened,
            told: Stopwatch::now(),
        };
        restored.tell();
        restored
    }

    /// Since when, until when, by whom; `None` when packets are judged.
    pub fn status(&self) -> Option<&PassAllStatus> {
        self.opened.as_ref().map(|document| &document.status)
    }

    fn open(&mut self, status: PassAllStatus, until: Option<Instant>) -> anyhow::Result<()> {
        let document = Document {
            status,
            until_boot_ns: until.map(Instant::as_nanos),
            boot: clock::boot_id(),
        };
        self.kept.write(&document)?;
        self.opened = Some(document);
        Ok(())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.kept.remove()?;
        self.opened = None;
        Ok(())
    }

    /// Whether its time is over: in the same boot by the clock that nobody sets, else by that of the wall.
    fn is_over(&self) -> bool {
        self.opened
            .as_ref()
            .is_some_and(|document| match document.until_boot_ns {
                Some(until) if document.boot == clock::boot_id() => {
                    clock::now().as_nanos() >= until
                }
                _ => document
                    .status
                    .until
                    .is_some_and(|until| Timestamp::now() >= until),
            })
    }

    fn tell(&mut self) {
        if let Some(status) = self.status() {
            warn!(
                since = %status.since,
                until = ?status.until.map(|until| until.to_string()),
                author = status.author,
                "pass-all is on: everything passes, bans and limits included; `rlctl pass-all off` ends it"
            );
        }
        self.told = Stopwatch::now();
    }
}

impl Controller {
    /// Lets everything pass, for a time or until it is ended, or ends that. What was before stays when it fails.
    ///
    /// # Errors
    ///
    /// Why nothing is different.
    pub fn set_pass_all(
        &mut self,
        request: PassAllRequest,
        author: &str,
    ) -> Result<Option<PassAllStatus>, Refused> {
        if request.on {
            let duration = request.seconds.map(duration).transpose()?;
            let until = duration.map(clock::after);
            let status = PassAllStatus {
                since: Timestamp::now(),
                until: until.map(clock::to_wall),
                author: author.to_owned(),
            };
            self.pass_all.open(status, until)?;
            self.pass_all.tell();
        } else {
            self.pass_all.close()?;
            info!(author, "pass-all is off: packets are judged again");
        }
        self.enforce_settings()?;
        let status = self.pass_all.status().cloned();
        self.journal.record(
            Timestamp::now(),
            match &status {
                Some(status) => What::PassAllOn {
                    until: status.until,
                    by: author.into(),
                },
                None => What::PassAllOff {
                    by: Some(author.into()),
                },
            },
        );
        Ok(status)
    }

    /// Whether everything passes, and since when.
    #[must_use]
    pub fn pass_all(&self) -> Option<&PassAllStatus> {
        self.pass_all.status()
    }

    /// Ends what is over, and says each minute that it lasts.
    pub(super) fn tick_pass_all(&mut self) {
        if self.pass_all.is_over() {
            let closed = self.pass_all.close().and_then(|()| self.enforce_settings());
            match closed {
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
        } else if self.pass_all.told.elapsed() >= TOLD_EVERY {
            self.pass_all.tell();
        }
    }
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
