//! The figures in `docs/performance.md` and `docs/limits.md`, between two markers, and the plot
//! beside them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    plot,
    report::{Report, Row},
    statistics::Spread,
    table, tcp,
};

/// The two lines around figures.
pub type Markers = [&'static str; 2];

const FIGURES: Markers = [
    "<!-- figures: written by `cargo xtask bench --write` -->\n",
    "<!-- end of the figures -->\n",
];

const TCP: Markers = [
    "<!-- tcp: written by `cargo xtask bench --filter tcp --write` -->\n",
    "<!-- end of tcp -->\n",
];

/// Writes figures and plot. If only TCP was measured, the other figures stay.
pub fn write(report: &Report) -> Result<()> {
    if !report.tcp.is_empty() {
        write_between("limits.md", TCP, &of_tcp(report))?;
    }
    if report.rows.is_empty() && report.live.is_empty() {
        return Ok(());
    }
    plot::draw(report, &docs().join("performance.svg"))?;
    write_between("performance.md", FIGURES, &figures(report))
}

/// Writes figures between their markers in a file of the documentation.
pub fn write_between(file: &str, markers: Markers, figures: &str) -> Result<()> {
    let path = docs().join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let text = replace(&text, markers, figures)
        .with_context(|| format!("{} lacks the markers of the figures", path.display()))?;
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// The directory of the documentation.
pub fn docs() -> PathBuf {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench).join("docs")
}

fn figures(report: &Report) -> String {
    format!(
        "Measured on {} ({}) by `{}`: medians of {} runs of {} packets.{} An empty program took {} \
         ns. The slowest run of a case takes {:.0} % longer than the fastest, in the median.\n\n\
         ![Cost of a packet by the number of sources](performance.svg)\n\n{}",
        report.date,
        report.machine,
        report.command,
        report.rounds,
        report.packets,
        others(&report.others),
        baseline(&report.rows),
        spread(&report.rows),
        table::render(report, is_published)
    )
}

fn of_tcp(report: &Report) -> String {
    format!(
        "Measured on {} ({}) by `{}`.\n\n{}",
        report.date,
        report.machine,
        report.command,
        tcp::render(&report.tcp)
    )
}

/// Whether a case is in the documentation. Variants of these cases are only printed.
fn is_published(row: &Row) -> bool {
    const VARIANTS: [&str; 18] = [
        "/dns",
        "/tcp-",
        "counted/",
        "/challenge-",
        "/verified",
        "/prefer",
        "/in-cluster/",
        "/shared/",
        "/destinations/",
        "/bans-10000/",
        "/among-10000/",
        "/policies-100/",
        "/limits-4/",
        "/limited/ipv4/hot/2-cpus",
        "-window/ipv4/65536",
        "-bucket/ipv4/65536",
        "/ban/ipv4/65536",
        "/ban/ipv6/65536",
    ];
    !VARIANTS.iter().any(|part| row.name.contains(part))
}

/// Describes the other contenders of live traffic, if there were any.
fn others(versions: &[String]) -> String {
    if versions.is_empty() {
        return String::new();
    }
    format!(" Beside it {}.", versions.join(", "))
}

/// The shortest and the longest time of an empty program beside the cases.
fn baseline(rows: &[Row]) -> String {
    let nanos = rows.iter().map(|row| row.zero_nanos.median);
    let (least, most) = nanos.fold((f64::MAX, 0.0), |(least, most), it| {
        (f64::min(least, it), f64::max(most, it))
    });
    format!("{least:.0} to {most:.0}")
}

/// How much longer the slowest run of a case takes than the fastest, in the median of all cases, in
/// percent.
fn spread(rows: &[Row]) -> f64 {
    let spreads = rows
        .iter()
        .map(|row| (row.ratio.max / row.ratio.min - 1.0) * 100.0);
    Spread::of(&spreads.collect::<Vec<_>>()).map_or(0.0, |spread| spread.median)
}

/// `text` with `figures` between the markers; `None` where they are missing.
fn replace(text: &str, [begin, end]: Markers, figures: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{figures}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_figures_stays() {
        let [begin, end] = FIGURES;
        let text = format!("before\n{begin}old\n{end}after\n");
        let expected = format!("before\n{begin}\nnew\n{end}after\n");
        assert_eq!(replace(&text, FIGURES, "new"), Some(expected));
        assert_eq!(replace("no markers", FIGURES, "new"), None);
    }
}
