//! A limit that nodes share, and its keys: those of the kernel's tables, and those of the cluster.

use std::{net::IpAddr, time::Duration};

use ratelimit_cluster::budget::Limit;
use ratelimit_common::{Ipv4, Ipv6, SourceKey, source::LogKey};

use crate::{cluster::ClusterKey, datapath::address_of};

/// A limit that nodes share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// The scope of its policy in the kernel's tables.
    pub scope: u32,
    /// Its index in the policy.
    pub index: usize,
    pub limit: Limit,
    /// How long a window is.
    pub window: Duration,
    /// What a packet may count.
    pub quantum: u64,
}

/// The key of the cluster for a limit of a key of the kernel's tables.
pub(super) fn budget(key: &LogKey, limit: u64) -> ClusterKey {
    let address = address_of(key);
    ClusterKey::Budget { address, limit }
}

/// The key of the kernel's tables for an address under a scope.
pub fn log_key(address: IpAddr, scope: u32) -> LogKey {
    match address {
        IpAddr::V4(address) => LogKey::new(&SourceKey::new(Ipv4::from(address), scope)),
        IpAddr::V6(address) => LogKey::new(&SourceKey::new(Ipv6::from(address), scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_kernel_is_that_of_the_cluster_and_back() {
        for text in ["192.0.2.1", "2001:db8::", "::", "::ffff:0:0"] {
            let address: IpAddr = text.parse().unwrap();
            let key = log_key(address, 7);
            assert_eq!(budget(&key, 9), ClusterKey::Budget { address, limit: 9 });
        }
    }
}
