//! Queries: a file for each verb of `rlctl` and task of the daemon that asks something, and one for
//! each answer that several of them need. A query gets the [state](super::State), or the controller
//! where it asks feeds too, and changes nothing.

mod allows;
mod attacks;
mod bans;
mod check;
mod cluster;
mod config;
mod covering;
mod crowdsec;
mod dashboard;
mod diff;
pub mod drops;
mod events;
mod levels;
mod limit_state;
mod limited;
mod limits;
mod lists;
mod metrics;
mod new_sources;
mod places;
mod preview;
mod protected;
mod stats;
mod status;
mod top;
mod traffic;
mod upstream;
mod watched;

pub use self::{
    allows::allows,
    attacks::{AttackRules, attack_rules},
    bans::{all_bans, bans, bans_in_parts},
    check::{Packet, check},
    cluster::{cluster_state, cluster_wishes},
    config::settings,
    crowdsec::crowdsec_wishes,
    dashboard::{dashboard_token, is_dashboard_open},
    diff::Diff,
    events::{changes, events, interface_names},
    levels::fullest_destinations,
    limits::limits,
    lists::lists,
    metrics::{Snapshot, fill, scrape},
    places::{databases, places},
    protected::protected,
    stats::stats,
    status::{health, status},
    top::top,
    traffic::traffic_sample,
    upstream::upstream_routes,
    watched::{Scanned, scan, watched_sources},
};
#[cfg(test)]
pub(super) use self::{
    metrics::{Beside, metrics_snapshot},
    status::with_slots,
};
pub use super::lists::export::{export, some_bans};
