//! `ratelimit.toml(5)`, from the configuration that is shipped: its comments are the text, its lines the examples.

use roff::{Roff, roman};

use crate::{DATE, MANUAL, SOURCE};

/// What the page begins with.
const ABOUT: &str = "ratelimit.toml - configuration of ratelimitd(8)";

/// Characters of a line of prose that ends because it is full. A shorter one ends because something else begins.
const WHOLE_LINE: usize = 90;

/// A line of the configuration: prose behind "# ", or what is written in a file, where "#" without a blank begins an example.
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
    let lines: Vec<Line<'_>> = file.lines().map(Line::from).collect();
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
                (Some((false, length)), false) if length < WHOLE_LINE => {
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
    use crate::Page;

    #[test]
    fn the_manual_of_the_file_is_the_file_that_is_shipped() {
        let page = super::page(include_str!("../../contrib/config.toml"));
        crate::committed(&[Page::new("ratelimit.toml", "5", &page)]);
    }
}
