//! The guards in front of the lists: which of their bits the prefixes need, counted so that a bit can be cleared again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ratelimit_common::{
    Address, Ipv4, Ipv6,
    guard::{BITS, Guard},
};

use crate::prefix::Prefix;

/// IPv6 prefixes shorter than this span more than 4,096 /32s, and set every bit.
const IPV6_LENGTH_MIN: u8 = 20;

/// The guard of one family.
pub struct GuardCounts {
    /// How many prefixes need each bit.
    bits: Vec<u32>,
    /// How many need all of them.
    all: u32,
    changed: bool,
}

impl Default for GuardCounts {
    fn default() -> Self {
        Self {
            bits: vec![0; BITS as usize],
            all: 0,
            changed: true,
        }
    }
}

impl GuardCounts {
    /// Notes a prefix that was not there before.
    pub fn add(&mut self, prefix: Prefix) {
        self.change(prefix, |count| {
            *count += 1;
            *count == 1
        });
    }

    /// Notes that a prefix is gone.
    pub fn remove(&mut self, prefix: Prefix) {
        self.change(prefix, |count| {
            *count -= 1;
            *count == 0
        });
    }

    /// The guard, when it is different from the one that was taken last.
    pub fn take_changed(&mut self) -> Option<Guard> {
        std::mem::take(&mut self.changed).then(|| self.guard())
    }

    /// Lets the guard be taken again: it did not reach the datapath.
    pub fn retry(&mut self) {
        self.changed = true;
    }

    fn guard(&self) -> Guard {
        let mut guard = Guard::CLEAR;
        if self.all > 0 {
            guard.insert_all();
            return guard;
        }
        for (bit, _) in (0..).zip(&self.bits).filter(|(_, count)| **count > 0) {
            guard.insert(bit);
        }
        guard
    }

    fn change(&mut self, prefix: Prefix, mut change: impl FnMut(&mut u32) -> bool) {
        match bits(prefix) {
            Some(bits) => {
                for bit in bits {
                    self.changed |= change(&mut self.bits[bit as usize]);
                }
            }
            None => self.changed |= change(&mut self.all),
        }
    }
}

/// The bits that a prefix needs; `None` stands for all.
fn bits(prefix: Prefix) -> Option<Vec<u32>> {
    match prefix.address() {
        IpAddr::V4(first) => {
            let step = 1 << 16;
            let spans = 1u32 << 16u8.saturating_sub(prefix.len());
            let address =
                |span| Ipv4::from(Ipv4Addr::from(first.to_bits().wrapping_add(span * step)));
            Some((0..spans).map(|span| address(span).guard_bit()).collect())
        }
        IpAddr::V6(_) if prefix.len() < IPV6_LENGTH_MIN => None,
        IpAddr::V6(first) => {
            let spans = 1u128 << 32u8.saturating_sub(prefix.len());
            let address = |span: u128| Ipv6::from(Ipv6Addr::from(first.to_bits() + (span << 96)));
            Some((0..spans).map(|span| address(span).guard_bit()).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_prefix_is_guarded() {
        check(
            "10.1.2.3",
            &["10.1.2.3", "10.1.255.255"],
            &["10.2.0.0", "11.1.2.3"],
        );
        check(
            "10.0.0.0/8",
            &["10.0.0.0", "10.77.0.1", "10.255.255.255"],
            &["11.0.0.0", "9.255.255.255"],
        );
        check(
            "0.0.0.0/0",
            &["0.0.0.0", "127.0.0.1", "255.255.255.255"],
            &[],
        );
        check(
            "2001:db8::/32",
            &["2001:db8::", "2001:db8:ffff::1"],
            &["2001:db9::"],
        );
        check(
            "2001:d00::/24",
            &["2001:d00::", "2001:db8::1", "2001:dff:ffff::"],
            &["2001:e00::"],
        );
        check("2000::/3", &["2001:db8::1", "3fff::1"], &[]);
    }

    #[test]
    fn a_bit_stays_until_the_last_prefix_that_needs_it_is_gone() {
        let mut counts = GuardCounts::default();
        for text in ["10.1.0.0/16", "10.1.2.0/24"] {
            counts.add(text.parse().unwrap());
        }
        counts.remove("10.1.0.0/16".parse().unwrap());
        assert!(guards(&counts, "10.1.9.9"));
        counts.remove("10.1.2.0/24".parse().unwrap());
        assert!(!guards(&counts, "10.1.9.9"));
    }

    fn check(prefix: &str, inside: &[&str], outside: &[&str]) {
        let mut counts = GuardCounts::default();
        counts.add(prefix.parse().unwrap());
        for address in inside {
            assert!(guards(&counts, address), "{prefix} {address}");
        }
        for address in outside {
            assert!(!guards(&counts, address), "{prefix} {address}");
        }
        counts.remove(prefix.parse().unwrap());
        assert_eq!(counts.guard(), Guard::CLEAR);
    }

    fn guards(counts: &GuardCounts, address: &str) -> bool {
        let bit = match address.parse().unwrap() {
            IpAddr::V4(address) => Ipv4::from(address).guard_bit(),
            IpAddr::V6(address) => Ipv6::from(address).guard_bit(),
        };
        counts.guard().contains(bit)
    }
}
