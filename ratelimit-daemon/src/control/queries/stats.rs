//! `rlctl stats`: counters of packets by verdict.

use ratelimit_common::{DropReason, Verdict};
use ratelimit_core::api::{Refused, StatsRow};

use crate::{
    control::state::State,
    datapath::{self, CounterRow},
};

/// Returns a row for each verdict that has occurred.
pub fn stats(state: &State) -> Result<Vec<StatsRow>, Refused> {
    let rows = counters(state)?;
    Ok(rows
        .into_iter()
        .map(|(interface, row)| StatsRow {
            interface,
            family: row.family.label().to_owned(),
            action: row.verdict.action().to_owned(),
            reason: row.verdict.reason().to_owned(),
            packets: row.count.packets,
            bytes: row.count.bytes,
        })
        .collect())
}

/// Returns the packets that limits of the node refused, or would have in a dry run.
pub fn refused_by_node(state: &State, interface: Option<&str>) -> datapath::Result<u64> {
    let rows = counters(state)?.into_iter();
    // Interfaces with their own limits do not use those of the node.
    let rows = rows.filter(|(name, _)| match interface {
        Some(interface) => name == interface,
        None => !state.intent.config.has_own_node(name),
    });
    let is_of_node = |row: &CounterRow| {
        matches!(
            row.verdict,
            Verdict::Drop(DropReason::NodeLimited) | Verdict::Observe(DropReason::NodeLimited)
        )
    };
    let rows = rows.map(|(_, row)| row).filter(is_of_node);
    Ok(rows.map(|row| row.count.packets).sum())
}

pub(crate) fn counters(state: &State) -> datapath::Result<Vec<(String, CounterRow)>> {
    let slots = state.enforcer.datapath().programs.slots();
    let name = |slot: u32| {
        let found = slots.iter().find(|(own, _)| *own == slot);
        found.map_or_else(String::new, |(_, name)| name.clone())
    };
    let rows = state.enforcer.datapath().counters()?;
    Ok(rows
        .into_iter()
        .map(|row| (name(row.interface), row))
        .collect())
}
