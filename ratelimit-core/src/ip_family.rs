//! The families of addresses that have tables of their own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ratelimit_common::{Address, Ipv4, Ipv6};
use zerocopy::FromBytes;

/// A family of addresses that has tables of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the name of the family.
    pub const fn label(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The family of `address`.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }
}

/// An address of one of them, between the tables' types and those of the standard library.
pub trait IpAddress: Address + FromBytes + Sync {
    /// The family of the address type.
    const IP_FAMILY: IpFamily;

    /// The address, where it is one of this family.
    fn of(address: IpAddr) -> Option<Self>;

    /// The address in the standard library's type.
    fn to_std(self) -> IpAddr;

    /// The address whose first `length` bits are set, and no others.
    fn mask(length: u8) -> Self;
}

impl IpAddress for Ipv4 {
    const IP_FAMILY: IpFamily = IpFamily::V4;

    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address.into()),
            IpAddr::V6(_) => None,
        }
    }

    fn to_std(self) -> IpAddr {
        Ipv4Addr::from(self).into()
    }

    fn mask(length: u8) -> Self {
        let bits = u32::MAX.checked_shl(32 - u32::from(length));
        Ipv4Addr::from(bits.unwrap_or(0)).into()
    }
}

impl IpAddress for Ipv6 {
    const IP_FAMILY: IpFamily = IpFamily::V6;

    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V6(address) => Some(address.into()),
            IpAddr::V4(_) => None,
        }
    }

    fn to_std(self) -> IpAddr {
        Ipv6Addr::from(self).into()
    }

    fn mask(length: u8) -> Self {
        let bits = u128::MAX.checked_shl(128 - u32::from(length));
        Ipv6Addr::from(bits.unwrap_or(0)).into()
    }
}
