//! Finds sentences that read like a literal translation: in comments, documents, strings that users
//! see, and the descriptions of the API.
//!
//! The patterns have false hits, about one in five, so documents and comments have a share that
//! they may not exceed. In the API and in strings every hit is rewritten or listed in [`ACCEPTED`].

use anyhow::{Context, Result};
use regex::{Regex, RegexSet};
use serde_json::Value;

use super::{read, tracked};

/// The largest share of sentences with a hit, in percent.
const COMMENTS_MAX: f64 = 1.5;
const DOCUMENTS_MAX: f64 = 1.0;
const STRINGS_MAX: f64 = 0.0;
const API_MAX: f64 = 0.0;

/// Parts of texts in the API and in strings that match a pattern and are right.
const ACCEPTED: &[&str] = &[];

/// A text with its place.
struct Text {
    place: String,
    text: String,
}

/// Reports every area that exceeds its share. Returns whether none does.
pub fn is_natural() -> Result<bool> {
    let patterns = patterns()?;
    let sources = tracked(&["*.rs"])?;
    let sources: Vec<String> = sources.into_iter().filter(|it| !is_test(it)).collect();
    let is_stiff = |text: &str| patterns.is_match(text);
    let is_wrong = |text: &str| is_stiff(text) && !ACCEPTED.iter().any(|it| text.contains(it));
    let is_wrong_or_short = |text: &str| is_wrong(text) || text.split_whitespace().count() <= 2;
    let passed = [
        report("comments", &comments(&sources)?, COMMENTS_MAX, is_stiff),
        report("documents", &documents()?, DOCUMENTS_MAX, is_stiff),
        report("strings", &strings(&sources)?, STRINGS_MAX, is_wrong),
        report("API", &descriptions()?, API_MAX, is_wrong_or_short),
    ];
    Ok(passed.iter().all(|it| *it))
}

/// Prints the share of hits in an area, and the hits if they exceed `max` percent. Returns whether
/// they do not.
fn report(area: &str, texts: &[Text], max: f64, is_hit: impl Fn(&str) -> bool) -> bool {
    let hits: Vec<&Text> = texts.iter().filter(|it| is_hit(&it.text)).collect();
    #[expect(clippy::cast_precision_loss, reason = "some thousands of sentences")]
    let share = 100.0 * hits.len() as f64 / texts.len().max(1) as f64;
    let count = texts.len();
    eprintln!("{area}: {share:.1} % of {count} sentences, at most {max} %");
    if share <= max {
        return true;
    }
    for Text { place, text } in hits {
        eprintln!("{place}: {text}");
    }
    false
}

/// The patterns of stiff sentences.
fn patterns() -> Result<RegexSet> {
    let who = r"(?:^|[.;:,] |\bof |\bfor |\bto |\bby |\bsays |\bknows )[Ww]ho(?:m|se|ever)? (?:is|are|has|have|was|were|sends?|receives?|proved|proves|may|does|asks?|had|can|comes|draws|leaves|knows|wants|made|set|the|they|it|these)\b";
    let what = r"(?:^|[.;:,] |\bof |\bfor |\bto |\bby |\bthan |\band |\bat |\bin |\bon )[Ww]hat (?:is|was|are|were|has|had|have|comes?|came|pass(?:es|ed)|limits|others?|it|they|a|an|the|only|sources?|nodes?|packets?|users?|ends?|stands|holds?|goes|matched|this|that|these|those|each|some|somebody|nobody|all)\b";
    RegexSet::new([
        who,
        what,
        r"^(?:Of|Beside|Under|Beneath|For want of) [a-z]",
        r"^(?:Neither|Nor|So (?:is|do|does|are|may|has|have|can)|As (?:does|do|is))\b",
        r"\b(?:[Nn]obody|[Ss]omebody|[Ee]verybody)\b",
        r"\b(?:is|are|was|were) told\b|\btells? (?:of|it|what|who|how|that|root)\b|\btold (?:of|as)\b",
        r"\b(?:stands?|stood|lies|goes on|go on|went on)\b",
        r"\bin place of\b|\bmeanwhile\b|\blikewise\b|\banew\b|\bin vain\b|\belse[.,;]|\bat length\b",
        // `no more than` is fine.
        r"\bno more(?:$|[^ \w]| (?:[^t]|t[^h]|th[^a]))",
        r"\b(?:[Ss]o many|of that much|one part in so)\b",
        r"^One (?:that|of|with|whose|in)\b",
        r"^(?:The same|Those|Both|Its)\b[^.]{0,40}\.$",
    ])
    .context("the patterns")
}

fn is_test(path: &str) -> bool {
    let is_bench = path.starts_with("bench/") || path.starts_with("fuzz/");
    is_bench
        || path.ends_with("tests.rs")
        || ["tests", "test", "simulator"]
            .iter()
            .any(|it| path.split('/').any(|part| part == *it))
}

/// The sentences of all comments.
fn comments(sources: &[String]) -> Result<Vec<Text>> {
    let comment = Regex::new(r"^//[/!]?(?: (.*))?$")?;
    let mut found = Vec::new();
    for path in sources {
        let mut block = String::new();
        let mut first = 0;
        let source = read(path)?;
        for (index, line) in source.lines().chain([""]).enumerate() {
            if let Some(captures) = comment.captures(line.trim()) {
                if block.is_empty() {
                    first = index + 1;
                }
                block.push_str(captures.get(1).map_or("", |it| it.as_str()));
                block.push('\n');
            } else if !block.is_empty() {
                found.extend(sentences(&block, &format!("{path}:{first}"))?);
                block.clear();
            }
        }
    }
    Ok(found)
}

/// The sentences of all Markdown files.
fn documents() -> Result<Vec<Text>> {
    let mut found = Vec::new();
    for path in tracked(&["*.md"])? {
        found.extend(sentences(&read(&path)?, &path)?);
    }
    Ok(found)
}

/// The sentences of string literals in the crates that talk to users.
fn strings(sources: &[String]) -> Result<Vec<Text>> {
    let crates = Regex::new(r"^(?:ratelimit-(?:daemon|core|interface|cluster)|rlctl)/src")?;
    let mut found = Vec::new();
    for path in sources.iter().filter(|it| crates.is_match(it)) {
        for (line, text) in literals(&read(path)?)? {
            found.extend(sentences(&text, &format!("{path}:{line}"))?);
        }
    }
    Ok(found)
}

/// The string literals of a source, as they print, with the number of their first line.
fn literals(source: &str) -> Result<Vec<(usize, String)>> {
    let token = Regex::new(
        r##"(?s)//[^\n]*|\br#".*?"#|\br"[^"]*"|'(?:\\.[^']*|[^'\\])'|"((?:[^"\\]|\\.)*)""##,
    )?;
    let continuation = Regex::new(r"\\\n\s*")?;
    let tokens = token.captures_iter(source);
    let literals = tokens.filter_map(|token| token.get(1)).map(|literal| {
        let line = 1 + source[..literal.start()].matches('\n').count();
        let text = continuation.replace_all(literal.as_str(), "");
        (line, text.replace(r"\n", "\n").replace(r#"\""#, "\""))
    });
    Ok(literals.collect())
}

/// All descriptions of the API.
fn descriptions() -> Result<Vec<Text>> {
    fn walk(node: &Value, found: &mut Vec<String>) {
        if let Some(text) = node["description"].as_str() {
            found.push(text.to_owned());
        }
        match node {
            Value::Object(fields) => fields.values().for_each(|it| walk(it, found)),
            Value::Array(all) => all.iter().for_each(|it| walk(it, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let path = "contrib/openapi.json";
    let mut found = Vec::new();
    walk(&serde_json::from_str(&read(path)?)?, &mut found);
    let place = path.to_owned();
    Ok(found
        .into_iter()
        .map(|text| Text {
            place: place.clone(),
            text,
        })
        .collect())
}

/// The sentences of at least four words, without code blocks.
fn sentences(text: &str, place: &str) -> Result<Vec<Text>> {
    let code = Regex::new(r"(?s)```.*?```")?;
    let block = Regex::new(r"\n\s*\n|\n\s*[-|#*] |\n\||\n\s*\d+\. ")?;
    let end = Regex::new(r"[.!?]\s+[A-Z`\[]")?;
    let text = code.replace_all(text, "");
    let mut found = Vec::new();
    for block in block.split(&text) {
        let words: Vec<&str> = block.split_whitespace().collect();
        let block = words.join(" ");
        let block = block.trim_start_matches(['-', '#', '*', '|', ' ']);
        let mut start = 0;
        let ends = end.find_iter(block).map(|it| it.start() + 1);
        for end in ends.chain([block.len()]) {
            let sentence = block[start..end].trim();
            start = end;
            if sentence.split(' ').count() >= 4 {
                found.push(Text {
                    place: place.to_owned(),
                    text: sentence.to_owned(),
                });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stiff_sentences_are_found_and_natural_ones_are_not() {
        let patterns = patterns().unwrap();
        for stiff in [
            "What is done with the sources on a list.",
            "It is known who sends them, and by whom: who sends most is first.",
            "Of a token bucket, amount and burst may change.",
            "nobody is on the allow list",
            "what its sources have used starts anew",
            "the limits of the interface in place of those of the node",
            "It is no more.",
            "The same for DNS.",
        ] {
            assert!(patterns.is_match(stiff), "{stiff}");
        }
        for natural in [
            "the allow list is empty",
            "at most one packet, and no more than two",
            "Returns the limits of the node.",
            "Says what a limit does.",
        ] {
            assert!(!patterns.is_match(natural), "{natural}");
        }
    }

    #[test]
    fn literals_are_read_whole() {
        let source = "// \"a comment\"\nlet a = '\"';\nf(\"one \\\n   two\\nthree\");\ng(\"four\")";
        let expected = [(3, "one two\nthree".to_owned()), (5, "four".to_owned())];
        assert_eq!(literals(source).unwrap(), expected);
    }

    #[test]
    fn sentences_end_at_their_marks_and_with_their_blocks() {
        let text = "# A heading of four words\n\n\
                    One sentence has four words. Another one\n\
                    has two lines.\n\
                    - too short\n\
                    - an item of five words\n\
                    ```\n\
                    code is not read at all\n\
                    ```\n";
        let found = sentences(text, "page").unwrap();
        let found: Vec<_> = found.iter().map(|it| it.text.as_str()).collect();
        let expected = [
            "A heading of four words",
            "One sentence has four words.",
            "Another one has two lines.",
            "an item of five words",
        ];
        assert_eq!(found, expected);
    }
}
