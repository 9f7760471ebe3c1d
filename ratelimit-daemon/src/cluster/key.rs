//! Keys of bans and budgets in messages.

use std::net::IpAddr;

use ratelimit_cluster::{Key, key::KEY_MAX};
use ratelimit_core::prefix::Prefix;
use serde::{Deserialize, Serialize};

/// The subject of a message.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(untagged)]
pub enum ClusterKey {
    /// A prefix that is banned.
    Prefix(Prefix),
    /// The sources without a policy of their own, whose limits are set.
    Default,
    /// The budget of a source, or of a prefix by its first address.
    Budget {
        /// The address of the budget; `::` is the node.
        address: IpAddr,
        /// Hash of the limit.
        limit: u64,
    },
}

/// The first byte of a key; other values are reserved for later releases.
const PREFIX: u8 = 0;
const BUDGET: u8 = 1;
const DEFAULT: u8 = 2;
const _: () = assert!(Prefix::BYTES + size_of::<u64>() < KEY_MAX);

impl Key for ClusterKey {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Prefix(prefix) => {
                to.push(PREFIX);
                to.extend_from_slice(&prefix.to_bytes());
            }
            Self::Default => to.push(DEFAULT),
            Self::Budget { address, limit } => {
                to.push(BUDGET);
                to.extend_from_slice(&limit.to_le_bytes());
                to.extend_from_slice(&Prefix::from(*address).to_bytes());
            }
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            PREFIX => Prefix::from_bytes(rest).map(Self::Prefix),
            DEFAULT => rest.is_empty().then_some(Self::Default),
            BUDGET => {
                let (limit, address) = rest.split_first_chunk()?;
                let prefix = Prefix::from_bytes(address).filter(|it| it.is_address())?;
                Some(Self::Budget {
                    address: prefix.address(),
                    limit: u64::from_le_bytes(*limit),
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_as_written() {
        let prefixes = [
            "0.0.0.0/0",
            "203.0.113.7",
            "203.0.113.0/24",
            "2001:db8::/48",
            "::1",
        ];
        let prefixes = prefixes.map(|text| ClusterKey::Prefix(text.parse().unwrap()));
        let budgets = ["203.0.113.7", "2001:db8::", "::"].map(|text| ClusterKey::Budget {
            address: text.parse().unwrap(),
            limit: u64::MAX - 7,
        });
        let others = budgets.into_iter().chain([ClusterKey::Default]);
        for key in prefixes.into_iter().chain(others) {
            let mut bytes = Vec::new();
            key.write(&mut bytes);
            assert_eq!(ClusterKey::read(&bytes), Some(key));
            bytes.push(0);
            assert_eq!(ClusterKey::read(&bytes), None, "a byte too many");
        }
        assert_eq!(ClusterKey::read(&[]), None);
        assert_eq!(
            ClusterKey::read(&[9, 4, 32, 1, 2, 3, 4]),
            None,
            "of another kind"
        );
    }
}
