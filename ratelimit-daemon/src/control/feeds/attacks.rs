//! The attacks that are going on, and what is done about their sources.

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
use tracing::{debug, info, warn};

use super::{Feed, challenge, detected};
use crate::{
    clock,
    control::{reports::journal::Journal, state::State},
};

/// How long it counts what sources sent when packets were sampled.
const SENDING_LASTS: Duration = Duration::from_secs(15);

/// What was found by looking at samples of all packets.
#[derive(Clone, Debug, Default)]
pub struct Attacks {
    going_on: Vec<Attack>,
    /// How many were found, by kind, since the daemon started.
    pub found: BTreeMap<Kind, u64>,
    /// How many sources were limited, by the attack, since the daemon started.
    pub limited: BTreeMap<Kind, u64>,
    /// The sources that have part in one by the last step.
    to_blame: Vec<(Kind, Prefix)>,
    /// What the busiest sources sent when packets were sampled last, and when that was.
    sending: Option<(Instant, BTreeMap<Prefix, Sending>)>,
}

impl Attacks {
    /// Takes in what was found. In a dry run nothing is done about the sources.
    pub fn note(
        &mut self,
        step: &Step,
        going_on: Vec<Attack>,
        observe: bool,
        journal: &mut Journal,
    ) {
        let now = clock::wall();
        for attack in &step.began {
            let (kind, subject) = (attack.kind.label(), attack.subject);
            let (packets_per_second, sources) = (attack.packets_per_second, attack.sources);
            info!(kind, %subject, packets_per_second, sources, "attack began");
            *self.found.entry(attack.kind).or_default() += 1;
            journal.record(now, What::AttackBegan(view(attack)));
        }
        for attack in &step.ended {
            let (kind, subject) = (attack.kind.label(), attack.subject);
            let (packets_per_second, sources) = (attack.packets_per_second, attack.sources);
            info!(kind, %subject, packets_per_second, sources, "attack ended");
            journal.record(now, What::AttackEnded(view(attack)));
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

    /// What most of the packets of `source` are, where it was among the busiest of late.
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

    /// Whether none is going on.
    pub fn is_quiet(&self) -> bool {
        self.going_on.is_empty()
    }

    /// The attacks that are going on.
    pub fn views(&self) -> Vec<AttackView> {
        self.going_on.iter().map(view).collect()
    }
}

/// Bans the sources of attacks, and limits those of others when it is asked again. Each is answered once.
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
    /// The edits that ban or limit sources, as far as there is a ban or limit of this minute left.
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
                Answer::Limit if state.intent.has_further(source, &rule.limit) => continue,
                Answer::Limit => {
                    let row = LimitedRow {
                        until,
                        since,
                        kind,
                        limit: rule.limit.clone(),
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
                    Edit::Ban(source, Origin::Detected, Some(row))
                }
            };
            if answered.contains(&source)
                || state.intent.banned_until(source).is_some()
                || detected::is_exempt(state, source)
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

/// Whether a source has to prove itself for what it sends, and did not, or by a RST alone. It may be forged.
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
