//! What is counted in a second, and what it is judged to be.

use std::{hash::RandomState, net::IpAddr};

use super::{
    Kind, Rules, Sample, Subject,
    distinct::Distinct,
    sample::Content,
    services::Services,
    space_saving::{Counter, SpaceSaving},
};
use crate::prefix::Prefix;

/// Targets, each with what goes against it.
const TARGETS: usize = 256;
/// Sources, once for each kind that they take part in.
const SOURCES: usize = 4096;
const SUBNETS: usize = 1024;

/// Answers of so many servers, nobody asks for at once.
const REFLECTORS_MIN: u64 = 16;
/// So many members make a subnet more than a few sources.
const MEMBERS_MIN: u64 = 8;
/// How many times what the others send on average is far over it.
const FAR_OVER: u64 = 10;
/// A client that means it goes on with its connection by more segments than so many: it acknowledges, asks, and closes.
const SEGMENTS_MIN: u64 = 2;
/// Acknowledgements of no connection for each request, that are none of an attack: the last of the handshake, and what of the
/// question comes with it, before the network stack has seen it.
const STRAYS_MAX: u64 = 3;
/// A source has much of an attack from a tenth of what makes one.
const MUCH: u64 = 10;

/// Several thousand sources.
type Crowd = Distinct<64>;
/// The members of a subnet.
type Members = Distinct<4>;

/// The counts of one window.
pub struct Window {
    key: RandomState,
    attacked: SpaceSaving<(Kind, Subject), Crowd>,
    /// Segments that go on with connections, by target.
    acknowledging: SpaceSaving<IpAddr, ()>,
    sources: SpaceSaving<(Kind, Prefix), ()>,
    subnets: SpaceSaving<Prefix, Members>,
    /// What came besides segments that go on with connections, and from how many sources and subnets.
    unasked: u64,
    crowd: Crowd,
    crowd_of_subnets: Crowd,
    /// Where connections are. It outlives the window.
    services: Services,
}

/// What a window shows.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub kind: Kind,
    pub subject: Subject,
    pub packets: u64,
    pub sources: u64,
}

impl Window {
    pub fn new() -> Self {
        Self {
            key: RandomState::new(),
            attacked: SpaceSaving::new(TARGETS),
            acknowledging: SpaceSaving::new(TARGETS),
            sources: SpaceSaving::new(SOURCES),
            subnets: SpaceSaving::new(SUBNETS),
            unasked: 0,
            crowd: Crowd::default(),
            crowd_of_subnets: Crowd::default(),
            services: Services::default(),
        }
    }

    /// Counts a packet.
    ///
    /// A source with connections sends as fast as the other side acknowledges, and many may stand behind one address: its
    /// segments are none that make a heavy hitter. The limits of its policy hold for them.
    pub fn add(&mut self, sample: &Sample) {
        let packets = u64::from(sample.packets);
        let (source, subnet) = origins(sample.source);
        let (kind, source_port) = match sample.content {
            Content::Acknowledging | Content::Connected { .. } | Content::Stray { .. } => {
                self.acknowledge(sample);
                return;
            }
            Content::Request => (Some(Kind::SynFlood), None),
            Content::OddFlags => (Some(Kind::TcpFlags), None),
            Content::Answer { port } => (Some(Kind::Reflection), Some(port)),
            Content::Other => (None, None),
        };
        if let Some(kind) = kind {
            self.attack(kind, source_port, sample);
        }
        self.unasked += packets;
        self.crowd.add(source, &self.key);
        self.crowd_of_subnets.add(subnet, &self.key);
        self.sources.add((Kind::HeavyHitter, source), packets);
        let members = self.subnets.add(subnet, packets);
        members.add(source, &self.key);
    }

    /// Counts a segment that is no request.
    fn acknowledge(&mut self, sample: &Sample) {
        let packets = u64::from(sample.packets);
        self.acknowledging.add(sample.target, packets);
        match sample.content {
            Content::Connected { port } => self.services.note((sample.target, port), sample.at),
            Content::Stray { port } if self.services.has(&(sample.target, port)) => {
                self.attack(Kind::AckFlood, None, sample);
            }
            _ => {}
        }
    }

    /// Counts a packet that may be one of an attack on its target.
    fn attack(&mut self, kind: Kind, source_port: Option<u16>, sample: &Sample) {
        let packets = u64::from(sample.packets);
        let (source, _) = origins(sample.source);
        let address = sample.target;
        let subject = Subject::Target {
            address,
            source_port,
        };
        let crowd = self.attacked.add((kind, subject), packets);
        crowd.add(source, &self.key);
        self.sources.add((kind, source), packets);
    }

    /// The attacks of the window, by `rules`.
    pub fn judge(&self, rules: &Rules) -> Vec<Seen> {
        let attacked = self.attacked.iter().map(|counter| Seen {
            kind: counter.key.0,
            subject: counter.key.1,
            packets: counter.certain(),
            sources: counter.value.count(),
        });
        let hitters = self.sources.iter();
        let hitters = hitters.filter(|counter| counter.key.0 == Kind::HeavyHitter);
        let hitters = hitters.map(|counter| Seen {
            kind: Kind::HeavyHitter,
            subject: Subject::Source(counter.key.1),
            packets: counter.certain(),
            sources: 1,
        });
        let subnets = self.subnets.iter().map(|counter| Seen {
            kind: Kind::Spread,
            subject: Subject::Source(counter.key),
            packets: counter.certain(),
            sources: counter.value.count(),
        });
        let all = attacked.chain(hitters).chain(subnets);
        all.filter(|seen| {
            let rule = rules.get(&seen.kind);
            rule.is_some_and(|rule| seen.packets >= rule.above.get().into()) && self.is_attack(seen)
        })
        .collect()
    }

    /// The sources that have much of an attack of `kind` which begins at `above`, those with most of it first.
    pub fn to_blame(&self, seen: &Seen, above: u32) -> Vec<Prefix> {
        if let Subject::Source(prefix) = seen.subject {
            return vec![prefix];
        }
        let least = (u64::from(above) / MUCH).max(1);
        let counters = self.sources.iter();
        let mut counters: Vec<_> = counters
            .filter(|counter| counter.key.0 == seen.kind && counter.certain() >= least)
            .collect();
        counters.sort_by_key(|counter| std::cmp::Reverse(counter.certain()));
        counters.iter().map(|counter| counter.key.1).collect()
    }

    /// Forgets what was counted.
    pub fn clear(&mut self) {
        self.attacked.clear();
        self.acknowledging.clear();
        self.sources.clear();
        self.subnets.clear();
        self.unasked = 0;
        self.crowd = Crowd::default();
        self.crowd_of_subnets = Crowd::default();
    }

    /// Whether what is seen, of which there is enough, is what it looks like.
    fn is_attack(&self, seen: &Seen) -> bool {
        match (seen.kind, seen.subject) {
            (Kind::Reflection, _) => seen.sources >= REFLECTORS_MIN,
            (Kind::AckFlood, subject) => {
                let requests = [Kind::SynFlood, Kind::TcpFlags].map(|kind| {
                    let counter = self.attacked.get(&(kind, subject));
                    counter.map_or(0, |counter| counter.count)
                });
                seen.packets > requests.iter().sum::<u64>() * STRAYS_MAX
            }
            (_, Subject::Target { address, .. }) => {
                let acknowledging = self.acknowledging.get(&address);
                let acknowledging = acknowledging.map_or(0, |counter| counter.count);
                acknowledging < seen.packets * SEGMENTS_MIN
            }
            (Kind::Spread, Subject::Source(subnet)) => {
                seen.sources >= MEMBERS_MIN
                    && self.is_far_over(seen.packets, &self.crowd_of_subnets)
                    && self.largest_member(subnet) < seen.packets / 2
            }
            (_, Subject::Source(_)) => self.is_far_over(seen.packets, &self.crowd),
        }
    }

    /// Whether `packets` of one are far over what the others of `crowd` send on average.
    fn is_far_over(&self, packets: u64, crowd: &Crowd) -> bool {
        let others = crowd.count().saturating_sub(1).max(1);
        let mean = self.unasked.saturating_sub(packets) / others;
        packets > mean.saturating_mul(FAR_OVER)
    }

    /// What the member of a subnet sent that sent most.
    fn largest_member(&self, subnet: Prefix) -> u64 {
        let sources = self.sources.iter();
        let members = sources
            .filter(|counter| counter.key.0 == Kind::HeavyHitter && subnet.covers(counter.key.1));
        members.map(Counter::certain).max().unwrap_or(0)
    }
}

/// The source that an address belongs to, and its subnet: what may be banned of either family, at most.
fn origins(address: IpAddr) -> (Prefix, Prefix) {
    let (source, subnet) = match address {
        IpAddr::V4(_) => (32, 24),
        IpAddr::V6(_) => (64, 48),
    };
    let around = |length| Prefix::around(address, length).expect("no longer than an address");
    (around(source), around(subnet))
}
