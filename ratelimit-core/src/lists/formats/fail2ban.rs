//! Bans as `fail2ban-client` shows them:
//!
//! ```text
//! [{'sshd': ['192.0.2.5', '2001:db8::5']}, {'recidive': []}]        banned
//!    `- Banned IP list:   192.0.2.5 198.51.100.6                     status JAIL
//! 192.0.2.5   2026-11-27 16:22:58 + 600 = 2026-11-27 16:32:58         get JAIL banip --with-time
//! ```
//!
//! Times are those of the host's own zone. A ban of -1 seconds has no end.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::lists::reader::{Reader, Said};

const LIST: &str = "Banned IP list:";

/// Reads all bans.
pub fn read(reader: &mut Reader<'_>) {
    let mut jail = "";
    for line in reader.text().lines() {
        let line = line.trim();
        if let Some((_, name)) = line.split_once("Status for the jail:") {
            jail = name.trim();
        } else if let Some((_, addresses)) = line.split_once(LIST) {
            for address in addresses.split_whitespace() {
                take(address, jail, reader);
            }
        } else if line.starts_with('[') {
            jails(line, reader);
        } else if let Some((address, times)) = line.split_once([' ', '\t'])
            && let Some((_, end)) = times.split_once('=')
        {
            timed(line, address, end.trim(), times, reader);
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            take(line, jail, reader);
        }
    }
}

/// Reads jails and their addresses, each in quotes. A name is followed by a colon.
fn jails(line: &str, reader: &mut Reader<'_>) {
    let mut jail = "";
    let mut rest = line;
    while let Some(start) = rest.find(['\'', '"']) {
        let inner = &rest[start + 1..];
        let Some(end) = inner.find(['\'', '"']) else {
            let hint = "see whether all of it was saved: fail2ban-client banned";
            return reader.bad(&rest[start..], "the quotation mark has no end", hint);
        };
        let (text, behind) = (&inner[..end], &inner[end + 1..]);
        if behind.trim_start().starts_with(':') {
            jail = text;
        } else {
            take(text, jail, reader);
        }
        rest = behind;
    }
}

/// Reads a ban with its end: `2026-11-27 16:22:58 + 600 = 2026-11-27 16:32:58`.
fn timed(line: &str, address: &str, end: &str, times: &str, reader: &mut Reader<'_>) {
    let is_forever = times.contains("+ -1 ");
    let until = instant(end);
    if until.is_none() && !is_forever {
        return reader.bad(
            line,
            "the expiry is not a time",
            "write it as 2026-11-27 16:32:58",
        );
    }
    let said = Said {
        until: until.filter(|_| !is_forever),
        ..Said::default()
    };
    reader.take(address, address, said);
}

fn instant(text: &str) -> Option<Timestamp> {
    let time = DateTime::strptime("%Y-%m-%d %H:%M:%S", text).ok()?;
    Some(time.to_zoned(TimeZone::system()).ok()?.timestamp())
}

fn take(address: &str, jail: &str, reader: &mut Reader<'_>) {
    let reason = if jail.is_empty() {
        String::new()
    } else {
        format!("fail2ban {jail}")
    };
    let said = Said {
        reason: &reason,
        ..Said::default()
    };
    reader.take(address, address, said);
}
