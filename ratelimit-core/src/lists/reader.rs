//! Shared by the readers of all formats, which walk over the text and add entries and problems.

use std::{collections::HashMap, ops::Range, path::Path};

use jiff::{SignedDuration, Timestamp};

use ratelimit_common::layout::LISTED_MAX;

use super::{
    address,
    export_line::Facts,
    format::Format,
    reading::{BadLines, Entry, Reading},
    reasons::Reasons,
    sets::Sets,
    source::{ListText, NoList},
    vetting::Vetting,
};
use crate::{
    diagnostic::{Diagnostic, Position, Problem},
    prefix::Prefix,
};

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
    /// Whether there is one entry more than a list may have.
    is_full: bool,
    /// Prefixes that were removed again, each with the number of entries at that time.
    taken_off: HashMap<Prefix, usize>,
    /// Whether an entry says how often it was seen.
    has_counts: bool,
    /// The number of ranges that had to be split into several prefixes.
    ranges: usize,
    /// The number of these prefixes.
    of_ranges: usize,
    /// The sets that the text names, where its format has sets.
    pub sets: Sets,
}

/// Properties of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'t> {
    /// The expiry.
    pub until: Option<Timestamp>,
    /// The reason.
    pub reason: &'t str,
    /// An index into [`Reading::facts`].
    pub facts: u32,
    /// Whether host bits behind a prefix are cut off, and not refused.
    pub sloppy: bool,
    /// The number of sightings.
    pub count: Option<u64>,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str, source: ListText<'t>, format: Format, vetting: &'t Vetting) -> Self {
        let reading = Reading {
            format,
            entries: Vec::new(),
            reasons: Reasons::default(),
            facts: vec![Facts::default()],
            bad: BadLines::default(),
            skipped: std::collections::BTreeMap::new(),
            notes: Vec::new(),
            fetched: None,
        };
        Self {
            text,
            name: source.name,
            now: source.now,
            written: source.written,
            vetting,
            reading,
            is_full: false,
            taken_off: HashMap::new(),
            has_counts: false,
            ranges: 0,
            of_ranges: 0,
            sets: Sets::default(),
        }
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The accepted contents of the list.
    pub fn vetting(&self) -> &'t Vetting {
        self.vetting
    }

    /// Returns the time at which a time to live ends.
    pub fn after(&self, time: SignedDuration) -> Timestamp {
        self.written.saturating_add(time).unwrap_or(Timestamp::MAX)
    }

    /// Adds the address, prefix or range `written`. Problems are reported at `part` of the text.
    pub fn take(&mut self, part: &str, written: &str, said: Said<'_>) {
        if said.until.is_some_and(|until| until <= self.now) {
            return self.skip("ended already");
        }
        self.has_counts |= said.count.is_some();
        if let (Some(least), Some(count)) = (self.vetting.min_count, said.count)
            && count < least
        {
            return self.skip(&format!("seen fewer than {least} times"));
        }
        let written = match address::read(written, said.sloppy) {
            Ok(written) => written,
            Err(problem) => return self.report(part, problem),
        };
        let before = self.reading.entries.len();
        for prefix in written.prefixes() {
            if let Err(problem) = self.vetting.vet(prefix) {
                return self.report(part, problem);
            }
            // One range can become a hundred prefixes, so even a short text can exceed memory.
            self.is_full |= self.reading.entries.len() >= LISTED_MAX as usize;
            if self.is_full {
                return;
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
        let prefixes = self.reading.entries.len() - before;
        if prefixes > 1 {
            self.ranges += 1;
            self.of_ranges += prefixes;
        }
    }

    /// Removes a prefix that was added before.
    pub fn take_off(&mut self, part: &str, written: &str) {
        match address::read(written, true) {
            Ok(written) => {
                let count = self.reading.entries.len();
                // Only an existing entry can be removed.
                let room = count.saturating_sub(self.taken_off.len());
                let prefixes = written.prefixes().take(room);
                self.taken_off
                    .extend(prefixes.map(|prefix| (prefix, count)));
            }
            Err(problem) => self.report(part, problem),
        }
    }

    /// Tells what was chosen.
    pub fn note(&mut self, note: String) {
        self.reading.notes.push(note);
    }

    /// Whether the maximum number of entries is reached.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the index of the additional fields of a line.
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

    /// Returns the position of a part of the text.
    pub fn span(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        if start + part.len() > self.text.len() {
            return 0..0;
        }
        start..start + part.len()
    }

    /// Everything that was read.
    pub fn finish(mut self) -> Result<Reading, NoList> {
        let no_list = |error: &str, hint| {
            let error = format!("{}: {error}", self.name);
            Err(NoList { error, hint })
        };
        if self.is_full {
            let error = format!("it has more than {LISTED_MAX} entries, the maximum");
            return no_list(
                &error,
                "split it, or use a list of wider prefixes; a range may be many of them",
            );
        }
        if self.vetting.min_count.is_some() && !self.has_counts {
            let error = "no entry has a number after the address";
            return no_list(
                error,
                "remove --min-count or min_count, which compares that number",
            );
        }
        if let Some((span, problem)) = self.sets.conflict() {
            self.report_at(span, problem);
        }
        if !self.taken_off.is_empty() {
            let mut index = 0;
            self.reading.entries.retain(|entry| {
                index += 1;
                self.taken_off
                    .get(&entry.prefix)
                    .is_none_or(|count| index > *count)
            });
        }
        match self.ranges {
            0 => {}
            1 => self.note(format!("one range is {} prefixes", self.of_ranges)),
            ranges => self.note(format!("{ranges} ranges are {} prefixes", self.of_ranges)),
        }
        Ok(self.reading)
    }
}
