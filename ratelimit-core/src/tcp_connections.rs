//! Limits of the TCP connections that a source has at a time.
//!
//! The network stack knows the connections of this host, so they are counted there, and not from
//! packets. A source that has as many as its policy permits gets a further limit of its SYNs. It
//! holds until the source has fewer, and does not affect its other packets. Counts are repeated
//! some times a second: in between a source may open more.

use std::{num::NonZeroU32, time::Duration};

use crate::{
    class::Match,
    config::{Config, PolicyConfig},
    intent::Intent,
    limit::{Algorithm, LimitSpec, LimitUnit},
    prefix::Prefix,
};

/// The limit of a source that has as many connections as it may: no SYN is as short as a byte.
///
/// # Panics
///
/// Never: there is such a limit.
pub fn limit() -> LimitSpec {
    let hour = Duration::from_hours(1);
    let limit = LimitSpec::new(1, LimitUnit::Bytes, hour, Algorithm::FixedWindow);
    let limit = limit.expect("it fits");
    limit.of_class(Match::Named("tcp-syn".to_owned()))
}

impl Config {
    /// The fewest connections that a policy permits; `None` if none has a limit.
    pub fn fewest_connections(&self) -> Option<NonZeroU32> {
        let policies = [&self.default_policy].into_iter();
        let policies = policies.chain(self.policies.values());
        policies
            .filter_map(PolicyConfig::connections_in_force)
            .min()
    }
}

impl PolicyConfig {
    /// The limit of connections; `None` in a dry run, which limits nothing.
    pub(crate) fn connections_in_force(&self) -> Option<NonZeroU32> {
        self.connections.filter(|_| !self.observe)
    }
}

impl Intent {
    /// The connections that the policy of a source permits.
    pub fn connections_of(&self, source: Prefix) -> Option<NonZeroU32> {
        let config = &self.config;
        let mut around = source.supernets().rev();
        let name = around.find_map(|prefix| self.policy_under(config, prefix));
        let policy = name.and_then(|name| config.policies.get(name));
        policy
            .unwrap_or(&config.default_policy)
            .connections_in_force()
    }
}
