//! The number of times that a node reported the loss of its store: in the status, in the metrics
//! and in the log.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratelimit_core::api::Status;

use crate::service::Service;

/// The log line for a lost store.
const LOGGED: &str = "bans stay in force and are shared when it returns";
/// The polling interval.
const LOOK: Duration = Duration::from_millis(20);

/// The number of losses reported in each place.
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    /// `rlctl status`.
    pub status: u64,
    /// `/metrics`.
    pub metrics: u64,
    /// The log.
    pub log: u64,
}

impl Losses {
    /// Reads the losses reported by a daemon.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn of(service: &Service) -> Result<Self> {
        let status: Status = service.json(&["status"])?;
        let status = status.cluster.context("the configuration has [cluster]")?;
        let metrics = service.metrics()?;
        let mut lines = metrics.lines();
        let metric = lines.find_map(|line| line.strip_prefix("ratelimit_cluster_failures_total "));
        Ok(Self {
            status: status.failures,
            metrics: metric.context("a metric counts losses")?.trim().parse()?,
            log: service.log().matches(LOGGED).count() as u64,
        })
    }

    /// Returns whether all places reported a further loss.
    pub fn are_after(&self, before: &Self) -> bool {
        self.status > before.status && self.metrics > before.metrics && self.log > before.log
    }

    /// Waits until a daemon told everywhere of one more than these, but no longer than `until`;
    /// says whether it did.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn wait_for_more(&self, look: impl Fn() -> Result<Self>, until: Instant) -> Result<bool> {
        while !look()?.are_after(self) {
            if Instant::now() > until {
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
        Ok(true)
    }
}
