//! Suggestions for texts that are nearly addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address;
use crate::{diagnostic::is_invisible, prefix::Prefix};

/// The problem of a text, and the corrected text.
#[derive(Debug, PartialEq)]
pub struct Meant {
    pub fault: &'static str,
    pub clean: String,
}

type Step = fn(&str) -> Option<String>;

/// Each takes one kind of fault out of a text, in the order in which they lie around an address.
const STEPS: [(&str, Step); 13] = [
    ("has invisible characters", without_invisible),
    ("has full-width characters", without_width),
    ("is in quotes", without_quotes),
    ("is defanged", without_defanging),
    ("is a URL", without_scheme),
    ("names an interface", without_zone),
    ("has a port", without_port),
    ("is in brackets", without_brackets),
    ("has an extra character", without_signs),
    ("is a range without `-`", with_hyphen),
    ("is a range with a shortened end", with_whole_end),
    (
        "has leading zeros, which some programs read as octal",
        without_zeros,
    ),
    ("is a shortened prefix", with_all_numbers),
];

/// Guesses the intended value of `text`, which is not an address, prefix or range.
pub fn meant(text: &str) -> Option<Meant> {
    // A longer line is not an address.
    if text.len() > 200 {
        return None;
    }
    let mut clean = text.to_owned();
    let mut first = None;
    for (fault, step) in STEPS {
        if let Some(cleaner) = step(&clean) {
            clean = cleaner;
            first.get_or_insert(fault);
            if address::is_one(&clean, false) {
                break;
            }
        }
    }
    if let (None, Some(number)) = (first, number(&clean)) {
        return Some(Meant {
            fault: "is an address as one number",
            clean: number.to_string(),
        });
    }
    let fault = first?;
    // `[20/0]` of a route is not everything.
    let is_meant = address::is_one(&clean, false) && !clean.ends_with("/0");
    is_meant.then_some(Meant { fault, clean })
}

/// Returns the problem and a hint for a text without an obvious correction.
pub fn fault(text: &str) -> Option<(&'static str, &'static str)> {
    if text
        .strip_prefix('!')
        .is_some_and(|rest| address::is_one(rest.trim(), true))
    {
        return Some((
            "is an exception from the list",
            "remove it, and allow it: rlctl allow add",
        ));
    }
    let numbers = text.split(['.', ',', ';', ' ']);
    let numbers: Option<Vec<u64>> = numbers.map(|part| part.parse().ok()).collect();
    if numbers.is_some_and(|numbers| numbers.len() > 4) {
        return Some((
            "has more than four numbers: two addresses run together",
            "break the line between them",
        ));
    }
    let groups: Vec<&str> = text.split('/').next()?.split(':').collect();
    let is_group = |group: &&str| group.len() <= 4 && group.chars().all(|c| c.is_ascii_hexdigit());
    if groups.len() > 8 && groups.iter().all(is_group) {
        return Some((
            "has more than the eight groups of IPv6",
            "write eight, or fewer with :: between them",
        ));
    }
    let digits = text
        .get(..2)
        .filter(|start| start.eq_ignore_ascii_case("as"));
    if digits.is_some() && text[2..].parse::<u32>().is_ok() {
        return Some((
            "is an AS number",
            "list the prefixes that it announces; a database of AS numbers has them",
        ));
    }
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_label = text.ends_with(|c: char| c.is_alphabetic());
    (text.contains('.') && is_label && text.chars().all(is_name))
        .then_some(("is a name", "write its addresses"))
}

fn without_invisible(text: &str) -> Option<String> {
    let odd = |c: char| is_invisible(c) || c.is_control();
    text.contains(odd).then(|| text.replace(odd, ""))
}

/// Full-width characters (U+FF01 to U+FF5E) are those of ASCII, as far behind them as the first is
/// behind `!`.
fn without_width(text: &str) -> Option<String> {
    let narrow = |c: char| match c {
        '\u{ff01}'..='\u{ff5e}' => {
            char::from_u32(u32::from(c) - 0xff01 + u32::from('!')).unwrap_or(c)
        }
        '\u{3002}' | '\u{ff61}' => '.',
        c => c,
    };
    let narrowed: String = text.chars().map(narrow).collect();
    (narrowed != text).then_some(narrowed)
}

fn without_quotes(text: &str) -> Option<String> {
    let quote = |c: char| {
        matches!(
            c,
            '"' | '\'' | '`' | '´' | '«' | '»' | '\u{2018}'..='\u{201f}' | '\u{2039}' | '\u{203a}'
        )
    };
    changed(text, text.trim_matches(quote).trim())
}

fn without_defanging(text: &str) -> Option<String> {
    let mut clean = text.to_owned();
    for dot in [
        "[.]", "(.)", "{.}", "[dot]", "(dot)", " dot ", "[.", ".]", "\\.",
    ] {
        clean = clean.replace(dot, ".");
    }
    for colon in ["[:]", "[://]"] {
        clean = clean.replace(colon, &colon[1..colon.len() - 1]);
    }
    changed(text, &clean)
}

fn without_scheme(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = &rest[..end];
    Some(
        host.rsplit_once('@')
            .map_or(host, |(_, host)| host)
            .to_owned(),
    )
}

fn without_zone(text: &str) -> Option<String> {
    let (address, rest) = text.split_once('%')?;
    let length = rest.find('/').map_or("", |at| &rest[at..]);
    let length = if rest.contains('/') { length } else { "" };
    let clean = format!("{address}{length}");
    // The zone selects the network of a prefix.
    match clean.parse::<Prefix>() {
        Ok(_) => Some(clean),
        Err(_) => Some(network(&clean).unwrap_or(clean)),
    }
}

/// The network of an address with its length.
fn network(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/')?;
    let prefix = Prefix::around(address.parse().ok()?, length.parse().ok()?)?;
    Some(prefix.to_string())
}

fn without_port(text: &str) -> Option<String> {
    let (address, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let inner = address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    // Text after the last colon of IPv6 is a group of the address.
    match inner {
        Some(inner) => inner.parse::<IpAddr>().ok().map(|_| inner.to_owned()),
        None => address.parse::<Ipv4Addr>().ok().map(|_| address.to_owned()),
    }
}

fn without_brackets(text: &str) -> Option<String> {
    let brackets = ['[', ']', '(', ')', '<', '>', '{', '}'];
    let clean = text.trim_matches(brackets);
    // The length follows them: [2001:db8::]/32.
    let clean = clean.replace("]/", "/");
    changed(text, clean.trim())
}

fn without_signs(text: &str) -> Option<String> {
    let sign = ['.', ',', ';', '-', '*', '|', '+', '=', '/', ' '];
    let end = text.trim_start_matches(sign);
    let clean = end.trim_end_matches(sign);
    // At the end a colon is one too, unless there are two.
    let clean = clean
        .strip_suffix(':')
        .filter(|rest| !rest.ends_with(':'))
        .unwrap_or(clean);
    let is_wildcard = text.ends_with('*') || text.ends_with('.') && clean.matches('.').count() < 3;
    (!is_wildcard).then(|| changed(text, clean))?
}

fn with_hyphen(text: &str) -> Option<String> {
    let signs = [
        "\u{2010}", "\u{2011}", "\u{2012}", "\u{2013}", "\u{2014}", "\u{2212}", "..", " to ", "~",
    ];
    let sign = signs.iter().find(|sign| text.contains(**sign))?;
    let (first, last) = text.split_once(sign)?;
    Some(format!("{}-{}", first.trim(), last.trim()))
}

/// `192.0.2.1-9` is `192.0.2.1-192.0.2.9`.
fn with_whole_end(text: &str) -> Option<String> {
    let (first, last) = text.split_once('-')?;
    let address: Ipv4Addr = first.trim().parse().ok()?;
    let end: u8 = last.trim().parse().ok()?;
    let [a, b, c, _] = address.octets();
    Some(format!("{address}-{a}.{b}.{c}.{end}"))
}

/// An IPv4 address, prefix or range without the zeros in front of its numbers.
fn without_zeros(text: &str) -> Option<String> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (decimal(first.trim())?, decimal(last.trim())?);
        return changed(text, &format!("{first}-{last}"));
    }
    let (address, length) = text.split_once('/').unwrap_or((text, "32"));
    let prefix = Prefix::around(decimal(address)?.into(), length.parse().ok()?)?;
    changed(text, &prefix.to_string())
}

/// An IPv4 address whose numbers are decimal, zeros in front or not.
pub fn decimal(text: &str) -> Option<Ipv4Addr> {
    let octets: Option<Vec<u8>> = text.split('.').map(|octet| octet.parse().ok()).collect();
    let octets: [u8; 4] = octets?.try_into().ok()?;
    Some(octets.into())
}

/// `192.0.2.*`, `192.0.2.`, `192.0.2/24`, `192.0.2.0 255.255.255.0`, `192.0.2.0 0.0.0.255`,
/// `fe80/16`, `2001:db8:1:5b00/56`.
fn with_all_numbers(text: &str) -> Option<String> {
    if let Some((address, mask)) = text.split_once([' ', '\t']) {
        return masked(address, mask.trim()).map(|prefix| prefix.to_string());
    }
    partial(text).map(|prefix| prefix.to_string())
}

/// Parses a network with a netmask or an inverse netmask, as in Cisco's configuration.
pub fn masked(address: &str, mask: &str) -> Option<Prefix> {
    let (address, mask): (Ipv4Addr, Ipv4Addr) = (address.parse().ok()?, mask.parse().ok()?);
    let bits = mask.to_bits();
    let bits = if bits.leading_ones() > 0 || bits == 0 {
        bits
    } else {
        !bits
    };
    let length = bits.leading_ones();
    (bits.count_ones() == length)
        .then(|| Prefix::around(address.into(), u8::try_from(length).ok()?))?
}

/// A network of which the numbers that are 0 were left out.
pub fn partial(text: &str) -> Option<Prefix> {
    let (front, length) = text
        .split_once('/')
        .map_or((text, None), |(front, length)| (front, Some(length)));
    if front.contains(':')
        || front.chars().all(|c| c.is_ascii_hexdigit())
            && !front.chars().all(|c| c.is_ascii_digit())
    {
        let address: Ipv6Addr = format!("{front}::").parse().ok()?;
        return Prefix::around(address.into(), length?.parse().ok()?);
    }
    let stars = front.trim_end_matches(".*");
    let has_end = stars.len() < front.len() || front.ends_with('.');
    let numbers = stars.trim_end_matches('.').split('.');
    let numbers: Option<Vec<u8>> = numbers.map(|number| number.parse().ok()).collect();
    let numbers = numbers?;
    let count = numbers.len();
    if count > 3 || (count < 2 && !has_end && length.is_none()) {
        return None;
    }
    let mut octets = [0; 4];
    octets[..count].copy_from_slice(&numbers);
    let length = match length {
        Some(length) => length.parse().ok()?,
        None => u8::try_from(8 * count).ok()?,
    };
    Prefix::around(octets.into(), length)
}

/// An IPv4 address as one number, decimal or hexadecimal.
fn number(text: &str) -> Option<Ipv4Addr> {
    let hexadecimal = text.strip_prefix("0x");
    let number = match hexadecimal {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        // Smaller numbers have another meaning.
        None => text.parse().ok().filter(|number| *number >= 1 << 24)?,
    };
    Some(number.into())
}

fn changed(before: &str, after: &str) -> Option<String> {
    (before != after).then(|| after.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_an_address_is_reported_with_the_address() {
        for (text, fault, clean) in [
            ("192.0.2.1.", "has an extra character", "192.0.2.1"),
            (".192.0.2.1", "has an extra character", "192.0.2.1"),
            ("192.0.2.0/24,", "has an extra character", "192.0.2.0/24"),
            ("-192.0.2.1", "has an extra character", "192.0.2.1"),
            ("\u{ff11}92.0.2.1", "has full-width characters", "192.0.2.1"),
            ("192\u{3002}0.2.1", "has full-width characters", "192.0.2.1"),
            ("192.0.2.1\u{200b}", "has invisible characters", "192.0.2.1"),
            ("\u{201c}192.0.2.1\u{201d}", "is in quotes", "192.0.2.1"),
            ("\"192.0.2.1\"", "is in quotes", "192.0.2.1"),
            ("192[.]0[.]2[.]1", "is defanged", "192.0.2.1"),
            ("hxxp://192.0.2.1/", "is a URL", "192.0.2.1"),
            ("hxxps://192[.]0.2.1:8080/x?y", "is defanged", "192.0.2.1"),
            ("https://[2001:db8::1]/x", "is a URL", "2001:db8::1"),
            ("192.0.2.1:443", "has a port", "192.0.2.1"),
            ("[2001:db8::1]", "is in brackets", "2001:db8::1"),
            ("[2001:db8::1]:443", "has a port", "2001:db8::1"),
            ("[2001:db8::]/32", "is in brackets", "2001:db8::/32"),
            ("fe80::1%eth0", "names an interface", "fe80::1"),
            ("fe80::1%2/64", "names an interface", "fe80::/64"),
            (
                "192.0.2.1\u{2013}192.0.2.9",
                "is a range without `-`",
                "192.0.2.1-192.0.2.9",
            ),
            (
                "192.0.2.1..192.0.2.9",
                "is a range without `-`",
                "192.0.2.1-192.0.2.9",
            ),
            (
                "192.0.2.1-9",
                "is a range with a shortened end",
                "192.0.2.1-192.0.2.9",
            ),
            (
                "192.000.002.001",
                "has leading zeros, which some programs read as octal",
                "192.0.2.1",
            ),
            (
                "192.000.002.001-192.000.002.009",
                "has leading zeros, which some programs read as octal",
                "192.0.2.1-192.0.2.9",
            ),
            ("192.0.2", "is a shortened prefix", "192.0.2.0/24"),
            ("192.0.2/24", "is a shortened prefix", "192.0.2.0/24"),
            ("192.0.2.*", "is a shortened prefix", "192.0.2.0/24"),
            ("192.0.*.*", "is a shortened prefix", "192.0.0.0/16"),
            (
                "192.0.2.0 255.255.255.0",
                "is a shortened prefix",
                "192.0.2.0/24",
            ),
            (
                "192.0.2.0 0.0.0.255",
                "is a shortened prefix",
                "192.0.2.0/24",
            ),
            ("fe80/16", "is a shortened prefix", "fe80::/16"),
            (
                "2001:db8:1837:5b00/56",
                "is a shortened prefix",
                "2001:db8:1837:5b00::/56",
            ),
            ("0x7f000001", "is an address as one number", "127.0.0.1"),
            ("3221225985", "is an address as one number", "192.0.2.1"),
        ] {
            let clean = clean.to_owned();
            assert_eq!(meant(text), Some(Meant { fault, clean }), "{text}");
        }
    }

    #[test]
    fn what_is_an_address_or_nothing_like_one_is_left_alone() {
        for text in [
            "",
            "x",
            "192.0.2.256",
            "example.net",
            "AS64496",
            "12",
            "2001:db8:1:2:3:4:5:6:7",
        ] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn what_nobody_can_guess_is_reported_for_what_it_is() {
        let told = |text| fault(text).map(|(fault, _)| fault);
        for text in ["192.0.2.42.3254.198.51.100.223", "192.0.2.1192.0.2.2"] {
            let run = "has more than four numbers: two addresses run together";
            assert_eq!(told(text), Some(run), "{text}");
        }
        assert_eq!(
            told("2001:db8:1:2:3:4:5:6:7"),
            Some("has more than the eight groups of IPv6")
        );
        assert_eq!(told("AS64496"), Some("is an AS number"));
        assert_eq!(told("example.net"), Some("is a name"));
        assert_eq!(told("!192.0.2.1"), Some("is an exception from the list"));
        assert_eq!(told("192.0.2.256"), None);
    }
}
