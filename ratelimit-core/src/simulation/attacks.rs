//! Attacks that the daemon would have detected, from all packets instead of a sample, and the
//! sources it would have acted on.
//!
//! Answers are reported but not applied: later packets are decided without them.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_common::{Cursor, Instant, parse::LinkLayer};

use super::{answer::AttackRow, clock::Moment};
use crate::{
    compile::Compiled,
    detection::{Answer, Attack, Detector, Kind, Sample, Step, Subject},
    prefix::Prefix,
};

const SECOND_NS: u64 = 1_000_000_000;
/// A second ends with the first packet after it, which may come this much later.
const LATE_NS: u64 = 10 * SECOND_NS;

/// The detection of a configuration at work.
pub struct Attacks {
    detector: Detector,
    answers: BTreeMap<Kind, Answer>,
    /// The first packet's time on the clock of the detector.
    first: Option<Instant>,
    over: Vec<Attack>,
    /// The sources that have much of attacks of a kind, each with the time at which it was found.
    to_blame: BTreeMap<Kind, BTreeMap<Prefix, Instant>>,
    last: Instant,
}

impl Attacks {
    /// Starts the detection of a configuration; `None` if it detects nothing.
    pub fn of(compiled: &Compiled) -> Option<Self> {
        let rules = &compiled.config().attacks;
        (!rules.is_empty()).then(|| Self {
            detector: Detector::new(rules.clone()),
            answers: rules
                .iter()
                .map(|(kind, rule)| (*kind, rule.answer))
                .collect(),
            first: None,
            over: Vec::new(),
            to_blame: BTreeMap::new(),
            last: Instant::from_nanos(0),
        })
    }

    /// Processes a packet. If its time precedes that of the last packet, it counts at the latter.
    pub fn take(&mut self, frame: Cursor<'_>, moment: Moment, compiled: &Compiled) {
        self.last = self.last.max(moment.instant);
        self.first.get_or_insert(moment.instant);
        let inner = compiled.config().source.tunnels;
        let judged = inner.judged(frame, LinkLayer::Ethernet);
        let sample =
            judged.and_then(|(frame, link_layer)| Sample::read(self.last, 1, frame, link_layer));
        if let Some(sample) = sample {
            let step = self.detector.take(&sample);
            self.note(step, compiled);
        }
    }

    /// Judges the second that the last packet came in: nothing comes after it.
    pub fn finish(&mut self, compiled: &Compiled) {
        let step = self.detector.advance(later(self.last, SECOND_NS));
        self.note(step, compiled);
    }

    /// The attacks that were found until the last packet, in the order in which they began.
    pub fn rows(&self) -> Vec<AttackRow> {
        let all = self.over.iter().chain(self.detector.attacks());
        let mut rows: Vec<AttackRow> = all.map(|attack| self.row(attack)).collect();
        rows.sort_by(|left, right| left.start_seconds.total_cmp(&right.start_seconds));
        rows
    }

    fn note(&mut self, step: Step, compiled: &Compiled) {
        self.over.extend(step.ended);
        for (kind, source) in step.to_blame {
            if !compiled.is_exempt(source) {
                let sources = self.to_blame.entry(kind).or_default();
                sources.entry(source).or_insert(self.last);
            }
        }
    }

    fn row(&self, attack: &Attack) -> AttackRow {
        let seconds = |at: Instant| {
            let first = self.first.map_or(0, Instant::as_nanos);
            std::time::Duration::from_nanos(at.as_nanos().saturating_sub(first)).as_secs_f64()
        };
        let sources = self.to_blame.get(&attack.kind).into_iter().flatten();
        let is_of = |source: Prefix| match attack.subject {
            Subject::Source(own) => own == source,
            Subject::Target { .. } => true,
        };
        let sources = sources.filter(|(source, found)| {
            is_of(**source) && **found >= attack.since && **found <= later(attack.last, LATE_NS)
        });
        let sources: BTreeSet<Prefix> = sources.map(|(source, _)| *source).collect();
        AttackRow {
            kind: attack.kind.label(),
            subject: attack.subject.to_string(),
            // A second that the capture has only a part of ends with it.
            start_seconds: seconds(attack.since.min(self.last)),
            end_seconds: seconds(attack.last.min(self.last)),
            packets_per_second: attack.packets_per_second,
            sources_seen: attack.sources,
            answer: self.answers.get(&attack.kind).copied().unwrap_or_default(),
            sources: sources.into_iter().collect(),
        }
    }
}

fn later(at: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_add(nanos))
}
