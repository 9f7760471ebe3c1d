//! An address, a prefix or a range per line. Text after `#`, `;` or `//` is a comment and the
//! reason of the entry; a number after the address is how often it was seen.

use crate::{
    diagnostic::Problem,
    lists::{
        address,
        reader::{Reader, Said},
        typo,
    },
};

const ONE_A_LINE: &str = "write one address, prefix or range per line, comments after #";

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    let is_one_line = reader
        .text()
        .lines()
        .filter(|line| !line.trim().is_empty())
        .nth(1)
        .is_none();
    for line in reader.text().lines() {
        if reader.is_full() {
            return;
        }
        let (written, comment) = split(line);
        let written = written.trim();
        if written.is_empty() {
            continue;
        }
        if let Some(why) = of_csf(written) {
            reader.skip(why);
            continue;
        }
        let comment = comment.trim_start_matches(['#', ';', '/']);
        if let Some(second) = address_in(comment, line) {
            reader.bad(second, "two addresses on one line", ONE_A_LINE);
            continue;
        }
        if let Err((part, problem)) = read_line(written, comment, is_one_line, reader) {
            reader.report(part, problem);
        }
    }
}

/// The reason a line of `csf.deny` is skipped: `tcp|in|d=22|s=192.0.2.1`, `Include
/// /etc/csf/more.deny`.
fn of_csf(written: &str) -> Option<&'static str> {
    let is_rule = written.contains('|') && (written.contains("|s=") || written.contains("|d="));
    let is_include = written.starts_with("Include /");
    match (is_rule, is_include) {
        (true, _) => Some("of a rule with other conditions"),
        (_, true) => Some("of another file"),
        _ => None,
    }
}

/// The address, and the comment behind it.
fn split(line: &str) -> (&str, &str) {
    let at = [line.find(['#', ';']), comment_of_slashes(line)]
        .into_iter()
        .flatten()
        .min();
    at.map_or((line, ""), |at| line.split_at(at))
}

/// Two slashes, unless a URL has them.
fn comment_of_slashes(line: &str) -> Option<usize> {
    let at = line.find("//")?;
    (!line[..at].ends_with(':')).then_some(at)
}

/// Finds an address at the start of an apparent comment without a space after the sign.
fn address_in<'t>(comment: &'t str, line: &str) -> Option<&'t str> {
    if !line.contains(';') {
        return None;
    }
    let first = comment
        .split([' ', '\t', ';', ',', '#'])
        .find(|word| !word.is_empty())?;
    address::is_one(first, true).then_some(first)
}

fn read_line<'t>(
    written: &'t str,
    comment: &str,
    is_one_line: bool,
    reader: &mut Reader<'_>,
) -> Result<(), (&'t str, Problem)> {
    let said = Said {
        reason: comment,
        ..Said::default()
    };
    let Some((first, rest)) = written
        .split_once([' ', '\t'])
        .filter(|_| !is_range(written))
    else {
        return several(written, said, reader);
    };
    let rest = rest.trim_start();
    let second = rest.split([' ', '\t', ',']).next().unwrap_or_default();
    // `sort | uniq -c` counts in front.
    if let Ok(count) = first.parse()
        && address::is_one(rest, true)
    {
        let said = Said {
            count: Some(count),
            ..said
        };
        reader.take(rest, rest, said);
        return Ok(());
    }
    if let Some(drops) = verdict(second).filter(|_| address::is_one(first, true)) {
        let words = rest[second.len()..].trim();
        let said = Said {
            reason: if comment.is_empty() { words } else { comment },
            ..said
        };
        if drops {
            reader.take(first, first, said);
        } else {
            reader.skip("of a rule that does not drop");
        }
        return Ok(());
    }
    // `192.0.2.1 0;` of a map: the value of all others is 0, too.
    if second == "0" && address::is_one(first, true) {
        reader.skip("with the number 0 behind them");
        return Ok(());
    }
    if let Ok(count) = second.parse() {
        let said = Said {
            count: Some(count),
            ..said
        };
        reader.take(first, first, said);
        return Ok(());
    }
    if typo::meant(written).is_some() {
        return Err((written, address::not_an_address(written)));
    }
    if !address::is_one(first.trim_end_matches(','), true) {
        return Err((first, address::not_an_address(first)));
    }
    if address::is_one(second, true) {
        return words(written, said, is_one_line, reader);
    }
    // A column of a table, or a day.
    let is_column = written[first.len()..].starts_with('\t') && address::is_one(first, true);
    let is_day = second.len() >= 8 && second.chars().all(|c| c.is_ascii_digit() || c == '-');
    if is_column || is_day {
        let said = Said {
            reason: if comment.is_empty() { rest } else { comment },
            ..said
        };
        reader.take(first, first, said);
        return Ok(());
    }
    let shown: String = rest.chars().take(60).collect();
    let message = format!("unexpected `{shown}` after the address");
    Err((rest, Problem::new(message, ONE_A_LINE)))
}

/// Whether a table of Postfix or Sendmail drops with such a word behind an address.
fn verdict(word: &str) -> Option<bool> {
    match word.to_ascii_uppercase().as_str() {
        "REJECT" | "DISCARD" | "DENY" | "DROP" | "BLOCK" | "ERROR" => Some(true),
        "OK" | "DUNNO" | "RELAY" | "PERMIT" | "ALLOW" | "ACCEPT" | "PASS" => Some(false),
        word => word.starts_with("PERMIT_").then_some(false),
    }
}

/// Whether a line is a range with spaces in it.
fn is_range(written: &str) -> bool {
    written.split_once('-').is_some_and(|(first, last)| {
        let one = |text: &str| text.split_whitespace().count() == 1;
        one(first) && one(last)
    })
}

/// Takes addresses with spaces between them, as `fail2ban-client get JAIL banip` writes them. Two
/// may be a range.
fn words<'t>(
    written: &'t str,
    said: Said<'_>,
    is_one_line: bool,
    reader: &mut Reader<'_>,
) -> Result<(), (&'t str, Problem)> {
    let all = written
        .split([' ', '\t', ','])
        .filter(|word| !word.is_empty());
    let all: Vec<&str> = all.collect();
    if let [first, second] = all.as_slice() {
        let range = format!("{first}-{second}");
        let parsed = [first, second].map(|text| text.parse::<std::net::Ipv4Addr>());
        let are_near = matches!(parsed, [Ok(first),
            Ok(second)] if first < second && first.octets()[..2] == second.octets()[..2]);
        if are_near || !is_one_line || written.contains(',') {
            let hint = format!("write {range} for a range, or each in a line of its own");
            let may_be_range = address::is_one(&range, false) && !written.contains(',');
            let hint = if may_be_range { &hint } else { ONE_A_LINE };
            return Err((second, Problem::new("two addresses on one line", hint)));
        }
    }
    for word in all {
        reader.take(word, word, said);
    }
    Ok(())
}

/// Adds an entry, or several separated by commas if the line contains nothing else.
fn several<'t>(
    written: &'t str,
    said: Said<'_>,
    reader: &mut Reader<'_>,
) -> Result<(), (&'t str, Problem)> {
    if written.matches(',').count() < 2 {
        if let Some((_, second)) = written.split_once(',')
            && address::is_one(second.trim(), true)
        {
            let message = "two addresses on one line";
            return Err((second.trim(), Problem::new(message, ONE_A_LINE)));
        }
        reader.take(written, written, said);
        return Ok(());
    }
    for word in written
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        reader.take(word, word, said);
    }
    Ok(())
}
