//! Ongoing attacks, and the response to their sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{AttackView, Changed, PacketRequest, Refused, SourceChallenge, What},
    detection::{Answer, Attack, Kind, Sending, Step},
    intent::{Edit, EntryRow, LimitedRow, renewed::later},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{debug, warn};

use super::{Feed, challenge, policy_bans};
use crate::{
    clock,
    control::{reports::journal::Journal, state::State},
};

/// The age up to which samples of a source's traffic count as recent.
const SENDING_LASTS: Duration = Duration::from_secs(15);

/// The attacks detected in samples of all packets.
#[derive(Clone, Debug, Default)]
pub struct Attacks {
    going_on: Vec<Attack>,
    /// Detected attacks by kind, since the daemon started.
    pub found: BTreeMap<Kind, u64>,
    /// Sources limited, by attack, since the daemon started.
    pub limited: BTreeMap<Kind, u64>,
    /// The sources of attacks in the last step.
    to_blame: Vec<(Kind, Prefix)>,
    /// The traffic of the busiest sources in the last samples, and when these were taken.
    sending: Option<(Instant, BTreeMap<Prefix, Sending>)>,
}

impl Attacks {
    /// Records detected attacks. A dry run ignores their sources.
    pub fn note(
        &mut self,
        step: &Step,
        going_on: Vec<Attack>,
        observe: bool,
        journal: &mut Journal,
    ) {
        for attack in &step.began {
            *self.found.entry(attack.kind).or_default() += 1;
            journal.record(What::AttackBegan(view(attack)));
        }
        for attack in &step.ended {
            journal.record(What::AttackEnded(view(attack)));
        }
        self.going_on = going_on;
        self.to_blame.clone_from(&step.to_blame);
        if let Some(sending) = &step.sending {
            self.sending = Some((clock::now(), sending.clone()));
        }
        if observe {
            for (kind, source) in self.to_blame.drain(..) {
                let kind = kind.label();
                debug!(%source, kind, "a source takes part in an attack; no action in a dry run");
            }
        }
    }

    /// Returns what `source` mostly sent, if it was among the busiest recently.
    pub fn sending(&self, source: Prefix) -> Option<Sending> {
        let (at, all) = self.sending.as_ref()?;
        if later(*at, SENDING_LASTS) < clock::now() {
            return None;
        }
        let within = all
            .iter()
            .filter(|(other, _)| source.covers(**other) || other.covers(source));
        let (_, most) = within.clone().max_by_key(|(_, it)| it.packets_per_second)?;
        Some(Sending {
            packets_per_second: within.map(|(_, it)| it.packets_per_second).sum(),
            ..most.clone()
        })
    }

    pub fn views(&self) -> Vec<AttackView> {
        self.going_on.iter().map(view).collect()
    }
}

/// The first call returns bans of the sources, the second one limits. Each source is answered once.
impl Feed for Attacks {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        for answer in [Answer::Ban, Answer::Limit] {
            let is_for = |(kind, _): &mut (Kind, Prefix)| {
                let rule = state.intent.config.attacks.get(kind);
                rule.is_some_and(|rule| rule.answer == answer)
            };
            let to_blame: Vec<_> = self.to_blame.extract_if(.., is_for).collect();
            let edits = self.answers(state, answer, to_blame, now);
            if !edits.is_empty() {
                return Ok(edits);
            }
        }
        Ok(Vec::new())
    }

    fn settle(
        &mut self,
        _: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        answer.inspect_err(|refused| {
            warn!(
                error = refused.error,
                "cannot ban or limit attacking sources"
            );
        })
    }
}

impl Attacks {
    /// Returns the edits that ban or limit sources, within the budget of this minute.
    fn answers(
        &mut self,
        state: &State,
        answer: Answer,
        to_blame: Vec<(Kind, Prefix)>,
        now: Instant,
    ) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut answered = BTreeSet::new();
        for (kind, source) in to_blame {
            let Some(rule) = state.intent.config.attacks.get(&kind) else {
                continue;
            };
            let (until, since) = (later(now, rule.length), clock::to_wall(now));
            let edit = match answer {
                Answer::Observe => continue,
                Answer::Limit if state.intent.is_limited_in_attack(source, &rule.limit) => {
                    continue;
                }
                Answer::Limit => {
                    let full = state.intent.limited().get(&source);
                    let row = LimitedRow {
                        until,
                        since,
                        kind: Some(kind),
                        limit: rule.limit.clone(),
                        is_full: full.is_some_and(|row| row.is_full),
                    };
                    Edit::Limited(source, Some(row))
                }
                Answer::Ban => {
                    let row = EntryRow {
                        until,
                        since,
                        reason: Some(kind.label().into()),
                        author: "detection".into(),
                    };
                    Edit::Ban(source, Origin::Automatic, Some(row))
                }
            };
            if answered.contains(&source)
                || state.intent.bans_that_hold(source, now).next().is_some()
                || policy_bans::is_exempt(state, source)
                || is_challenged(state, kind, source)
            {
                continue;
            }
            if !state.may_answer() {
                break;
            }
            if answer == Answer::Limit {
                *self.limited.entry(kind).or_default() += 1;
            }
            answered.insert(source);
            edits.push(edit);
        }
        edits
    }
}

/// Returns whether a source must pass a challenge for this kind of packets and did not, or only
/// with a RST. It may be forged.
fn is_challenged(state: &State, kind: Kind, source: Prefix) -> bool {
    let is_on = |challenge: &SourceChallenge| {
        let asks = challenge.dns.as_ref().is_some_and(|dns| dns.is_on);
        let connects = matches!(kind, Kind::SynFlood | Kind::TcpFlags);
        connects && challenge.is_on || kind == Kind::UdpFlood && asks
    };
    let source = state
        .intent
        .config
        .source
        .around(source.address())
        .address();
    let on = challenge::status::of_source(state, source, &PacketRequest::default());
    on.is_some_and(|it| is_on(&it) && !it.is_acknowledged)
}

fn view(attack: &Attack) -> AttackView {
    AttackView {
        kind: attack.kind,
        subject: attack.subject.to_string(),
        packets_per_second: attack.packets_per_second,
        sources: attack.sources,
        since: clock::to_wall(attack.since),
    }
}
