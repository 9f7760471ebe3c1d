//! The figures in `docs/performance.md`, between two markers, and the plot beside it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{plot, report::Report, table};

const BEGIN: &str = "<!-- figures: written by `cargo xtask bench --write` -->\n";
const END: &str = "<!-- end of the figures -->\n";

/// Writes figures and plot.
pub fn write(report: &Report) -> Result<()> {
    let path = docs().join("performance.md");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let text = replace(&text, &figures(report))
        .with_context(|| format!("{} lacks the markers of the figures", path.display()))?;
    plot::draw(report, &docs().join("performance.svg"))?;
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

fn docs() -> PathBuf {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench).join("docs")
}

fn figures(report: &Report) -> String {
    format!(
        "Measured on {} ({}) by `{}`: medians of {} runs of {} packets.{}\n\n\
         ![Cost of a packet by the number of sources](performance.svg)\n\n{}",
        report.date,
        report.machine,
        report.command,
        report.rounds,
        report.packets,
        others(&report.others),
        table::render(report)
    )
}

/// What live traffic went through besides, where it did.
fn others(versions: &[String]) -> String {
    if versions.is_empty() {
        return String::new();
    }
    format!(" Beside it {}.", versions.join(", "))
}

/// `text` with `figures` between the markers; `None` where they are missing.
fn replace(text: &str, figures: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{figures}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_figures_stays() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let expected = format!("before\n{BEGIN}\nnew\n{END}after\n");
        assert_eq!(replace(&text, "new"), Some(expected));
        assert_eq!(replace("no markers", "new"), None);
    }
}
