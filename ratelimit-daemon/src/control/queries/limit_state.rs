//! The usage of a source's limits, and when they have room again.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use ratelimit_common::{Instant, Limit, Policy, Record, algorithm::Algorithm};
use ratelimit_core::{
    api::{LimitState, ShareView},
    limit::{FRAME_BYTES, LimitUnit},
    policies::Part,
};

use crate::{
    control::sources::read_only_ring::ReadOnlyRing,
    datapath::{self, SourceTables},
};

/// The state of a source under limits that share a record: a word for each limit, and a ring for
/// each sliding log.
pub struct SourceState<'a> {
    /// The tables with the rings.
    pub tables: &'a SourceTables,
    /// The source, cut to the configured prefix.
    pub source: IpAddr,
    pub part: Part<'a>,
    pub record: Record,
    /// The policy with this node's share, if nodes share some limits.
    pub leased: Option<&'a Policy>,
}

impl<'a> SourceState<'a> {
    /// Reads the state of a source.
    pub fn of(
        tables: &'a SourceTables,
        source: IpAddr,
        part: Part<'a>,
        now: Instant,
    ) -> datapath::Result<Self> {
        let record = tables.record(source, part.policy, now)?.unwrap_or_default();
        Ok(Self {
            tables,
            source,
            part,
            record,
            leased: None,
        })
    }

    /// Reads the total of all sources, for limits of the node or of a destination. They have no
    /// sliding logs.
    pub fn total(tables: &'a SourceTables, part: Part<'a>) -> datapath::Result<Self> {
        Ok(Self {
            tables,
            source: Ipv4Addr::UNSPECIFIED.into(),
            part,
            record: tables.total(part.policy.slot())?,
            leased: None,
        })
    }

    /// Sets the policy with the share of this node.
    pub const fn leased(self, leased: Option<&'a Policy>) -> Self {
        Self { leased, ..self }
    }

    /// Returns the state of each limit.
    pub fn limits(&self, now: Instant) -> datapath::Result<Vec<LimitState>> {
        (0..self.part.limits.len())
            .map(|index| self.limit(index, now))
            .collect()
    }

    /// Returns the state of the limit at `index`.
    pub fn limit(&self, index: usize, now: Instant) -> datapath::Result<LimitState> {
        let spec = self.part.limits[index].clone();
        let word = self.record.words[index];
        let share = spec.division();
        let share = share.and_then(|_| self.policy().limit(index).map(Limit::capacity));
        let part = share.map(|share| spec.with_amount(share));
        let counted = part.as_ref().unwrap_or(&spec);
        let packet = match spec.unit() {
            LimitUnit::Packets => 1,
            LimitUnit::Bytes => FRAME_BYTES.min(counted.capacity()),
        };
        let algorithm = self.part.algorithm(index, counted, now);
        let (used, room_in_ns, clears_in_ns) = if let Algorithm::SlidingLog(log) = algorithm {
            let ring = self.ring(index)?;
            let in_ns = (log.room_in_ns(&ring, now), log.clears_in_ns(&ring, now));
            (log.used(&ring, now), in_ns.0, in_ns.1)
        } else {
            let room_in_ns = algorithm.room_in_ns(word, now, packet);
            let clears_in_ns = algorithm.clears_in_ns(word, now);
            (algorithm.used(word, now), room_in_ns, clears_in_ns)
        };
        let seconds = |nanos| Duration::from_nanos(nanos).as_secs_f64();
        Ok(LimitState {
            limit: spec,
            used,
            room_in_seconds: seconds(room_in_ns),
            clears_in_seconds: seconds(clears_in_ns),
            share: share.map(|here| ShareView {
                here,
                since: None,
                others: None,
            }),
        })
    }

    fn policy(&self) -> &Policy {
        self.leased.unwrap_or(self.part.policy)
    }

    /// Returns the used share of the fullest limit in use, and its index.
    pub fn fullest(&self, now: Instant) -> datapath::Result<Option<(f64, usize)>> {
        let mut fullest: Option<(f64, usize)> = None;
        for (index, limit) in self.policy().limits().enumerate() {
            let algorithm = limit.algorithm();
            let used = if let Algorithm::SlidingLog(log) = algorithm {
                log.used(&self.ring(index)?, now)
            } else {
                algorithm.used(self.record.words[index], now)
            };
            let fill = share(used, limit.capacity());
            if fill > fullest.map_or(0.0, |(fill, _)| fill) {
                fullest = Some((fill, index));
            }
        }
        Ok(fullest)
    }

    /// Returns the ring of the limit at `index`. Empty if nothing was logged.
    fn ring(&self, index: usize) -> datapath::Result<ReadOnlyRing> {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let scope = self.part.policy.scope();
        let words = self.tables.log(self.source, scope, index)?;
        Ok(ReadOnlyRing(words.unwrap_or_default()))
    }
}

/// Returns the used share of a limit, as a sort key.
#[expect(clippy::cast_precision_loss, reason = "a share for sorting")]
pub fn share(used: u64, capacity: u64) -> f64 {
    used as f64 / capacity as f64
}
