//! A file that is read from front to end, or stdin; on a terminal, how far it was read.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressBarIter, ProgressStyle};
use ratelimit_core::api::Progress;

use crate::failure::Failure;

/// The interval of a spinner without a known end.
const TURN: Duration = Duration::from_millis(100);

/// An input. Its progress bar on stderr disappears at the end. There is none if stderr is not a
/// terminal.
pub struct Input {
    name: String,
    reader: ProgressBarIter<Box<dyn Read>>,
}

impl Input {
    /// Opens a file, or stdin for `-`.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let (name, bytes, reader): (_, _, Box<dyn Read>) = if path == Path::new("-") {
            ("stdin".to_owned(), None, Box::new(io::stdin().lock()))
        } else {
            let name = path.display().to_string();
            let file = File::open(path);
            let file =
                file.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
            // A pipe has no length.
            let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file);
            (name, bytes.map(|file| file.len()), Box::new(file))
        };
        let reader = bar(bytes).wrap_read(reader);
        Ok(Self { name, reader })
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.reader.progress.finish_and_clear();
    }
}

/// A spinner on stderr for the time that the daemon takes; where that is no terminal, nothing.
pub fn waiting(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
    let spinner = ProgressBar::new_spinner().with_style(style.expect("the template is right"));
    spinner.set_message(what.to_owned());
    spinner.enable_steady_tick(TURN);
    spinner
}

/// Turns the spinner into a bar while the daemon reports its progress.
pub fn show(waiting: &ProgressBar, progress: Progress) {
    if progress.total == 0 {
        return;
    }
    if waiting.length() != Some(progress.total) {
        let template = "{msg}: {bar:30} {percent:>3}%, {eta} left";
        waiting.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        waiting.set_length(progress.total);
    }
    waiting.set_position(progress.done);
}

fn bar(bytes: Option<u64>) -> ProgressBar {
    let style = |template| ProgressStyle::with_template(template).expect("the template is right");
    if let Some(bytes) = bytes {
        let template = "{bar:30} {percent:>3}% of {total_bytes}, {eta} left";
        ProgressBar::new(bytes).with_style(style(template))
    } else {
        let spinner =
            ProgressBar::new_spinner().with_style(style("{spinner} {bytes} in {elapsed}"));
        spinner.enable_steady_tick(TURN);
        spinner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinner_is_a_bar_while_the_daemon_says_how_far_it_is() {
        let waiting = ProgressBar::hidden();
        let total = 200_000;
        let at = |done, total| {
            show(&waiting, Progress { done, total });
            (waiting.position(), waiting.length())
        };
        assert_eq!(at(0, 0).0, 0);
        assert_eq!(at(50_000, total), (50_000, Some(total)));
        assert_eq!(at(120_000, total), (120_000, Some(total)));
        // Between its end and the answer it stays where it was.
        assert_eq!(at(0, 0), (120_000, Some(total)));
    }
}
