//! What the readers of all formats share: they walk over the text, and hand in entries and problems.

use std::{ops::Range, path::Path};

use jiff::{SignedDuration, Timestamp};

use super::{
    address,
    export_line::Facts,
    format::Format,
    reading::{BadLines, Entry, Reading},
    reasons::Reasons,
    sets::Sets,
    source::Source,
    vetting::Vetting,
};
use crate::diagnostic::{Diagnostic, Position, Problem};

/// The bad lines that are shown with their text; the others are counted.
const SHOWN: usize = 10;

/// A text that is being read.
pub struct Reader<'t> {
    text: &'t str,
    name: &'t str,
    now: Timestamp,
    written: Timestamp,
    vetting: &'t Vetting,
    reading: Reading,
    /// The sets that the text names, where its format has sets.
    pub sets: Sets,
}

/// What is said about an address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'t> {
    /// Until when.
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: &'t str,
    /// An index into [`Reading::facts`].
    pub facts: u32,
    /// Whether host bits behind a prefix are cut off, and not refused.
    pub sloppy: bool,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str, source: Source<'t>, format: Format, vetting: &'t Vetting) -> Self {
        let reading = Reading {
            format,
            entries: Vec::new(),
            reasons: Reasons::default(),
            facts: vec![Facts::default()],
            bad: BadLines::default(),
            skipped: std::collections::BTreeMap::new(),
            fetched: None,
        };
        Self {
            text,
            name: source.name,
            now: source.now,
            written: source.written,
            vetting,
            reading,
            sets: Sets::default(),
        }
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// What the list may hold.
    pub fn vetting(&self) -> &'t Vetting {
        self.vetting
    }

    /// The moment at which a time to live is over.
    pub fn after(&self, time: SignedDuration) -> Timestamp {
        self.written.saturating_add(time).unwrap_or(Timestamp::MAX)
    }

    /// Takes what `written` names: an address, a prefix or a range. Problems are told of `part`, a part of the text.
    pub fn take(&mut self, part: &str, written: &str, said: Said<'_>) {
        if said.until.is_some_and(|until| until <= self.now) {
            return self.skip("ended already");
        }
        let written = match address::read(written, said.sloppy) {
            Ok(written) => written,
            Err(problem) => return self.report(part, problem),
        };
        for prefix in written.prefixes() {
            if let Err(problem) = self.vetting.vet(prefix) {
                return self.report(part, problem);
            }
            let reason = self.reading.reasons.add(said.reason);
            self.sets.enter(prefix);
            self.reading.entries.push(Entry {
                prefix,
                until: said.until,
                reason,
                facts: said.facts,
            });
        }
    }

    /// The index of what a line says besides.
    pub fn facts(&mut self, facts: Facts) -> u32 {
        // Lines that were written together say the same.
        if self.reading.facts.last() != Some(&facts) {
            self.reading.facts.push(facts);
        }
        u32::try_from(self.reading.facts.len() - 1).unwrap_or_default()
    }

    /// Leaves an entry out, which is no fault.
    pub fn skip(&mut self, why: &str) {
        if let Some(count) = self.reading.skipped.get_mut(why) {
            *count += 1;
        } else {
            self.reading.skipped.insert(why.to_owned(), 1);
        }
    }

    /// Reports what is wrong with `part`, a part of the text, and what to write instead.
    pub fn bad(&mut self, part: &str, message: impl AsRef<str>, hint: impl AsRef<str>) {
        self.report(part, Problem::new(message, hint));
    }

    /// Reports a problem with `part`, a part of the text.
    pub fn report(&mut self, part: &str, problem: Problem) {
        self.report_at(self.span(part), problem);
    }

    /// Reports a problem at a place in the text, in bytes.
    pub fn report_at(&mut self, span: Range<usize>, problem: Problem) {
        let bad = &mut self.reading.bad;
        bad.count += 1;
        if bad.shown.len() < SHOWN {
            bad.shown.push(Diagnostic {
                position: Some(Position::new(self.text, &span)),
                ..Diagnostic::of_file(Path::new(self.name), problem)
            });
        }
    }

    /// Where a part of the text stands in it.
    pub fn span(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        if start + part.len() > self.text.len() {
            return 0..0;
        }
        start..start + part.len()
    }

    /// Everything that was read.
    pub fn finish(mut self) -> Reading {
        if let Some((span, problem)) = self.sets.conflict() {
            self.report_at(span, problem);
        }
        self.reading
    }
}
