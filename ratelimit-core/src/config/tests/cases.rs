//! The cases of `cases/*.txt`: configurations, and what is said of each, text for text.
//!
//! A line that begins with `===` names what the cases below it show. A case begins with `---`, its
//! outcome (`refused`, `accepted`, `warned`, `not warned`) and what it is:
//!
//! - `behind minimal`: the minimal file stands before it
//! - `limits`: limits of a policy behind the minimal file
//! - `config.toml`: a whole file, beside which others may follow
//!
//! A line that begins with `|` or `^` is none of the file: it marks a place of the line above, with
//! the message and the hint. What is said of no place, or of one elsewhere, follows `--- also`.
//!
//! `RATELIMIT_WRITE=1 cargo test -p ratelimit-core cases` writes what is said now.

use std::env;

use super::*;

#[test]
fn each_case_is_told_what_is_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/tests/cases");
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut now = String::new();
        for part in beginning_with(&text, |line| begins_group(line) || begins_case(line)) {
            if begins_group(part) {
                now += part;
                continue;
            }
            count += 1;
            let case = part.trim_end();
            let told = told(case);
            if told != case {
                wrong.push(format!("{}: {case}\nis now\n{told}", path.display()));
            }
            now += &told;
            now += &part[case.len()..];
        }
        if env::var_os("RATELIMIT_WRITE").is_some() && now != text {
            fs::write(&path, now).unwrap();
        }
    }
    assert!(count > 200, "{count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn begins_group(text: &str) -> bool {
    text.starts_with("=== ")
}

fn begins_case(text: &str) -> bool {
    text.starts_with("--- ") && text.contains(": ") && !text.starts_with("--- beside")
}

/// The parts of a text that begin with such a line.
fn beginning_with(text: &str, is_first: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        starts.extend(is_first(line).then_some(at));
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let parts = starts.iter().zip(ends);
    parts.map(|(start, end)| &text[*start..end]).collect()
}

/// A file of a case: its name, its lines, and the number of the first of them.
struct Source<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
    first: usize,
    text: String,
}

impl<'a> Source<'a> {
    fn read(part: &'a str) -> (&'a str, &'a str, Self) {
        let (head, body) = part.split_once('\n').unwrap_or((part, ""));
        let (outcome, what) = head["--- ".len()..].split_once(": ").unwrap();
        let lines = body.lines().filter(|line| !line.starts_with(['|', '^']));
        let lines: Vec<&str> = lines.collect();
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let (name, before, text) = match what {
            "behind minimal" => ("config.toml", 7, format!("{MINIMAL}{text}")),
            "limits" => {
                let policy = policy_of(text.trim_end());
                ("config.toml", 10, format!("{MINIMAL}{policy}"))
            }
            name => (name, 0, text),
        };
        let source = Self {
            name,
            lines,
            first: before + 1,
            text,
        };
        (outcome, what, source)
    }

    /// The mark of a place of this file, from the three lines that are said of it.
    fn mark(&self, said: [&str; 3]) -> Option<(usize, String)> {
        let [place, line, hint] = said;
        let place = place.strip_prefix(self.name)?.strip_prefix(':')?;
        let (number, place) = place.split_once(':')?;
        let (column, message) = place.split_once(": ")?;
        let column: usize = column.parse().ok()?;
        let index = number.parse::<usize>().ok()?.checked_sub(self.first)?;
        let own = *self.lines.get(index)?;
        let before = " ".repeat(number.len()) + " | " + &" ".repeat(column - 1);
        let (carets, hint) = hint.strip_prefix(&before)?.split_once(' ')?;
        let bar = if column == 1 { "" } else { "|" };
        let indent = " ".repeat(column.saturating_sub(2));
        let mark = format!("{bar}{indent}{carets} {message} | {hint}");
        (line == format!("{number} | {own}")).then_some((index, mark))
    }
}

/// The case with what is said of it now.
fn told(case: &str) -> String {
    let mut parts = beginning_with(case, |line| line.starts_with("--- "));
    parts.retain(|part| !part.starts_with("--- also"));
    let sources: Vec<_> = parts.into_iter().map(Source::read).collect();
    let files = sources
        .iter()
        .map(|(.., source)| (source.name, &*source.text));
    let files: Vec<(&str, &str)> = files.collect();
    let is_warning = sources[0].0.ends_with("warned");
    let said = if is_warning {
        warnings(files[0].1)
    } else {
        refusal(&files)
    };
    let outcome = match (is_warning, said.is_empty()) {
        (false, false) => "refused",
        (false, true) => "accepted",
        (true, false) => "warned",
        (true, true) => "not warned",
    };
    let said: Vec<&str> = said.lines().collect();
    let (mut at, mut also) = (0, Vec::new());
    let mut marks: Vec<(usize, (usize, String))> = Vec::new();
    while at < said.len() {
        let three = said.get(at..at + 3).and_then(|three| three.try_into().ok());
        let mark = three.and_then(|three| {
            let mut all = sources.iter().enumerate();
            all.find_map(|(number, (.., source))| Some((number, source.mark(three)?)))
        });
        // They are in the order of the files.
        let mark = mark.filter(|mark| {
            marks
                .last()
                .is_none_or(|last| (last.0, last.1.0) <= (mark.0, mark.1.0))
        });
        at += if mark.is_some() { 3 } else { 1 };
        match mark {
            Some(mark) => marks.push(mark),
            None => also.push(said[at - 1]),
        }
    }
    let mut told = Vec::new();
    for (number, (_, what, source)) in sources.iter().enumerate() {
        let outcome = if number == 0 { outcome } else { "beside" };
        told.push(format!("--- {outcome}: {what}"));
        for (index, line) in source.lines.iter().enumerate() {
            told.push((*line).to_owned());
            let own = marks
                .iter()
                .filter(|(of, (at, _))| (*of, *at) == (number, index));
            told.extend(own.map(|(_, (_, mark))| mark.clone()));
        }
    }
    if !also.is_empty() {
        told.push("--- also".to_owned());
        told.extend(also.into_iter().map(str::to_owned));
    }
    told.join("\n")
}
