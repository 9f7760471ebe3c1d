//! Recognizes the format of a text by the first line that only one format has, and selects its
//! reader.

mod any_json;
mod blocks;
mod crowdsec;
mod crowdsec_csv;
mod csv;
mod fail2ban;
mod fortigate;
mod hosts_deny;
mod ipset;
mod ipset_xml;
mod iptables;
mod json;
mod mikrotik;
mod nft;
mod nft_json;
mod nft_tokens;
mod not_a_list;
mod pf;
mod plain;
mod ranges;
mod rlctl_json;
mod rule;
mod rules;
mod spamhaus_json;
mod ufw;
mod web_server;
mod words;

use self::not_a_list::Other;
use super::{address, format::Format, reader::Reader};

/// The number of lines examined to recognize a text.
const LOOKED_AT: usize = 1000;

/// The number of bytes at the beginning of a text that are searched for keywords of a format.
const START: usize = 64 << 10;

/// Guesses the format of `text`, which `bytes` are.
pub fn guess(bytes: &[u8], text: &str) -> Result<Format, Other> {
    if let Some(other) = not_a_list::by_bytes(bytes) {
        return Err(other);
    }
    let said =
        |line: &&str| !line.is_empty() && !line.starts_with(['#', ';']) && !line.starts_with("//");
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(said)
        .take(LOOKED_AT)
        .peekable();
    let Some(first) = lines.peek().copied() else {
        return Ok(Format::Plain);
    };
    if is_json(first) {
        return object(first, text);
    }
    if let Some(other) = not_a_list::by_shape(first, text) {
        return Err(other);
    }
    // A configuration may begin with text that does not identify it.
    let start = &text[..text.floor_char_boundary(START)];
    let format = lines.find_map(|line| by_line(line, start));
    if format.is_none_or(|format| format == Format::Plain) {
        if let Some(other) = not_a_list::by_line(first, text) {
            return Err(other);
        }
        if csv::delimiter(text).is_some() || format.is_none() && csv::is_table(text) {
            return Ok(Format::Csv);
        }
    }
    Ok(format.unwrap_or(Format::Plain))
}

/// Reads a text of a format.
pub fn read(format: Format, reader: &mut Reader<'_>) {
    match format {
        Format::Plain | Format::Netset | Format::DropText => plain::read(reader),
        Format::DropJson => spamhaus_json::read(reader),
        Format::Own => rlctl_json::read(reader),
        Format::Ipset => ipset::read(reader),
        Format::IpsetXml => ipset_xml::read(reader),
        Format::Nft => nft::read(reader),
        Format::NftJson => nft_json::read(reader),
        Format::CrowdSecCsv => crowdsec_csv::read(reader),
        Format::CrowdSecJson => crowdsec::read(reader),
        Format::Fail2ban => fail2ban::read(reader),
        Format::Csv => csv::read(reader),
        Format::Json => any_json::read(reader),
        Format::Ranges => ranges::read(reader),
        Format::HostsDeny => hosts_deny::read(reader),
        Format::WebServer => web_server::read(reader),
        Format::Iptables => iptables::read(reader),
        Format::Ufw => ufw::read(reader),
        Format::MikroTik => mikrotik::read(reader),
        Format::Pf => pf::read(reader),
        Format::Blocks => blocks::read(reader),
        Format::FortiGate => fortigate::read(reader),
        Format::Rules => rules::read(reader),
        // It is not text: `geo` reads it.
        Format::Mmdb => {}
    }
    let is_of_lines = matches!(
        format,
        Format::Iptables | Format::Ufw | Format::MikroTik | Format::Rules | Format::WebServer
    );
    let text = reader.text().lines().filter(|_| is_of_lines);
    for line in text
        .map(words::uncommented)
        .filter(|line| address::is_one(line, true))
    {
        rule::report_alone(line, reader);
    }
}

/// Returns whether a text is JSON, by its first line. An address with a port, `[2001:db8::1]:80`,
/// and a Python list are not.
fn is_json(line: &str) -> bool {
    match line.as_bytes() {
        [b'{', ..] => true,
        [b'[', rest @ ..] => {
            let rest = rest.trim_ascii_start();
            matches!(rest, [] | [b'[' | b']' | b'"', ..])
                || rest
                    .strip_prefix(b"{")
                    .is_some_and(|rest| !rest.trim_ascii_start().starts_with(b"'"))
        }
        bytes => bytes == b"null",
    }
}

/// The keys of our own lines besides the prefix.
const OURS: [&str; 6] = ["action", "until", "reason", "by", "since", "origin"];

/// Recognizes JSON by the keys of its first object.
fn object(line: &str, text: &str) -> Result<Format, Other> {
    let keys = any_json::first_keys(text);
    let has = |key: &str| keys.iter().any(|it| it == key);
    let has_any = |keys: &[&str]| keys.iter().any(|key| has(key));
    if has("nftables") {
        return Ok(Format::NftJson);
    }
    if line.starts_with('{') && has("cidr") && (keys.len() == 1 || has("sblid"))
        || has("type") && has("records")
    {
        return Ok(Format::DropJson);
    }
    // A misspelled key is reported rather than mistaken for another format.
    let is_ours = |key: &String| OURS.iter().any(|ours| strsim::levenshtein(key, ours) < 2);
    let is_ours = keys.len() == 1 || keys.iter().any(is_ours);
    if line.starts_with('{') && has("prefix") && is_ours {
        return Ok(Format::Own);
    }
    let is_empty = matches!(text.trim(), "[]" | "null");
    // Indicators have a type too, which says what the value is.
    let kind = text.split_once("\"type\"").map_or("", |(_, rest)| rest);
    let kind = kind.trim_start_matches([' ', '\n', ':']);
    let is_kind = ["\"ban\"", "\"captcha\""]
        .iter()
        .any(|it| kind.starts_with(it));
    let is_decision =
        has("value") && (keys.len() == 1 || is_kind || has_any(&["duration", "scope", "scenario"]));
    if is_empty || has("decisions") || is_decision || has("new") && has("deleted") {
        return Ok(Format::CrowdSecJson);
    }
    match not_a_list::by_json(text, &keys) {
        Some(other) => Err(other),
        None => Ok(Format::Json),
    }
}

/// Says whether a line is one of a format.
type Test = fn(&str) -> bool;

/// The format that has such a line in a text that begins so; `None` where many have it.
fn by_line(line: &str, text: &str) -> Option<Format> {
    let all = words::words(line);
    let (first, rest) = words::command(&all);
    let second = rest.first().copied().unwrap_or_default();
    let is_of_nft =
        ["element", "set", "table", "map", "chain", "rule", "ruleset"].contains(&second);
    match first {
        "nft" => return Some(Format::Nft),
        "ipset" => return Some(Format::Ipset),
        "add" | "create" | "flush" | "destroy" | "delete" if is_of_nft => return Some(Format::Nft),
        // With a bracket behind it, it is a set of prefixes of BIRD.
        "define" if rest.get(1) == Some(&"=") && !line.contains('[') => return Some(Format::Nft),
        "elements" if second == "=" => return Some(Format::Nft),
        "table" | "set" if line.ends_with('{') && !second.starts_with('<') => {
            return Some(Format::Nft);
        }
        _ => {}
    }
    // Not the name of a program, which has no folder.
    let whole = all.first().copied().unwrap_or_default();
    if address::is_one(whole, true) && !ranges::is_one(line) {
        return Some(of_addresses(line, text));
    }
    let tests: [(Format, Test); 11] = [
        (Format::Blocks, blocks::is_one),
        (Format::FortiGate, fortigate::is_one),
        (Format::MikroTik, mikrotik::is_one),
        (Format::Iptables, iptables::is_one),
        (Format::Ufw, ufw::is_one),
        (Format::Pf, pf::is_one),
        (Format::Rules, rules::is_one),
        (Format::WebServer, web_server::is_one),
        (Format::Ranges, ranges::is_one),
        (Format::HostsDeny, hosts_deny::is_one),
        (Format::CrowdSecCsv, is_head_of_crowdsec),
    ];
    let tested = tests.iter().find(|(_, is_one)| is_one(line));
    if let Some((format, _)) = tested {
        return Some(*format);
    }
    match first {
        "add" | "create" | "del" | "-A" | "-N" | "flush" | "swap" | "destroy" | "rename" => {
            Some(Format::Ipset)
        }
        "Name:" if text.contains("Members:") => Some(Format::Ipset),
        "Status" if line.contains("for the jail:") => Some(Format::Fail2ban),
        _ if line.starts_with("[{'") || line.starts_with("['") => Some(Format::Fail2ban),
        _ if line.starts_with('<') && text.contains("<ipset") => Some(Format::IpsetXml),
        _ if line.starts_with('<') && text.contains("<source address=") => Some(Format::IpsetXml),
        _ if line.starts_with('<') && text.contains("sense>") => Some(Format::IpsetXml),
        _ if line.starts_with("<alias") => Some(Format::IpsetXml),
        _ => None,
    }
}

/// Lines that begin with an address.
fn of_addresses(line: &str, text: &str) -> Format {
    if line.contains(" + ") && line.contains(" = ") {
        Format::Fail2ban
    } else if text.contains("Spamhaus") && line.contains(';') {
        Format::DropText
    } else if text.contains(" ipset\n") && text.starts_with('#') {
        Format::Netset
    } else {
        Format::Plain
    }
}

/// Whether a line names the columns of `CrowdSec`'s CSV.
fn is_head_of_crowdsec(line: &str) -> bool {
    let names: Vec<&str> = line.split(',').map(str::trim).collect();
    let has = |all: &[&str]| names.iter().any(|name| all.contains(name));
    names.len() > 1
        && has(&["value", "ip"])
        && (has(&["duration", "expiration", "scope", "scenario"])
            || has(&["action"]) && has(&["source"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_told_by_the_first_line_that_says_something() {
        check("192.0.2.1\n", Format::Plain);
        check("# a\n\n; b\n2001:db8::/32 # c", Format::Plain);
        check("{\"cidr\":\"192.0.2.0/24\"}", Format::DropJson);
        check("{\"prefix\":\"192.0.2.0/24\"}", Format::Own);
        check("create a hash:ip", Format::Ipset);
        check("add a 192.0.2.1", Format::Ipset);
        check("add element inet a b { 192.0.2.1 }", Format::Nft);
        check("#!/usr/sbin/nft -f\ntable inet a {\n", Format::Nft);
        check("define BAD = {", Format::Nft);
        check("{\"nftables\": []}", Format::NftJson);
        check("duration,scope,value\n", Format::CrowdSecCsv);
        check("id,source,ip,reason,action\n", Format::CrowdSecCsv);
        check("[\n {\"decisions\": null", Format::CrowdSecJson);
        check("[\n {", Format::Json);
        check("[{'sshd': []}]", Format::Fail2ban);
        check("set -e\nipset create a hash:ip\n", Format::Ipset);
        check("[]", Format::CrowdSecJson);
        check("[2001:db8::1]:80", Format::Plain);
    }

    #[test]
    fn what_is_no_list_is_reported() {
        for (bytes, expected) in [
            (&b"\x1f\x8b\x08\0"[..], "is compressed (gzip)"),
            (b"<!DOCTYPE html>\n", "is a web page, not a list"),
            (b"\xff\xfe1\0", "is UTF-16"),
            (
                b"{\"asn\":64496,\"rir\":\"arin\"}",
                "is a list of AS numbers",
            ),
        ] {
            let Err((what, _)) = guess(bytes, &String::from_utf8_lossy(bytes)) else {
                panic!("{expected}");
            };
            assert_eq!(what, expected);
        }
        check("", Format::Plain);
        check("# nobody\n", Format::Plain);
    }

    fn check(text: &str, expected: Format) {
        assert_eq!(guess(text.as_bytes(), text), Ok(expected), "{text}");
    }
}
