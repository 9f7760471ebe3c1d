//! Lines of other tools that drop, each of them one rule:
//!
//! ```text
//! drop ip [192.0.2.0/24,198.51.100.7] any -> $HOME_NET any (msg:"why";)    Suricata, Snort
//! access-list 10 deny 192.0.2.0 0.0.0.255                                  Cisco
//! ip route 192.0.2.0 255.255.255.0 Null0                                   Cisco
//! blackhole 192.0.2.0/24                                                   ip route
//! acl bad src 192.0.2.1 198.51.100.0/24                                    HAProxy
//! rule family="ipv4" source address="192.0.2.1" drop                       firewalld
//! ExitAddress 192.0.2.1 2026-11-27 16:00:00                                Tor
//! ```

use super::{
    rule::{Rule, is_like_an_address},
    words::{command, words},
};
use crate::lists::{
    reader::{Reader, Said},
    typo,
};

/// Whether a line is one of them.
pub fn is_one(line: &str) -> bool {
    let words = words(line);
    match words.as_slice() {
        ["alert" | "drop" | "reject" | "rejectsrc", ..] => line.contains(" -> "),
        ["ExitNode" | "ExitAddress" | "access-list", _, ..]
        | ["ip" | "ipv6", "access-list" | "route", ..]
        | ["deny" | "permit", "ip" | "host" | "ipv6" | "any", _, ..]
        | [_, "deny" | "permit", "ip" | "host" | "ipv6", _, ..]
        | ["acl", _, "src", ..] => true,
        ["deny", source, mask] => typo::masked(source, mask).is_some(),
        ["blackhole" | "unreachable" | "prohibit", source, ..] => is_like_an_address(source),
        ["rule", ..] => line.contains("source address="),
        _ => false,
    }
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    for line in reader.text().lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', '!', ';']) {
            continue;
        }
        read_line(line, reader);
    }
}

fn read_line(line: &str, reader: &mut Reader<'_>) {
    let words = words(line);
    let (first, rest) = command(&words);
    match (first, rest) {
        ("ExitAddress", [address, ..]) => reader.take(address, address, Said::default()),
        ("alert" | "drop" | "reject" | "rejectsrc", _) if line.contains(" -> ") => {
            intrusion(first, line, reader);
        }
        ("access-list", [_, "extended" | "standard", rest @ ..] | [_, rest @ ..]) => {
            cisco(rest, reader);
        }
        ("deny" | "permit", _) => cisco(&words, reader),
        (_, ["deny" | "permit", ..]) => cisco(rest, reader),
        ("ip" | "ipv6", ["route", "add" | "replace", rest @ ..]) => route(rest, reader),
        ("ip" | "ipv6", ["route", rest @ ..]) => cisco_route(rest, reader),
        ("blackhole" | "unreachable" | "prohibit", _) => route(&words, reader),
        ("acl", [_, "src", rest @ ..]) => {
            let mut rule = Rule {
                drops: true,
                ..Rule::default()
            };
            let sources = rest.iter().filter(|word| !word.starts_with('-'));
            sources.for_each(|source| rule.add(source));
            rule.take(reader);
        }
        ("rule", _) => rich(&words, reader),
        _ => {}
    }
}

/// `drop ip [192.0.2.0/24,198.51.100.7] any -> $HOME_NET any (msg:"why"; sid:1;)`
fn intrusion(verb: &str, line: &str, reader: &mut Reader<'_>) {
    let rest = line[verb.len()..].trim_start();
    let (protocol, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (from, options) = rest.split_once(" -> ").unwrap_or((rest, ""));
    let from = from.trim();
    let (sources, port) = match from.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((sources, port)) => (sources, port.trim()),
        None => from.split_once(' ').unwrap_or((from, "any")),
    };
    let reason = options.split_once("msg:").map_or("", |(_, rest)| rest);
    let reason = reason
        .trim_start_matches('"')
        .split('"')
        .next()
        .unwrap_or_default();
    let mut rule = Rule {
        drops: true,
        has_conditions: !matches!(protocol, "ip" | "any") || port != "any" || sources.contains('!'),
        reason: reason.to_owned(),
        ..Rule::default()
    };
    rule.add(sources);
    rule.take(reader);
}

/// `deny [ip] host 192.0.2.1 | 192.0.2.0 0.0.0.255 | 192.0.2.0/24 [any] [log]`
fn cisco(words: &[&str], reader: &mut Reader<'_>) {
    let mut words = words.iter().copied().peekable();
    let drops = match words.next() {
        Some("deny") => true,
        Some("permit") => false,
        _ => return,
    };
    let mut rule = Rule {
        drops,
        ..Rule::default()
    };
    if words
        .next_if(|word| !is_like_an_address(word) && !matches!(*word, "host" | "any"))
        .is_some_and(|protocol| !matches!(protocol, "ip" | "ipv6"))
    {
        rule.has_conditions = true;
    }
    words.next_if_eq(&"host");
    let source = words.next().unwrap_or_default();
    let mask = words.next_if(|mask| typo::masked(source, mask).is_some());
    rule.has_conditions |= words.any(|word| !matches!(word, "any" | "log"));
    let network = mask.and_then(|mask| typo::masked(source, mask));
    match network {
        Some(network) if drops && !rule.has_conditions => {
            reader.take(source, &network.to_string(), Said::default());
        }
        _ => {
            rule.add(source);
            rule.take(reader);
        }
    }
}

/// `192.0.2.0 255.255.255.0 Null0`
fn cisco_route(words: &[&str], reader: &mut Reader<'_>) {
    let is_null = |word: &&str| word.to_ascii_lowercase().starts_with("null");
    if !words.iter().any(is_null) {
        return reader.skip("of a route that leads somewhere");
    }
    let [network, rest @ ..] = words else { return };
    let masked = rest.first().and_then(|mask| typo::masked(network, mask));
    let written = masked.map_or_else(|| (*network).to_owned(), |network| network.to_string());
    reader.take(network, &written, Said::default());
}

/// `blackhole 192.0.2.0/24 [metric 1]`
fn route(words: &[&str], reader: &mut Reader<'_>) {
    match words {
        ["blackhole" | "unreachable" | "prohibit", source, ..] if *source != "default" => {
            reader.take(source, source, Said::default());
        }
        _ => reader.skip("of a route that leads somewhere"),
    }
}

/// `rule family="ipv4" source address="192.0.2.1" drop`
fn rich(words: &[&str], reader: &mut Reader<'_>) {
    let mut rule = Rule::default();
    for word in &words[1..] {
        match word.split_once('=') {
            Some(("address", address)) => rule.add(address.trim_matches(['"', '\''])),
            Some(("family" | "priority", _)) => {}
            None if matches!(*word, "drop" | "reject") => rule.drops = true,
            None if *word == "source" => {}
            _ => rule.has_conditions = true,
        }
    }
    rule.take(reader);
}
