//! Ranges as P2P programs read them, with a name before or behind: `Some net:192.0.2.0-192.0.2.255`
//! (`.p2p`), and `192.000.002.000 - 192.000.002.255 , 000 , Some net` (`.dat`), whose numbers are
//! decimal. From level 128 on a range is let in.

use std::net::Ipv4Addr;

use crate::lists::{
    reader::{Reader, Said},
    typo,
};

/// The first level of access at which eMule lets a range in.
const LET_IN: u32 = 128;

/// A line of either.
struct Line<'t> {
    range: &'t str,
    name: &'t str,
    level: u32,
}

/// Whether a line is one of them.
pub fn is_one(line: &str) -> bool {
    split(line).is_some_and(|line| ends(line.range).is_some() && !line.name.is_empty())
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    for line in reader.text().lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) || line.starts_with("//") {
            continue;
        }
        let Some(Line { range, name, level }) = split(line) else {
            let hint = "write NAME:192.0.2.0-192.0.2.255";
            reader.bad(line, "there is no range", hint);
            continue;
        };
        if level >= LET_IN {
            reader.skip("let in by their level");
            continue;
        }
        let said = Said {
            reason: name,
            ..Said::default()
        };
        match ends(range) {
            Some((first, last)) => reader.take(range, &format!("{first}-{last}"), said),
            None => reader.take(range, range, said),
        }
    }
}

fn split(line: &str) -> Option<Line<'_>> {
    if let Some((range, rest)) = line.split_once(',') {
        let (level, name) = rest.split_once(',').unwrap_or((rest, ""));
        if let Ok(level) = level.trim().parse() {
            return Some(Line {
                range: range.trim(),
                name: name.trim(),
                level,
            });
        }
    }
    let (name, range) = line.rsplit_once(':')?;
    Some(Line {
        range: range.trim(),
        name: name.trim(),
        level: 0,
    })
}

fn ends(range: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let (first, last) = range.split_once('-')?;
    Some((typo::decimal(first.trim())?, typo::decimal(last.trim())?))
}
