//! Collects the data of the traffic history.

use std::{sync::Arc, time::Duration};

use ratelimit_common::layout::Counter;

use super::{levels, stats::counters, status, watched::Scanned};
use crate::{
    clock,
    control::{controller::Controller, state::State},
    datapath,
    traffic_log::{Counters, Sample, Sums},
};

/// The most limits that are watched over time.
const LEVELS_MAX: usize = 64;

/// The most policies whose packets are counted over time.
const POLICIES_MAX: usize = 64;

/// Returns the current counters, with the results of a scan. `None` if no history is kept.
pub fn traffic_sample(
    controller: &Controller,
    scanned: Option<Scanned>,
) -> datapath::Result<Sample> {
    let state = &controller.state;
    let keep = state.intent.config.history;
    let mut levels = match keep {
        Some(_) => levels::watched(state, &controller.feeds.cluster)?,
        None => Sums::new(),
    };
    // If the policies have changed, the words may belong to other limits.
    let scanned = scanned.filter(|it| Arc::ptr_eq(&it.policies, &state.compiled.policies));
    levels.extend(scanned.map(|it| it.least).unwrap_or_default());
    while levels.len() > LEVELS_MAX {
        levels.pop_last();
    }
    Ok(Sample {
        at: clock::wall(),
        since_boot: Duration::from_nanos(clock::since_boot().as_nanos()),
        counters: match keep {
            Some(_) => counted(state)?,
            None => Counters::default(),
        },
        levels,
        attacks: controller.feeds.attacks.views(),
        keep,
    })
}

fn counted(state: &State) -> datapath::Result<Counters> {
    let mut counted = Counters::default();
    for (_, interface) in state.enforcer.datapath().programs.slots() {
        counted.interfaces.entry(interface).or_default();
    }
    for (interface, row) in counters(state)? {
        counted.count(interface, row.family, row.verdict, row.count);
    }
    let policies = status::configured_policies(state).filter_map(|(name, counter)| {
        let (packets, bytes) = (counter.packets?, counter.bytes?);
        Some((Arc::from(name), Counter { packets, bytes }))
    });
    counted.policies = policies.take(POLICIES_MAX).collect();
    Ok(counted)
}
