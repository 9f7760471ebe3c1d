//! The failures of a campaign, and the way each of them ends.

use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    cluster::{Node, store_network::StoreNetwork},
    redis::Redis,
};

/// The kind of failure.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Failure {
    /// Redis is killed, and started again later.
    Killed,
    /// Redis is stopped for a while.
    Frozen,
    /// Redis has no memory for a time.
    Filled,
    /// Redis takes nothing for a time, as a copy of another one, and answers.
    ReadOnly,
    /// Redis holds writes back for a time, and answers questions.
    Paused,
    /// Redis answers late for a time.
    Slow,
    /// Another Redis takes the place of the first, without what was written for a time.
    FailedOver,
    /// Redis loses all it has.
    Flushed,
    /// Redis is killed and started at once.
    Restarted,
    /// The link between a node and Redis carries nothing for a time.
    NodeCutOff,
    /// A daemon is killed, and started again later.
    NodeKilled,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Killed,
        Self::Frozen,
        Self::Filled,
        Self::ReadOnly,
        Self::Paused,
        Self::Slow,
        Self::FailedOver,
        Self::Flushed,
        Self::Restarted,
        Self::NodeCutOff,
        Self::NodeKilled,
    ];

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "Redis killed, started again later",
            Self::Frozen => "Redis frozen",
            Self::Filled => "Redis full",
            Self::ReadOnly => "Redis read-only",
            Self::Paused => "Redis holds writes back",
            Self::Slow => "Redis slow, up to 0.3 s",
            Self::FailedOver => "another Redis in its place, with writes lost",
            Self::Flushed => "Redis flushed",
            Self::Restarted => "Redis restarted",
            Self::NodeCutOff => "a node cut off",
            Self::NodeKilled => "a daemon killed, started again later",
        }
    }

    /// The bound during the failure, in limits: a node that is cut off for long keeps its part,
    /// while the others divide everything.
    pub fn bound(self) -> f64 {
        match self {
            Self::NodeCutOff | Self::NodeKilled => 1.0 + 1.0 / 3.0,
            Self::Killed
            | Self::Frozen
            | Self::Filled
            | Self::ReadOnly
            | Self::Paused
            | Self::Slow
            | Self::FailedOver
            | Self::Flushed
            | Self::Restarted => 1.0,
        }
    }

    /// Returns the nodes that lose their store; `place` is the location of the failure.
    pub(super) fn losers(self, place: usize, nodes: usize) -> Range<usize> {
        match self {
            Self::Killed
            | Self::Frozen
            | Self::Filled
            | Self::ReadOnly
            | Self::Paused
            | Self::Restarted => 0..nodes,
            Self::NodeCutOff => place..place + 1,
            Self::Slow | Self::FailedOver | Self::Flushed | Self::NodeKilled => 0..0,
        }
    }

    /// Returns whether those nodes must have reported it within `told`. A shorter hang is only a
    /// delay.
    pub(super) fn must_be_told(self, lasted: Duration, told: Duration) -> bool {
        match self {
            Self::Killed | Self::Restarted => true,
            // A node writes in each period.
            Self::Filled | Self::ReadOnly => lasted >= Duration::from_secs(1),
            Self::Frozen | Self::Paused | Self::NodeCutOff => lasted >= told,
            Self::Slow | Self::FailedOver | Self::Flushed | Self::NodeKilled => false,
        }
    }

    /// Fails for a time, and ends that.
    pub fn play(
        self,
        redis: &mut Redis,
        network: &StoreNetwork,
        (node, place): (&Node, usize),
        time: Duration,
    ) -> Result<()> {
        let fill = |redis: &Redis, bytes| redis.cli(&["CONFIG", "SET", "maxmemory", bytes]);
        match self {
            Self::Killed => {
                redis.kill()?;
                thread::sleep(time);
                redis.start()?;
            }
            Self::Frozen => {
                redis.signal("-STOP")?;
                thread::sleep(time);
                redis.signal("-CONT")?;
            }
            Self::Filled => {
                fill(redis, "1")?;
                thread::sleep(time);
                fill(redis, "0")?;
            }
            Self::ReadOnly => {
                redis.cli(&["REPLICAOF", "127.0.0.1", "1"])?;
                thread::sleep(time);
                redis.cli(&["REPLICAOF", "NO", "ONE"])?;
            }
            Self::Paused => {
                redis.cli(&["CLIENT", "PAUSE", "600000", "WRITE"])?;
                thread::sleep(time);
                redis.cli(&["CLIENT", "UNPAUSE"])?;
            }
            Self::Slow => {
                let end = Instant::now() + time;
                while Instant::now() < end {
                    redis.cli(&["CLIENT", "PAUSE", "300"])?;
                    thread::sleep(Duration::from_millis(350));
                }
            }
            Self::FailedOver => {
                let other = redis.copied()?;
                thread::sleep(time);
                redis.kill()?;
                *redis = other;
            }
            Self::Flushed => drop(redis.cli(&["FLUSHALL"])?),
            Self::Restarted => {
                redis.kill()?;
                redis.start()?;
            }
            Self::NodeCutOff => {
                network.cut(place)?;
                thread::sleep(time);
                network.mend(place)?;
            }
            Self::NodeKilled => {
                node.service().stop("-KILL")?;
                thread::sleep(time);
                node.service().start()?;
            }
        }
        Ok(())
    }
}
