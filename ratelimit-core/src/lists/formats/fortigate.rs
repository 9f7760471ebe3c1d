//! Addresses of a `FortiGate`, as its configuration has them:
//!
//! ```text
//! config firewall address
//!     edit "bad"
//!         set subnet 192.0.2.0 255.255.255.0
//!     next
//! end
//! ```

use super::words::{unquoted, words};
use crate::lists::{
    address,
    reader::{Reader, Said},
    typo,
};

/// Whether a line begins a table of addresses, or sets one.
pub fn is_one(line: &str) -> bool {
    matches!(
        words(line).as_slice(),
        ["config", "firewall", "address" | "address6" | "addrgrp"]
            | ["set", "subnet", _, ..]
            | ["set", "start-ip" | "end-ip", _]
    )
}

/// Reads all addresses.
pub fn read(reader: &mut Reader<'_>) {
    let mut reason = String::new();
    let mut start: Option<&str> = None;
    for line in reader.text().lines() {
        let words = words(line);
        let said = Said {
            reason: &reason,
            ..Said::default()
        };
        match words.as_slice() {
            ["set", "subnet", network, mask] => {
                let masked = typo::masked(network, mask).map(|prefix| prefix.to_string());
                let written = masked.unwrap_or_else(|| format!("{network}/{mask}"));
                reader.take(network, &written, said);
            }
            ["set", "subnet" | "ip6", network] => reader.take(network, network, said),
            ["set", "start-ip", first] => start = Some(first),
            ["set", "end-ip", last] => {
                let first = start.take().unwrap_or_default();
                reader.take(last, &format!("{first}-{last}"), said);
            }
            ["set", "fqdn" | "wildcard-fqdn" | "country", ..] => {
                reader.skip("of a rule with a name");
            }
            ["edit" | "next" | "end" | "config", rest @ ..] => {
                if let Some(first) = start.take() {
                    reader.bad(
                        first,
                        "the end of this range is missing",
                        "write set end-ip",
                    );
                }
                reason = rest
                    .first()
                    .map_or_else(String::new, |name| unquoted(name).into());
            }
            words if words.iter().any(|word| address::is_one(word, true)) => {
                reader.skip("of another line");
            }
            _ => {}
        }
    }
}
