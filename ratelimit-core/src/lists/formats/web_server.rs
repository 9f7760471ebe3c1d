//! Access rules of web servers: `deny 192.0.2.1;` of nginx, and those of its `geo`;
//! `Deny from 192.0.2.1` and `Require not ip 192.0.2.1` of Apache.

use super::{
    nft_tokens::Tokens,
    rule::{Rule, is_like_an_address, is_name},
};
use crate::lists::{
    address,
    reader::{Reader, Said},
    typo,
};

/// Whether a line has such a rule.
pub fn is_one(line: &str) -> bool {
    let words: Vec<&str> = Tokens::new(line).collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    match lower
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["deny" | "allow", "from", _, ..]
        | ["require", "ip", ..]
        | ["require", "not", "ip", ..]
        | ["geo", _, ..]
        | ["order", ..] => true,
        ["deny" | "allow", source, ";", ..] => *source == "all" || is_like_an_address(words[1]),
        _ => false,
    }
}

/// Reads all rules.
pub fn read(reader: &mut Reader<'_>) {
    let mut statement: Vec<&str> = Vec::new();
    let mut is_geo = false;
    for word in Tokens::new(reader.text()) {
        match word {
            ";" | "{" | "}" | "\n" => {
                is_geo = match (word, statement.first()) {
                    ("{", Some(&"geo")) => true,
                    ("}", _) => false,
                    _ => is_geo,
                };
                take(&statement, is_geo, reader);
                statement.clear();
            }
            word => statement.push(word),
        }
    }
    take(&statement, false, reader);
}

fn take(words: &[&str], is_geo: bool, reader: &mut Reader<'_>) {
    let is = |word: &str, name: &str| word.eq_ignore_ascii_case(name);
    match words {
        [verb, rest @ ..] if is(verb, "deny") || is(verb, "allow") => {
            let rest = match rest {
                [from, rest @ ..] if is(from, "from") => rest,
                rest => rest,
            };
            sources(rest, is(verb, "deny"), reader);
        }
        [verb, not, ip, rest @ ..] if is(verb, "require") && is(not, "not") && is(ip, "ip") => {
            sources(rest, true, reader);
        }
        [verb, ip, rest @ ..] if is(verb, "require") && is(ip, "ip") => {
            sources(rest, false, reader);
        }
        [source, value] if is_geo && address::is_one(source, true) => {
            sources(
                &[source],
                !matches!(*value, "0" | "no" | "off" | "\"\""),
                reader,
            );
        }
        _ => {}
    }
}

fn sources(words: &[&str], drops: bool, reader: &mut Reader<'_>) {
    if !drops {
        return reader.skip("of a rule that does not drop");
    }
    // `Deny from env=bad`
    if words.contains(&"=") {
        return reader.skip("of a rule with other conditions");
    }
    if words.iter().any(|word| word.eq_ignore_ascii_case("all")) {
        return reader.skip("of a rule without a source");
    }
    for word in words.iter().filter(|word| **word != ",") {
        if is_name(word) && !word.contains(':') {
            reader.skip("of a rule with a name");
            continue;
        }
        // Apache takes the first numbers of an address.
        let partial = typo::partial(word).filter(|_| !address::is_one(word, true));
        if let Some(prefix) = partial {
            reader.take(word, &prefix.to_string(), Said::default());
            continue;
        }
        let mut rule = Rule {
            drops,
            ..Rule::default()
        };
        rule.add(word);
        rule.take(reader);
    }
}
