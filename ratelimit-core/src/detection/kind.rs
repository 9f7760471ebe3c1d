//! The attacks that have names.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an attack is.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Requests for connections that nobody goes on with (RFC 4987).
    SynFlood,
    /// Acknowledgements of no connection, to a port at which this host has connections (RFC 9293, section 3.10.7.1: each
    /// costs an answer).
    AckFlood,
    /// TCP segments with flags that nobody sends, or requests with both congestion flags (RFC 3168) that nobody goes on
    /// with.
    TcpFlags,
    /// Answers of many servers to questions that the target did not ask (Rossow, "Amplification Hell", NDSS 2014).
    Reflection,
    /// A source that sends far more than the others.
    HeavyHitter,
    /// A subnet that sends far more than the others, none of its members most of it.
    Spread,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::SynFlood,
        Self::AckFlood,
        Self::TcpFlags,
        Self::Reflection,
        Self::HeavyHitter,
        Self::Spread,
    ];

    /// Its name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::SynFlood => "syn-flood",
            Self::AckFlood => "ack-flood",
            Self::TcpFlags => "tcp-flags",
            Self::Reflection => "reflection",
            Self::HeavyHitter => "heavy-hitter",
            Self::Spread => "spread",
        }
    }

    /// Its table in `[detection]`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::SynFlood => "syn_flood",
            Self::AckFlood => "ack_flood",
            Self::TcpFlags => "tcp_flags",
            Self::Reflection => "reflection",
            Self::HeavyHitter => "heavy_hitter",
            Self::Spread => "spread",
        }
    }

    /// The packets a second from which on it is one, unless the configuration says otherwise.
    #[must_use]
    pub const fn above_default(self) -> NonZeroU32 {
        const fn above(packets: u32) -> NonZeroU32 {
            NonZeroU32::new(packets).expect("no kind begins at 0")
        }
        match self {
            Self::SynFlood | Self::TcpFlags => const { above(500) },
            Self::AckFlood | Self::Reflection => const { above(1_000) },
            Self::HeavyHitter | Self::Spread => const { above(20_000) },
        }
    }
}
