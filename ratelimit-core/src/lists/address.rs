//! Addresses as lists write them: an address, a prefix, or a range from one address to another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::typo::{self, Meant};
use crate::{
    diagnostic::Problem,
    prefix::{Prefix, PrefixError},
};

/// An address or range as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Written {
    One(Prefix),
    /// The first and the last address, of the same family and in order.
    Range(IpAddr, IpAddr),
}

impl Written {
    /// The prefixes that are the same addresses: as few as there can be, in their order.
    pub fn prefixes(self) -> impl Iterator<Item = Prefix> {
        let (one, range) = match self {
            Self::One(prefix) => (Some(prefix), None),
            Self::Range(first, last) => (None, Some(split(first, last))),
        };
        one.into_iter().chain(range.into_iter().flatten())
    }
}

/// Reads one of them. With `sloppy`, host bits behind a prefix are cut off.
pub fn read(text: &str, sloppy: bool) -> Result<Written, Problem> {
    if let Some((first, last)) = text.split_once('-') {
        return read_range(text, first.trim(), last.trim());
    }
    match text.parse() {
        Ok(prefix) => Ok(Written::One(prefix)),
        Err(PrefixError::HostBits { network, .. }) if sloppy => Ok(Written::One(network)),
        Err(PrefixError::Syntax(_)) => Err(not_an_address(text)),
        Err(error) => Err(error.into()),
    }
}

/// Whether a text is an address, a prefix or a range; with `sloppy`, host bits or not.
pub fn is_one(text: &str, sloppy: bool) -> bool {
    match text.split_once('-') {
        Some((first, last)) => {
            let [first, last] = [first, last].map(|text| text.trim().parse::<IpAddr>());
            matches!(
                (first, last),
                (Ok(first), Ok(last)) if first.is_ipv4() == last.is_ipv4() && first <= last,
            )
        }
        None => match text.parse::<Prefix>() {
            Ok(_) => true,
            Err(PrefixError::HostBits { .. }) => sloppy,
            Err(_) => false,
        },
    }
}

fn read_range(text: &str, first: &str, last: &str) -> Result<Written, Problem> {
    let (Ok(mut from), Ok(mut to)) = (first.parse::<IpAddr>(), last.parse::<IpAddr>()) else {
        return Err(not_an_address(text));
    };
    if from.to_canonical().is_ipv4() && to.to_canonical().is_ipv4() {
        (from, to) = (from.to_canonical(), to.to_canonical());
    }
    if from.is_ipv4() != to.is_ipv4() {
        let message = format!("{from} and {to} are of different families");
        return Err(Problem::new(message, "write two addresses of one family"));
    }
    if from > to {
        let message = format!("{from} comes after {to}");
        return Err(Problem::new(message, format!("write {to}-{from}")));
    }
    Ok(Written::Range(from, to))
}

/// Says of a text that is not an address what it may be.
pub fn not_an_address(text: &str) -> Problem {
    const EXAMPLES: &str =
        "write for example 192.0.2.1, 192.0.2.0/24, 192.0.2.1-192.0.2.9 or 2001:db8::/32";
    let shown: String = text.chars().take(60).collect();
    if text.is_empty() {
        return Problem::new("the address is missing", EXAMPLES);
    }
    if let Some(Meant { fault, clean }) = typo::meant(text) {
        let message = format!("`{shown}` {fault}");
        return Problem::new(message, format!("write {clean}")).replaced_by(clean);
    }
    if let Some(fault) = typo::fault(text) {
        let (fault, hint) = fault;
        return Problem::new(format!("`{shown}` {fault}"), hint);
    }
    let message = format!("`{shown}` is not an address, prefix or range");
    Problem::new(message, EXAMPLES)
}

/// The prefixes from `first` to `last`, of one family.
fn split(first: IpAddr, last: IpAddr) -> impl Iterator<Item = Prefix> {
    let (bits, mut next, last) = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            (32, Some(first.to_bits().into()), last.to_bits().into())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => (128, Some(first.to_bits()), last.to_bits()),
        _ => (0, None, 0),
    };
    std::iter::from_fn(move || {
        let start: u128 = next?;
        let aligned = start.trailing_zeros().min(bits);
        // The size of the rest, less one, so that all addresses of IPv6 fit.
        let rest = last.checked_sub(start)?;
        let fitting = match rest.checked_add(1) {
            Some(count) => count.ilog2(),
            None => bits,
        };
        let free = aligned.min(fitting);
        let size_less_one = 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        next = start.checked_add(size_less_one)?.checked_add(1);
        if start + size_less_one >= last {
            next = None;
        }
        let length = u8::try_from(bits - free).ok()?;
        Prefix::around(address(bits, start)?, length)
    })
}

fn address(bits: u32, value: u128) -> Option<IpAddr> {
    if bits == 32 {
        return Some(Ipv4Addr::from_bits(u32::try_from(value).ok()?).into());
    }
    Some(Ipv6Addr::from_bits(value).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_is_as_few_prefixes_as_can_be() {
        check(
            "192.0.2.1-192.0.2.6",
            Ok("192.0.2.1 192.0.2.2/31 192.0.2.4/31 192.0.2.6"),
        );
        check("192.0.2.0 - 192.0.2.255", Ok("192.0.2.0/24"));
        check("192.0.2.1-192.0.2.1", Ok("192.0.2.1"));
        check("255.255.255.254-255.255.255.255", Ok("255.255.255.254/31"));
        check("0.0.0.0-255.255.255.255", Ok("0.0.0.0/0"));
        check(
            "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            Ok("2001:db8::/32"),
        );
        check("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Ok("::/0"));
        check(
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            Ok("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        );
        check("::ffff:192.0.2.0-::ffff:192.0.2.1", Ok("192.0.2.0/31"));
    }

    #[test]
    fn what_is_no_address_is_reported_with_a_hint() {
        check(
            "192.0.2.9-192.0.2.1",
            Err("192.0.2.9 comes after 192.0.2.1; write 192.0.2.1-192.0.2.9"),
        );
        check(
            "192.0.2.9-::1",
            Err("192.0.2.9 and ::1 are of different families; write two addresses of one family"),
        );
        check(
            "192.0.2.1/24",
            Err("host bits are set in `192.0.2.1/24`; write 192.0.2.0/24 or 192.0.2.1"),
        );
        check(
            "192.0.2.0/33",
            Err("`192.0.2.0/33` is longer than IPv4 addresses are; write a length up to /32"),
        );
        check(
            "192.000.002.001",
            Err(
                "`192.000.002.001` has leading zeros, which some programs read as octal; write \
                 192.0.2.1",
            ),
        );
        check(
            "192.0.2.1:80",
            Err("`192.0.2.1:80` has a port; write 192.0.2.1"),
        );
        check(
            "[2001:db8::1]:80",
            Err("`[2001:db8::1]:80` has a port; write 2001:db8::1"),
        );
        check(
            "example.com",
            Err("`example.com` is a name; write its addresses"),
        );
        check(
            "AS64496",
            Err(
                "`AS64496` is an AS number; list the prefixes that it announces; a database of \
                 AS numbers has them",
            ),
        );
    }

    #[test]
    fn where_a_format_is_sloppy_host_bits_are_cut_off() {
        let written = read("198.51.100.7/24", true).unwrap();
        assert_eq!(written, Written::One("198.51.100.0/24".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn the_prefixes_of_a_range_are_its_addresses_without_gap_or_overlap(a: u32, b: u32) {
            let (first, last) = (a.min(b), a.max(b));
            let mut next = u64::from(first);
            let range = Written::Range(
                Ipv4Addr::from_bits(first).into(),
                Ipv4Addr::from_bits(last).into(),
            );
            for prefix in range.prefixes() {
                let IpAddr::V4(address) = prefix.address() else { panic!("{prefix}") };
                prop_assert_eq!(u64::from(address.to_bits()), next);
                next += 1 << (32 - prefix.len());
            }
            prop_assert_eq!(next, u64::from(last) + 1);
        }
    }

    fn check(text: &str, expected: Result<&str, &str>) {
        let answer = read(text, false).map(|written| {
            let prefixes: Vec<String> = written.prefixes().map(|p| p.to_string()).collect();
            prefixes.join(" ")
        });
        let answer = answer.map_err(|problem| format!("{}; {}", problem.message, problem.hint));
        assert_eq!(answer, expected.map(str::to_owned).map_err(str::to_owned));
    }
}
