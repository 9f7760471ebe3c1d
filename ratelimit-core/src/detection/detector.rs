//! Turns samples into beginning, ongoing and ended attacks.

use std::collections::BTreeMap;

use ratelimit_common::Instant;

use super::{
    Attack, Host, Kind, Rules, Sample, Sending, Subject,
    window::{Seen, Window},
};
use crate::prefix::Prefix;

/// The time in which packets are counted together.
const WINDOW_NS: u64 = 1_000_000_000;
/// An attack that was not seen for so long has ended.
const QUIET_NS: u64 = 10 * WINDOW_NS;
/// Maximum number of concurrent attacks; more would not be informative.
const ATTACKS_MAX: usize = 256;

/// Names attacks.
pub struct Detector {
    rules: Rules,
    window: Window,
    /// The end of the window; `None` before the first sample.
    end: Option<Instant>,
    attacks: BTreeMap<(Kind, Subject), Attack>,
}

/// Findings of the windows that ended.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Attacks that were found.
    pub began: Vec<Attack>,
    /// Attacks that are over.
    pub ended: Vec<Attack>,
    /// Sources that have much of an attack that is going on.
    pub to_blame: Vec<(Kind, Prefix)>,
    /// Traffic of the busiest sources in the last window; `None` if none has ended.
    pub sending: Option<BTreeMap<Prefix, Sending>>,
}

impl Step {
    /// Whether anything came out.
    pub fn is_news(&self) -> bool {
        !(self.began.is_empty() && self.ended.is_empty() && self.to_blame.is_empty())
            || self.sending.is_some()
    }

    /// Adds what came out next.
    pub fn extend(&mut self, next: Self) {
        self.began.extend(next.began);
        self.ended.extend(next.ended);
        self.to_blame.extend(next.to_blame);
        self.sending = next.sending.or(self.sending.take());
    }
}

impl Detector {
    /// Looks for what `rules` name.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            window: Window::default(),
            end: None,
            attacks: BTreeMap::new(),
        }
    }

    /// Sets the properties of this host. Without them every target might be a host that packets are
    /// forwarded to.
    pub fn set_host(&mut self, host: Host) {
        self.window.set_host(host);
    }

    /// Replaces the rules. What is known of hosts stays, and so do the attacks whose kind still has
    /// a rule; the others have ended.
    pub fn set_rules(&mut self, rules: Rules) -> Step {
        self.rules = rules;
        let is_over = |kind| !self.rules.contains_key(&kind);
        let over = self.attacks.extract_if(.., |(kind, _), _| is_over(*kind));
        Step {
            ended: over.map(|(_, attack)| attack).collect(),
            ..Step::default()
        }
    }

    /// The attacks that are going on.
    pub fn attacks(&self) -> impl Iterator<Item = &Attack> {
        self.attacks.values()
    }

    /// Counts a packet, and returns the results of windows that have ended.
    pub fn take(&mut self, sample: &Sample) -> Step {
        let step = self.advance(sample.at);
        self.end.get_or_insert(later(sample.at, WINDOW_NS));
        self.window.add(sample);
        step
    }

    /// Ends the window if its time has passed at `now`.
    pub fn advance(&mut self, now: Instant) -> Step {
        let mut step = Step::default();
        if let Some(end) = self.end.filter(|end| *end <= now) {
            for seen in self.window.judge(&self.rules) {
                self.note(seen, end, &mut step);
            }
            step.sending = Some(self.window.sending().collect());
            self.window.clear();
            // The next begins with its first packet.
            self.end = None;
        }
        let is_over = |attack: &Attack| later(attack.last, QUIET_NS) <= now;
        let over = self.attacks.extract_if(.., |_, attack| is_over(attack));
        step.ended.extend(over.map(|(_, attack)| attack));
        step
    }

    /// Whether a window is open: a packet came, and its second is not over.
    pub const fn is_in_window(&self) -> bool {
        self.end.is_some()
    }

    /// Leaves out what comes until the next sample: the window that is open is not whole.
    pub fn pause(&mut self) {
        self.window.clear();
        self.end = None;
    }

    fn note(&mut self, seen: Seen, end: Instant, step: &mut Step) {
        let above = self.rules[&seen.kind].above.get();
        let blamed = self.window.to_blame(&seen, above).into_iter();
        step.to_blame
            .extend(blamed.map(|source| (seen.kind, source)));
        let key = (seen.kind, seen.subject);
        if let Some(attack) = self.attacks.get_mut(&key) {
            attack.last = end;
            attack.packets_per_second = attack.packets_per_second.max(seen.packets);
            attack.sources = attack.sources.max(seen.sources);
        } else if self.attacks.len() < ATTACKS_MAX {
            let attack = Attack {
                kind: seen.kind,
                subject: seen.subject,
                packets_per_second: seen.packets,
                sources: seen.sources,
                since: end,
                last: end,
            };
            step.began.push(attack.clone());
            self.attacks.insert(key, attack);
        }
    }
}

fn later(instant: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(instant.as_nanos().saturating_add(nanos))
}
