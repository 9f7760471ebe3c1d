//! Criteria that separate an attack from ordinary traffic with the same packets.
//!
//! Answers of an attack are recognized by their shape (many servers, one source port, large
//! packets) and by the absence of a request: this host has no socket for them, and no request was
//! seen. Known amplifying services matter only if all clients use one port, because legitimate
//! clients then look the same.

use super::{
    Kind,
    evidence::{Around, Evidence},
    share::{self, DEVIATIONS, SEGMENTS_FOR_TWO_MIN},
};
use crate::class::builtin::is_reflector;

/// A rate lower than the threshold by this factor is sufficient if it dominates the traffic of the
/// target.
const SLOW: u64 = 20;
/// Minimum number of samples to decide that it dominates.
const SAMPLES_MIN: u64 = 32;
/// Acknowledgements without a connection for each request that do not indicate an attack: the last
/// segment of a handshake, and data that arrives with it before the network stack has processed it.
const STRAYS_MAX: u64 = 3;
/// This many hosts do not send unsolicited answers at the same time by chance.
const STRANGERS_MIN: u64 = 16;
/// A legitimate client has fewer servers at once, for example a poller.
const SERVERS_MIN: u64 = 40;
/// This many servers do not answer to ports that no request comes from. Clients of a service that
/// share a port are fewer.
const FORGED_SERVERS_MIN: u64 = 8;
/// The threshold for small answers.
const FORGED_SERVERS_SMALL_MIN: u64 = 16;
/// More hosts have no tunnel to one host, unless it is a hub.
const TUNNELS_MAX: u64 = 256;
/// One host does not use this many protocols besides TCP, UDP and ICMP.
const PROTOCOLS_MIN: u64 = 16;
/// Sources or ports needed without other evidence: answers are small, or a socket accepts packets
/// of any source.
const CROWD_MIN: u64 = 64;
/// Answers that are worth the question, on average.
const LARGE_BYTES: u64 = 400;
/// Answers of name servers: those that a resolver gets are smaller.
const LARGE_DNS_BYTES: u64 = 900;
/// Answers for each question, in a conversation.
const ANSWERS_MAX: u64 = 16;
/// Segments that a host sends for each that it gets of its connections, at most.
const SENT_MAX: u64 = 3;
/// Fragments of a datagram, at most (65,535 bytes at an MTU of 1,280).
const FRAGMENTS_MAX: u64 = 64;
/// A resolver asks from a new port each time.
const RESOLVER_PORTS_MIN: u64 = 16;

/// Hosts ask servers of these two in any number.
const DNS: u16 = 53;
const QUIC: u16 = 443;

/// The rate of a suspected attack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pace {
    /// At least the rate of the rule.
    Fast,
    /// Slower, but dominant at the target.
    Slow,
}

impl Pace {
    /// The pace of `packets` of a kind, of all that the target `received`; `None` where they are
    /// too few.
    pub fn of(
        kind: Kind,
        packets: u64,
        evidence: &Evidence,
        above: u32,
        received: u64,
    ) -> Option<Self> {
        let (above, samples) = (u64::from(above), evidence.samples);
        let is_certain = evidence.left_out() == 0 || samples >= share::SAMPLES_MIN;
        if packets >= above && is_certain {
            Some(Self::Fast)
        } else {
            let has_much = packets * 10 >= received * much_tenths(kind);
            let is_known = samples >= SAMPLES_MIN;
            (has_much && is_known && packets * SLOW >= above).then_some(Self::Slow)
        }
    }
}

/// Tenths of a target's traffic that count as dominant. Answers come from several ports at a time,
/// and requests together with other requests.
const fn much_tenths(kind: Kind) -> u64 {
    match kind {
        Kind::Reflection => 2,
        Kind::SynFlood | Kind::TcpFlags | Kind::SynAckReflection => 4,
        Kind::AckFlood
        | Kind::RstFlood
        | Kind::UdpFlood
        | Kind::IcmpFlood
        | Kind::FragmentFlood
        | Kind::ProtocolFlood
        | Kind::HeavyHitter
        | Kind::Spread => 8,
    }
}

/// Packets to a target that may be of an attack.
#[derive(Clone, Copy, Debug)]
pub struct Suspicion<'a> {
    pub kind: Kind,
    pub pace: Pace,
    pub packets: u64,
    pub source_port: Option<u16>,
    /// The target is this host, and packets without a socket have no receiver.
    pub ends_here: bool,
    /// Acknowledgements may belong to connections that are unknown here.
    pub may_have_connections: bool,
    pub evidence: &'a Evidence,
    pub around: &'a Around,
}

impl Suspicion<'_> {
    /// Whether they are what they look like.
    pub fn is_attack(&self) -> bool {
        match self.kind {
            Kind::SynFlood | Kind::TcpFlags => self.is_flood_of_requests(),
            Kind::AckFlood => {
                self.pace == Pace::Fast
                    && self.packets > self.around.opening * STRAYS_MAX
                    && (!self.may_have_connections
                        || self.evidence.only_ends()
                        || self.is_reset()
                        || self.is_of_forged() && self.is_of_ports())
            }
            Kind::SynAckReflection => {
                let is_known = self.ends_here && self.pace == Pace::Fast;
                let is_shaped = self.sources() >= STRANGERS_MIN && self.is_without_connections();
                (is_known || is_shaped) && self.around.asked * 4 < self.packets
            }
            Kind::RstFlood => {
                // Some clients end each of their connections so.
                let is_of_many = self.pace == Pace::Fast || self.sources() >= STRANGERS_MIN;
                is_of_many
                    && self.packets > self.around.opening * 2
                    && self.is_without_connections()
                    && !self.is_by_content()
            }
            Kind::Reflection => self.is_reflection(),
            Kind::UdpFlood => self.is_udp_flood(),
            Kind::IcmpFlood => self.is_icmp_flood(),
            Kind::FragmentFlood => {
                self.packets > self.around.first_fragments.saturating_mul(FRAGMENTS_MAX)
            }
            Kind::ProtocolFlood => self.is_protocol_flood(),
            Kind::HeavyHitter | Kind::Spread => false,
        }
    }

    fn sources(&self) -> u64 {
        self.evidence.sources.count()
    }

    /// Nearly every packet comes from a different source.
    fn is_of_forged(&self) -> bool {
        self.sources() >= CROWD_MIN && self.evidence.has_source_each()
    }

    /// Nearly every packet goes to a different port.
    fn is_of_ports(&self) -> bool {
        self.evidence.ports() >= CROWD_MIN && self.evidence.has_port_each()
    }

    fn is_without_connections(&self) -> bool {
        let acknowledging = self.around.acknowledging;
        match self.pace {
            // Hosts with connections may end them with a reset. Sources that only send resets are
            // forged.
            Pace::Fast if self.kind != Kind::RstFlood => {
                let going_on = acknowledging + self.around.resets.min(acknowledging);
                self.is_followed_by_few(going_on)
            }
            Pace::Fast => self.is_followed_by_few(acknowledging),
            Pace::Slow => acknowledging * 10 < self.packets,
        }
    }

    /// Whether fewer than [`SEGMENTS_FOR_TWO_MIN`] segments `follow` two of the packets. Both
    /// numbers are estimates where packets were left out, and the difference has to exceed their
    /// error.
    fn is_followed_by_few(&self, follow: u64) -> bool {
        let enough = self.packets * SEGMENTS_FOR_TWO_MIN;
        let squares = 4 * follow + SEGMENTS_FOR_TWO_MIN * enough;
        let variance = self.evidence.left_out().saturating_mul(squares);
        follow * 2 + DEVIATIONS * variance.isqrt() < enough
    }

    /// The target resets nearly all: it knows no such connections.
    const fn is_reset(&self) -> bool {
        self.around.sent_resets * 4 >= self.packets * 3
    }

    /// Resets answer segments that their target sends without being answered otherwise.
    const fn is_by_content(&self) -> bool {
        let segments = self.around.sent.saturating_sub(self.around.sent_datagrams);
        let of_connections = self.around.acknowledging.saturating_mul(SENT_MAX);
        segments.saturating_sub(of_connections) * 2 >= self.packets
    }

    /// The target's own packets pass this host, so they show how much it answers.
    const fn is_seen_sending(&self) -> bool {
        let sent = self.around.sent.saturating_sub(self.around.asked);
        let besides = self.around.received.saturating_sub(self.packets);
        sent >= SAMPLES_MIN && sent * ANSWERS_MAX >= besides
    }

    fn is_flood_of_requests(&self) -> bool {
        let is_of_many = self.pace == Pace::Fast || self.sources() >= CROWD_MIN;
        is_of_many && self.is_without_connections()
    }

    fn is_reflection(&self) -> bool {
        let evidence = self.evidence;
        if self.around.asked * ANSWERS_MAX >= self.packets {
            return false;
        }
        let has_fragments = self.around.later_fragments * 2 >= self.packets;
        let large = match self.source_port {
            Some(DNS) => LARGE_DNS_BYTES,
            _ => LARGE_BYTES,
        };
        let is_large = has_fragments || evidence.mean_bytes() >= large;
        if evidence.has_sockets() {
            return self.pace == Pace::Fast
                && is_large
                && evidence.mean_bytes() >= LARGE_DNS_BYTES
                && !self.may_be_of_clients()
                && evidence.ports() < RESOLVER_PORTS_MIN
                && self.sources() >= CROWD_MIN;
        }
        if !self.ends_here && !self.is_seen_answering() && self.may_be_of_clients() {
            return false;
        }
        let is_forged = self.ends_here || evidence.has_ports_of_no_question();
        let servers_min = match (self.ends_here, is_forged) {
            (true, _) => 1,
            (_, true) => FORGED_SERVERS_MIN,
            _ => SERVERS_MIN,
        };
        match self.source_port {
            Some(QUIC) if !is_forged => false,
            _ if is_large => self.sources() >= servers_min,
            // A resolver asks from many ports. Its questions may go another way, but where its
            // other packets are seen, they are as well.
            Some(DNS) if !is_forged => {
                let is_of_few_ports = evidence.ports() < RESOLVER_PORTS_MIN;
                let is_of_no_resolver = is_of_few_ports || self.is_seen_sending();
                self.pace == Pace::Fast && is_of_no_resolver && self.sources() >= CROWD_MIN
            }
            _ if is_forged && !self.ends_here && self.pace == Pace::Fast => {
                self.sources() >= FORGED_SERVERS_SMALL_MIN
            }
            _ => self.sources() >= CROWD_MIN,
        }
    }

    /// Clients of some services all use one port: players of games, phones, exporters of flows,
    /// tunnels.
    fn may_be_of_clients(&self) -> bool {
        let is_of_reflectors = self.source_port.is_some_and(is_reflector);
        let evidence = self.evidence;
        evidence.is_to_service() && (!is_of_reflectors || evidence.is_between_neighbours())
    }

    /// Datagrams that the target sends come by here, and so would its answers.
    const fn is_seen_answering(&self) -> bool {
        self.around.sent_datagrams >= SAMPLES_MIN
    }

    fn is_udp_flood(&self) -> bool {
        let evidence = self.evidence;
        let is_conversation = self.around.sent_datagrams * 8 >= self.packets;
        let (is_of_forged, is_of_ports) = (self.is_of_forged(), self.is_of_ports());
        if self.ends_here {
            return self.pace == Pace::Fast || is_of_forged || is_of_ports;
        }
        let has_shape = match self.pace {
            _ if evidence.has_answers() => is_of_ports && evidence.has_ports_of_no_question(),
            Pace::Fast => is_of_forged || is_of_ports,
            Pace::Slow => is_of_forged && is_of_ports,
        };
        has_shape && !is_conversation
    }

    fn is_protocol_flood(&self) -> bool {
        let evidence = self.evidence;
        let is_of_nobody = evidence.is_unassigned() || evidence.ports() >= PROTOCOLS_MIN;
        let has_shape = match self.pace {
            Pace::Fast => {
                let has_tunnels = self.sources() < TUNNELS_MAX || evidence.is_of_hubs();
                self.is_of_forged() || !has_tunnels || evidence.is_unreceived()
            }
            Pace::Slow => self.is_of_forged() && evidence.mean_bytes() >= LARGE_BYTES,
        };
        is_of_nobody || has_shape
    }

    fn is_icmp_flood(&self) -> bool {
        let is_asked = self.around.asked * 2 >= self.packets;
        let is_shaped = match self.pace {
            Pace::Fast => true,
            Pace::Slow => self.evidence.mean_bytes() >= LARGE_BYTES,
        };
        is_shaped && !is_asked
    }
}
