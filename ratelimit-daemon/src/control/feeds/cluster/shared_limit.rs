//! A limit that nodes share, and its keys in the kernel's tables and in the cluster.

use std::{net::IpAddr, time::Duration};

use ratelimit_cluster::budget::Limit;
use ratelimit_common::{Ipv4, Ipv6, SourceKey, source::LogKey};

use crate::{cluster::ClusterKey, datapath::address_of};

#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// The scope of its policy in the kernel's tables.
    pub scope: u32,
    pub index: usize,
    pub limit: Limit,
    /// The length of a window.
    pub window: Duration,
    /// The most that a single packet counts.
    pub quantum: u64,
}

/// Returns the cluster's key for a limit of a kernel key.
pub(super) fn budget(key: &LogKey, limit: u64) -> ClusterKey {
    let address = address_of(key);
    ClusterKey::Budget { address, limit }
}

/// Returns the kernel's key for an address in a scope.
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
