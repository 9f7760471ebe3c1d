//! Lists of addresses in braces: `acl` and `blackhole` of BIND, `acl` of Varnish, `prefix-list` of
//! Junos, and groups of `VyOS`.
//!
//! ```text
//! acl bad { 192.0.2.0/24; !192.0.2.1; "198.51.100.0"/24; };
//! prefix-list bad { 192.0.2.0/24; }
//! network-group bad {
//!     network 192.0.2.0/24
//! }
//! ```

use super::{
    nft_tokens::Tokens,
    rule::{is_like_an_address, is_name, report_alone},
};
use crate::lists::{
    address,
    reader::{Reader, Said},
    typo,
};

const COMMAND: &str = "keep only";
const EXCEPTION: &str = "remove it, and allow it: rlctl allow add";

/// Whether a line begins such a list.
pub fn is_one(line: &str) -> bool {
    let words = Tokens::new(line).take_while(|word| *word != "{");
    let words: Vec<&str> = words.collect();
    let has_brace = line.contains('{') || matches!(words.as_slice(), ["acl", _]);
    has_brace && name(&words).is_some()
}

/// The name of the list that a brace behind a statement begins.
fn name<'t>(statement: &[&'t str]) -> Option<&'t str> {
    match statement {
        ["blackhole"] => statement.first().copied(),
        // Varnish has flags behind it.
        [kind, name, flags @ ..] if flags.iter().all(|flag| flag.starts_with(['-', '+'])) => {
            begins(kind).then_some(*name)
        }
        _ => None,
    }
}

fn begins(kind: &str) -> bool {
    let kind = kind.trim_start_matches("ipv6-");
    matches!(
        kind,
        "acl" | "prefix-list" | "address-group" | "network-group"
    )
}

/// Where a statement is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Outside,
    List,
    /// In other braces.
    Other,
}

/// Reads all lists.
pub fn read(reader: &mut Reader<'_>) {
    let mut statement: Vec<&str> = Vec::new();
    // For each open brace, whether a list is in it.
    let mut open: Vec<bool> = Vec::new();
    for word in Tokens::new(reader.text()) {
        let place = match open.last() {
            None => Place::Outside,
            Some(true) => Place::List,
            Some(false) => Place::Other,
        };
        match word {
            "{" => {
                open.push(brace(&statement, place, reader));
                statement.clear();
            }
            ";" | "}" => {
                take(&statement, place, reader);
                statement.clear();
                if word == "}" {
                    open.pop();
                }
                if open.is_empty() {
                    reader.sets.end();
                }
            }
            // VyOS ends a statement with its line.
            "\n" if statement.last().is_some_and(|it| is_like_an_address(it)) => {
                take(&statement, place, reader);
                statement.clear();
            }
            "\n" => {}
            word => statement.push(word),
        }
    }
    take(&statement, Place::Outside, reader);
    if !open.is_empty() {
        let last = reader.text().trim_end().lines().last().unwrap_or_default();
        let hint = "a } is missing: see whether all of the text was saved";
        reader.bad(last, "the list has no end", hint);
    }
}

/// Returns whether the brace behind a statement begins a list, or is in one.
fn brace(statement: &[&str], place: Place, reader: &mut Reader<'_>) -> bool {
    if place == Place::List {
        if let Some(sign) = statement.iter().find(|word| word.starts_with('!')) {
            reader.bad(sign, "this is an exception from the list", EXCEPTION);
            return false;
        }
        return true;
    }
    let Some(name) = name(statement) else {
        return false;
    };
    reader.sets.begin(name, reader.span(name), COMMAND);
    true
}

fn take<'t>(statement: &[&'t str], place: Place, reader: &mut Reader<'t>) {
    if place != Place::List {
        return match statement {
            [word] if place == Place::Outside && address::is_one(word, true) => {
                report_alone(word, reader);
            }
            words if words.iter().any(|word| address::is_one(word, true)) => {
                reader.skip("of another statement");
            }
            _ => {}
        };
    }
    match statement {
        [] => {}
        ["inactive:", ..] => reader.skip("disabled"),
        [sign, ..] if sign.starts_with('!') => {
            let message = format!("{} is an exception from the list", statement.concat());
            reader.bad(sign, message, EXCEPTION);
        }
        ["address" | "network", item @ ..] | item => element(item, reader),
    }
}

/// `192.0.2.0/24`, or `"192.0.2.0"/24`
fn element<'t>(item: &[&'t str], reader: &mut Reader<'t>) {
    let written = item.concat().replace('"', "");
    let Some(first) = item.first() else { return };
    if is_name(&written) {
        return reader.skip("of a rule with a name");
    }
    // BIND takes the first numbers of an address.
    let partial = typo::partial(&written).filter(|_| !address::is_one(&written, true));
    let written = partial.map_or(written, |prefix| prefix.to_string());
    let said = Said {
        sloppy: true,
        ..Said::default()
    };
    reader.take(first, &written, said);
}
