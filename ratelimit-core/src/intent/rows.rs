//! The stored fields of each kind of entry.

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_common::Instant;

use crate::{detection::Kind, limit::LimitSpec, origin::Origin};

/// A ban of one origin, or a runtime allow.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryRow {
    /// The expiry, on the clock of the kernel; the last point of time is forever.
    pub until: Instant,
    /// The start.
    pub since: Timestamp,
    /// The reason.
    pub reason: Option<Arc<str>>,
    /// The author.
    pub author: Arc<str>,
}

/// Runtime limits.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRow {
    /// The limits.
    pub limits: Vec<LimitSpec>,
    /// Whether what they would drop passes.
    pub observe: bool,
    /// Whether the policy around them has no part in it: neither its other limits nor its ban.
    pub only: bool,
    /// The expiry, the reason and the author.
    pub entry: EntryRow,
}

impl LimitRow {
    /// Whether all nodes of a cluster have them.
    pub fn is_of_cluster(&self) -> bool {
        matches!(Origin::of_author(&self.entry.author), Origin::Cluster(_))
    }
}

/// A further limit of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitedRow {
    /// The expiry, on the clock of the kernel.
    pub until: Instant,
    /// The start.
    pub since: Timestamp,
    /// The attack; `None` if the source has as many connections as it may.
    pub kind: Option<Kind>,
    /// The limit.
    pub limit: LimitSpec,
    /// Whether the source has as many connections as it may, also beside an attack.
    pub is_full: bool,
}

/// The expiry of permanent entries.
pub const FOREVER: Instant = Instant::from_nanos(u64::MAX);
