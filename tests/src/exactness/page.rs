//! What was measured, as it is printed, and as the documentation shows it.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::{
    Cell, Clock, Row,
    increments::Increments,
    table::{Table, grouped},
};
use crate::cpu;

/// Where the measurements stand in the page; what is around them is written by hand.
const BEGIN: &str = "<!-- measured: `cargo xtask exactness` writes what follows -->\n";
const END: &str = "<!-- measured: end -->\n";

/// The table of the cells of one clock.
#[must_use]
pub fn table(clock: Clock, measured: &[(Cell, Row)]) -> Table {
    let mut headings = vec![
        "algorithm",
        "CPUs",
        "arrivals",
        "load",
        "sent",
        "admitted",
        "oracle",
        "difference",
        "over-admitted",
        "wrongly refused",
    ];
    headings.push(match clock {
        Clock::Virtual => "contended",
        Clock::Real => "undecided",
    });
    let mut table = Table::new(&headings);
    for (cell, row) in measured.iter().filter(|(cell, _)| cell.clock == clock) {
        let mut cells = cell_names(cell).to_vec();
        cells.extend([row.sent, row.admitted, row.oracle].map(grouped));
        cells.push(signed(row.difference()));
        cells.extend([row.over_admitted, row.wrongly_refused].map(grouped));
        cells.push(grouped(match clock {
            Clock::Virtual => row.contended,
            Clock::Real => row.undecided,
        }));
        table.push(cells);
    }
    table
}

/// A cell, in words.
#[must_use]
pub fn cell_names(cell: &Cell) -> [String; 4] {
    [
        cell.subject.name.to_owned(),
        cell.cpus.to_string(),
        cell.arrivals.name().to_owned(),
        cell.load.to_string(),
    ]
}

/// What came of the increments of two CPUs, in a sentence.
#[must_use]
pub fn increments(increments: &Increments) -> String {
    format!(
        "{} packets of one source from two CPUs at once, in {:.1} s: {} were admitted, {} refused because the other CPU changed \
         the word at every try, and the word says {}. {} increments were lost.\n",
        grouped(increments.sent),
        increments.elapsed.as_secs_f64(),
        grouped(increments.admitted),
        grouped(increments.contended),
        grouped(increments.used),
        increments.lost(),
    )
}

/// The machine, the kernel and the day.
pub fn circumstances() -> Result<String> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("reading {path}"));
    let cpuinfo = read("/proc/cpuinfo")?;
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("a processor", |rest| {
        rest.trim_start_matches([' ', '\t', ':'])
    });
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let day = Timestamp::now().strftime("%Y-%m-%d");
    let (cpus, kernel) = (cpu::count(), kernel.trim());
    Ok(format!(
        "Measured on {day} on {cpus} CPUs ({model}) with Linux {kernel}.\n"
    ))
}

/// Replaces what stands between the marks of the page at `path`.
pub fn write(path: &Path, measurements: &str) -> Result<()> {
    let context = || format!("writing the measurements into {}", path.display());
    let page = fs::read_to_string(path).with_context(context)?;
    fs::write(path, replaced(&page, measurements).with_context(context)?).with_context(context)
}

fn replaced(page: &str, measurements: &str) -> Result<String> {
    let missing = |mark: &str| format!("the page has no line `{}`", mark.trim_end());
    let (before, rest) = page.split_once(BEGIN).with_context(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(END))?;
    Ok(format!("{before}{BEGIN}\n{measurements}\n{END}{after}"))
}

fn signed(number: i64) -> String {
    if number == 0 {
        "0".to_owned()
    } else {
        format!("{number:+}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_by_hand_stays() {
        let page = format!("# Title\n{BEGIN}old\n{END}the end\n");
        let expected = format!("# Title\n{BEGIN}\nnew\n\n{END}the end\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), expected);
    }

    #[test]
    fn a_page_without_its_marks_is_left_alone() {
        let error = replaced("# Title\n", "new").unwrap_err().to_string();
        assert!(
            error.starts_with("the page has no line `<!-- measured:"),
            "{error}"
        );
    }

    #[test]
    fn the_page_of_this_repository_has_its_marks() {
        let page = include_str!("../../../docs/exactness.md");
        replaced(page, "").unwrap();
    }
}
