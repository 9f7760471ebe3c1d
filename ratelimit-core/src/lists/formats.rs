//! Which format a text is in, told by its first line that says something, and what reads it.

mod crowdsec;
mod crowdsec_csv;
mod ipset;
mod json;
mod nft;
mod nft_json;
mod nft_tokens;
mod plain;
mod rlctl_json;
mod spamhaus_json;

use super::{format::Format, reader::Reader};

/// What a text is that is no list, and what to do.
pub type Other = (&'static str, &'static str);

/// Guesses the format of `text`, which `bytes` are.
pub fn guess(bytes: &[u8], text: &str) -> Result<Format, Other> {
    if let Some(other) = not_text(bytes) {
        return Err(other);
    }
    let said = |line: &&str| !line.is_empty() && !line.starts_with(['#', ';']);
    let Some(line) = text.lines().map(str::trim).find(said) else {
        return Ok(Format::Plain);
    };
    match line.as_bytes()[0] {
        b'<' if text.contains("<ipset") => Err((
            "is what `ipset -o xml` writes, which is not read",
            "save it without `-o xml`: ipset save | rlctl import -",
        )),
        b'<' => Err((
            "is a web page, not a list",
            "see whether the download failed: `curl --fail` says so",
        )),
        b'{' => object(line),
        // Not an address with its port: [2001:db8::1]:80.
        b'[' if line[1..].trim_start().starts_with(['{', ']']) || line.len() == 1 => {
            Ok(Format::CrowdSecJson)
        }
        _ if line == "null" => Ok(Format::CrowdSecJson),
        _ => Ok(words(line, text)),
    }
}

/// Reads a text of a format.
pub fn read(format: Format, reader: &mut Reader<'_>) {
    match format {
        Format::Plain | Format::Netset | Format::DropText => plain::read(reader),
        Format::DropJson => spamhaus_json::read(reader),
        Format::Own => rlctl_json::read(reader),
        Format::Ipset => ipset::read(reader),
        Format::Nft => nft::read(reader),
        Format::NftJson => nft_json::read(reader),
        Format::CrowdSecCsv => crowdsec_csv::read(reader),
        Format::CrowdSecJson => crowdsec::read(reader),
    }
}

/// What is recognized by its first bytes.
fn not_text(bytes: &[u8]) -> Option<Other> {
    let other = |what, hint| Some((what, hint));
    match bytes {
        [0x1f, 0x8b, ..] => other(
            "is compressed (gzip)",
            "decompress it: zcat FILE | rlctl import -",
        ),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => other(
            "is compressed (xz)",
            "decompress it: xzcat FILE | rlctl import -",
        ),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => other(
            "is compressed (zstd)",
            "decompress it: zstdcat FILE | rlctl import -",
        ),
        [b'P', b'K', 3, 4, ..] => other(
            "is a zip archive",
            "unpack it: unzip -p FILE | rlctl import -",
        ),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => other(
            "is UTF-16",
            "convert it: iconv -f UTF-16 -t UTF-8 FILE | rlctl import -",
        ),
        _ => None,
    }
}

/// JSON: the whole text is one object, or each line is.
fn object(line: &str) -> Result<Format, Other> {
    let has = |key: &str| line.contains(key);
    if has("\"nftables\"") || line == "{" {
        Ok(Format::NftJson)
    } else if has("\"cidr\"") || has("\"metadata\"") {
        Ok(Format::DropJson)
    } else if has("\"asn\"") && !has("\"prefix\"") {
        Err((
            "is a list of AS numbers",
            "take a list of prefixes: Spamhaus has them in drop_v4.json and drop_v6.json",
        ))
    } else {
        Ok(Format::Own)
    }
}

fn words(line: &str, text: &str) -> Format {
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default();
    let (first, second) = (word(), word());
    match first {
        "add" | "create" if matches!(second, "element" | "set" | "table" | "map" | "chain") => {
            Format::Nft
        }
        "flush" if matches!(second, "set" | "ruleset" | "table") => Format::Nft,
        "add" | "create" | "-A" | "-N" | "flush" => Format::Ipset,
        "table" | "set" | "define" | "elements" | "destroy" | "delete" => Format::Nft,
        _ if is_head(line) => Format::CrowdSecCsv,
        _ if text.contains("Spamhaus") && line.contains(';') => Format::DropText,
        _ if text.contains(" ipset\n") && text.starts_with('#') => Format::Netset,
        _ => Format::Plain,
    }
}

/// Whether a line names the columns of `CrowdSec`'s CSV.
fn is_head(line: &str) -> bool {
    let names: Vec<&str> = line.split(',').map(str::trim).collect();
    let has = |name| names.contains(&name);
    names
        .iter()
        .all(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
        && (has("value") || (has("ip") && names.len() > 1))
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
        check("[\n {", Format::CrowdSecJson);
        check("[]", Format::CrowdSecJson);
        check(
            "[{\"events\": [\"[2001:db8::1]:22\"]}]",
            Format::CrowdSecJson,
        );
        check("[2001:db8::1]:80", Format::Plain);
    }

    #[test]
    fn what_is_no_list_is_told() {
        for (bytes, expected) in [
            (&b"\x1f\x8b\x08\0"[..], "is compressed (gzip)"),
            (b"<!DOCTYPE html>\n", "is a web page, not a list"),
            (
                b"<ipsets>\n<ipset name=\"bad\">\n",
                "is what `ipset -o xml` writes, which is not read",
            ),
            (
                b"<?xml version=\"1.0\"?>\n<ipsets>\n",
                "is what `ipset -o xml` writes, which is not read",
            ),
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
