//! Measures how much of the address space a list covers, and whether that is plausible. A list that
//! is broken at its origin, or whose server was compromised, could block half of the internet.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{reading::Entry, source::NoList};
use crate::{ip_family::IpFamily, prefix::Prefix};

/// The share of an address space above which a list is refused.
const SHARE_MAX: f64 = 1. / 64.;
/// The largest plausible growth factor of a list.
const GROWTH_MAX: u64 = 10;
/// Smaller lists may grow freely: a list of three may be one of forty tomorrow.
const GROWTH_LOOKED_AT: u64 = 4096;
/// The addresses of IPv4.
const IPV4: f64 = 4_294_967_296.;
/// The /64 of `2000::/3`, from which all global addresses of IPv6 are.
const IPV6: f64 = 2_305_843_009_213_693_952.;
/// Special IPv4 ranges (RFC 6890), as found in lists of bogons.
const SPECIAL: [([u8; 4], u8); 9] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 168, 0, 0], 16),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Covered addresses, without private and reserved ones.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Coverage {
    /// Number of IPv4 addresses.
    pub ipv4: u64,
    /// Number of IPv6 /64 networks.
    pub ipv6: u64,
}

impl Coverage {
    /// Returns the coverage of sorted prefixes. Nested ones count once.
    pub fn of(prefixes: impl Iterator<Item = Prefix>) -> Self {
        let mut coverage = Self::default();
        let mut outer: Option<Prefix> = None;
        for prefix in prefixes {
            // For IPv6, at least a /64 is counted.
            let counted = match IpFamily::of(prefix.address()) {
                IpFamily::V4 => prefix,
                IpFamily::V6 => {
                    Prefix::around(prefix.address(), prefix.len().min(64)).unwrap_or(prefix)
                }
            };
            if outer.is_some_and(|outer| outer.covers(counted)) {
                continue;
            }
            outer = Some(counted);
            match IpFamily::of(counted.address()) {
                IpFamily::V4 => coverage.ipv4 += public(counted),
                IpFamily::V6 => coverage.ipv6 = coverage.ipv6.saturating_add(global(counted)),
            }
        }
        coverage
    }

    /// Returns the coverage of the entries of a list, in any order.
    pub fn of_entries(entries: &[Entry]) -> Self {
        let mut prefixes: Vec<Prefix> = entries.iter().map(|entry| entry.prefix).collect();
        prefixes.sort_unstable();
        Self::of(prefixes.into_iter())
    }

    /// Adds what other prefixes cover.
    pub fn add(&mut self, other: Self) {
        self.ipv4 += other.ipv4;
        self.ipv6 = self.ipv6.saturating_add(other.ipv6);
    }

    /// Refuses to cover more than 1/64 of an address space, or ten times as much as `before`. A
    /// list that covers no more than before is accepted.
    ///
    /// # Errors
    ///
    /// The coverage, and what to do if it is intended.
    pub fn vet(self, name: &str, before: Option<Self>) -> Result<(), NoList> {
        let was = before.unwrap_or_default();
        let refused = |error| {
            let hint = "nothing was imported; check the list, and if it is right: --allow-wide, or \
                        allow_wide = true";
            Err(NoList { error, hint })
        };
        for (now, was, all, family) in [
            (self.ipv4, was.ipv4, IPV4, "IPv4"),
            (self.ipv6, was.ipv6, IPV6, "global IPv6"),
        ] {
            if now <= was {
                continue;
            }
            let share = percent(now, all);
            if ratio(now, all) > SHARE_MAX {
                return refused(format!("{name} covers {share} of {family}, more than 1/64"));
            }
            if was > 0 && now >= GROWTH_LOOKED_AT && now / GROWTH_MAX >= was {
                let before = percent(was, all);
                return refused(format!(
                    "{name} covers {share} of {family}, and {before} before: more than \
                     {GROWTH_MAX} times as much"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ipv4, ipv6 } = *self;
        let addresses = if ipv4 == 1 { "address" } else { "addresses" };
        let of_ipv4 = || {
            format!(
                "{ipv4} public {addresses} of IPv4 ({})",
                percent(ipv4, IPV4)
            )
        };
        let of_ipv6 = || format!("{ipv6} /64 of IPv6 ({})", percent(ipv6, IPV6));
        match (ipv4, ipv6) {
            (_, 0) => formatter.write_str(&of_ipv4()),
            (0, _) => formatter.write_str(&of_ipv6()),
            _ => write!(formatter, "{} and {}", of_ipv4(), of_ipv6()),
        }
    }
}

/// Returns the number of public addresses in an IPv4 prefix.
fn public(prefix: Prefix) -> u64 {
    let size = |prefix: Prefix| 1_u64 << 32_u8.saturating_sub(prefix.len());
    let special = SPECIAL
        .iter()
        .filter_map(|(address, length)| Prefix::around((*address).into(), *length));
    let mut left = size(prefix);
    for special in special {
        if special.covers(prefix) {
            return 0;
        }
        if prefix.covers(special) {
            left -= size(special);
        }
    }
    left
}

/// The /64 of a prefix of IPv6, of which only `2000::/3` counts.
fn global(prefix: Prefix) -> u64 {
    let Some(all) = Prefix::around([0x2000, 0, 0, 0, 0, 0, 0, 0].into(), 3) else {
        return 0;
    };
    let counted = if prefix.covers(all) { all } else { prefix };
    if all.covers(counted) {
        1_u64
            .checked_shl(64_u32.saturating_sub(counted.len().into()))
            .unwrap_or(u64::MAX)
    } else {
        0
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share needs no more than 53 bits"
)]
fn ratio(part: u64, all: f64) -> f64 {
    part as f64 / all
}

/// `15.6 %`, of which two digits count.
fn percent(part: u64, all: f64) -> String {
    let percent = 100. * ratio(part, all);
    if part == 0 {
        "0 %".to_owned()
    } else if percent < 0.01 {
        "less than 0.01 %".to_owned()
    } else if percent < 1. {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_count_once_and_those_that_nobody_has_do_not() {
        for (prefixes, ipv4, ipv6) in [
            ("", 0, 0),
            ("192.0.2.0/24 192.0.2.7 198.51.100.7", 257, 0),
            ("10.0.0.0/8 172.16.0.0/12 224.0.0.0/3", 0, 0),
            ("8.0.0.0/6", (1 << 26) - (1 << 24), 0),
            (
                "2001:db8::/63 2001:db8::1 2001:db8:1::1 2001:db8:1::2",
                0,
                3,
            ),
            ("::/0", 0, 1 << 61),
            ("fc00::/7 fe80::/10", 0, 0),
        ] {
            assert_eq!(of(prefixes), Coverage { ipv4, ipv6 }, "{prefixes}");
        }
    }

    #[test]
    fn more_than_a_64th_is_refused_unless_it_was_so_before() {
        let wide = of("1.0.0.0/8 2.0.0.0/8 3.0.0.0/8 4.0.0.0/8 5.0.0.0/8");
        check(
            wide,
            None,
            Some("the list covers 2.0 % of IPv4, more than 1/64"),
        );
        check(wide, Some(wide), None);
        check(of("1.0.0.0/8 2.0.0.0/8 3.0.0.0/8 4.0.0.0/8"), None, None);
        let wide = of("2000::/8");
        check(
            wide,
            None,
            Some("the list covers 3.1 % of global IPv6, more than 1/64"),
        );
    }

    #[test]
    fn a_list_that_grows_tenfold_is_refused_unless_it_is_small() {
        let small = Some(of("192.0.2.0/24"));
        check(
            of("198.18.0.0/20"),
            small,
            Some(
                "the list covers less than 0.01 % of IPv4, and less than 0.01 % before: more than \
                 10 times as much",
            ),
        );
        check(of("198.18.0.0/21"), small, None);
        check(of("192.0.2.0/25"), Some(of("192.0.2.1")), None);
        check(of("198.18.0.0/20"), None, None);
    }

    #[test]
    fn it_is_reported_in_addresses_and_shares() {
        let told = |prefixes| of(prefixes).to_string();
        assert_eq!(
            told("192.0.2.0/24"),
            "256 public addresses of IPv4 (less than 0.01 %)"
        );
        assert_eq!(
            told("16.0.0.0/8 2001:db8::/32"),
            "16777216 public addresses of IPv4 (0.39 %) and 4294967296 /64 of IPv6 (less than 0.01 \
             %)"
        );
    }

    fn of(prefixes: &str) -> Coverage {
        let mut prefixes: Vec<Prefix> = prefixes
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        prefixes.sort_unstable();
        Coverage::of(prefixes.into_iter())
    }

    fn check(now: Coverage, before: Option<Coverage>, expected: Option<&str>) {
        let answer = now.vet("the list", before);
        assert_eq!(
            answer.err().map(|refused| refused.error).as_deref(),
            expected
        );
    }
}
