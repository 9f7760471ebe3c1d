//! `ratelimit.toml(5)`, from the configuration that is shipped: its comments are the text, its
//! lines the examples.

use roff::{Roff, roman};

use crate::{DATE, MANUAL, SOURCE};

/// The first line of the page.
const ABOUT: &str = "ratelimit.toml - configuration of ratelimitd(8)";

/// Characters of a line of prose that ends because it is full. A shorter one ends because something
/// else begins.
const WHOLE_LINE: usize = 80;

/// A line of the configuration: prose behind "# ", or what is written in a file, where "#" without
/// a blank begins an example.
enum Line<'a> {
    Prose(&'a str),
    Written(&'a str),
    Empty,
}

impl<'a> From<&'a str> for Line<'a> {
    fn from(line: &'a str) -> Self {
        match line.strip_prefix("# ") {
            Some(prose) => Self::Prose(prose),
            None if matches!(line, "" | "#") => Self::Empty,
            None => Self::Written(line),
        }
    }
}

/// The page, for a file of configuration.
pub fn page(file: &str) -> String {
    let mut roff = Roff::new();
    roff.control("TH", ["RATELIMIT.TOML", "5", DATE, SOURCE, MANUAL]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(ABOUT)]);
    roff.control("SH", ["DESCRIPTION"]);
    let lines = lines(file);
    let blocks = lines.split(|line| matches!(line, Line::Empty));
    for (at, block) in blocks.enumerate() {
        let table = block.iter().find_map(table_of);
        if let Some(table) = table {
            roff.control("SH", [table]);
        }
        let is_first = table.is_some() || at == 0;
        let mut before = None;
        for line in block {
            let (text, is_written) = match line {
                Line::Prose(text) => (*text, text.starts_with(' ')),
                Line::Written(text) => (*text, true),
                Line::Empty => continue,
            };
            match (before, is_written) {
                (Some((true, _)), true) => {}
                (_, true) => {
                    roff.control("RS", ["4"]);
                    roff.control("nf", []);
                }
                (Some((true, _)), false) => {
                    end_written(&mut roff);
                    roff.control("PP", []);
                }
                (Some((false, length)), false)
                    if length < WHOLE_LINE || is_of_key(text) || is_behind_keys(block, line) =>
                {
                    roff.control("br", []);
                }
                (None, false) if !is_first => {
                    roff.control("PP", []);
                }
                (Some(_) | None, false) => {}
            }
            before = Some((is_written, text.len()));
            roff.text([roman(text.trim_end())]);
        }
        if let Some((true, _)) = before {
            end_written(&mut roff);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman("ratelimitd(8), rlctl(1), rlctl-config-check(1)")]);
    roff.to_roff()
}

/// The lines of a file. In a list that is open, each is written: a limit behind `#` is an example,
/// too.
fn lines(file: &str) -> Vec<Line<'_>> {
    let mut is_open = false;
    let lines = file.lines().map(|line| {
        let is_item = is_open;
        is_open = line.ends_with("= [") || is_open && !matches!(line, "]" | "#]");
        if is_item {
            Line::Written(line)
        } else {
            Line::from(line)
        }
    });
    lines.collect()
}

/// Whether a line of prose begins with what it explains: `protocol: "tcp"`,
/// `icmp_type, length (bytes), ttl: a number`, `match = `.
fn is_of_key(text: &str) -> bool {
    let end = text.find(": ").or_else(|| text.find(" = "));
    let Some(keys) = end.and_then(|end| text.get(..end)) else {
        return false;
    };
    keys.split(", ").all(|key| {
        let key = key.split(" (").next().unwrap_or_default();
        let is_letter = |it: u8| it.is_ascii_lowercase() || it == b'_';
        !key.is_empty() && key.bytes().all(is_letter)
    })
}

/// Whether a line of prose begins a sentence behind the keys of its block.
fn is_behind_keys(block: &[Line<'_>], line: &Line<'_>) -> bool {
    let before = block.iter().take_while(|it| !std::ptr::eq(*it, line));
    let before: Vec<&str> = before
        .filter_map(|it| match it {
            Line::Prose(text) => Some(*text),
            Line::Written(_) | Line::Empty => None,
        })
        .collect();
    let Line::Prose(text) = line else {
        return false;
    };
    let begins = text.starts_with(|it: char| it.is_ascii_uppercase());
    begins
        && before.iter().any(|it| is_of_key(it))
        && before.last().is_some_and(|it| it.ends_with('.'))
}

fn end_written(roff: &mut Roff) {
    roff.control("fi", []);
    roff.control("RE", []);
}

/// The name of the table that a line begins.
fn table_of<'a>(line: &Line<'a>) -> Option<&'a str> {
    let Line::Written(text) = line else {
        return None;
    };
    let header = text.trim_start_matches('#');
    let name = header.strip_prefix('[')?.strip_suffix(']')?;
    Some(name.trim_start_matches('[').trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use super::WHOLE_LINE;
    use crate::Page;

    #[test]
    fn what_is_commented_out_stays_so_and_each_key_begins_a_line() {
        let long = "x".repeat(WHOLE_LINE);
        let file = format!(
            "# tcp: {long}\n\
             # fragment, length (bytes), ttl: {long}.\n\
             # Built in are tcp {long}\n\
             # and udp.\n\
             [policy.default]\n\
             limits = [\n  \
             {{ packets = 1 }},\n\
             #  {{ packets = 2 }},\n\
             ]\n\
             \n\
             #more = [\n\
             #  {{ packets = 3 }},\n\
             #]\n\
             # The rest.\n"
        );
        let page = super::page(&file);
        for part in [
            "\n#  { packets = 2 },\n]\n".to_owned(),
            "\n#more = [\n#  { packets = 3 },\n#]\n.fi\n.RE\n.PP\nThe rest.\n".to_owned(),
            format!(
                "tcp: {long}\n\
                 .br\n\
                 fragment, length (bytes), ttl: {long}.\n\
                 .br\n\
                 Built in are tcp {long}\n\
                 and udp."
            ),
        ] {
            assert!(page.contains(&part), "{part}\nis not in\n{page}");
        }
    }

    #[test]
    fn the_manual_of_the_file_is_the_file_that_is_shipped() {
        let page = super::page(include_str!("../../contrib/config.toml"));
        crate::committed(&[Page::new("ratelimit.toml", "5", &page)]);
    }
}
