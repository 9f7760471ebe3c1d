//! The budget for new sources, and overflow buckets, in reports.

use std::net::IpAddr;

use ratelimit_common::{Address, Ipv4, Ipv6, settings::OverBudget};
use ratelimit_core::{
    api::NewSourcesStatus, config::SourceConfig, ip_family::IpAddress, new_sources::NewSources,
    prefix::Prefix,
};

use crate::control::state::State;

/// Returns the status of the budget, if there is one.
pub(crate) fn new_sources(state: &State) -> Option<NewSourcesStatus> {
    let budget = state.intent.config.new_sources?;
    Some(NewSourcesStatus {
        count: budget.count.get(),
        per_seconds: budget.per.as_secs_f64(),
        over_budget: budget.over_budget_label().to_owned(),
    })
}

/// Returns the mapping of state addresses to reported prefixes.
pub(crate) fn reported_addresses(state: &State) -> ReportedAddresses {
    let config = &state.intent.config;
    ReportedAddresses {
        source: config.source.clone(),
        budget: config.new_sources,
    }
}

/// Maps the addresses of stored state to reported prefixes.
#[derive(Clone, Debug)]
pub struct ReportedAddresses {
    source: SourceConfig,
    budget: Option<NewSources>,
}

impl ReportedAddresses {
    /// Returns the source whose state is stored at an address, or the prefix whose overflow bucket
    /// it is.
    pub fn reported_as(&self, address: IpAddr) -> Prefix {
        let overflow_bucket = self
            .budget
            .filter(|budget| budget.over_budget == OverBudget::Aggregate)
            .and_then(|_| match address {
                IpAddr::V4(address) => overflow_bucket_of(Ipv4::from(address)),
                IpAddr::V6(address) => overflow_bucket_of(Ipv6::from(address)),
            });
        overflow_bucket.unwrap_or_else(|| self.source.around(address))
    }
}

fn overflow_bucket_of<A: IpAddress>(address: A) -> Option<Prefix> {
    if !address.is_overflow_bucket() {
        return None;
    }
    let (front, length) = Address::overflow_prefix(address);
    Prefix::around(front.to_std(), length)
}
