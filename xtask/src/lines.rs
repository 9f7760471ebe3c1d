//! `cargo xtask lines`: how much Rust there is, per crate and per feature.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, workspace};

/// Crates that are tests as a whole.
const TESTING: [&str; 2] = ["fuzz", "tests"];

/// Counts production and test lines per crate and per feature
///
/// A feature is a module below `src`, added up over all crates. Blank lines and comments count.
/// Test lines are those of files and folders called `tests`, and of modules behind `#[cfg(test)]`
/// at the end of a file.
#[derive(Args)]
pub struct Arguments {
    /// List features with at least this many lines
    #[arg(long, value_name = "N", default_value_t = 500)]
    least: usize,
}

#[derive(Clone, Copy, Default)]
struct Lines {
    production: usize,
    tests: usize,
}

impl Lines {
    fn of(path: &str, text: &str) -> Self {
        let all = text.lines().count();
        let is_test = path.split('/').any(|part| {
            TESTING.contains(&part) || part == "tests.rs" || part.ends_with("_tests.rs")
        });
        let production = match text.lines().position(|line| line == "#[cfg(test)]") {
            _ if is_test => 0,
            Some(at)
                if text
                    .lines()
                    .nth(at + 1)
                    .is_some_and(|line| line.ends_with('{')) =>
            {
                at
            }
            _ => all,
        };
        Self {
            production,
            tests: all - production,
        }
    }

    fn add(&mut self, other: Self) {
        self.production += other.production;
        self.tests += other.tests;
    }

    fn all(self) -> usize {
        self.production + self.tests
    }
}

/// Prints both tables.
pub fn run(arguments: &Arguments) -> Result<()> {
    let files = process::output(process::in_root("git").args(["ls-files", "*.rs"]))?;
    let (mut crates, mut features) = (BTreeMap::new(), BTreeMap::new());
    for path in files.lines() {
        let file = workspace::root().join(path);
        // A file that was removed and not committed yet is still listed.
        if !file.exists() {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("reading {path}"))?;
        let lines = Lines::of(path, &text);
        let (name, _) = path.split_once('/').unwrap_or((path, ""));
        crates.entry(name).or_insert(Lines::default()).add(lines);
        let feature = features.entry(feature(path)).or_insert(Lines::default());
        feature.add(lines);
    }
    let mut total = Lines::default();
    for &lines in crates.values() {
        total.add(lines);
    }
    print("crate", crates.into_iter().chain([("all", total)]));
    println!();
    let large = features.into_iter();
    print(
        "feature",
        large.filter(|(_, lines)| lines.all() >= arguments.least),
    );
    Ok(())
}

/// The module below `src` that a file belongs to.
fn feature(path: &str) -> &str {
    let (_, inside) = path.split_once("/src/").unwrap_or(("", path));
    // The rooms of the daemon hold features, and are none.
    let inside = inside.strip_prefix("control/feeds/").unwrap_or(inside);
    let first = inside.split('/').next().unwrap_or(inside);
    Path::new(first)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or(first)
}

fn print<'a>(title: &str, rows: impl Iterator<Item = (&'a str, Lines)>) {
    println!("{title:<22} {:>10} {:>8}", "production", "tests");
    for (name, lines) in rows {
        println!("{name:<22} {:>10} {:>8}", lines.production, lines.tests);
    }
}
