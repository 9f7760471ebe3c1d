//! Counters of a second, and their evaluation.

use std::{hash::RandomState, net::IpAddr};

use ratelimit_common::sample::EVERY;
use smart_default::SmartDefault;

use super::{
    Host, Kind, Rules, Sample, Subject,
    content::{Content, Datagram},
    distinct::Distinct,
    evidence::{Around, Conversation, Crowd, Evidence, Question, Tally},
    recent::Recent,
    sending::{Senders, Sending},
    share::Share,
    space_saving::{Counter, SpaceSaving},
    suspicion::{Pace, Suspicion},
};
use crate::prefix::Prefix;

/// Targets, each with what goes against it.
const TARGETS: usize = 1024;
/// Hosts, each with what is counted of it.
const HOSTS: usize = 4096;
/// Sources of what may be attacks, once for each kind and target.
const PARTS: usize = 4096;
/// Sources of unsolicited packets.
const SOURCES: usize = 2048;
const SUBNETS: usize = 1024;

/// The most packets that count for the source and target of one sample. If it represents more,
/// other samples were lost because the ring was full, and theirs are unknown.
const REPRESENTED_MAX: u32 = 2 * EVERY;

/// A subnet needs this many members to be more than a few sources.
const MEMBERS_MIN: u64 = 8;
/// The multiple of the average of the others that counts as far above it.
const FAR_OVER: u64 = 10;
/// A source has much of an attack from a tenth of what makes one.
const BLAME_DIVISOR: u64 = 10;
/// Side effects of another attack are lower by this factor and not reported separately.
const SIDE_EFFECT_RATIO: u64 = 8;

/// Clients of these services send a datagram each.
const SINGLE_DATAGRAM_PORTS: [u16; 2] = [53, 123];

/// The members of a subnet.
type Members = Distinct<4>;

/// The counts of one window.
#[derive(SmartDefault)]
pub struct Window {
    key: RandomState,
    host: Host,
    #[default(SpaceSaving::new(TARGETS))]
    attacked: SpaceSaving<(Kind, Subject), Evidence>,
    /// Acknowledgements to targets that may have connections with other hosts. They are most of
    /// forwarded traffic, so they have their own counters.
    #[default(SpaceSaving::new(TARGETS))]
    strays: SpaceSaving<(Kind, Subject), Evidence>,
    /// Counters of hosts, for this window and the previous one.
    #[default(SpaceSaving::new(HOSTS))]
    tallies: SpaceSaving<(IpAddr, Tally), ()>,
    #[default(SpaceSaving::new(HOSTS))]
    tallies_before: SpaceSaving<(IpAddr, Tally), ()>,
    /// Requests by sender, for this window and the previous one: answers may arrive in this one.
    #[default(SpaceSaving::new(HOSTS))]
    asked: SpaceSaving<(IpAddr, Question), ()>,
    #[default(SpaceSaving::new(HOSTS))]
    asked_before: SpaceSaving<(IpAddr, Question), ()>,
    /// The part of each source in a possible attack.
    #[default(SpaceSaving::new(PARTS))]
    parts: SpaceSaving<(Kind, Subject, Prefix), Share>,
    #[default(SpaceSaving::new(SOURCES))]
    sources: SpaceSaving<Prefix, Share>,
    #[default(SpaceSaving::new(SUBNETS))]
    subnets: SpaceSaving<Prefix, (Share, Members)>,
    senders: Senders,
    /// Packets other than continuing connections and answers to requests, with the number of
    /// sources and subnets.
    unasked: u64,
    crowd: Crowd,
    crowd_of_subnets: Crowd,
    /// Endpoints of connections: an address and a port. An acknowledgement without a connection is
    /// ordinary where packets are forwarded, to a container or a host behind this one, also to a
    /// port with a listener, but not where connections end here. Kept across windows.
    services: Recent<(IpAddr, u16)>,
    /// Endpoints of UDP services: an address and a port. A service may be gone for a moment. Kept
    /// across windows.
    datagram_services: Recent<(IpAddr, u16)>,
    /// Peers of this host and its ports: packets may arrive after the socket is closed. Kept beyond
    /// the window.
    partners: Recent<(IpAddr, IpAddr, u16)>,
    /// UDP requests by sender and receiver. Kept beyond the window.
    conversations: Recent<Conversation>,
}

/// The findings of a window.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub kind: Kind,
    pub subject: Subject,
    pub packets: u64,
    pub sources: u64,
}

impl Window {
    /// See [`Detector::set_host`](super::Detector::set_host).
    pub fn set_host(&mut self, host: Host) {
        self.host = host;
    }

    /// Counts a packet.
    ///
    /// A source with connections sends as fast as its peer acknowledges, and many clients may share
    /// one address. Its segments do not make a heavy hitter, and neither do requested UDP answers
    /// or resets, which a flooded host sends. The limits of its policy still apply.
    pub fn add(&mut self, sample: &Sample) {
        let lost = sample.packets.saturating_sub(REPRESENTED_MAX);
        let packets = sample.packets - lost;
        let sample = &Sample { packets, ..*sample };
        self.tally(sample.target, Tally::Received, sample);
        self.tally(sample.source, Tally::Sent, sample);
        self.note_question(sample);
        self.senders.add(sample);
        let is_unasked = match sample.content {
            Content::Connected { port } => {
                self.services.note((sample.target, port), sample.at);
                let partner = (sample.target, sample.source, port);
                self.partners.note(partner, sample.at);
                self.add_continuing(sample);
                false
            }
            Content::Stray { port } | Content::Ending { port } => {
                self.add_stray(port, sample);
                self.add_continuing(sample);
                false
            }
            Content::Acknowledging
            | Content::Acceptance { is_asked: true }
            | Content::Reset {
                of_connection: true,
            } => {
                self.add_continuing(sample);
                false
            }
            Content::Request => self.attack(Kind::SynFlood, None, sample),
            Content::OddFlags => self.attack(Kind::TcpFlags, None, sample),
            Content::Acceptance { .. } => self.attack(Kind::SynAckReflection, None, sample),
            Content::Reset { .. } => {
                self.tally(sample.source, Tally::SentResets, sample);
                self.attack(Kind::RstFlood, None, sample);
                false
            }
            Content::Datagram(datagram) => self.add_datagram(datagram, sample),
            Content::EchoRequest | Content::Icmp => self.attack(Kind::IcmpFlood, None, sample),
            Content::LaterFragment => {
                self.tally(sample.target, Tally::LaterFragments, sample);
                self.attack(Kind::FragmentFlood, None, sample)
            }
            Content::Protocol(_) => self.attack(Kind::ProtocolFlood, None, sample),
            Content::Other => true,
        };
        if is_unasked {
            self.unasked += u64::from(lost);
            self.add_unasked(sample);
        }
    }

    /// Counts a segment that continues a connection. It speaks for the requests of its source.
    fn add_continuing(&mut self, sample: &Sample) {
        self.tally(sample.target, Tally::Acknowledging, sample);
        let (source, _) = origins(sample.source);
        let subject = Subject::Target {
            address: sample.target,
            source_port: None,
        };
        for kind in [Kind::SynFlood, Kind::TcpFlags] {
            if let Some(share) = self.parts.get_mut(&(kind, subject, source)) {
                share.add_continuing(sample);
            }
        }
    }

    /// Counts a datagram; returns whether it is unsolicited.
    fn add_datagram(&mut self, datagram: Datagram, sample: &Sample) -> bool {
        let [from, to] = [datagram.source_port, datagram.destination_port];
        if datagram.is_first {
            self.tally(sample.target, Tally::FirstFragments, sample);
        }
        let partner = (sample.target, sample.source, to);
        if datagram.has_socket && self.host.asks_from(to) {
            self.partners.note(partner, sample.at);
            return false;
        }
        let service = (sample.target, to);
        if datagram.has_socket {
            self.datagram_services.note(service, sample.at);
        }
        // A service may be away for a moment.
        let has_socket = datagram.has_socket
            || self.host.is_at(sample.target) && self.datagram_services.has(&service);
        let content = Content::Datagram(Datagram {
            has_socket,
            ..datagram
        });
        let sample = &Sample { content, ..*sample };
        let conversation = (sample.target, sample.source, from);
        if self.partners.has(&partner) || (from < to && self.conversations.has(&conversation)) {
            return false;
        }
        // Between equal ports peers talk: time servers, gateways of a VPN.
        if from != to {
            self.tally(sample.target, Tally::UnaskedDatagrams, sample);
            self.attack(Kind::Reflection, Some(from), sample);
        }
        let is_of_service = if self.host.is_at(sample.target) {
            self.datagram_services.has(&service)
        } else {
            datagram.has_socket || SINGLE_DATAGRAM_PORTS.contains(&to)
        };
        if !is_of_service {
            self.attack(Kind::UdpFlood, None, sample);
        }
        true
    }

    /// Counts an acknowledgement of no connection.
    fn add_stray(&mut self, port: u16, sample: &Sample) {
        let partner = (sample.target, sample.source, port);
        if self.partners.has(&partner) {
            return;
        }
        if matches!(sample.content, Content::Ending { .. }) {
            self.tally(sample.target, Tally::Endings, sample);
        }
        let service = (sample.target, port);
        if self.services.has(&service) || self.host.is_at(sample.target) {
            self.attack(Kind::AckFlood, None, sample);
        } else {
            let subject = Subject::Target {
                address: sample.target,
                source_port: None,
            };
            let strays = &mut self.strays;
            let evidence = strays.add((Kind::AckFlood, subject), sample.packets.into());
            evidence.add(origins(sample.source).0, sample, &self.key);
        }
    }

    /// Counts an unsolicited packet by source and subnet.
    fn add_unasked(&mut self, sample: &Sample) {
        let packets = u64::from(sample.packets);
        let (source, subnet) = origins(sample.source);
        self.unasked += packets;
        self.crowd.add(source, &self.key);
        self.crowd_of_subnets.add(subnet, &self.key);
        self.sources.add(source, packets).add(sample);
        let (share, members) = self.subnets.add(subnet, packets);
        share.add(sample);
        members.add(source, &self.key);
    }

    /// Counts what the source of a packet asks.
    fn note_question(&mut self, sample: &Sample) {
        let packets = u64::from(sample.packets);
        let question = match sample.content {
            Content::Request => Question::Connection,
            Content::EchoRequest => Question::Echo,
            Content::Datagram(datagram) => {
                self.tally(sample.source, Tally::SentDatagrams, sample);
                let port = datagram.destination_port;
                if port < datagram.source_port {
                    let conversation = (sample.source, sample.target, port);
                    self.conversations.note(conversation, sample.at);
                }
                Question::Datagram(port)
            }
            Content::OddFlags
            | Content::Acceptance { .. }
            | Content::Reset { .. }
            | Content::Acknowledging
            | Content::Connected { .. }
            | Content::Stray { .. }
            | Content::Ending { .. }
            | Content::Icmp
            | Content::LaterFragment
            | Content::Protocol(_)
            | Content::Other => return,
        };
        self.asked.add((sample.source, question), packets);
    }

    fn tally(&mut self, host: IpAddr, tally: Tally, sample: &Sample) {
        self.tallies.add((host, tally), sample.packets.into());
    }

    /// Counts a packet that may be one of an attack on its target.
    fn attack(&mut self, kind: Kind, source_port: Option<u16>, sample: &Sample) -> bool {
        let packets = u64::from(sample.packets);
        let (source, _) = origins(sample.source);
        let address = sample.target;
        let subject = Subject::Target {
            address,
            source_port,
        };
        let evidence = self.attacked.add((kind, subject), packets);
        evidence.add(source, sample, &self.key);
        if let Content::Protocol(protocol) = sample.content
            && self.host.ignores(protocol, address)
        {
            evidence.add_unreceived(packets);
        }
        let part = self.parts.add((kind, subject, source), packets);
        part.add(sample);
        true
    }

    /// The attacks of the window, by `rules`.
    pub fn judge(&self, rules: &Rules) -> Vec<Seen> {
        let targets = self.attacked.iter();
        let targets = targets.filter_map(|counter| self.judge_target(counter, rules, false));
        let mut targets: Vec<Seen> = targets.collect();
        for counter in self.strays.iter() {
            let seen = self.judge_target(counter, rules, true);
            let is_seen = |seen: &Seen| {
                let mut targets = targets.iter();
                targets.any(|it| (it.kind, it.subject) == (seen.kind, seen.subject))
            };
            targets.extend(seen.filter(|seen| !is_seen(seen)));
        }
        let mut seen = without_what_comes_beside(&targets, rules);
        seen.extend(self.busiest(rules).filter(|it| self.is_far_over_others(it)));
        seen
    }

    /// Returns the sources and subnets that certainly send what a rule names.
    fn busiest(&self, rules: &Rules) -> impl Iterator<Item = Seen> {
        let above = |kind| rules.get(&kind).map(|rule| u64::from(rule.above.get()));
        let hitters = above(Kind::HeavyHitter).into_iter().flat_map(|above| {
            let hitters = self.sources.iter();
            let hitters = hitters.filter(move |it| it.value.proves(it.certain(), above));
            hitters.map(|counter| Seen {
                kind: Kind::HeavyHitter,
                subject: Subject::Source(counter.key),
                packets: counter.certain(),
                sources: 1,
            })
        });
        let subnets = above(Kind::Spread).into_iter().flat_map(|above| {
            let subnets = self.subnets.iter();
            let subnets = subnets.filter(move |it| it.value.0.proves(it.certain(), above));
            subnets.map(|counter| Seen {
                kind: Kind::Spread,
                subject: Subject::Source(counter.key),
                packets: counter.certain(),
                sources: counter.value.1.count(),
            })
        });
        hitters.chain(subnets)
    }

    /// Returns the attack on a target, if any.
    fn judge_target(
        &self,
        counter: &Counter<(Kind, Subject), Evidence>,
        rules: &Rules,
        may_have_connections: bool,
    ) -> Option<Seen> {
        let (kind, subject) = counter.key;
        let Subject::Target {
            address,
            source_port,
        } = subject
        else {
            return None;
        };
        let rule = rules.get(&kind)?;
        let packets = counter
            .certain()
            .saturating_sub(self.ended_at_once(address, &counter.value));
        let around = self.around(kind, address, source_port);
        let mut received = around.received;
        if kind == Kind::Reflection {
            // The later fragments of a datagram come with it.
            let others = around.unasked_datagrams.saturating_sub(packets);
            let besides = around.later_fragments.saturating_add(others);
            received = received.saturating_sub(besides);
        }
        let suspicion = Suspicion {
            kind,
            pace: Pace::of(kind, packets, &counter.value, rule.above.get(), received)?,
            packets,
            source_port,
            ends_here: self.host.is_at(address),
            may_have_connections,
            evidence: &counter.value,
            around: &around,
        };
        suspicion.is_attack().then(|| Seen {
            kind,
            subject,
            packets,
            sources: counter.value.sources.count(),
        })
    }

    /// Returns how many packets to `address` are ordinary ends of its connections, which come all
    /// at once. Those of a flood continue, so this counts at most twice the number of the previous
    /// window.
    fn ended_at_once(&self, address: IpAddr, evidence: &Evidence) -> u64 {
        let before = count(&self.tallies_before, address, Tally::Endings);
        evidence.endings().saturating_sub(before.saturating_mul(2))
    }

    /// Returns the other traffic of `address`.
    fn around(&self, kind: Kind, address: IpAddr, source_port: Option<u16>) -> Around {
        let question = match (kind, source_port) {
            (_, Some(port)) => Question::Datagram(port),
            (Kind::IcmpFlood, None) => Question::Echo,
            _ => Question::Connection,
        };
        // Excludes the kind itself from the comparison.
        let opening = if kind == Kind::AckFlood {
            &[Kind::SynFlood, Kind::TcpFlags][..]
        } else {
            &[Kind::SynFlood, Kind::TcpFlags, Kind::SynAckReflection]
        };
        let subject = Subject::Target {
            address,
            source_port: None,
        };
        let count_of = |kind| {
            let counter = self.attacked.get(&(kind, subject));
            counter.map_or(0, |counter| counter.count)
        };
        let asked = [&self.asked, &self.asked_before].map(|asked| {
            let counter = asked.get(&(address, question));
            counter.map_or(0, |counter| counter.count)
        });
        Around {
            received: self.tallied(address, Tally::Received),
            acknowledging: self.tallied(address, Tally::Acknowledging),
            resets: count_of(Kind::RstFlood),
            opening: opening.iter().map(|kind| count_of(*kind)).sum(),
            first_fragments: self.tallied(address, Tally::FirstFragments),
            later_fragments: self.tallied(address, Tally::LaterFragments),
            sent: self.tallied(address, Tally::Sent),
            sent_datagrams: self.tallied(address, Tally::SentDatagrams),
            // A restarted server resets its connections once.
            sent_resets: self
                .tallied(address, Tally::SentResets)
                .min(count(&self.tallies_before, address, Tally::SentResets).saturating_mul(2)),
            unasked_datagrams: self.tallied(address, Tally::UnaskedDatagrams),
            asked: asked.iter().sum(),
        }
    }

    fn tallied(&self, host: IpAddr, tally: Tally) -> u64 {
        count(&self.tallies, host, tally)
    }

    /// The sources that certainly send much of an attack, which begins at the rate `above`, those
    /// with most of it first.
    pub fn to_blame(&self, seen: &Seen, above: u32) -> Vec<Prefix> {
        if let Subject::Source(prefix) = seen.subject {
            return vec![prefix];
        }
        let least = (u64::from(above) / BLAME_DIVISOR).max(1);
        let parts = self.parts.iter().filter(|counter| {
            let (kind, subject, _) = counter.key;
            (kind, subject) == (seen.kind, seen.subject)
                && counter.value.proves(counter.certain(), least)
        });
        let mut parts: Vec<_> = parts.collect();
        parts.sort_by_key(|counter| std::cmp::Reverse(counter.certain()));
        parts.iter().map(|counter| counter.key.2).collect()
    }

    /// Returns the traffic of the busiest sources.
    pub fn sending(&self) -> impl Iterator<Item = (Prefix, Sending)> {
        self.senders.all()
    }

    /// Forgets what was counted.
    pub fn clear(&mut self) {
        self.attacked.clear();
        self.strays.clear();
        std::mem::swap(&mut self.tallies, &mut self.tallies_before);
        self.tallies.clear();
        std::mem::swap(&mut self.asked, &mut self.asked_before);
        self.asked.clear();
        self.parts.clear();
        self.sources.clear();
        self.subnets.clear();
        self.senders.clear();
        self.unasked = 0;
        self.crowd = Crowd::default();
        self.crowd_of_subnets = Crowd::default();
    }

    /// Whether a source or a subnet sends far more than the others.
    fn is_far_over_others(&self, seen: &Seen) -> bool {
        match (seen.kind, seen.subject) {
            (Kind::Spread, Subject::Source(subnet)) => {
                seen.sources >= MEMBERS_MIN
                    && self.is_far_over(seen.packets, &self.crowd_of_subnets)
                    && self.largest_member(subnet) < seen.packets / 2
            }
            _ => self.is_far_over(seen.packets, &self.crowd),
        }
    }

    /// Whether `packets` of one are far over what the others of `crowd` send on average.
    fn is_far_over(&self, packets: u64, crowd: &Crowd) -> bool {
        let others = crowd.count().saturating_sub(1).max(1);
        let mean = self.unasked.saturating_sub(packets) / others;
        packets > mean.saturating_mul(FAR_OVER)
    }

    /// Returns the packets of the busiest member of a subnet.
    fn largest_member(&self, subnet: Prefix) -> u64 {
        let sources = self.sources.iter();
        let members = sources.filter(|counter| subnet.covers(counter.key));
        members.map(Counter::certain).max().unwrap_or(0)
    }
}

/// Returns a counter of a host.
fn count(tallies: &SpaceSaving<(IpAddr, Tally), ()>, host: IpAddr, tally: Tally) -> u64 {
    let counter = tallies.get(&(host, tally));
    counter.map_or(0, |counter| counter.count)
}

/// The attacks on targets without those that are part of another one, or come beside it. A host
/// that is flooded gets errors, and resets of those whose addresses were forged.
fn without_what_comes_beside(seen: &[Seen], rules: &Rules) -> Vec<Seen> {
    let is_part = |one: &Seen| {
        let others = seen.iter().filter(|other| {
            other.kind != one.kind && address(other.subject) == address(one.subject)
        });
        let of = |kinds: &[Kind]| -> u64 {
            let others = others.clone().filter(|other| kinds.contains(&other.kind));
            others.map(|other| other.packets).sum()
        };
        let largest = others.clone().map(|other| other.packets).max().unwrap_or(0);
        let is_beside = one.packets * SIDE_EFFECT_RATIO < largest;
        match one.kind {
            Kind::UdpFlood => {
                let rest = one.packets.saturating_sub(of(&[Kind::Reflection]));
                rest < rules[&one.kind].above.get().into() && rest * 2 < one.packets || is_beside
            }
            Kind::FragmentFlood => {
                of(&[Kind::Reflection, Kind::UdpFlood, Kind::IcmpFlood]) > 0 || is_beside
            }
            Kind::IcmpFlood | Kind::RstFlood | Kind::SynAckReflection | Kind::ProtocolFlood => {
                is_beside
            }
            Kind::SynFlood
            | Kind::AckFlood
            | Kind::TcpFlags
            | Kind::Reflection
            | Kind::HeavyHitter
            | Kind::Spread => false,
        }
    };
    seen.iter().filter(|one| !is_part(one)).copied().collect()
}

fn address(subject: Subject) -> Option<IpAddr> {
    match subject {
        Subject::Target { address, .. } => Some(address),
        Subject::Source(_) => None,
    }
}

/// The source that an address belongs to, and its subnet: what may be banned of either family, at
/// most.
pub fn origins(address: IpAddr) -> (Prefix, Prefix) {
    let (source, subnet) = match address {
        IpAddr::V4(_) => (32, 24),
        IpAddr::V6(_) => (64, 48),
    };
    let around = |length| Prefix::around(address, length).expect("no longer than an address");
    (around(source), around(subnet))
}
