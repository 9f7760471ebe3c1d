//! Recognizes texts that are not lists by their first bytes or line.

use std::borrow::Cow;

use super::any_json;
use crate::lists::address;

/// The kind of the text, and a hint.
pub type Other = (Cow<'static, str>, &'static str);

const DOWNLOAD: &str = "check whether the download failed, or its address or key has changed; use \
                        `curl --fail`";

/// Recognizes a file by its bytes.
pub fn by_bytes(bytes: &[u8]) -> Option<Other> {
    let other = |what, hint| Some((Cow::Borrowed(what), hint));
    if has_mark_of_maxmind(bytes) {
        return other(
            "is a MaxMind database (mmdb), not a list",
            "select prefixes from it in the configuration: [list.NAME] with mmdb = \"FILE\" and \
             country = [\"XX\"] or asn = [64500]",
        );
    }
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
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => other(
            "is compressed (bzip2)",
            "decompress it: bzcat FILE | rlctl import -",
        ),
        [b'P', b'K', 3, 4, rest @ ..] if is_workbook(rest) => {
            other("is a workbook of a spreadsheet", "save it as CSV")
        }
        [b'{', b'\\', b'r', b't', b'f', ..] => {
            other("is RTF, of a word processor", "save it as plain text")
        }
        [b'P', b'K', 3, 4, ..] => other(
            "is a zip archive",
            "unpack it: unzip -p FILE | rlctl import -",
        ),
        [b'7', b'z', 0xbc, 0xaf, ..] => other(
            "is a 7z archive",
            "unpack it: 7z x -so FILE | rlctl import -",
        ),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => other(
            "is UTF-16",
            "convert it: iconv -f UTF-16 -t UTF-8 FILE | rlctl import -",
        ),
        [1..=255, 0, 1..=255, 0, ..] => other(
            "is UTF-16",
            "convert it: iconv -f UTF-16LE -t UTF-8 FILE | rlctl import -",
        ),
        [0xd4, 0xc3, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0xc3, 0xd4, ..]
        | [0x0a, 0x0d, 0x0d, 0x0a, ..] => other(
            "is a capture of packets",
            "`rlctl simulate FILE` shows the effect of a configuration on it",
        ),
        [b'S', b'Q', b'L', b'i', b't', b'e', b' ', ..] => other(
            "is a database of SQLite",
            "write its addresses as CSV: sqlite3 -csv FILE 'select ...' | rlctl import -",
        ),
        [b'%', b'P', b'D', b'F', ..]
        | [0x89, b'P', b'N', b'G', ..]
        | [0x7f, b'E', b'L', b'F', ..] => other("is not text", "use a list in text, CSV or JSON"),
        bytes if bytes.get(257..262) == Some(b"ustar") => other(
            "is a tar archive",
            "unpack it: tar -xOf FILE | rlctl import -",
        ),
        bytes if bytes.iter().take(8192).any(|byte| *byte == 0) => {
            other("is not text", "use a list in text, CSV or JSON")
        }
        _ => None,
    }
}

/// Whether an archive has what Excel or `LibreOffice` puts first.
fn is_workbook(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(256)];
    let has = |name: &[u8]| start.windows(name.len()).any(|it| it == name);
    has(b"[Content_Types].xml") || has(b"xl/") || has(b"opendocument.spreadsheet")
}

/// Whether the bytes contain the mark before the metadata, which take at most the last 128 KiB.
fn has_mark_of_maxmind(bytes: &[u8]) -> bool {
    const MARK: &[u8] = b"\xab\xcd\xefMaxMind.com";
    let end = &bytes[bytes.len().saturating_sub(128 << 10)..];
    end.windows(MARK.len()).any(|window| window == MARK)
}

/// Recognizes a text that would be taken for one of a format.
pub fn by_shape(line: &str, text: &str) -> Option<Other> {
    let other = |what, hint| Some((Cow::Borrowed(what), hint));
    if is_yaml(line, text) {
        return other(
            "is YAML, which is read as JSON",
            "convert it: yq -o json FILE | rlctl import -",
        );
    }
    if is_of_windows(line) {
        return other(
            "is what Windows shows to people",
            "write the addresses alone: (Get-NetFirewallRule -Action Block -Direction Inbound | \
             Get-NetFirewallAddressFilter).RemoteAddress",
        );
    }
    None
}

/// Recognizes a text by its first significant line.
pub fn by_line(line: &str, text: &str) -> Option<Other> {
    let other = |what, hint| Some((Cow::Borrowed(what), hint));
    let lower = line.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    if line.starts_with('<') {
        if ["<ipset", "<entry", "<rule", "<alias"]
            .iter()
            .any(|part| text.contains(part))
        {
            return None;
        }
        if has("<?xml") || has("<error") {
            return match element(text, "Message").or(element(text, "Code")) {
                Some(said) => Some((
                    format!("is the response of a server: `{said}`").into(),
                    DOWNLOAD,
                )),
                None => other(
                    "is XML that has no set of addresses",
                    "use a list in text, CSV or JSON",
                ),
            };
        }
        return other("is a web page, not a list", DOWNLOAD);
    }
    if line.starts_with("version https://git-lfs") {
        return other(
            "is a pointer of Git LFS, not the list",
            "download the file itself: git lfs pull",
        );
    }
    if is_table_of_crowdsec(line, text) {
        return other(
            "is a table that cscli formats for people",
            "write it for programs: cscli decisions list -o json | rlctl import -",
        );
    }
    if line == "Status" && text.contains("Jail list:") {
        return other(
            "is the list of fail2ban's jails, without addresses",
            "write what they ban: fail2ban-client banned | rlctl import -",
        );
    }
    if is_hosts_file(line) {
        return other(
            "is a hosts file, which blocks names instead of addresses",
            "use a list of addresses; names are blocked by a resolver",
        );
    }
    let has_address = line
        .split([' ', '\t', ',', ';', '"'])
        .any(|word| address::is_one(word, true));
    if !has_address && is_answer(&lower) {
        let said: String = line.chars().take(120).collect();
        return Some((
            format!("is the response of a server: `{said}`").into(),
            DOWNLOAD,
        ));
    }
    None
}

/// Identifies JSON without addresses.
pub fn by_json(text: &str, keys: &[String]) -> Option<Other> {
    if keys.iter().any(|key| key == "asn") && !text.contains("prefix") && !text.contains("\"ip") {
        return Some((
            "is a list of AS numbers".into(),
            "use a list of prefixes: Spamhaus has them in drop_v4.json and drop_v6.json",
        ));
    }
    // Whatever is longer is not a message.
    if text.len() > 64 << 10 {
        return None;
    }
    let said = any_json::refusal(text)?;
    Some((
        format!("is the response of a server: `{said}`").into(),
        DOWNLOAD,
    ))
}

fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once('<').map(|(inner, _)| inner)
}

fn is_table_of_crowdsec(line: &str, text: &str) -> bool {
    let is_frame = line.starts_with(['╭', '┌', '│', '+', '|', '─']);
    let start = text
        .get(..text.floor_char_boundary(8192))
        .unwrap_or(text)
        .to_lowercase();
    is_frame && (start.contains("scope:value") || start.contains("decisions"))
}

/// `---`, a key without a value before a list or more keys, or an item of a list.
fn is_yaml(line: &str, text: &str) -> bool {
    let mut lines = text.lines().skip_while(|it| it.trim() != line).skip(1);
    let next = lines
        .find(|next| !next.trim().is_empty())
        .unwrap_or_default();
    let is_item = |line: &str| {
        let item = line.trim_start().strip_prefix("- ").unwrap_or_default();
        address::is_one(item.trim().trim_matches(['"', '\'']), true)
    };
    let is_key = |line: &str| {
        line.strip_suffix(':')
            .is_some_and(|key| !key.contains([' ', ':']))
    };
    line == "---"
        || line.starts_with("apiVersion: ")
        || is_item(line)
        || is_key(line) && (is_item(next) || is_key(next.trim()) && next.starts_with(' '))
}

/// A rule of netsh, or addresses of PowerShell, of which it leaves out those that have no room.
fn is_of_windows(line: &str) -> bool {
    let first = line.split([' ', ':']).next().unwrap_or_default();
    line.starts_with("Rule Name:") || matches!(first, "LocalAddress" | "RemoteAddress")
}

/// `0.0.0.0 example.net`
fn is_hosts_file(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_sink = matches!(words.next(), Some("0.0.0.0" | "127.0.0.1" | "::" | "::1"));
    is_sink
        && words
            .next()
            .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Returns whether a line is a server's response, or a client's message about one:
/// `404: Not Found`, `HTTP/1.1 403 Forbidden`.
fn is_answer(line: &str) -> bool {
    const SAID: [&str; 28] = [
        "not found",
        "forbidden",
        "unauthorized",
        "access denied",
        "permission denied",
        "bad request",
        "bad gateway",
        "gateway timeout",
        "gateway time-out",
        "service unavailable",
        "internal server error",
        "too many requests",
        "rate limit",
        "rate-limit",
        "ratelimit",
        "quota",
        "error code",
        "invalid api key",
        "invalid key",
        "invalid token",
        "invalid license",
        "temporarily unavailable",
        "could not resolve",
        "connection refused",
        "connection timed out",
        "moved permanently",
        "no such file",
        "exceeded",
    ];
    let is_status = |text: &str| {
        let (code, rest) = text.split_at_checked(3).unwrap_or((text, ""));
        let is_code =
            code.len() == 3 && code.starts_with(['3', '4', '5']) && code.parse::<u16>().is_ok();
        is_code && !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    };
    let rest = line
        .strip_prefix("http/")
        .and_then(|rest| rest.split_once(' '));
    let rest = rest.map_or(line, |(_, rest)| rest);
    let rest = rest
        .trim_start_matches("error")
        .trim_start_matches([':', ' ']);
    is_status(rest)
        || line.starts_with("curl:")
        || line.len() < 300 && SAID.iter().any(|said| line.contains(said))
}
