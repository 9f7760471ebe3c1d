//! The address families between the datapath's types and those of the standard library.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aya::Pod;
use ratelimit_common::{Address, Ipv4, Ipv6};
use zerocopy::FromBytes;

use crate::config::Source;

/// An address family that has tables of its own.
pub trait IpAddress: Address + FromBytes + Pod + Sync {
    /// The address, where it is one of this family.
    fn of(address: IpAddr) -> Option<Self>;

    /// The address in the standard library's type.
    fn to_std(self) -> IpAddr;

    /// The bits of an address that make it a source.
    fn source_mask(source: &Source) -> Self;
}

impl IpAddress for Ipv4 {
    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address.into()),
            IpAddr::V6(_) => None,
        }
    }

    fn to_std(self) -> IpAddr {
        Ipv4Addr::from(self).into()
    }

    fn source_mask(source: &Source) -> Self {
        let bits = u32::MAX.checked_shl(32 - u32::from(source.ipv4_prefix));
        Ipv4Addr::from(bits.unwrap_or(0)).into()
    }
}

impl IpAddress for Ipv6 {
    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V6(address) => Some(address.into()),
            IpAddr::V4(_) => None,
        }
    }

    fn to_std(self) -> IpAddr {
        Ipv6Addr::from(self).into()
    }

    fn source_mask(source: &Source) -> Self {
        let bits = u128::MAX.checked_shl(128 - u32::from(source.ipv6_prefix));
        Ipv6Addr::from(bits.unwrap_or(0)).into()
    }
}
