//! `hosts.deny` of TCP wrappers (`hosts_access(5)`): `DAEMONS : CLIENTS [: OPTIONS]`. A client that
//! one daemon refuses is banned completely.

use super::rule::is_name;
use crate::lists::{
    reader::{Reader, Said},
    typo,
};

/// Whether a line is a rule of it.
pub fn is_one(line: &str) -> bool {
    let Some((daemons, clients)) = line.split_once(':') else {
        return false;
    };
    let is_daemon = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c))
    };
    let is_client = |word: &str| {
        let is_named = word.starts_with(['.', '/', '@']) && !word.starts_with("//");
        is_word(word) || written(word).is_some() || is_named
    };
    let mut daemons = daemons
        .split([' ', ',', '\t'])
        .filter(|word| !word.is_empty())
        .peekable();
    let mut clients = clients
        .split([' ', ',', '\t'])
        .filter(|word| !word.is_empty());
    daemons.peek().is_some()
        && daemons.all(is_daemon)
        && clients
            .next()
            .is_some_and(|client| is_client(client) && !client.contains('-'))
}

/// Whether a client is a wildcard.
fn is_word(client: &str) -> bool {
    ["ALL", "LOCAL", "KNOWN", "UNKNOWN", "PARANOID"].contains(&client) || client.starts_with('.')
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    for line in reader.text().lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((daemons, rest)) = line.split_once(':') else {
            reader.bad(line, "there is no `:`", "write ALL: 192.0.2.1");
            continue;
        };
        let (clients, options) = split(rest);
        let has_exception = |text: &str| text.split_whitespace().any(|word| word == "EXCEPT");
        if has_exception(daemons) || has_exception(clients) {
            reader.skip("of a rule with other conditions");
            continue;
        }
        if options
            .split([' ', ':'])
            .any(|word| word.eq_ignore_ascii_case("allow"))
        {
            reader.skip("of a rule that does not drop");
            continue;
        }
        for client in clients
            .split([' ', ',', '\t'])
            .filter(|word| !word.is_empty())
        {
            take(client, daemons.trim(), reader);
        }
    }
}

fn take(client: &str, daemons: &str, reader: &mut Reader<'_>) {
    let reason = format!("hosts.deny {daemons}");
    let said = Said {
        reason: if daemons == "ALL" { "" } else { &reason },
        sloppy: true,
        ..Said::default()
    };
    match written(client) {
        Some(written) => reader.take(client, &written, said),
        None if client == "ALL" => reader.skip("of a rule without a source"),
        None if is_word(client) || is_name(client) && client.contains(['.', '@', '/']) => {
            reader.skip("of a rule with a name");
        }
        None => reader.take(client, client, said),
    }
}

/// The clients, and the options behind a colon that is not one of an address.
fn split(rest: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, letter) in rest.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ':' if depth == 0 => return (&rest[..at], &rest[at + 1..]),
            _ => {}
        }
    }
    (rest, "")
}

/// An address, with a mask, in brackets, or only its first numbers: `192.0.2.`.
fn written(client: &str) -> Option<String> {
    let plain = client.replace(['[', ']'], "");
    if crate::lists::address::is_one(&plain, true) {
        return Some(plain);
    }
    let partial = client.ends_with('.').then(|| typo::partial(client))?;
    partial.map(|prefix| prefix.to_string())
}
