//! Sentences of the documentation that are too long to be read once: of the pages, of the comments that rustdoc shows, and of the
//! comments in `contrib/config.toml`.
//!
//! Headings, tables and blocks of code are left out. Code within a sentence counts as one word.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::workspace;

/// The most words of a sentence.
const WORDS_MAX: usize = 30;

/// Names each sentence that is too long, and says whether there is none.
pub fn are_short() -> Result<bool> {
    let root = workspace::root();
    let mut pages = markdown_in(root)?;
    pages.extend(markdown_in(&root.join("docs"))?);
    pages.extend(markdown_in(&root.join("docs/architecture"))?);

    let mut all_short = true;
    pages.extend(sources_in(root)?);
    pages.push(root.join("contrib/config.toml"));
    for page in pages {
        let text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let prose = match page.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => doc_comments(&text),
            Some("toml") => comments_of_keys(&text),
            _ => text,
        };
        for long in too_long(&prose) {
            let page = page.strip_prefix(root).unwrap_or(&page).display();
            eprintln!(
                "{page}:{}: {} words, at most {WORDS_MAX}: {}",
                long.line, long.words, long.text
            );
            all_short = false;
        }
    }
    Ok(all_short)
}

fn markdown_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// The Rust sources below a directory, but for what was built.
fn sources_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let is_left_out = name == "target" || name.as_encoded_bytes().starts_with(b".");
        if entry.file_type()?.is_dir() && !is_left_out {
            sources.extend(sources_in(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

/// The comments of a source that rustdoc shows, each in the line where it stands.
fn doc_comments(source: &str) -> String {
    prose(source, |line| {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
        comment.map(|comment| (comment, false))
    })
}

/// The comments of a configuration, each in the line where it stands. One that begins with a key is a paragraph of its own, and one with
/// no space or two is an example.
fn comments_of_keys(configuration: &str) -> String {
    prose(configuration, |line| {
        let comment = line.strip_prefix("# ").filter(|it| !it.starts_with(' '))?;
        let key = comment.split([' ', ':', ',']).next().unwrap_or_default();
        let is_key = key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let rest = comment.strip_prefix(key).unwrap_or_default();
        let is_first = is_key && [":", ",", " ="].iter().any(|mark| rest.starts_with(mark));
        Some((comment, is_first))
    })
}

/// The lines that `comment` finds, and whether each begins a paragraph; the others are empty.
fn prose<'a>(text: &'a str, comment: impl Fn(&'a str) -> Option<(&'a str, bool)>) -> String {
    let lines = text.lines().map(|line| match comment(line) {
        Some((comment, true)) => format!("- {comment}\n"),
        Some((comment, false)) => format!("{comment}\n"),
        None => "\n".to_owned(),
    });
    lines.collect()
}

#[derive(Debug, PartialEq)]
struct Long {
    line: usize,
    words: usize,
    text: String,
}

/// The sentences of a page with more than [`WORDS_MAX`] words.
fn too_long(page: &str) -> Vec<Long> {
    let mut found = Vec::new();
    for (line, block) in blocks(page) {
        for sentence in sentences(&block) {
            let words = sentence
                .split_whitespace()
                .filter(|word| word.contains(char::is_alphanumeric));
            let words = words.count();
            if words > WORDS_MAX {
                found.push(Long {
                    line,
                    words,
                    text: sentence.to_owned(),
                });
            }
        }
    }
    found
}

/// The paragraphs and items of a page, each with the number of its first line.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what has no text is of no interest"
)]
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    // How many headings, tables and blocks of code are open.
    let mut skipped = 0;
    let mut is_new = true;
    for (event, range) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        let text = match &event {
            Event::Start(Tag::Heading { .. } | Tag::Table(_) | Tag::CodeBlock(_)) => {
                skipped += 1;
                is_new = true;
                continue;
            }
            Event::End(TagEnd::Heading(_) | TagEnd::Table | TagEnd::CodeBlock) => {
                skipped -= 1;
                continue;
            }
            Event::Start(Tag::Paragraph | Tag::Item | Tag::List(_))
            | Event::End(TagEnd::Paragraph | TagEnd::Item) => {
                is_new = true;
                continue;
            }
            Event::Text(text) => text,
            Event::Code(_) => "code",
            Event::SoftBreak | Event::HardBreak => " ",
            _ => continue,
        };
        if skipped > 0 {
            continue;
        }
        if is_new {
            blocks.push((1 + page[..range.start].matches('\n').count(), String::new()));
            is_new = false;
        }
        if let Some((_, block)) = blocks.last_mut() {
            block.push_str(text);
        }
    }
    blocks
}

/// Cuts behind each full stop, question and exclamation mark that ends a word; an ellipsis ends none.
fn sentences(block: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (end, _) in block.match_indices(' ') {
        let before = block[start..end].trim_end_matches(['"', ')']);
        if before.ends_with(['.', '!', '?']) && !before.ends_with("..") {
            sentences.push(block[start..end].trim());
            start = end;
        }
    }
    sentences.push(block[start..].trim());
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expected: &[(usize, usize)]) {
        let found: Vec<_> = too_long(page)
            .into_iter()
            .map(|long| (long.line, long.words))
            .collect();
        assert_eq!(found, expected, "{page}");
    }

    fn words(number: usize) -> String {
        vec!["word"; number].join(" ")
    }

    #[test]
    fn a_sentence_of_31_words_is_too_long() {
        check(&words(30), &[]);
        check(&words(31), &[(1, 31)]);
        check(
            &format!("Before.\n\n{}\n{}", words(30), words(5)),
            &[(3, 35)],
        );
    }

    #[test]
    fn a_sentence_ends_at_its_mark_and_with_its_block() {
        check(&format!("{}. {}", words(30), words(30)), &[]);
        check(
            &format!("({}.) {}? {}!", words(30), words(30), words(30)),
            &[],
        );
        check(
            &format!(
                "- {}\n- {}\n  - {}\n\n{}",
                words(30),
                words(30),
                words(30),
                words(30)
            ),
            &[],
        );
        check(&format!("{} 1.5 ... {}", words(15), words(15)), &[(1, 31)]);
    }

    #[test]
    fn comments_are_read_and_code_is_not() {
        let source = format!(
            "//! {}\n\n/// {}\n/// {}.\n// {}\nfn long() {{}}\n    /// Short.\n",
            words(31),
            words(20),
            words(20),
            words(40)
        );
        check(&doc_comments(&source), &[(1, 31), (3, 40)]);
    }

    #[test]
    fn comments_of_a_configuration_are_read_and_its_examples_are_not() {
        let configuration = format!(
            "# {}\n# {}\nkey = 1\n#{}\n#  {}\n# key: {}\n# other = {}\n",
            words(20),
            words(20),
            words(40),
            words(40),
            words(20),
            words(20)
        );
        check(&comments_of_keys(&configuration), &[(1, 40)]);
    }

    #[test]
    fn headings_tables_and_code_are_left_out() {
        check(
            &format!("# {}\n\n```\n{}\n```\n", words(40), words(40)),
            &[],
        );
        check(&format!("| a |\n|---|\n| {} |\n", words(40)), &[]);
        check(&format!("`{}` {}", words(40), words(29)), &[]);
        check(&format!("`{}` **{}**", words(40), words(30)), &[(1, 31)]);
    }
}
