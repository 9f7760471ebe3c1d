//! The screen of the demo: a table that is redrawn in place on a terminal, and lines otherwise.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

const BAR_CELLS: u64 = 8;

/// The terminal, or the file or pipe in its place.
pub struct Screen {
    is_terminal: bool,
    is_coloured: bool,
    drawn: usize,
}

impl Screen {
    /// Standard output.
    pub fn new() -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self {
            is_terminal,
            is_coloured: is_terminal && env::var_os("NO_COLOR").is_none(),
            drawn: 0,
        }
    }

    /// Begins a part of the demo.
    pub fn heading(&self, text: &str) {
        println!("\n{}", self.styled("1", text));
    }

    /// Draws `rows` over those that were drawn before, where that can be done.
    pub fn redraw(&mut self, rows: &[String]) -> io::Result<()> {
        if !self.is_terminal {
            return Ok(());
        }
        // A line that wraps would be two to move up by: a narrow terminal cuts it off.
        print!("\x1b[?7l");
        let drawn = self.draw(rows);
        print!("\x1b[?7h");
        drawn
    }

    /// Draws `rows` over those that were drawn before, for the last time.
    pub fn finish(&mut self, rows: &[String]) -> io::Result<()> {
        self.draw(rows)?;
        self.drawn = 0;
        Ok(())
    }

    /// Whether rows are drawn while they change.
    pub fn is_live(&self) -> bool {
        self.is_terminal
    }

    /// `ok`, or what was expected, at the end of a line.
    pub fn mark(&self, answer: &str) -> String {
        let style = if answer == "ok" { "32" } else { "1;31" };
        self.styled(style, answer)
    }

    fn draw(&mut self, rows: &[String]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.drawn > 0 {
            write!(out, "\x1b[{}A", self.drawn)?;
        }
        let clear = if self.is_terminal { "\x1b[K" } else { "" };
        for row in rows {
            writeln!(out, "{row}{clear}")?;
        }
        self.drawn = rows.len();
        out.flush()
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.is_coloured {
            format!("\x1b[{style}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A bar that is filled by the ratio of `part` to `whole`.
pub fn bar(part: u64, whole: u64) -> String {
    let cells = (part * BAR_CELLS).div_ceil(whole.max(1)).min(BAR_CELLS);
    (0..BAR_CELLS)
        .map(|cell| if cell < cells { '█' } else { '░' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_empty_only_for_nothing_and_full_for_the_whole() {
        assert_eq!(bar(0, 0), "░░░░░░░░");
        assert_eq!(bar(0, 1000), "░░░░░░░░");
        assert_eq!(bar(1, 1000), "█░░░░░░░");
        assert_eq!(bar(1000, 1000), "████████");
    }
}
