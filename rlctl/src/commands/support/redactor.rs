//! Replaces known secrets and all addresses in a text.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::Range,
};

use crate::phrase;

/// The replacement of a secret.
pub const REDACTED: &str = "REDACTED";
/// A shorter secret is taken out where it is configured only: elsewhere it would be a part of
/// words.
const SECRET_MIN: usize = 4;
/// The networks of IPv4 for documentation (RFC 5737), by their first three bytes.
const DOCUMENTATION: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];

/// Known secrets, and the replacement of each address.
pub struct Redactor {
    takes_addresses: bool,
    secrets: Vec<String>,
    hosts: Vec<String>,
    addresses: HashMap<IpAddr, IpAddr>,
    of_ipv4: u32,
    of_ipv6: u32,
}

impl Redactor {
    pub fn new(takes_addresses: bool) -> Self {
        Self {
            takes_addresses,
            secrets: Vec::new(),
            hosts: Vec::new(),
            addresses: HashMap::new(),
            of_ipv4: 0,
            of_ipv6: 0,
        }
    }

    /// Has a secret taken out of all texts from then on.
    pub fn learn_secret(&mut self, secret: &str) {
        if secret.len() >= SECRET_MIN && !self.secrets.iter().any(|known| known == secret) {
            self.secrets.push(secret.to_owned());
            // Longest first, so that a secret that is part of another leaves nothing behind.
            self.secrets.sort_by_key(|secret| usize::MAX - secret.len());
        }
    }

    /// Replaces the name of a host. One without a domain reveals little, and may be an ordinary
    /// word.
    pub fn learn_host(&mut self, host: &str) {
        let is_name = host.contains('.') && host.parse::<IpAddr>().is_err();
        if is_name && !self.hosts.iter().any(|known| known == host) {
            self.hosts.push(host.to_owned());
        }
    }

    /// Number of addresses replaced.
    pub fn addresses_replaced(&self) -> usize {
        self.addresses.len()
    }

    /// Describes the replacements.
    pub fn summary(&self) -> String {
        let secrets = "secrets, keys and passwords removed";
        if !self.takes_addresses {
            return format!("{secrets}; addresses unchanged (--with-addresses)");
        }
        let count = phrase::count(self.addresses.len(), "address", "addresses");
        format!(
            "{secrets}; {count} replaced by addresses of documentation, or of 240.0.0.0/4 where \
             these are too few. Names and reasons stay: read them before you send it"
        )
    }

    /// The text as it may be shown.
    pub fn text(&mut self, text: &str) -> String {
        let secrets = self.secrets.iter();
        let text = secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), REDACTED)
        });
        if !self.takes_addresses {
            return text;
        }
        let hosts = self.hosts.iter().zip(1..);
        let text = hosts.fold(text, |text, (host, number)| {
            text.replace(host.as_str(), &format!("host{number}.example"))
        });
        self.without_addresses(&text)
    }

    fn without_addresses(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut copied = 0;
        for (place, address) in addresses(text) {
            shown.push_str(&text[copied..place.start]);
            shown.push_str(&self.stand_in(address).to_string());
            copied = place.end;
        }
        shown + &text[copied..]
    }

    fn stand_in(&mut self, address: IpAddr) -> IpAddr {
        if says_nothing(address) {
            return address;
        }
        if let Some(known) = self.addresses.get(&address) {
            return *known;
        }
        let next = match address {
            IpAddr::V4(_) => {
                self.of_ipv4 += 1;
                IpAddr::V4(numbered_ipv4(self.of_ipv4 - 1))
            }
            IpAddr::V6(_) => {
                self.of_ipv6 += 1;
                let documentation = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0));
                IpAddr::V6(Ipv6Addr::from(documentation + u128::from(self.of_ipv6)))
            }
        };
        self.addresses.insert(address, next);
        next
    }
}

fn numbered_ipv4(number: u32) -> Ipv4Addr {
    let [.., high, low] = number.to_be_bytes();
    match DOCUMENTATION.get(usize::from(high)) {
        Some([first, second, third]) if number < 1 << 16 => {
            Ipv4Addr::new(*first, *second, *third, low)
        }
        _ => Ipv4Addr::from((240 << 24) + number),
    }
}

/// Whether every host has the address, or none.
fn says_nothing(address: IpAddr) -> bool {
    let is_mask = matches!(address, IpAddr::V4(address) if address.octets()[0] == 255);
    address.is_loopback() || address.is_unspecified() || is_mask
}

/// Finds the addresses in a text.
fn addresses(text: &str) -> Vec<(Range<usize>, IpAddr)> {
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    let mut found = Vec::new();
    for run in runs(text, 0..text.len(), is_part) {
        match ipv6(text, run.clone()) {
            Some(address) => found.push(address),
            None => found.extend(ipv4(text, run)),
        }
    }
    found
}

/// Returns the longest runs of bytes that satisfy a condition.
fn runs(text: &str, part: Range<usize>, is_part: impl Fn(u8) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (place, byte) in part.clone().zip(text[part].bytes()) {
        if !is_part(byte) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == place => last.end = place + 1,
            _ => runs.push(place..place + 1),
        }
    }
    runs
}

/// Finds an IPv6 address in a piece of text, possibly followed by the end of a sentence.
/// `control::add` contains none: it is a part of a word.
fn ipv6(text: &str, run: Range<usize>) -> Option<(Range<usize>, IpAddr)> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let before = text[..run.start].chars().next_back();
    let behind = text[run.end..].chars().next();
    if before.is_some_and(is_word) || behind.is_some_and(is_word) {
        return None;
    }
    let whole = &text[run.clone()];
    let without_end = whole.strip_suffix(['.', ':']).unwrap_or(whole);
    [whole, without_end].into_iter().find_map(|text| {
        let address = text.parse::<Ipv6Addr>().ok()?;
        Some((run.start..run.start + text.len(), IpAddr::V6(address)))
    })
}

/// The IPv4 addresses in a piece, also in front of a port.
fn ipv4(text: &str, run: Range<usize>) -> Vec<(Range<usize>, IpAddr)> {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let runs = runs(text, run, is_part).into_iter();
    runs.filter_map(|run| {
        let whole = &text[run.clone()];
        let front = whole.len() - whole.trim_start_matches('.').len();
        let address = whole.trim_matches('.');
        let start = run.start + front;
        let parsed = address.parse::<Ipv4Addr>().ok()?;
        Some((start..start + address.len(), IpAddr::V4(parsed)))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_same_stand_in_throughout() {
        let mut redactor = Redactor::new(true);
        for (text, expected) in [
            (
                "banned 10.7.8.9, then 10.7.8.9.",
                "banned 192.0.2.0, then 192.0.2.0.",
            ),
            (
                "{\"peer\":\"10.7.8.10:51514\"}",
                "{\"peer\":\"192.0.2.1:51514\"}",
            ),
            (
                "[fd00::7]:443 and fd00::7.",
                "[2001:db8::1]:443 and 2001:db8::1.",
            ),
            (
                "10.7.8.0/24 is 10.7.8.0/255.255.255.0",
                "192.0.2.2/24 is 192.0.2.2/255.255.255.0",
            ),
            ("9.8.7.10.in-addr.arpa", "192.0.2.3.in-addr.arpa"),
            ("::ffff:10.7.8.9", "2001:db8::2"),
            ("fd00::/8: fd00::: end", "2001:db8::3/8: 2001:db8::3: end"),
            ("src10.7.8.9x", "src192.0.2.0x"),
        ] {
            assert_eq!(redactor.text(text), expected);
        }
        assert_eq!(redactor.addresses_replaced(), 7);
    }

    #[test]
    fn what_is_no_address_or_one_of_everybody_stays() {
        let text = "ratelimit_daemon::add 2026-03-02T14:32:07Z 127.0.0.1 ::1 0.0.0.0/0 ::/0 1.5 \
                    6.18.44 a.b.c.d";
        assert_eq!(Redactor::new(true).text(text), text);
    }

    #[test]
    fn addresses_stay_where_they_are_wanted_and_secrets_do_not() {
        let mut redactor = Redactor::new(false);
        redactor.learn_secret("s3cr3t");
        redactor.learn_secret("s3cr3t-and-more");
        let text = redactor.text("10.7.8.9 s3cr3t-and-more s3cr3t");
        assert_eq!(text, "10.7.8.9 REDACTED REDACTED");
    }

    #[test]
    fn there_are_stand_ins_for_any_number_of_addresses() {
        let mut redactor = Redactor::new(true);
        let stand_ins: Vec<IpAddr> = (0..2000_u32)
            .map(|number| redactor.stand_in(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))))
            .collect();
        let different: std::collections::HashSet<_> = stand_ins.iter().collect();
        assert_eq!(different.len(), 2000);
        assert_eq!(stand_ins[767].to_string(), "203.0.113.255");
        assert_eq!(stand_ins[768].to_string(), "240.0.3.0");
    }
}
