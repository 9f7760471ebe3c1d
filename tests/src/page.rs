//! Pages of the documentation that hold measurements.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use jiff::Timestamp;

use crate::cpu;

/// The marks around the measurements in a page. The rest is written by hand.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

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

/// Prints the measurements and the broken promises. If none is broken, writes the page at `path`.
pub fn publish(text: &str, broken: &[String], path: Option<&Path>) -> Result<ExitCode> {
    print!("{text}");
    for sentence in broken {
        eprintln!("error: {sentence}");
    }
    if !broken.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    path.map_or(Ok(()), |path| write(path, text))?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces the text between the marks of the page at `path`.
fn write(path: &Path, measurements: &str) -> Result<()> {
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
    fn the_pages_of_this_repository_have_their_marks() {
        for page in [
            include_str!("../../docs/exactness.md"),
            include_str!("../../docs/floods.md"),
        ] {
            replaced(page, "").unwrap();
        }
    }
}
