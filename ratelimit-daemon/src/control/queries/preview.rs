//! Predicts the verdict on a packet: runs [`decide`] over the current tables, without changing
//! them.

use std::{cell::Cell, collections::HashMap, net::IpAddr};

use ratelimit_common::{
    Arrival, BanRule, ClassSet, Cursor, Evidence, Family, Flow, Instant, Limit, Policy, PolicyBan,
    Record, Settings, SourceKey, Tables, Verdict,
    aggregate::Aggregates,
    challenge::{self, ChallengeState, Message, Verified},
    charge::{Outcome, Refusal, Words},
    class::Property,
    decide,
    interface::InterfaceRule,
    layout::POLICIES_MAX,
    lease::{self, node_key},
    list::Listed,
    new_sources::Newcomer,
    node::{PooledLimits, Share},
    policy_ban::BanResult,
    source::LogKey,
    source_limits,
    store::{InsertError, Store},
    strikes::Strike,
    tables::FamilyTables,
};
use ratelimit_core::{
    api::Packet, class::protocol, config::SourceConfig, ip_family::IpAddress, rules::Rules,
};

use crate::{
    control::{enforcement::enforcer::Enforcer, sources::read_only_ring::ReadOnlyRing},
    datapath::SourceTables,
};

/// The smallest frame with a DNS query over IPv6, which is longer than one with a TCP segment.
const FRAME_BYTES: usize = 79;

/// No next header (RFC 8200, 4.7).
const NO_NEXT_HEADER: u8 = 59;

/// The offset of the flags in a TCP header.
const FLAGS: usize = 13;

/// The offset and value of the length in a UDP header, for a query of the root, followed by the
/// offset of the number of questions.
const QUERY_BYTES: (usize, u8) = (5, 25);
const QUESTIONS: usize = 13;

/// The origin and the destination of the packet.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub from: IpAddr,
    pub to: Option<IpAddr>,
    /// The rule of its interface.
    pub rule: InterfaceRule,
}

/// The packet in question.
#[derive(Clone, Copy, Debug)]
pub enum PacketOrClasses {
    /// A packet of one of these classes.
    Classes(ClassSet),
    /// A packet of which some properties are known.
    Packet(Packet),
}

/// Returns the verdict on a packet at `now`, and what refused it.
pub(super) fn preview(
    way: Way,
    asked: PacketOrClasses,
    now: Instant,
    rules: &Rules,
    enforcer: &Enforcer,
    leased: &HashMap<LogKey, Policy>,
    source: &SourceConfig,
) -> (Verdict, Option<Refusal>) {
    let mut frame = frame(way.from, asked);
    put_destination(&mut frame, way);
    let preview = Preview {
        rules,
        enforcer,
        leased: leased.iter().collect(),
        tables: &enforcer.datapath().sources,
        source,
        way,
        asked,
        now,
        is_excluded_from_reserve: Cell::new(false),
        refusal: Cell::new(None),
    };
    let verdict = decide(Cursor::new(&frame), now, &preview);
    (verdict, preview.refusal.get())
}

fn frame(address: IpAddr, asked: PacketOrClasses) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    let (ethertype, version, offset, upper): (u16, u8, usize, usize) = match address {
        IpAddr::V4(_) => (0x0800, 0x45, 26, 34),
        IpAddr::V6(_) => (0x86dd, 0x60, 22, 54),
    };
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame[14] = version;
    let next = match (address, asked) {
        (_, PacketOrClasses::Packet(packet)) => packet.protocol,
        (IpAddr::V4(_), PacketOrClasses::Classes(_)) => 0,
        (IpAddr::V6(_), PacketOrClasses::Classes(_)) => NO_NEXT_HEADER,
    };
    match address {
        IpAddr::V4(address) => {
            frame[23] = next;
            frame[offset..offset + 4].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            frame[20] = next;
            frame[offset..offset + 16].copy_from_slice(&address.octets());
        }
    }
    if let PacketOrClasses::Packet(packet) = asked {
        let ports = [packet.source_port, packet.destination_port];
        for (index, port) in ports.into_iter().enumerate() {
            let place = upper + 2 * index;
            frame[place..place + 2].copy_from_slice(&port.unwrap_or_default().to_be_bytes());
        }
        if packet.protocol == protocol::TCP {
            frame[upper + FLAGS] = packet.flags;
        }
        // A packet to a DNS port is a query, which may be challenged.
        if packet.protocol == protocol::UDP {
            let (place, bytes) = QUERY_BYTES;
            frame[upper + place] = bytes;
            frame[upper + QUESTIONS] = 1;
        }
    }
    frame
}

fn put_destination(frame: &mut [u8; FRAME_BYTES], way: Way) {
    match (way.from, way.to) {
        (IpAddr::V4(_), Some(IpAddr::V4(to))) => frame[30..34].copy_from_slice(&to.octets()),
        (IpAddr::V6(_), Some(IpAddr::V6(to))) => frame[38..54].copy_from_slice(&to.octets()),
        _ => {}
    }
}

struct Preview<'a> {
    rules: &'a Rules,
    enforcer: &'a Enforcer,
    /// The leases. The index of a lease here is added to the number of policies.
    leased: Vec<(&'a LogKey, &'a Policy)>,
    tables: &'a SourceTables,
    source: &'a SourceConfig,
    way: Way,
    asked: PacketOrClasses,
    now: Instant,
    is_excluded_from_reserve: Cell<bool>,
    refusal: Cell<Option<Refusal>>,
}

impl Tables for Preview<'_> {
    type PooledLimits<'a>
        = ReadOnlyNode<'a>
    where
        Self: 'a;

    fn settings(&self) -> Settings {
        // Without a destination, no limits of destinations apply.
        let settings = self.enforcer.held().settings.on(self.way.rule);
        let settings = if self.way.to.is_none() {
            settings.without_destinations()
        } else {
            settings
        };
        if self.is_excluded_from_reserve.get() {
            settings.excluded_from_reserve()
        } else {
            settings
        }
    }

    fn exclude_from_reserve(&self) {
        self.is_excluded_from_reserve.set(true);
    }

    fn pass_all_until(&self) -> Instant {
        self.enforcer.held().pass_all_until
    }

    fn policy(&self, index: u32) -> Option<&Policy> {
        if let Some(place) = index.checked_sub(POLICIES_MAX) {
            return Some(self.leased.get(place as usize)?.1);
        }
        self.enforcer.held().policies.get(&index)
    }

    /// An unknown property belongs to no class that requires it.
    fn excluded(&self, property: Property, value: u32) -> ClassSet {
        let packet = match self.asked {
            PacketOrClasses::Classes(classes) => return ClassSet::EVERY.difference(classes),
            PacketOrClasses::Packet(packet) => packet,
        };
        let tables = &self.enforcer.held().classes;
        let said = match property {
            Property::Kind | Property::Addresses => Some(value),
            Property::SourcePort => packet.source_port.map(u32::from),
            Property::DestinationPort => packet.destination_port.map(u32::from),
            Property::Details => (packet.protocol == protocol::TCP).then_some(value),
            Property::DestinationV4 | Property::DestinationV6 => self.way.to.map(|_| value),
            Property::Length | Property::HopsAndService | Property::Vlan => None,
        };
        match said {
            Some(value) => tables.excluded(property, value),
            None => tables.asking_for(property),
        }
    }

    fn node(&self) -> ReadOnlyNode<'_> {
        ReadOnlyNode(self)
    }

    fn admits_neighbour_discovery(&self, _: Instant) -> bool {
        true
    }

    fn take_ban(&self, _: Evidence, _: Instant) -> bool {
        false
    }

    fn count_ban_result(&self, _: BanResult) {}

    fn count(&self, _: Family, _: Verdict, _: u32) {}
}

impl<A: IpAddress> FamilyTables<A> for Preview<'_> {
    fn aggregates(&self) -> Aggregates {
        self.enforcer.held().switched.aggregates[A::IP_FAMILY as usize]
    }

    fn may_have_lease(&self, _: &A) -> bool {
        true
    }

    fn leased(&self, address: &A, policy: &Policy, _: Instant) -> u32 {
        let key = LogKey::new(&SourceKey::new(*address, policy.scope()));
        let place = self.leased.iter().position(|(leased, _)| **leased == key);
        let place = place.and_then(|place| u32::try_from(place).ok());
        place.map_or(lease::NONE, |place| POLICIES_MAX + place)
    }

    fn source_mask(&self) -> A {
        self.source.mask()
    }

    fn listed(&self, address: A, now: Instant) -> Listed {
        let matched = self.rules.longest_match(address.to_std());
        let entry = matched.and_then(|(prefix, _)| self.enforcer.entry(prefix));
        entry.map(|entry| entry.at(now)).unwrap_or_default()
    }

    fn policy_ban(&self, source: &A) -> Option<PolicyBan> {
        let datapath = self.enforcer.datapath();
        datapath.policy_bans.get(source.to_std()).ok().flatten()
    }

    fn count_refusal(&self, _: &A, _: Instant) {}

    fn count_strike(&self, _: &A, _: &BanRule, _: Instant) -> bool {
        false
    }

    fn confirm_strike(&self, _: &A, _: &Policy, _: &Strike<'_>, _: bool) -> bool {
        false
    }

    fn is_connected(&self, _: Cursor<'_>) -> bool {
        false
    }

    fn ban(&self, _: &A, _: PolicyBan) -> bool {
        false
    }

    fn sample(&self, _: A, refusal: Refusal) {
        self.refusal.set(Some(refusal));
    }

    fn challenge(
        &self,
        source: &A,
        frame: Cursor<'_>,
        flow: &Flow<A>,
        listed: Listed,
        now: Instant,
    ) -> challenge::Effect {
        challenge::judge_packet(source, frame, flow, listed, now, self)
    }

    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        source_limits::check(address, policy, arrival, self)
    }

    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        source_limits::charge(address, policy, arrival, self)
    }

    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        source_limits::charge_source(source, policy, arrival, self, self)
    }
}

/// Spends no budget and changes no threshold: a source is challenged if it currently would be.
impl<A: IpAddress> ChallengeState<A> for Preview<'_> {
    fn rules(&self) -> Option<&challenge::Rules> {
        Some(&self.enforcer.held().switched.challenge)
    }

    fn takes(&self, _: challenge::Shared, _: Instant) -> bool {
        true
    }

    fn may_answer(&self, _: &A, _: Instant) -> bool {
        true
    }

    fn paused_until(&self) -> Instant {
        let datapath = self.enforcer.datapath();
        datapath.challenge.paused_until().unwrap_or_default()
    }

    /// The sequence number of the preview's packet is 0, which proves nothing.
    fn cookie(&self, _: &Message) -> u32 {
        1
    }

    fn until(&self, traffic: challenge::Traffic) -> Instant {
        let taken = self.enforcer.datapath().challenge.taken();
        Instant::from_nanos(taken.unwrap_or_default().of(traffic).until_ns)
    }

    fn verified(&self, source: &A) -> Option<Verified> {
        let datapath = self.enforcer.datapath();
        datapath.challenge.verified(source.to_std()).ok().flatten()
    }
}

impl<A: IpAddress> Store<A> for Preview<'_> {
    type Key<'a>
        = SourceKey<A>
    where
        Self: 'a;
    type Words<'a>
        = ReadOnly<'a>
    where
        Self: 'a;
    type Denial<'a>
        = ReadOnly<'a>
    where
        Self: 'a;

    fn key(&self, source: &A, scope: u32) -> SourceKey<A> {
        SourceKey::new(*source, scope)
    }

    /// A source without state would get it. It has used nothing.
    fn words<'a>(&'a self, key: &'a SourceKey<A>) -> Option<ReadOnly<'a>> {
        let (address, scope) = (key.address().to_std(), key.scope());
        let mut policies = self.enforcer.held().policies.values();
        let policy = policies.find(|policy| policy.scope() == scope)?;
        let record = self.tables.record(address, policy, self.now);
        let record = record.ok().flatten();
        // A `compact` table answers for every source.
        let is_table = self.enforcer.datapath().sources.table_sets().is_some();
        Some(ReadOnly {
            is_known: record.is_some() && !is_table,
            record: record.unwrap_or_default(),
            tables: self.tables,
            logs: Some((address, scope)),
        })
    }

    fn insert(&self, _: &SourceKey<A>) -> Result<(), InsertError> {
        Ok(())
    }

    /// The unspent shares of all CPUs count as used.
    fn admits(&self, newcomer: Newcomer, arrival: &Arrival) -> bool {
        let taken = self.enforcer.datapath().policies.new_sources_taken();
        let mut record = Record::default();
        record.words[0] = taken.unwrap_or_default()[newcomer as usize];
        let taken = ReadOnly {
            is_known: true,
            record,
            tables: self.tables,
            logs: None,
        };
        let budget = self.enforcer.held().switched.new_sources;
        budget.take_one(&taken, arrival.at)
    }
}

/// The read-only state of a source or of the node.
struct ReadOnly<'a> {
    /// Whether the source has state.
    is_known: bool,
    record: Record,
    tables: &'a SourceTables,
    /// The source and the scope of its sliding logs.
    logs: Option<(IpAddr, u32)>,
}

impl Words for ReadOnly<'_> {
    type Ring = ReadOnlyRing;

    fn load(&self, index: usize) -> u64 {
        self.record.words[index]
    }

    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }

    fn ring(&self, index: usize) -> Option<ReadOnlyRing> {
        let ((source, scope), index) = (self.logs?, u32::try_from(index).ok()?);
        let words = self.tables.log(source, scope, index).ok().flatten()?;
        Some(ReadOnlyRing(words))
    }

    fn make_ring(&self, index: usize) -> Option<ReadOnlyRing> {
        let empty = || ReadOnlyRing(Vec::new());
        Some(self.ring(index).unwrap_or_else(empty))
    }

    fn has_own(&self, index: usize, limit: &Limit) -> bool {
        let has_used = if limit.is_log() {
            self.ring(index).is_some()
        } else {
            self.load(index) != 0
        };
        self.is_known || has_used
    }
}

/// The state of the node. The unspent shares of the CPUs are unknown and count as used.
struct ReadOnlyNode<'a>(&'a Preview<'a>);

impl<'a> PooledLimits for ReadOnlyNode<'a> {
    type Words = ReadOnly<'a>;

    fn words(&self, policy: &Policy) -> Option<ReadOnly<'a>> {
        let tables = self.0.tables;
        let record = tables.total(policy.slot()).ok()?;
        Some(ReadOnly {
            is_known: true,
            record,
            tables,
            logs: None,
        })
    }

    fn leased<'p>(&'p self, policy: &'p Policy, _: &Arrival, _is_charged: bool) -> &'p Policy {
        let key = node_key(policy.scope());
        let leased = self.0.leased.iter().find(|(leased, _)| **leased == key);
        policy.or_leased(leased.map(|(_, policy)| *policy))
    }

    fn share(&self, _: &Policy, _: usize) -> Share {
        Share::default()
    }

    fn change_share(&self, _: &Policy, _: usize, _: impl Fn(Share) -> Share) {}
}
