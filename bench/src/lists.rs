//! Lists of random prefixes, the same in every run.

use std::{collections::HashSet, net::IpAddr};

use fastrand::Rng;
use ratelimit_core::{ip_family::IpFamily, prefix::Prefix};

use crate::traffic::{FIRST, ipv4, ipv6};

/// An address next to the hot source, which is not listed: in the same /16, and not in the same
/// /24.
const NEIGHBOUR: u32 = FIRST | 0xff00;

/// `count` prefixes of a family that hold an address (a /64) up to 256 addresses (/64s). They cover
/// one and a third percent of a flood when they are a million, and not the hot source.
pub fn random(family: IpFamily, count: usize) -> Vec<Prefix> {
    let mut rng = Rng::with_seed(7);
    let mut prefixes = HashSet::with_capacity(count);
    if count > 0 {
        prefixes.insert(prefix(family, NEIGHBOUR, 24));
    }
    while prefixes.len() < count {
        let length = rng.u8(24..=32);
        let candidate = prefix(family, rng.u32(..), length);
        if !candidate.covers(prefix(family, FIRST, 32)) {
            prefixes.insert(candidate);
        }
    }
    let mut prefixes: Vec<_> = prefixes.into_iter().collect();
    prefixes.sort_unstable();
    prefixes
}

/// `count` IPv4 addresses, others for each seed.
pub fn addresses(seed: u64, count: usize) -> Vec<Prefix> {
    let mut rng = Rng::with_seed(seed);
    let mut addresses = HashSet::with_capacity(count);
    while addresses.len() < count {
        // Unicast, and not of this host.
        addresses.insert(rng.u32(0x0b00_0000..0x7f00_0000));
    }
    let mut addresses: Vec<_> = addresses.into_iter().collect();
    addresses.sort_unstable();
    addresses
        .into_iter()
        .map(|bits| prefix(IpFamily::V4, bits, 32))
        .collect()
}

/// The prefix around a source, whose length counts the 32 bits that the harness draws.
pub fn prefix(family: IpFamily, bits: u32, length: u8) -> Prefix {
    let (address, length) = match family {
        IpFamily::V4 => (IpAddr::V4(ipv4(bits)), length),
        IpFamily::V6 => (IpAddr::V6(ipv6(bits)), length + 32),
    };
    Prefix::around(address, length).expect("the length fits the family")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_as_long_as_asked_for_the_same_each_time_and_spares_the_hot_source() {
        for family in IpFamily::ALL {
            let list = random(family, 1000);
            assert_eq!(list.len(), 1000);
            assert_eq!(list, random(family, 1000));
            let hot = prefix(family, FIRST, 32);
            assert!(!list.iter().any(|prefix| prefix.covers(hot)));
        }
    }
}
