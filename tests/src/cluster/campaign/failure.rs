//! What fails, and how that ends.

use std::{thread, time::Duration};

use anyhow::Result;

use crate::{
    cluster::{Node, store_network::StoreNetwork},
    redis::Redis,
};

/// What fails.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Failure {
    /// Redis is killed, and started again later.
    Killed,
    /// Redis does not go on for a time.
    Frozen,
    /// Redis has no memory for a time.
    Filled,
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
    pub const ALL: [Self; 7] = [
        Self::Killed,
        Self::Frozen,
        Self::Filled,
        Self::Flushed,
        Self::Restarted,
        Self::NodeCutOff,
        Self::NodeKilled,
    ];

    /// As people say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "Redis killed, started again later",
            Self::Frozen => "Redis frozen",
            Self::Filled => "Redis full",
            Self::Flushed => "Redis flushed",
            Self::Restarted => "Redis restarted",
            Self::NodeCutOff => "a node cut off",
            Self::NodeKilled => "a daemon killed, started again later",
        }
    }

    /// How many limits all nodes may admit meanwhile: who is cut off from the others for long keeps its part, and they divide all.
    #[must_use]
    pub fn bound(self) -> f64 {
        match self {
            Self::NodeCutOff | Self::NodeKilled => 1.0 + 1.0 / 3.0,
            Self::Killed | Self::Frozen | Self::Filled | Self::Flushed | Self::Restarted => 1.0,
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
