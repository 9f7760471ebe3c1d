//! When sources are challenged, how long they stay verified, and how many answers are sent.

use core::{num::NonZeroU32, time::Duration};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{
    Targets, VerifiedCache,
    answer_limit::AnswerLimit,
    next_packets::{Counted, NextPackets},
    options::ListenerOptions,
    query::DNS_PORT,
};
use crate::{
    Address, ClassSet, Instant, Settings, generation::Generation, new_sources::Budget, node::Share,
};

/// The bit for asking listeners, above the [options](ListenerOptions::number) that they keep.
const ASKED: u16 = 1 << 15;

/// The numbers of [`Trigger`].
const NEVER: u16 = 0;
const ALWAYS: u16 = 1;
const OVER: u16 = 2;

#[inline(always)]
const fn port_bit(port: u16) -> u64 {
    1u64.wrapping_shl((port & 63) as u32)
}

const SECOND: Duration = Duration::from_secs(1);

/// The requests for which sources are challenged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Traffic {
    /// TCP connections.
    Connections = 0,
    /// Datagrams to a DNS port.
    Queries = 1,
}

impl Traffic {
    /// The budget of requests before sources are challenged.
    #[inline(always)]
    pub const fn shared(self) -> Shared {
        match self {
            Self::Connections => Shared::Unverified,
            Self::Queries => Shared::Queries,
        }
    }
}

/// The condition on which sources are challenged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Trigger {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// If more requests arrive per second.
    Over(NonZeroU32),
}

/// The most ports of connections, and of DNS servers.
pub const PORTS_MAX: usize = 8;

/// Budgets that all CPUs share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shared {
    /// Connections requested by sources that are not verified, before they are challenged.
    Unverified = 0,
    /// Answers.
    Answers = 1,
    /// Datagrams to DNS ports by sources that are not verified, before they are challenged.
    Queries = 2,
}

impl Shared {
    /// Decodes the number.
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Unverified,
            1 => Self::Answers,
            _ => Self::Queries,
        }
    }
}

/// The beginning and the end of the challenge.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Period {
    /// The beginning, in nanoseconds since boot.
    pub since_ns: u64,
    /// The end, in nanoseconds since boot.
    pub until_ns: u64,
}

/// The state of the challenge for all CPUs.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct SharedState {
    /// The used part of each [`Shared`] budget: words of a window of a second.
    pub words: [u64; 3],
    /// The period of the challenge for each kind of request in [`Traffic`].
    pub periods: [Period; 2],
}

/// The state of the challenge for one CPU.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct LocalState {
    /// The drawn share of each [`Shared`] budget.
    pub shares: [Share; 3],
    /// SYNs and queries that were not answered because the budget was spent.
    pub unanswered: u64,
    /// The outcome for the next SYNs and the next queries, by [`Traffic`].
    next: [NextPackets; 2],
    /// The time until which the challenge is known to be off, in nanoseconds since boot.
    idle_until_ns: u64,
    /// Sources known as verified.
    pub verified: VerifiedCache,
}

/// The conditions of the challenge, the time for which sources stay verified, and the budget for
/// answers.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Rules {
    /// The [`Shared`] budgets.
    shared: [Budget; 3],
    answer_limit: AnswerLimit,
    targets: Targets,
    lasts_ns: u64,
    /// A bit for each of `ports`, by its lower six bits. It rules out most packets.
    port_bits: u64,
    classes: ClassSet,
    asks_headers: u32,
    ports: [u16; PORTS_MAX],
    when: [u16; 2],
    listener: u16,
    prefers_verified: u16,
}

impl Rules {
    /// Rules for challenging sources that ask for connections; they stay verified for `lasts`.
    /// `cpus` CPUs draw shares of `answers` per second and of the budget in `when`. `None` if a
    /// number is too large for a word.
    pub fn new(when: Trigger, lasts: Duration, answers: NonZeroU32, cpus: u32) -> Option<Self> {
        Some(Self {
            shared: [
                when.budget(cpus)?,
                Budget::new(answers, SECOND, cpus)?,
                Budget::default(),
            ],
            answer_limit: AnswerLimit::new()?,
            lasts_ns: u64::try_from(lasts.as_nanos()).ok()?,
            port_bits: 0,
            ports: [0; PORTS_MAX],
            targets: match when {
                Trigger::Never => Targets::NONE,
                Trigger::Always | Trigger::Over(_) => Targets::default(),
            },
            classes: ClassSet::ALL,
            asks_headers: 0,
            when: [when.number(), NEVER],
            listener: 0,
            prefers_verified: 0,
        })
    }

    /// Also challenges sources for datagrams to these ports; 0 is none.
    pub fn asking_queries(self, when: Trigger, ports: [u16; PORTS_MAX], cpus: u32) -> Option<Self> {
        let asked = ports
            .iter()
            .filter(|port| when != Trigger::Never && **port != 0);
        let [unverified, answers, _] = self.shared;
        Some(Self {
            shared: [unverified, answers, when.budget(cpus)?],
            port_bits: asked.fold(0, |bits, port| bits | port_bit(*port)),
            ports,
            when: [self.when[0], when.number()],
            ..self
        })
    }

    /// Challenges only connections to these targets, if any.
    pub fn of_targets(self, targets: Targets) -> Self {
        if self.number(Traffic::Connections) == NEVER {
            return self;
        }
        Self { targets, ..self }
    }

    /// Challenges only SYNs of one of these classes. Some may require [properties of
    /// headers](crate::class::Property::is_of_headers).
    pub fn of_classes(self, classes: ClassSet, asks_headers: bool) -> Self {
        Self {
            classes,
            asks_headers: asks_headers.into(),
            ..self
        }
    }

    /// Whether a SYN is challenged according to its classes. `classes` returns them, given whether
    /// properties of headers are required. It is called only if the challenge is restricted to some
    /// classes.
    #[inline(always)]
    pub fn include_classes(&self, classes: impl FnOnce(bool) -> ClassSet) -> bool {
        self.includes_all_classes() || self.classes.counts(classes(self.asks_headers != 0))
    }

    /// Whether SYNs of all classes are challenged.
    #[inline(always)]
    pub const fn includes_all_classes(&self) -> bool {
        self.classes.bits() == ClassSet::ALL.bits()
    }

    /// The targets of challenged connections.
    #[inline(always)]
    pub const fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Has listeners of this host answer with their own cookies (`bpf_tcp_gen_syncookie`).
    pub fn asking_listeners(self, asks_listeners: bool) -> Self {
        Self {
            listener: if asks_listeners { ASKED } else { 0 },
            ..self
        }
    }

    /// Sets the options that listeners keep besides the segment size.
    pub fn with_listener_options(self, options: Option<ListenerOptions>) -> Self {
        let options = options.filter(|_| self.asks_listeners());
        Self {
            listener: self.listener & ASKED | options.map_or(0, ListenerOptions::number),
            ..self
        }
    }

    /// The options that listeners keep.
    #[inline(always)]
    pub const fn listener_options(&self) -> Option<ListenerOptions> {
        ListenerOptions::from_number(self.listener & !ASKED)
    }

    /// Gives the [reserve](crate::node::RESERVE_PART) of the node's limits to verified sources
    /// while the challenge is on.
    pub fn preferring_verified(self, prefers_verified: bool) -> Self {
        Self {
            prefers_verified: prefers_verified.into(),
            ..self
        }
    }

    /// Whether verified sources are preferred.
    #[inline(always)]
    pub const fn prefers_verified(&self) -> bool {
        self.prefers_verified != 0
    }

    /// Whether a listener of this host is asked for a cookie first.
    #[inline(always)]
    pub const fn asks_listeners(&self) -> bool {
        self.listener & ASKED != 0
    }

    /// Whether sources are always challenged.
    #[inline(always)]
    pub const fn is_always(&self, traffic: Traffic) -> bool {
        self.number(traffic) == ALWAYS
    }

    /// Whether sources are challenged above a rate.
    #[inline(always)]
    pub const fn is_over(&self, traffic: Traffic) -> bool {
        self.number(traffic) == OVER
    }

    /// Whether sources may be challenged for datagrams to this port.
    #[inline(always)]
    pub fn asks_queries_to(&self, port: u16) -> bool {
        self.port_bits & port_bit(port) != 0 && port != 0 && self.ports.contains(&port)
    }

    /// Adds the flags of the fast path to settings that have none of them yet.
    pub fn with_challenge_flags(&self, mut settings: Settings) -> Settings {
        if self.prefers_verified() {
            settings = settings.preferring_verified();
        }
        if !self.targets.are_all() {
            settings = settings.with_challenge_targets();
        }
        if !self.asks_listeners() {
            settings = settings.sparing_acknowledgements();
        }
        if self.port_bits == 0 {
            settings = settings.challenging_only_tcp();
        } else if self.ports.iter().all(|port| [0, DNS_PORT].contains(port)) {
            settings = settings.challenging_only_tcp_and_dns();
        }
        settings
    }

    #[inline(always)]
    const fn number(&self, traffic: Traffic) -> u16 {
        let [connections, queries] = self.when;
        match traffic {
            Traffic::Connections => connections,
            Traffic::Queries => queries,
        }
    }

    /// The time for which a source stays verified, in nanoseconds.
    #[inline(always)]
    pub const fn lasts_ns(&self) -> u64 {
        self.lasts_ns
    }

    /// The [`Shared`] budgets.
    #[inline(always)]
    pub const fn shared(&self) -> &[Budget; 3] {
        &self.shared
    }

    /// The limit of answers to a source.
    #[inline(always)]
    pub const fn answer_limit(&self) -> &AnswerLimit {
        &self.answer_limit
    }
}

impl LocalState {
    /// See [`passes`](super::ChallengeState::passes).
    #[inline(always)]
    pub fn passes<'a, A: Address>(
        &mut self,
        traffic: Traffic,
        source: impl FnOnce() -> &'a A,
        generation: Generation,
        now: Instant,
    ) -> bool {
        let next = *self.next_mut(traffic);
        if next.are_counted(Counted::All, generation) {
            return self.spend(traffic.shared(), now);
        }
        next.pass(now) && self.verified.knows(source(), now)
    }

    /// See [`passes_but_to_dns`](super::ChallengeState::passes_but_to_dns).
    #[inline(always)]
    pub fn passes_but_to_dns(&mut self, generation: Generation, now: Instant) -> bool {
        let next = *self.next_mut(Traffic::Connections);
        next.are_counted(Counted::ButToDns, generation) && self.spend(Shared::Unverified, now)
    }

    /// See [`set_counted`](super::ChallengeState::set_counted).
    #[inline(always)]
    pub fn set_counted(
        &mut self,
        traffic: Traffic,
        counted: Option<Counted>,
        generation: Generation,
    ) {
        let next = self.next_mut(traffic);
        *next = next.counting(counted, generation);
    }

    /// See [`set_passes_verified`](super::ChallengeState::set_passes_verified).
    #[inline(always)]
    pub fn set_passes_verified(&mut self, traffic: Traffic, until: Instant) {
        *self.next_mut(traffic) = NextPackets::passed_until(until);
    }

    #[inline(always)]
    const fn next_mut(&mut self, traffic: Traffic) -> &mut NextPackets {
        let [connections, queries] = &mut self.next;
        match traffic {
            Traffic::Connections => connections,
            Traffic::Queries => queries,
        }
    }

    /// See [`is_idle`](super::ChallengeState::is_idle).
    #[inline(always)]
    pub const fn is_idle(&self, now: Instant) -> bool {
        now.as_nanos() < self.idle_until_ns
    }

    /// See [`set_idle_until`](super::ChallengeState::set_idle_until).
    #[inline(always)]
    pub const fn set_idle_until(&mut self, until: Instant) {
        self.idle_until_ns = until.as_nanos();
    }

    /// See [`invalidate_next`](super::ChallengeState::invalidate_next).
    #[inline(always)]
    pub fn invalidate_next(&mut self) {
        self.next = [NextPackets::default(); 2];
        self.idle_until_ns = 0;
    }

    /// Takes one of a share. `false` if nothing is left.
    #[inline(always)]
    fn spend(&mut self, which: Shared, now: Instant) -> bool {
        let Some(share) = self.shares.get_mut(which as usize) else {
            return false;
        };
        match Budget::spend(*share, now) {
            Some(spent) => {
                *share = spent;
                true
            }
            None => false,
        }
    }
}

impl Trigger {
    const fn number(self) -> u16 {
        match self {
            Self::Never => NEVER,
            Self::Always => ALWAYS,
            Self::Over(_) => OVER,
        }
    }

    fn budget(self, cpus: u32) -> Option<Budget> {
        match self {
            Self::Never | Self::Always => Some(Budget::default()),
            Self::Over(over) => Budget::new(over, SECOND, cpus),
        }
    }
}

impl SharedState {
    /// The period in which sources are challenged for this kind of request.
    pub const fn of(&self, traffic: Traffic) -> Period {
        let [connections, queries] = self.periods;
        match traffic {
            Traffic::Connections => connections,
            Traffic::Queries => queries,
        }
    }
}
