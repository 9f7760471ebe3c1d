//! Whether a list that was read is taken as a whole.

use super::{reading::Reading, source::NoList};

/// Accepted irregularities.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Acceptance {
    /// Bad lines: they are left out.
    pub skip_bad: bool,
    /// Accepts a list without entries.
    pub allow_empty: bool,
}

impl Acceptance {
    /// Takes a list that was read from what is called `name`, or says why not.
    ///
    /// # Errors
    ///
    /// When lines are bad, or there is no entry.
    pub fn check(self, name: &str, reading: &Reading) -> Result<(), NoList> {
        if reading.bad.count > 0 && !self.skip_bad {
            return Err(NoList {
                error: reading.bad.to_string(),
                hint: "nothing was imported; fix them, or skip them with --skip-bad or skip_bad = \
                       true",
            });
        }
        if reading.entries.is_empty() && !self.allow_empty {
            let skipped = reading.skipped.iter();
            let skipped: Vec<String> = skipped
                .map(|(why, count)| format!("{count} {why}"))
                .collect();
            let skipped = match skipped.as_slice() {
                [] => String::new(),
                skipped => format!("; left out: {}", skipped.join(", ")),
            };
            return Err(NoList {
                error: format!("{name} has no entries{skipped}"),
                hint: "check its source; if it should be empty: --allow-empty, or allow_empty = \
                       true",
            });
        }
        Ok(())
    }
}
