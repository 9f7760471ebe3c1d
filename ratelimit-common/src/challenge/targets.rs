//! The targets of connections that are challenged.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::rules::PORTS_MAX;
use crate::{Address, Family, address::words};

/// The most prefixes of a family.
pub const TARGETS_MAX: usize = 8;

/// A prefix of destinations: its first address and its mask.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
struct Target {
    front: [u64; 2],
    mask: [u64; 2],
}

const ALL: Target = Target {
    front: [0, 0],
    mask: [0, 0],
};

const NONE: Target = Target {
    front: [1, 0],
    mask: [0, 0],
};

impl Target {
    #[inline(always)]
    fn includes<A: Address>(&self, address: A) -> bool {
        let ([first, second], [first_mask, second_mask]) = (self.front, self.mask);
        let [low, high] = bits(address);
        first == low & first_mask && (is_ipv4::<A>() || second == high & second_mask)
    }

    /// The common part: the longest mask in which both are equal.
    const fn in_common(&self, other: &Self) -> Self {
        let ([a_first, a_second], [b_first, b_second]) = (self.front, other.front);
        let ([a_mask, a_mask_second], [b_mask, b_mask_second]) = (self.mask, other.mask);
        let mask = [
            a_mask & b_mask & !(a_first ^ b_first),
            a_mask_second & b_mask_second & !(a_second ^ b_second),
        ];
        let [first_mask, second_mask] = mask;
        Self {
            front: [a_first & first_mask, a_second & second_mask],
            mask,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
struct OfFamily {
    /// The common part of all targets. This comparison alone rules out most other addresses.
    in_common: Target,
    prefixes: [Target; TARGETS_MAX],
}

impl OfFamily {
    const fn of(prefix: Target) -> Self {
        let mut prefixes = [NONE; TARGETS_MAX];
        prefixes[0] = prefix;
        Self {
            in_common: prefix,
            prefixes,
        }
    }
}

/// The destinations and ports to which connections are challenged: all if none is named.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Targets {
    families: [OfFamily; 2],
    ports: [u16; PORTS_MAX],
    has_prefixes: u32,
    has_ports: u32,
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            families: [OfFamily::of(ALL); 2],
            has_prefixes: 0,
            ..Self::NONE
        }
    }
}

impl Targets {
    /// None: no connection is challenged.
    pub const NONE: Self = Self {
        families: [OfFamily::of(NONE); 2],
        ports: [0; PORTS_MAX],
        has_prefixes: 1,
        has_ports: 0,
    };

    /// Restricts the targets to these ports; 0 is none.
    pub fn at_ports(self, ports: [u16; PORTS_MAX]) -> Self {
        let Some(named) = ports.into_iter().find(|port| *port != 0) else {
            return self;
        };
        Self {
            ports: ports.map(|port| if port == 0 { named } else { port }),
            has_ports: 1,
            ..self
        }
    }

    /// Adds the addresses that share the bits of a mask with `address`. `None` if the family has
    /// the maximum.
    pub fn with<A: Address>(mut self, address: A, mask: A) -> Option<Self> {
        let target = Target {
            front: bits(address.masked(mask)),
            mask: bits(mask),
        };
        if self.has_prefixes == 0 {
            self.families = Self::NONE.families;
        }
        let [ipv4, ipv6] = &mut self.families;
        let family = if is_ipv4::<A>() { ipv4 } else { ipv6 };
        *family.prefixes.iter_mut().find(|it| **it == NONE)? = target;
        family.in_common = if family.in_common == NONE {
            target
        } else {
            target.in_common(&family.in_common)
        };
        self.has_prefixes = 1;
        Some(self)
    }

    /// Whether no target is named, so that all connections are challenged.
    pub const fn are_all(&self) -> bool {
        self.has_prefixes == 0 && self.has_ports == 0
    }

    /// Whether a connection to this end is challenged.
    #[inline(always)]
    pub fn include<A: Address>(&self, destination: A, port: u16) -> bool {
        let family = self.family::<A>();
        let includes = |target: &Target| target.includes(destination);
        includes(&family.in_common)
            && (self.has_ports == 0 || self.ports.contains(&port))
            && family.prefixes.iter().any(includes)
    }

    #[inline(always)]
    fn family<A: Address>(&self) -> &OfFamily {
        let [ipv4, ipv6] = &self.families;
        if is_ipv4::<A>() { ipv4 } else { ipv6 }
    }
}

/// The compared bits of an address: an IPv4 address fits into the first word.
#[inline(always)]
fn bits<A: Address>(address: A) -> [u64; 2] {
    if is_ipv4::<A>() {
        [address.key(), 0]
    } else {
        words(address)
    }
}

#[inline(always)]
fn is_ipv4<A: Address>() -> bool {
    match A::FAMILY {
        Family::Ipv4 => true,
        Family::Ipv6 | Family::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::{Ipv4, Ipv6};

    fn v4(address: [u8; 4]) -> Ipv4 {
        Ipv4Addr::from(address).into()
    }

    fn v6(address: &str) -> Ipv6 {
        address.parse::<Ipv6Addr>().unwrap().into()
    }

    #[test]
    fn all_are_challenged_where_none_is_named() {
        let all = Targets::default();
        assert!(all.include(v4([0, 0, 0, 1]), 0) && all.include(v6("::1"), 80));
    }

    #[test]
    fn none_is_challenged_where_there_are_none() {
        let none = Targets::NONE;
        for address in [[0; 4], [1, 0, 0, 0], [0, 0, 0, 1], [203, 0, 113, 9]] {
            assert!(!none.include(v4(address), 0) && !none.include(v4(address), 80));
        }
        assert!(!none.include(v6("::"), 80) && !none.include(v6("2001:db8::1"), 80));
        assert!(!none.are_all());
    }

    #[test]
    fn a_connection_is_challenged_to_one_of_the_prefixes_and_at_one_of_the_ports() {
        let targets = Targets::default()
            .with(v4([198, 51, 100, 7]), v4([255, 255, 255, 0]))
            .and_then(|it| it.with(v4([203, 0, 113, 9]), v4([255; 4])))
            .and_then(|it| it.with(v6("2001:db8:1::"), v6("ffff:ffff:ffff::")))
            .and_then(|it| {
                it.with(
                    v6("2001:db8:2::7"),
                    v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
                )
            })
            .unwrap();
        for (address, is_one) in [
            ([198, 51, 100, 255], true),
            ([198, 51, 101, 0], false),
            ([203, 0, 113, 9], true),
            ([203, 0, 113, 8], false),
            // The filler of unused entries is not an address.
            ([0, 0, 0, 0], false),
            ([1, 0, 0, 0], false),
            ([0, 0, 0, 1], false),
        ] {
            assert_eq!(targets.include(v4(address), 80), is_one, "{address:?}");
            let at_ports = targets.at_ports([443, 8443, 0, 0, 0, 0, 0, 0]);
            assert!(!at_ports.include(v4(address), 80) && !at_ports.include(v4(address), 0));
            assert_eq!(at_ports.include(v4(address), 8443), is_one, "{address:?}");
        }
        for (address, is_one) in [
            ("2001:db8:1:ffff::1", true),
            ("2001:db8:2::7", true),
            ("2001:db8:2::8", false),
            ("2001:db8:2::", false),
            ("::", false),
            ("::1", false),
        ] {
            assert_eq!(targets.include(v6(address), 80), is_one, "{address}");
        }
        let only_v4 = Targets::default().with(v4([10, 0, 0, 0]), v4([255, 0, 0, 0]));
        let only_v4 = only_v4.unwrap();
        for address in ["2001:db8:1::", "::", "::ffff:10.0.0.0"] {
            assert!(!only_v4.include(v6(address), 80));
        }
    }

    #[test]
    fn there_is_room_for_so_many_of_each_family() {
        let (mask, mask_v6) = (v4([255, 255, 0, 0]), v6("ffff:ffff:ffff:ffff::"));
        let mut targets = Targets::default();
        for number in 0..8 {
            targets = targets.with(v4([10, number, 0, 0]), mask).unwrap();
            targets = targets.with(v6("2001:db8::"), mask_v6).unwrap();
        }
        assert_eq!(targets.with(v4([10, 8, 0, 0]), mask), None);
        assert_eq!(targets.with(v6("2001:db9::"), mask_v6), None);
        assert!((0..8).all(|number| targets.include(v4([10, number, 1, 1]), 1)));
    }
}
