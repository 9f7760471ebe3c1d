//! Evidence about packets to a target that may belong to an attack.

use std::{hash::RandomState, net::IpAddr, ops::RangeInclusive};

use super::{Sample, content::Content, distinct::Distinct};
use crate::prefix::Prefix;

/// No question comes from a port below it: systems choose none, and programs that ask from a
/// reserved port (`bindresvport` of the C libraries) go down to 512.
const QUESTIONS_START: u16 = 512;
/// If ports are chosen at random from all, at least one packet in this many goes below the
/// boundary.
const BELOW: u64 = 256;
/// Fewer packets below the boundary may be strays.
const BELOW_MIN: u64 = 4;
/// Protocols that no number was given to (IANA, "Assigned Internet Protocol Numbers"), and that of
/// options of IPv6.
const UNASSIGNED: [RangeInclusive<u8>; 2] = [0..=0, 149..=255];

/// ESP, AH and SCTP: hubs of a VPN, and servers.
const HUBS: [u8; 3] = [50, 51, 132];
/// The end of service ports (RFC 6335): a packet from there to a higher port is an answer.
const SERVICES_END: u16 = 1024;

/// The start of the ports that most systems send requests from. Packets to lower ports may be for a
/// service.
const QUESTIONS_FROM: u16 = 32_768;
/// A service has few ports.
const SERVICE_PORTS_MAX: u64 = 4;
/// The ports of clients and servers of one service lie side by side: 68 and 67, 161 and 162, 5060
/// and 5080, 27005 and 27015.
const BESIDE_MAX: u16 = 20;
/// The ports of IKE, without and with NAT (RFC 3947, section 4), are excluded.
const IKE: [u16; 2] = [500, 4500];

/// Several thousand different things.
pub type Crowd = Distinct<64>;

/// The packets of one kind to one target, in a window.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The sources of the packets.
    pub sources: Crowd,
    /// The ports they went to, or their protocols.
    ports: Crowd,
    /// The number of samples.
    pub samples: u64,
    packets: u64,
    /// The packets that the sample of each represents, added up.
    represented: u64,
    bytes: u64,
    /// Packets for which this host has a socket.
    with_socket: u64,
    /// Packets from a service port to a higher one.
    answers: u64,
    /// Sampled packets to a port from which no request is sent.
    to_low_ports: u64,
    /// Packets to a service port.
    to_services: u64,
    /// Packets between adjacent ports.
    between_neighbours: u64,
    /// Segments that end connections.
    endings: u64,
    /// Packets of unassigned protocols.
    unassigned: u64,
    /// Packets of protocols that the target does not receive.
    unreceived: u64,
    /// Packets of protocols with many hosts on one side, such as encrypted tunnels.
    of_hubs: u64,
}

impl Evidence {
    /// Adds a packet from `source`.
    pub fn add(&mut self, source: Prefix, sample: &Sample, key: &RandomState) {
        let packets = u64::from(sample.packets);
        self.sources.add(source, key);
        self.samples += 1;
        self.packets += packets;
        let represented = packets.saturating_mul(packets);
        self.represented = self.represented.saturating_add(represented);
        self.bytes += packets * u64::from(sample.bytes);
        match sample.content {
            Content::Datagram(datagram) => {
                let [from, to] = [datagram.source_port, datagram.destination_port];
                self.ports.add(to, key);
                self.with_socket += if datagram.has_socket { packets } else { 0 };
                self.answers += if is_answer(from, to) { packets } else { 0 };
                self.to_low_ports += u64::from(to < QUESTIONS_START);
                self.to_services += if to < QUESTIONS_FROM { packets } else { 0 };
                let are_neighbours =
                    from.abs_diff(to) <= BESIDE_MAX || IKE.contains(&from) && IKE.contains(&to);
                self.between_neighbours += if are_neighbours { packets } else { 0 };
            }
            Content::Stray { port } => self.ports.add(port, key),
            Content::Ending { port } => {
                self.ports.add(port, key);
                self.endings += packets;
            }
            Content::Protocol(number) => {
                self.ports.add(number, key);
                let is_unassigned = UNASSIGNED.iter().any(|range| range.contains(&number));
                self.unassigned += if is_unassigned { packets } else { 0 };
                self.of_hubs += if HUBS.contains(&number) { packets } else { 0 };
            }
            Content::Request
            | Content::OddFlags
            | Content::Acceptance { .. }
            | Content::Reset { .. }
            | Content::Acknowledging
            | Content::Connected { .. }
            | Content::EchoRequest
            | Content::Icmp
            | Content::LaterFragment
            | Content::Other => {}
        }
    }

    /// The packets that were left out for each that was counted: none if all were sampled.
    pub fn left_out(&self) -> u64 {
        (self.represented / self.packets.max(1)).saturating_sub(1)
    }

    /// The bytes of a frame on average.
    pub fn mean_bytes(&self) -> u64 {
        self.bytes / self.packets.max(1)
    }

    /// Whether this host has sockets for most of them.
    pub fn has_sockets(&self) -> bool {
        self.with_socket * 2 > self.packets
    }

    /// Whether most look like answers of services.
    pub fn has_answers(&self) -> bool {
        self.answers * 2 > self.packets
    }

    /// Whether some went to ports that no request comes from, so ports were chosen without a
    /// request.
    pub fn has_ports_of_no_question(&self) -> bool {
        self.to_low_ports >= BELOW_MIN && self.to_low_ports * BELOW >= self.samples
    }

    /// Whether nearly all went to the few ports that a service has.
    pub fn is_to_service(&self) -> bool {
        self.ports() <= SERVICE_PORTS_MAX && self.to_services * 20 > self.packets * 19
    }

    /// Whether most went between ports that lie side by side, as those of clients and servers of
    /// one service.
    pub const fn is_between_neighbours(&self) -> bool {
        self.between_neighbours * 2 > self.packets
    }

    /// Returns the packets that end connections.
    pub const fn endings(&self) -> u64 {
        self.endings
    }

    /// Whether nearly all end connections.
    pub const fn only_ends(&self) -> bool {
        self.endings * 4 >= self.packets * 3
    }

    /// Whether most are of unassigned protocols.
    pub fn is_unassigned(&self) -> bool {
        self.unassigned * 2 > self.packets
    }

    /// Adds packets of a protocol that the target does not receive.
    pub const fn add_unreceived(&mut self, packets: u64) {
        self.unreceived += packets;
    }

    /// Whether most are of such a protocol.
    pub const fn is_unreceived(&self) -> bool {
        self.unreceived * 2 > self.packets
    }

    /// Whether most are of protocols that many hosts use with one.
    pub fn is_of_hubs(&self) -> bool {
        self.of_hubs * 2 > self.packets
    }

    /// Returns a lower bound of the destination ports, or of the protocols.
    pub fn ports(&self) -> u64 {
        self.ports.count()
    }

    /// Whether nearly every packet came from a different source.
    pub fn has_source_each(&self) -> bool {
        self.sources.is_nearly_all_of(self.samples)
    }

    /// Whether nearly every packet went to a different port, or they went to thousands.
    pub fn has_port_each(&self) -> bool {
        self.ports.is_nearly_all_of(self.samples)
    }
}

/// Whether what goes from one port to another looks like an answer.
fn is_answer(from: u16, to: u16) -> bool {
    from < SERVICES_END && to >= SERVICES_END
}

/// Other packets to and from a target in the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around {
    /// All packets to it.
    pub received: u64,
    /// Segments to it that continue connections.
    pub acknowledging: u64,
    /// Segments to it that reset unknown connections.
    pub resets: u64,
    /// Segments to it that ask for connections or accept them.
    pub opening: u64,
    /// First fragments to it.
    pub first_fragments: u64,
    /// Later fragments to it.
    pub later_fragments: u64,
    /// All packets from it.
    pub sent: u64,
    /// UDP from it.
    pub sent_datagrams: u64,
    /// Resets from it that continue for more than a second.
    pub sent_resets: u64,
    /// UDP to it, between different ports, that no question is known of.
    pub unasked_datagrams: u64,
    /// Questions from it that the packets may answer.
    pub asked: u64,
}

/// A counter of a host.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Tally {
    /// All packets to it.
    Received,
    /// Segments to it that continue connections.
    Acknowledging,
    /// First fragments to it.
    FirstFragments,
    /// Later fragments to it.
    LaterFragments,
    /// All packets from it.
    Sent,
    /// UDP from it.
    SentDatagrams,
    /// Resets from it.
    SentResets,
    /// Segments to it that end no connection.
    Endings,
    /// UDP to it, between different ports, that no question is known of.
    UnaskedDatagrams,
}

/// A question that a host asks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Question {
    /// For a connection.
    Connection,
    /// For an echo.
    Echo,
    /// To a port of UDP.
    Datagram(u16),
}

/// A server that a host has asked: the host, the server and its port.
pub type Conversation = (IpAddr, IpAddr, u16);
