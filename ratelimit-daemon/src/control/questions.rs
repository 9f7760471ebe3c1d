//! What is asked of the [controller](super::Controller): a typed question for each verb of `rlctl` that reads, and for each task of
//! the daemon. What takes several questions is a function here.

mod allows;
mod attacks;
mod bans;
mod capture;
mod check;
mod cluster;
mod config;
mod crowdsec;
mod dashboard;
mod destinations;
mod diff;
mod events;
mod export;
mod files;
mod health;
mod limits;
mod lists;
mod policies;
mod protected;
mod sample;
mod stats;
mod status;
mod suggest;
mod top;
mod traffic;

#[cfg(test)]
pub(super) use self::status::{MetricsSnapshot, with_slots};
pub use self::{
    allows::Allows,
    attacks::AttackRules,
    bans::bans_in_parts,
    capture::InterfaceNames,
    check::Check,
    cluster::{ClusterState, ClusterWishes},
    config::Settings,
    crowdsec::CrowdsecWishes,
    dashboard::{DashboardToken, IsDashboardOpen},
    destinations::FullestDestinations,
    diff::Diff,
    events::{Changes, Events},
    export::{Export, SomeBans},
    files::{MeasureOfTrial, ReloadedFile, ReturningLists},
    health::Health,
    limits::Limits,
    lists::Lists,
    protected::ProtectedPrefixes,
    sample::{PoliciesToSample, sample_sources},
    stats::Stats,
    status::{Beside, Snapshot, fill, scrape, status},
    suggest::Suggest,
    top::top,
    traffic::{ScannedPolicies, TrafficSample},
};
