//! Prefixes as people write them: an address, `address/length`, or `address/netmask`. IPv4 behind
//! `::ffff:` is IPv4.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use ipnetwork::IpNetwork;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bits of `::ffff:0:0/96`.
const MAPPED_BITS: u8 = 96;

/// An IP prefix without host bits.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[schemars(extend("examples" = ["203.0.113.7", "203.0.113.0/24", "2001:db8::/48"]))]
#[serde(try_from = "String", into = "String")]
pub struct Prefix(IpNetwork);

/// The error of an invalid prefix.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PrefixError {
    /// The text is not an address or prefix.
    #[error("invalid prefix `{0}`: not an IPv4 or IPv6 address or prefix")]
    Syntax(String),
    /// A prefix length past the end of the address.
    #[error("invalid prefix `{text}`: {family} prefixes have at most {max} bits")]
    Length {
        /// The text.
        text: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// 32 or 128.
        max: u8,
    },
    /// Bits are set behind the front: it is not clear what is meant.
    #[error("invalid prefix `{text}`: host bits are set, did you mean {network} or {address}?")]
    HostBits {
        /// The text.
        text: String,
        /// The prefix that contains the address.
        network: Prefix,
        /// The address alone.
        address: IpAddr,
    },
}

impl Prefix {
    /// The length of [`Self::to_bytes`].
    pub const BYTES: usize = 18;

    /// The prefix of `length` bits around `address`; `None` past the end of the address.
    ///
    /// ```
    /// use ratelimit_core::prefix::Prefix;
    ///
    /// let prefix = Prefix::around("192.0.2.77".parse()?, 24);
    /// assert_eq!(prefix, Some("192.0.2.0/24".parse()?));
    /// assert_eq!(Prefix::around("192.0.2.77".parse()?, 33), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn around(address: IpAddr, length: u8) -> Option<Self> {
        let network = IpNetwork::new(address, length).ok()?;
        IpNetwork::new(network.network(), length).ok().map(Self)
    }

    /// The prefixes around this one, the widest first, itself last.
    pub fn supernets(self) -> impl DoubleEndedIterator<Item = Self> {
        (0..=self.len()).filter_map(move |length| Self::around(self.address(), length))
    }

    /// The first address.
    pub fn address(self) -> IpAddr {
        self.0.ip()
    }

    /// The number of bits in common.
    pub fn len(self) -> u8 {
        self.0.prefix()
    }

    /// Whether the prefix covers all addresses of its family.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the prefix is one address.
    pub fn is_address(self) -> bool {
        self.len() == if self.0.is_ipv4() { 32 } else { 128 }
    }

    /// The prefix in bytes that sort as prefixes do: family, address (that of IPv4 in front),
    /// length.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (family, address) = match self.address() {
            IpAddr::V4(address) => (4, &address.octets()[..]),
            IpAddr::V6(address) => (6, &address.octets()[..]),
        };
        bytes[0] = family;
        bytes[1..=address.len()].copy_from_slice(address);
        bytes[Self::BYTES - 1] = self.len();
        bytes
    }

    /// The prefix of [`Self::to_bytes`]; `None` when it wrote no such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let [family, address @ .., length] = bytes;
        let address = match family {
            4 => IpAddr::from(*address.first_chunk::<4>()?),
            6 => IpAddr::from(*address.first_chunk::<16>()?),
            _ => return None,
        };
        let prefix = Self(IpNetwork::new(address, *length).ok()?);
        let is_first = prefix.0.network() == address;
        (is_first && prefix.to_bytes() == *bytes).then_some(prefix)
    }

    /// Whether every address of `other` is one of this prefix.
    ///
    /// ```
    /// use ratelimit_core::prefix::Prefix;
    ///
    /// let network: Prefix = "2001:db8::/32".parse()?;
    /// assert!(network.covers("2001:db8:7::/48".parse()?));
    /// assert!(!network.covers("2001:d00::/24".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn covers(self, other: Self) -> bool {
        self.len() <= other.len() && self.0.contains(other.address())
    }

    /// The fewest prefixes that hold all addresses of this one that are in none of `others`.
    ///
    /// ```
    /// use ratelimit_core::prefix::Prefix;
    ///
    /// let network: Prefix = "192.0.2.0/30".parse()?;
    /// let rest = network.without(&["192.0.2.1".parse()?]);
    /// let texts: Vec<_> = rest.iter().map(Prefix::to_string).collect();
    /// assert_eq!(texts, ["192.0.2.0", "192.0.2.2/31"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without(self, others: &[Self]) -> Vec<Self> {
        if others.iter().any(|other| other.covers(self)) {
            return Vec::new();
        }
        if !others.iter().any(|other| self.covers(*other)) {
            return vec![self];
        }
        let halves = self.halves().into_iter().flatten();
        halves.flat_map(|half| half.without(others)).collect()
    }

    /// Returns both halves; `None` for a single address.
    fn halves(self) -> Option<[Self; 2]> {
        let length = self.len() + 1;
        let second: IpAddr = match self.address() {
            IpAddr::V4(address) => {
                let bit = 1 << 32u8.checked_sub(length)?;
                Ipv4Addr::from_bits(address.to_bits() | bit).into()
            }
            IpAddr::V6(address) => {
                let bit = 1 << 128u8.checked_sub(length)?;
                Ipv6Addr::from_bits(address.to_bits() | bit).into()
            }
        };
        let half = |address| Self::around(address, length);
        Some([half(self.address())?, half(second)?])
    }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self(IpNetwork::from(address))
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let text = text.trim();
        let network = text.parse().map_err(|_| diagnose(text))?;
        let network = unmapped(network);
        if network.network() != network.ip() {
            return Err(PrefixError::HostBits {
                text: text.to_owned(),
                network: Self::around(network.ip(), network.prefix())
                    .expect("the length comes from a network of the same family"),
                address: network.ip(),
            });
        }
        Ok(Self(network))
    }
}

/// IPv4 addresses as dual-stack sockets tell and log them, `::ffff:192.0.2.1` (RFC 4291, 2.5.5.2),
/// are IPv4 on the wire; all of them together, `::ffff:0:0/96`, are a bogon of IPv6.
fn unmapped(network: IpNetwork) -> IpNetwork {
    let IpNetwork::V6(mapped) = network else {
        return network;
    };
    let ipv4 = mapped.ip().to_ipv4_mapped();
    match (ipv4, mapped.prefix().checked_sub(MAPPED_BITS)) {
        (Some(address), Some(length @ 1..)) => {
            IpNetwork::new(address.into(), length).unwrap_or(network)
        }
        _ => network,
    }
}

/// Explains why `text` is no network.
fn diagnose(text: &str) -> PrefixError {
    let parts = text.split_once('/');
    let address = parts.and_then(|(address, _)| address.parse::<IpAddr>().ok());
    let length = parts.and_then(|(_, length)| length.parse::<u32>().ok());
    match (address, length) {
        (Some(IpAddr::V4(_)), Some(_)) => PrefixError::Length {
            text: text.to_owned(),
            family: "IPv4",
            max: 32,
        },
        (Some(IpAddr::V6(_)), Some(_)) => PrefixError::Length {
            text: text.to_owned(),
            family: "IPv6",
            max: 128,
        },
        _ => PrefixError::Syntax(text.to_owned()),
    }
}

from_text!(Prefix);

impl fmt::Display for Prefix {
    /// An address without its length, everything else with it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.is_address() {
            self.address().to_string()
        } else {
            self.0.to_string()
        };
        formatter.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_prefixes_and_netmasks_are_understood() {
        check("192.0.2.1", Ok("192.0.2.1"));
        check("192.0.2.1/32", Ok("192.0.2.1"));
        check("192.0.2.0/24", Ok("192.0.2.0/24"));
        check("192.0.2.0/255.255.255.0", Ok("192.0.2.0/24"));
        check("0.0.0.0/0", Ok("0.0.0.0/0"));
        check("2001:DB8::/32", Ok("2001:db8::/32"));
        check("2001:db8::1", Ok("2001:db8::1"));
        check(" 192.0.2.1\n", Ok("192.0.2.1"));
    }

    #[test]
    fn ipv4_as_dual_stack_sockets_write_it_is_ipv4() {
        check("::ffff:192.0.2.1", Ok("192.0.2.1"));
        check("::FFFF:c000:201", Ok("192.0.2.1"));
        check("::ffff:192.0.2.0/120", Ok("192.0.2.0/24"));
        // All of them is a prefix of IPv6 that lists of bogons have.
        check("::ffff:0:0/96", Ok("::ffff:0.0.0.0/96"));
        check(
            "::ffff:192.0.2.1/120",
            Err(
                "invalid prefix `::ffff:192.0.2.1/120`: host bits are set, did you mean \
                 192.0.2.0/24 or 192.0.2.1?",
            ),
        );
    }

    #[test]
    fn the_prefixes_around_one_go_from_everything_to_itself() {
        for (text, count) in [("198.51.100.7", 33), ("2001:db8::/32", 33), ("::/0", 1)] {
            let prefix: Prefix = text.parse().unwrap();
            let supernets: Vec<Prefix> = prefix.supernets().collect();
            assert_eq!((supernets.len(), supernets[count - 1]), (count, prefix));
            let nested = supernets.windows(2).all(|pair| pair[0].covers(pair[1]));
            assert!(supernets[0].is_empty() && nested, "{supernets:?}");
        }
    }

    #[test]
    fn a_prefix_with_host_bits_is_refused_with_both_readings() {
        check(
            "10.0.0.1/24",
            Err(
                "invalid prefix `10.0.0.1/24`: host bits are set, did you mean 10.0.0.0/24 or \
                 10.0.0.1?",
            ),
        );
        check(
            "2001:db8::1/64",
            Err(
                "invalid prefix `2001:db8::1/64`: host bits are set, did you mean 2001:db8::/64 or \
                 2001:db8::1?",
            ),
        );
    }

    #[test]
    fn an_invalid_prefix_is_refused_with_the_reason() {
        check(
            "1.2.3.400",
            Err("invalid prefix `1.2.3.400`: not an IPv4 or IPv6 address or prefix"),
        );
        check(
            "",
            Err("invalid prefix ``: not an IPv4 or IPv6 address or prefix"),
        );
        check(
            "10.0.0.0/33",
            Err("invalid prefix `10.0.0.0/33`: IPv4 prefixes have at most 32 bits"),
        );
        check(
            "::/129",
            Err("invalid prefix `::/129`: IPv6 prefixes have at most 128 bits"),
        );
        check(
            "10.0.0.0/255.0.255.0",
            Err("invalid prefix `10.0.0.0/255.0.255.0`: not an IPv4 or IPv6 address or prefix"),
        );
    }

    #[test]
    fn a_prefix_covers_itself_and_what_lies_in_it() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        assert!(prefix("10.0.0.0/8").covers(prefix("10.1.0.0/16")));
        assert!(prefix("10.0.0.0/8").covers(prefix("10.0.0.0/8")));
        assert!(!prefix("10.1.0.0/16").covers(prefix("10.0.0.0/8")));
        assert!(!prefix("0.0.0.0/0").covers(prefix("2001:db8::/32")));
    }

    #[test]
    fn a_prefix_without_others_has_all_addresses_but_theirs() {
        let check = |prefix: &str, others: &[&str], expected: &[&str]| {
            let others: Vec<Prefix> = others.iter().map(|text| text.parse().unwrap()).collect();
            let left = prefix.parse::<Prefix>().unwrap().without(&others);
            let left: Vec<String> = left.iter().map(Prefix::to_string).collect();
            assert_eq!(left, expected);
        };
        check("10.0.0.0/8", &["192.0.2.0/24"], &["10.0.0.0/8"]);
        check("10.0.0.0/24", &["10.0.0.0/8"], &[]);
        check("10.0.0.0/24", &["10.0.0.0/24"], &[]);
        check(
            "10.0.0.0/8",
            &["10.0.0.0/10", "10.192.0.0/11"],
            &["10.64.0.0/10", "10.128.0.0/10", "10.224.0.0/11"],
        );
        check(
            "192.0.2.8/30",
            &["192.0.2.9"],
            &["192.0.2.8", "192.0.2.10/31"],
        );
        check("fe80::/63", &["fe80::/64"], &["fe80:0:0:1::/64"]);
        check("::/0", &["8000::/1"], &["::/1"]);
    }

    #[test]
    fn the_bytes_of_prefixes_sort_as_they_do() {
        let mut prefixes: Vec<Prefix> = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/16",
            "10.0.0.0",
            "10.0.0.1",
            "255.255.255.255",
            "::/0",
            "::1",
            "2001:db8::/32",
            "2001:db8::/48",
            "ffff::1",
        ]
        .map(|text| text.parse().unwrap())
        .into();
        prefixes.sort_unstable();
        let bytes: Vec<_> = prefixes.iter().map(|prefix| prefix.to_bytes()).collect();
        assert!(bytes.is_sorted());
        for (prefix, bytes) in prefixes.iter().zip(&bytes) {
            assert_eq!(Prefix::from_bytes(bytes), Some(*prefix));
        }
    }

    #[test]
    fn bytes_that_are_no_prefix_are_refused() {
        let good = "10.0.0.0/8".parse::<Prefix>().unwrap().to_bytes();
        assert_eq!(Prefix::from_bytes(&good[1..]), None);
        for (index, value) in [(0, 5), (4, 1), (5, 1), (17, 33), (17, 6)] {
            let mut bytes = good;
            bytes[index] = value;
            assert_eq!(Prefix::from_bytes(&bytes), None, "{index}");
        }
    }

    fn check(text: &str, expected: Result<&str, &str>) {
        let answer = text.parse::<Prefix>().map(|prefix| prefix.to_string());
        let answer = answer.map_err(|error| error.to_string());
        assert_eq!(answer, expected.map(str::to_owned).map_err(str::to_owned));
    }
}
