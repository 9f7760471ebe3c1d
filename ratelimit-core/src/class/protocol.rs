//! Protocols by name; all others by their number (IANA, "Assigned Internet Protocol Numbers").

/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// ICMP for IPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;

/// `icmp` means both families.
const NAMES: [(&str, &[u8]); 15] = [
    ("tcp", &[TCP]),
    ("udp", &[UDP]),
    ("icmp", &[ICMP, ICMPV6]),
    ("icmpv6", &[ICMPV6]),
    ("sctp", &[132]),
    ("gre", &[47]),
    ("esp", &[50]),
    ("igmp", &[2]),
    ("ipip", &[4]),
    ("dccp", &[33]),
    ("ipv6", &[41]),
    ("ospf", &[89]),
    ("pim", &[103]),
    ("vrrp", &[112]),
    ("udplite", &[136]),
];

/// Whether it is ICMP, of either family.
pub const fn is_icmp(number: u8) -> bool {
    matches!(number, ICMP | ICMPV6)
}

/// Bytes of the shortest header of a protocol; 0 where it may have none.
pub const fn header_bytes(number: u8) -> u16 {
    match number {
        TCP => 20,
        33 | 132 => 12,
        UDP | ICMP | ICMPV6 | 136 => 8,
        _ => 0,
    }
}

/// The protocols of a name or a number.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let named = NAMES.iter().find(|(name, _)| *name == text);
    let numbered = || text.parse().ok().map(|number| vec![number]);
    named.map(|(_, numbers)| numbers.to_vec()).or_else(numbered)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Returns the name of a protocol for messages.
pub fn name(number: u8) -> String {
    named(number).map_or_else(|| format!("protocol {number}"), str::to_owned)
}

/// Returns the name or number that [`parse`] accepts.
pub fn name_or_number(number: u8) -> String {
    named(number).map_or_else(|| number.to_string(), str::to_owned)
}

fn named(number: u8) -> Option<&'static str> {
    if number == ICMP {
        return Some("icmp");
    }
    let named = NAMES.iter().find(|(_, numbers)| *numbers == [number]);
    named.map(|(name, _)| *name)
}

/// The fewest names and numbers for these protocols.
pub fn spell<'a>(numbers: impl IntoIterator<Item = &'a u8>) -> Vec<String> {
    let mut numbers: Vec<u8> = numbers.into_iter().copied().collect();
    let mut words = vec![];
    if numbers.contains(&ICMP) && numbers.contains(&ICMPV6) {
        numbers.retain(|number| *number != ICMP && *number != ICMPV6);
        words.push("icmp".to_owned());
    }
    words.extend(numbers.into_iter().map(|number| {
        let named = NAMES.iter().find(|(_, numbers)| *numbers == [number]);
        named.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
    }));
    words
}
