//! The simulation of one configuration.

use std::time::Duration;

use ratelimit_common::{Cursor, DropReason, Family, Instant, Verdict, charge::Refusal};

use super::{
    Configured,
    answer::{Refused, RefusedSource, Timeline as TimelineAnswer, VerdictRow},
    attacks::Attacks,
    bans::Bans,
    challenged::Challenged,
    clock::Moment,
    origin::{Masks, Origin},
    sources::{FirstRefusal, SourceTally, Sources, largest},
    timeline::{Timeline, TooManyIntervals},
};
use crate::{
    compile::{CompileError, Compiled},
    memory_tables::MemoryTables,
    policies::Named,
};

/// A configuration, its tables, and its results.
pub struct Side {
    pub compiled: Compiled,
    pub tables: MemoryTables,
    timeline: Timeline,
    pub sources: Sources,
    pub bans: Bans,
    pub attacks: Option<Attacks>,
    pub challenged: Option<Challenged>,
    /// The resolution of the clock, if it is the coarse one.
    pub tick: Option<Duration>,
    tick_ns: u64,
}

impl Side {
    pub fn new(
        Configured {
            config,
            lists,
            tick,
        }: Configured,
        interval: Option<Duration>,
    ) -> Result<Self, CompileError> {
        let compiled = Compiled::new(config, lists)?;
        let tick = compiled.has_coarse_clock().then_some(tick);
        let tick_ns = tick.unwrap_or_default().as_nanos();
        Ok(Self {
            bans: Bans::default(),
            attacks: Attacks::of(&compiled),
            challenged: compiled
                .config()
                .challenge
                .as_ref()
                .map(|_| Challenged::default()),
            tick,
            tick_ns: u64::try_from(tick_ns).unwrap_or_default().max(1),
            tables: compiled.memory_tables(),
            compiled,
            timeline: Timeline::new(interval),
            sources: Sources::default(),
        })
    }

    /// Judges a packet, and records the outcome.
    pub fn judge(
        &mut self,
        frame: Cursor<'_>,
        moment: Moment,
        origin: Option<&Origin>,
    ) -> Result<Verdict, TooManyIntervals> {
        let instant = moment.instant.as_nanos();
        let instant = Instant::from_nanos(instant - instant % self.tick_ns);
        let verdict = self.tables.judge(frame, instant);
        self.bans.adopt(&self.tables, &self.compiled);
        if let Some(attacks) = &mut self.attacks {
            attacks.take(frame, moment, &self.compiled);
        }
        let refusal = self.tables.take_refusal();
        if let (Some(challenged), Some(origin)) = (&mut self.challenged, origin) {
            challenged.take(verdict, origin, instant, &self.tables);
        }
        if let Some(Origin {
            address, source, ..
        }) = origin
        {
            self.sources.count(*source, verdict, |reason| FirstRefusal {
                reason,
                address: *address,
                limit: refusal.and_then(limit_of),
                scope: self.tables.refused_scope(),
            });
        }
        self.timeline.count(moment.since_first_ns, verdict)?;
        Ok(verdict)
    }

    /// The verdicts that were given, with their packets and bytes.
    pub fn verdicts(&self) -> Vec<VerdictRow> {
        let rows = Verdict::all().map(|verdict| {
            let counters = Family::ALL.map(|family| self.tables.counter(family, verdict));
            VerdictRow {
                action: verdict.action(),
                reason: verdict.reason(),
                packets: counters.iter().map(|counter| counter.packets).sum(),
                bytes: counters.iter().map(|counter| counter.bytes).sum(),
            }
        });
        rows.filter(|row| row.packets > 0).collect()
    }

    pub fn timeline(&self) -> TimelineAnswer {
        let (length, intervals) = self.timeline.intervals();
        TimelineAnswer {
            interval_seconds: length.as_secs_f64(),
            intervals,
        }
    }

    /// The sources that lost the most packets, or would have.
    pub fn top(&self, count: usize, masks: &Masks) -> Vec<RefusedSource> {
        let refused = self
            .sources
            .iter()
            .filter(|(_, entry)| entry.first.is_some());
        let refused = refused.map(|(source, entry)| (*source, *entry));
        let top = largest(refused, count, |entry: &SourceTally| entry.tally.refused());
        let rows = top.into_iter().map(|(source, entry)| RefusedSource {
            source: masks.prefix(source),
            tally: entry.tally,
            first: self.refused(&entry),
        });
        rows.collect()
    }

    /// The name and limits of the policy that refused.
    fn policy_of(&self, first: &FirstRefusal) -> Option<(&str, &Named)> {
        match first.reason {
            DropReason::NodeLimited => self.compiled.node_policy(),
            DropReason::DestinationLimited | DropReason::SourceToDestinationLimited => {
                self.compiled.only_destination()
            }
            DropReason::AggregateLimited => self
                .compiled
                .prefixes_around(first.address)
                .find(|(_, _, named)| Some(named.policy.scope()) == first.scope)
                .map(|(_, name, named)| (name, named)),
            DropReason::Banned
            | DropReason::Limited
            | DropReason::Truncated
            | DropReason::VlanDepth
            | DropReason::ExtensionDepth
            | DropReason::Contended
            | DropReason::NoState
            | DropReason::NewSources
            | DropReason::InvalidSource
            | DropReason::NeighbourDiscovery
            | DropReason::Class
            | DropReason::Challenged
            | DropReason::TunnelTruncated
            | DropReason::TunnelDepth
            | DropReason::Policy => self.compiled.policy_of(first.address),
        }
    }

    /// The first refusal of a source, in words.
    pub fn refused(&self, entry: &SourceTally) -> Option<Refused> {
        let first = entry.first?;
        let policy = first.limit.and_then(|_| self.policy_of(&first));
        let limits = policy.map(|(_, named)| named.limits.as_slice());
        // The limits of each source to a destination follow those of the destination.
        let before = policy
            .filter(|_| first.reason == DropReason::SourceToDestinationLimited)
            .map(|(_, named)| named.policy.len());
        let limit = limits
            .and_then(|limits| limits.get(before.unwrap_or_default() + usize::from(first.limit?)));
        Some(Refused {
            reason: first.reason.label(),
            policy: policy.map(|(name, _)| name.to_owned()),
            limit: limit.map(ToString::to_string),
        })
    }
}

/// The index of the limit that decided, for the reasons that are about one.
fn limit_of(refusal: Refusal) -> Option<u8> {
    use DropReason::{
        AggregateLimited, Contended, DestinationLimited, Limited, NodeLimited,
        SourceToDestinationLimited,
    };
    let is_of_limit = matches!(
        refusal.reason,
        Limited
            | AggregateLimited
            | DestinationLimited
            | SourceToDestinationLimited
            | NodeLimited
            | Contended
    );
    is_of_limit.then_some(refusal.limit)
}
