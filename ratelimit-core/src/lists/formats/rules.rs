//! Lines of other tools that drop, each of them one rule:
//!
//! ```text
//! drop ip [192.0.2.0/24,198.51.100.7] any -> $HOME_NET any (msg:"why";)    Suricata, Snort
//! access-list 10 deny 192.0.2.0 0.0.0.255                                  Cisco
//! ip route 192.0.2.0 255.255.255.0 Null0                                   Cisco
//! blackhole 192.0.2.0/24                                                   ip route
//! acl bad src 192.0.2.1 198.51.100.0/24                                    HAProxy
//! rule family="ipv4" source address="192.0.2.1" drop                       firewalld
//! route: 192.0.2.0/24                                                      RPSL, of registries
//! ripencc|NL|ipv4|192.0.2.0|256|20100712|allocated                         registries
//! ip prefix-list BAD seq 5 permit 192.0.2.0/24                             Cisco, FRR, bgpq4
//! set policy-options prefix-list BAD 192.0.2.0/24                          Juniper, VyOS
//! network-object host 192.0.2.1                                            Cisco
//! 10 host 192.0.2.1                                                        Cisco, in a group
//! set firewall group network-group BAD network '192.0.2.0/24'              VyOS
//! set address BAD ip-netmask 192.0.2.0/24                                  Palo Alto
//! netsh advfirewall firewall add rule dir=in action=block remoteip=192.0.2.1 Windows
//! access-control: 192.0.2.0/24 refuse                                      unbound
//! add 100 deny ip from 192.0.2.1 to any                                    ipfw
//! ExitAddress 192.0.2.1 2026-11-27 16:00:00                                Tor
//! ```

use std::net::Ipv4Addr;

use super::{
    rule::{Rule, is_like_an_address, is_name},
    words::{command, uncommented, unquoted, words},
};
use crate::lists::{
    address,
    reader::{Reader, Said},
    typo,
};

/// Whether a line is one of them.
pub fn is_one(line: &str) -> bool {
    let words = words(line);
    match words.as_slice() {
        ["alert" | "drop" | "reject" | "rejectsrc", ..] => line.contains(" -> "),
        [
            "ExitNode" | "ExitAddress" | "access-list" | "object-group" | "network-object"
            | "route:" | "route6:" | "inetnum:" | "inet6num:" | "netsh",
            _,
            ..,
        ]
        | ["object", "network", _]
        | ["seq", _, "permit" | "deny", _, ..]
        | [
            "ip" | "ipv4" | "ipv6",
            "access-list" | "route" | "prefix-list",
            ..,
        ]
        | ["no", "ip" | "ipv6", "prefix-list", ..]
        | ["access-control:", _, _]
        | ["add", _, "deny" | "allow", ..]
        | [
            "deny" | "permit",
            "ip" | "host" | "ipv4" | "ipv6" | "any",
            _,
            ..,
        ]
        | [_, "deny" | "permit", "ip" | "host" | "ipv4" | "ipv6", _, ..]
        | ["acl", _, "src", ..] => true,
        ["deny", source, mask] => typo::masked(source, mask).is_some(),
        ["blackhole" | "unreachable" | "prohibit", source, ..] => is_like_an_address(source),
        ["rule", ..] => line.contains("source address="),
        ["set", .., source] => is_of_set(line) && is_like_an_address(source.trim_matches('\'')),
        [_, ..] if allocated(line).is_some() => true,
        _ => false,
    }
}

/// Whether a command sets a list of Juniper, a group of `VyOS` or an address of Palo Alto.
fn is_of_set(line: &str) -> bool {
    let kinds = [" prefix-list ", "-group ", " ip-netmask ", " ip-range "];
    kinds.iter().any(|kind| line.contains(kind))
}

/// Begins the set whose name follows a word that ends in `kind`. Sets with other names may have
/// good addresses.
fn begin(words: &[&str], kind: &str, reader: &mut Reader<'_>) {
    let at = words.iter().position(|word| word.ends_with(kind));
    if let Some(name) = at.and_then(|at| words.get(at + 1)) {
        reader.sets.begin(name, reader.span(name), "grep -w");
    }
}

/// The family, the first address, and the count or length of what a registry gave away.
fn allocated(line: &str) -> Option<(&str, &str, &str)> {
    let mut columns = line.split('|').skip(2);
    let (family, start, count) = (columns.next()?, columns.next()?, columns.next()?);
    matches!(family, "ipv4" | "ipv6").then_some((family, start, count))
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    for line in reader.text().lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', '!', ';', '%']) {
            continue;
        }
        if let Some((family, start, count)) = allocated(line) {
            registry(family, start, count, reader);
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
        (_, [_, _, "from", ..]) => ipfw(rest, reader),
        (_, ["deny" | "permit", ..]) => cisco(rest, reader),
        ("ip" | "ipv6", ["route", "add" | "replace", rest @ ..]) => route(rest, reader),
        ("ip" | "ipv6", ["route", rest @ ..]) => cisco_route(rest, reader),
        ("blackhole" | "unreachable" | "prohibit", _) => route(&words, reader),
        ("acl", [_, "src", rest @ ..]) => {
            begin(&words, "acl", reader);
            let mut rule = Rule {
                drops: true,
                ..Rule::default()
            };
            let sources = rest.iter().filter(|word| !word.starts_with('-'));
            sources.for_each(|source| rule.add(source));
            rule.take(reader);
        }
        ("rule", _) => rich(&words, reader),
        ("route:" | "route6:" | "inetnum:" | "inet6num:", _) => {
            let written = line.split_once(':').map_or(line, |(_, rest)| rest);
            let written = uncommented(written);
            reader.take(written, written, Said::default());
        }
        (
            "ip" | "ipv6",
            ["prefix-list", _, "seq", _, rest @ ..] | ["prefix-list", _, rest @ ..],
        ) => {
            begin(&words, "prefix-list", reader);
            listed(rest, reader);
        }
        ("seq", [_, rest @ ..]) => listed(rest, reader),
        ("set", [.., "action", "deny" | "'deny'"]) if is_of_set(line) => {
            let hint = "take its prefix out, and let it through: rlctl allow add";
            reader.bad(line, "this rule is an exception from the list", hint);
        }
        ("set", [.., source]) if is_of_set(line) => {
            begin(&words, "prefix-list", reader);
            begin(&words, "-group", reader);
            let source = source.trim_matches('\'');
            if is_name(source) {
                reader.skip("of a rule with a name");
            } else {
                reader.take(source, source, Said::default());
            }
        }
        ("delete" | "deactivate", [.., source]) if is_of_set(line) => {
            let source = source.trim_matches('\'');
            reader.take_off(source, source);
        }
        ("object-group", ["network", ..] | ["ip", "address", ..]) => {
            let name = words.get(words.len() - 1..).unwrap_or_default();
            begin(&[&["object-group"], name].concat(), "object-group", reader);
        }
        ("network-object", rest) => object(rest, line, reader),
        ("netsh", rest) => netsh(rest, reader),
        ("access-control:", [source, action]) => {
            let mut rule = Rule {
                drops: action.starts_with("deny") || action.starts_with("refuse"),
                ..Rule::default()
            };
            rule.add(source);
            rule.take(reader);
        }
        ("add", [_, rest @ ..]) => ipfw(rest, reader),
        // A line of a group, whose number Nexus writes in front.
        (number, rest) if number.parse::<u32>().is_ok() => object(rest, line, reader),
        _ => object(&words, line, reader),
    }
}

/// A member of a group of Cisco: `host 192.0.2.1`, `range 192.0.2.1 192.0.2.9`,
/// `[subnet] 192.0.2.0 255.255.255.0`, `192.0.2.0/24`
fn object(words: &[&str], line: &str, reader: &mut Reader<'_>) {
    let said = Said::default();
    match words {
        ["host", source] => reader.take(source, source, said),
        ["range", first, last] => reader.take(line, &format!("{first}-{last}"), said),
        ["subnet", network, mask] | [network, mask] if typo::masked(network, mask).is_some() => {
            let masked = typo::masked(network, mask).map(|prefix| prefix.to_string());
            reader.take(network, &masked.unwrap_or_default(), said);
        }
        [source] if address::is_one(source, true) => reader.take(source, source, said),
        ["subnet", source] => reader.take(source, source, said),
        words if words.iter().any(|word| address::is_one(word, true)) => {
            reader.skip("of another line");
        }
        _ => {}
    }
}

/// `permit 192.0.2.0/24 [le 32]` of a prefix list, whose other lines are exceptions from it.
fn listed(words: &[&str], reader: &mut Reader<'_>) {
    match words {
        ["permit", source, ..] => reader.take(source, source, Said::default()),
        ["deny", ..] => reader.skip("of a rule that does not drop"),
        _ => {}
    }
}

/// `advfirewall firewall add rule name="why" dir=in action=block remoteip=192.0.2.1,192.0.2.2`
fn netsh(words: &[&str], reader: &mut Reader<'_>) {
    let mut rule = Rule::default();
    let mut direction = "";
    for (key, value) in words.iter().filter_map(|word| word.split_once('=')) {
        match key {
            "name" => rule.reason = unquoted(value).into_owned(),
            "dir" => direction = value,
            "action" => rule.drops = value == "block",
            "remoteip" => rule.add(value.trim_matches('"')),
            "enable" | "description" | "profile" => {}
            _ => rule.has_conditions |= value != "any",
        }
    }
    rule.has_conditions |= direction != "in";
    rule.take(reader);
}

/// `ipv4` with a number of addresses, or `ipv6` with the length of a prefix. A summary has `*`.
fn registry(family: &str, start: &str, count: &str, reader: &mut Reader<'_>) {
    if start == "*" {
        return;
    }
    let last = start.parse().ok().zip(count.parse().ok());
    let last = last.and_then(|(start, count): (Ipv4Addr, u32)| {
        start.to_bits().checked_add(count.checked_sub(1)?)
    });
    match last {
        Some(last) if family == "ipv4" => {
            let range = format!("{start}-{}", Ipv4Addr::from_bits(last));
            reader.take(start, &range, Said::default());
        }
        _ => reader.take(start, &format!("{start}/{count}"), Said::default()),
    }
}

/// `deny ip from 192.0.2.1 to any [in]`
fn ipfw(words: &[&str], reader: &mut Reader<'_>) {
    let mut rule = Rule::default();
    match words {
        [action, protocol, "from", source, "to", rest @ ..] => {
            rule.drops = matches!(*action, "deny" | "drop" | "reject" | "unreach");
            let is_all =
                matches!(*protocol, "ip" | "all") && matches!(rest, ["any"] | ["any", "in"]);
            rule.has_conditions = !is_all;
            rule.add(source);
        }
        _ => rule.has_conditions = true,
    }
    rule.take(reader);
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
        .is_some_and(|protocol| !matches!(protocol, "ip" | "ipv4" | "ipv6"))
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
