//! The attacks that have names.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The kind of an attack.
#[derive(Deserialize, IntoStaticStr, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Connection requests that are never completed (RFC 4987).
    SynFlood,
    /// ACKs without a connection, to a port with connections (RFC 9293, section 3.10.7.1: each
    /// costs an answer).
    AckFlood,
    /// TCP segments with invalid flags, or requests with both congestion flags (RFC 3168) that are
    /// never completed.
    TcpFlags,
    /// Unsolicited SYN-ACKs: servers send them to a forged source.
    SynAckReflection,
    /// Resets without a connection.
    RstFlood,
    /// Unsolicited responses from many servers (Rossow, "Amplification Hell", NDSS 2014).
    Reflection,
    /// UDP to closed ports, or from sources that each send a single datagram.
    UdpFlood,
    /// ICMP messages that the target did not request.
    IcmpFlood,
    /// Later fragments without a first one.
    FragmentFlood,
    /// Other protocols from more hosts than have a tunnel to the target, or with unassigned
    /// numbers.
    ProtocolFlood,
    /// A source that sends far more than the others.
    HeavyHitter,
    /// A subnet that sends far more than the others, without a single member that dominates it.
    Spread,
}

impl Kind {
    /// Every kind.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the name of the kind.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The name of its table in `[detection]`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::SynFlood => "syn_flood",
            Self::AckFlood => "ack_flood",
            Self::TcpFlags => "tcp_flags",
            Self::SynAckReflection => "syn_ack_reflection",
            Self::RstFlood => "rst_flood",
            Self::Reflection => "reflection",
            Self::UdpFlood => "udp_flood",
            Self::IcmpFlood => "icmp_flood",
            Self::FragmentFlood => "fragment_flood",
            Self::ProtocolFlood => "protocol_flood",
            Self::HeavyHitter => "heavy_hitter",
            Self::Spread => "spread",
        }
    }

    /// The default threshold in packets per second.
    pub const fn above_default(self) -> NonZeroU32 {
        const fn above(packets: u32) -> NonZeroU32 {
            NonZeroU32::new(packets).expect("no kind begins at 0")
        }
        match self {
            Self::SynFlood | Self::TcpFlags | Self::SynAckReflection | Self::RstFlood => {
                const { above(500) }
            }
            Self::AckFlood
            | Self::Reflection
            | Self::UdpFlood
            | Self::IcmpFlood
            | Self::FragmentFlood
            | Self::ProtocolFlood => const { above(1_000) },
            Self::HeavyHitter | Self::Spread => const { above(20_000) },
        }
    }
}
