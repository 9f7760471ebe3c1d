mod fast_path;

use core::{cell::Cell, num::NonZeroU32, time::Duration};
use std::cell::RefCell;
use std::{collections::BTreeMap, vec::Vec};

use super::{answer_limit::ANSWERS_PER_SOURCE, *};
use crate::{
    Cursor, Flow, Ipv4, Settings,
    absent::Absent,
    charge::words::Words,
    generation::Generation,
    node::Share,
    parse::transport::{ACK, FIN, RST, SYN},
    parse::{LinkLayer, ipv4, ipv6, payload},
};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000 * SECOND;
const SOURCE: Ipv4 = Ipv4::new([192, 0, 2, 1]);

#[test]
fn a_client_that_brings_the_cookie_back_is_verified_until_the_verification_ends() {
    let world = World::new(None, 1_000);
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Challenged);
    assert_eq!(world.judge(SOURCE, RST, 7, START), Effect::Unasked);
    let cookie = world.cookie_of(SOURCE, START);
    for (flags, sequence) in [(RST, cookie ^ 1), (RST | SYN, cookie), (ACK, cookie)] {
        assert_ne!(
            world.judge(SOURCE, flags, sequence, START),
            Effect::Verified
        );
    }
    assert_eq!(world.judge(SOURCE, RST, cookie, START), Effect::Verified);
    // The second time it proves nothing, and is judged like any other.
    assert_eq!(world.judge(SOURCE, RST, cookie, START), Effect::Unasked);
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unasked);
    let ends = START + 600 * SECOND;
    assert_eq!(world.judge(SOURCE, SYN, 7, ends - 1), Effect::Unasked);
    assert_eq!(world.judge(SOURCE, SYN, 7, ends), Effect::Challenged);
}

#[test]
fn a_client_that_acknowledges_the_cookie_of_a_listener_is_verified_if_listeners_are_asked() {
    let unasked = World::new(None, 1_000);
    let world = World::new(None, 1_000).by(|rules| rules.asking_listeners(true));
    assert_eq!(unasked.judge(SOURCE, ACK, TAKEN, START), Effect::Unasked);
    for (flags, sequence) in [(ACK, TAKEN + 1), (ACK | SYN, TAKEN), (ACK | FIN, TAKEN)] {
        assert_eq!(world.judge(SOURCE, flags, sequence, START), Effect::Unasked);
    }
    assert_eq!(world.judge(SOURCE, ACK, TAKEN, START), Effect::Verified);
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unasked);
}

#[test]
fn only_a_request_for_a_connection_is_challenged() {
    let world = World::new(None, 1_000);
    for flags in [0, ACK, SYN | ACK, FIN, SYN | FIN, SYN | RST, RST, RST | ACK] {
        assert_eq!(
            world.judge(SOURCE, flags, 7, START),
            Effect::Unasked,
            "{flags}"
        );
    }
    let congestion = 0xc0;
    assert_eq!(
        world.judge(SOURCE, SYN | congestion, 7, START),
        Effect::Challenged
    );
}

#[test]
fn a_first_part_that_asks_for_a_connection_is_not_answered_and_goes_no_further() {
    let of = |world: &World, source: [u8; 4]| {
        let ports = [0xc0, 1, 0, 80, 0, 0, 0, 0];
        let header = [0x45, 0, 0, 28, 0, 0, 0x20, 0, 64, 6, 0, 0];
        let mac = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let frame = [&mac[..], &header, &source, &[198, 51, 100, 7], &ports].concat();
        let frame = Cursor::new(&frame);
        let upper = super::upper::<Ipv4>(frame, LinkLayer::Ethernet, ipv6::walk).unwrap();
        let segment = super::segment::<Ipv4>(frame, LinkLayer::Ethernet, upper).unwrap();
        let source = Ipv4::new(source);
        let now = Instant::from_nanos(START);
        judge(&source, &segment, |_| ClassSet::NONE, now, world)
    };
    // Also beyond the answers of a second.
    let world = World::new(None, 1);
    for _ in 0..100 {
        assert_eq!(of(&world, [192, 0, 2, 1]), Effect::Challenged);
    }
    world.verify(&SOURCE, Verified::here(Instant::from_nanos(2 * START)));
    assert_eq!(of(&world, [192, 0, 2, 1]), Effect::Unasked);
    // Parts count for when it is on.
    let world = World::new(Some(10), 1_000);
    let outcomes = (0..20_u8).map(|host| of(&world, [192, 0, 2, host]));
    let challenged = outcomes.filter(|it| *it == Effect::Challenged).count();
    assert_eq!(challenged, 10);
}

#[test]
fn if_classes_are_named_their_syns_alone_are_challenged_and_counted() {
    let [web, other] = [1, 2].map(ClassSet::from_bits);
    let of_web = |over| {
        let world = World::new(over, 1_000);
        world.by(|rules| rules.of_classes(web, true))
    };
    let world = of_web(None);
    let judge = |world: &World, flags, class: ClassSet| {
        let classes = |asks_headers: bool| {
            assert!(asks_headers);
            class
        };
        world.judge_of(SOURCE, flags, 7, classes, START)
    };
    assert_eq!(judge(&world, SYN, other), Effect::Unasked);
    assert_eq!(judge(&world, SYN, ClassSet::NONE), Effect::Unasked);
    assert_eq!(judge(&world, SYN, web.union(other)), Effect::Challenged);
    // A proof may be of any class.
    let cookie = world.cookie_of(SOURCE, START);
    let of_none = |_: bool| ClassSet::NONE;
    assert_eq!(
        world.judge_of(SOURCE, RST, cookie, of_none, START),
        Effect::Verified
    );
    let counting = of_web(Some(5));
    let outcomes = |class| {
        let outcomes = (0..8).map(|_| judge(&counting, SYN, class));
        outcomes.filter(|it| *it == Effect::Challenged).count()
    };
    assert_eq!((outcomes(other), outcomes(web), outcomes(other)), (0, 3, 0));
}

#[test]
fn so_many_may_ask_in_a_second_and_then_all_are_challenged_until_it_is_quiet() {
    let world = World::new(Some(100), 1_000_000);
    let challenged = |at: u64, count: u32| {
        let outcomes =
            (0..count).map(|host| world.judge(Ipv4::new(host.to_be_bytes()), SYN, 7, at));
        outcomes
            .filter(|outcome| *outcome == Effect::Challenged)
            .count()
    };
    assert_eq!(challenged(START, 100), 0);
    assert_eq!(challenged(START, 50), 50);
    assert_eq!(world.on[0].get().since_ns, START);
    // It is on: in the next seconds no source passes, and while there are too many requests it
    // stays on.
    for second in 1..=30 {
        assert_eq!(challenged(START + second * SECOND, 500), 500);
    }
    assert_eq!(world.on[0].get().since_ns, START);
    // With few requests, it is off after the hold.
    let quiet = START + 31 * SECOND;
    let ends = world.on[0].get().until_ns;
    assert!(ends >= START + 30 * SECOND + HOLD_NS - HOLD_NS / 16);
    assert_eq!(challenged(quiet, 50), 50);
    assert_eq!(world.on[0].get().until_ns, ends);
    assert_eq!(challenged(ends - 1, 1), 1);
    assert_eq!(challenged(ends, 50), 0);
}

/// When the answers to a source or all answers are spent, packets are judged as if there were no
/// challenge.
#[test]
fn a_source_gets_few_answers_a_second_and_all_together_no_more_than_the_budget() {
    let world = World::new(None, 50);
    let challenged = |source, at| {
        (0..100)
            .filter(|_| world.judge(source, SYN, 7, at) == Effect::Challenged)
            .count()
    };
    assert_eq!(challenged(SOURCE, START) as u64, ANSWERS_PER_SOURCE);
    assert_eq!(
        challenged(SOURCE, START + SECOND) as u64,
        ANSWERS_PER_SOURCE
    );
    let at = START + 5 * SECOND;
    let all: usize = (0..100_u32)
        .map(|host| challenged(Ipv4::new(host.to_be_bytes()), at))
        .sum();
    assert_eq!(all, 50);
}

#[test]
fn who_is_not_verified_leaves_the_reserve_while_it_is_on_and_where_that_is_configured() {
    let preferring = |over| {
        let world = World::new(over, 1_000);
        world.by(|rules| rules.preferring_verified(true))
    };
    let of_packet = |world: &World, at| without_challenge(&SOURCE, Instant::from_nanos(at), world);
    let indifferent = World::new(None, 1_000);
    assert_eq!(of_packet(&indifferent, START), Effect::Unasked);
    assert_eq!(indifferent.judge(SOURCE, ACK, 7, START), Effect::Unasked);
    let world = preferring(None);
    assert_eq!(of_packet(&world, START), Effect::Unverified);
    assert_eq!(world.judge(SOURCE, ACK, 7, START), Effect::Unverified);
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Challenged);
    // A live host sends a RST to a forger's target: it is not challenged any more, but is not
    // preferred.
    let cookie = world.cookie_of(SOURCE, START);
    assert_eq!(world.judge(SOURCE, RST, cookie, START), Effect::Verified);
    for _ in 0..2 {
        assert_eq!(of_packet(&world, START), Effect::Unverified);
        assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unverified);
        assert!(!world.knows_verified(&SOURCE, Instant::from_nanos(START)));
    }
    let world = preferring(None);
    let world = world.by(|rules| rules.asking_listeners(true));
    assert_eq!(world.judge(SOURCE, ACK, TAKEN, START), Effect::Verified);
    assert_eq!(of_packet(&world, START), Effect::Unasked);
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unasked);
    let ends = START + 600 * SECOND;
    assert_eq!(of_packet(&world, ends), Effect::Unverified);
    // A SYN that the budgets leave unanswered belongs to the rest.
    let world = World {
        rules: Some(world.rules.unwrap()),
        ..World::new(None, 1_000)
    };
    for _ in 0..ANSWERS_PER_SOURCE {
        assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Challenged);
    }
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unverified);
    // While the challenge is off, no source is preferred.
    let world = preferring(Some(1));
    assert_eq!(of_packet(&world, START), Effect::Unasked);
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unasked);
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Challenged);
    assert_eq!(of_packet(&world, START), Effect::Unverified);
    assert_eq!(of_packet(&world, START + HOLD_NS), Effect::Unasked);
}

#[test]
fn without_rules_no_source_is_challenged() {
    let world = World {
        rules: None,
        ..World::new(None, 1_000)
    };
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unasked);
}

#[test]
fn a_client_that_asks_a_dns_port_is_challenged_for_that_and_proves_itself_over_tcp() {
    let world = querying(Trigger::Never, Trigger::Always);
    assert_eq!(world.ask(53, true, START), Effect::Challenged);
    assert_eq!(world.ask(5353, true, START), Effect::Challenged);
    // Queries that cannot be answered, and packets to other ports.
    assert_eq!(world.ask(53, false, START), Effect::Unasked);
    for port in [0, 54] {
        assert_eq!(world.ask(port, true, START), Effect::Unasked);
    }
    // Connections to other ports are not challenged.
    assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Unasked);
    let to_dns = |flags, sequence| {
        let mut segment = segment(SOURCE, flags, sequence);
        segment.connection.ports[1] = [0, 53];
        let cookie = world.cookie(&cookie::message(
            &segment.connection,
            Instant::from_nanos(START),
        ));
        (segment, cookie)
    };
    let judge = |segment: &Segment<Ipv4>| {
        let now = Instant::from_nanos(START);
        judge(&SOURCE, segment, |_| ClassSet::NONE, now, &world)
    };
    let (question, cookie) = to_dns(SYN, 7);
    assert_eq!(judge(&question), Effect::Challenged);
    assert_eq!(judge(&to_dns(RST, cookie ^ 1).0), Effect::Unasked);
    assert_eq!(judge(&to_dns(RST, cookie).0), Effect::Verified);
    assert_eq!(judge(&question), Effect::Unasked);
    assert_eq!(world.ask(53, true, START), Effect::Unasked);
    assert_eq!(
        world.ask(53, true, START + 600 * SECOND),
        Effect::Challenged
    );
}

#[test]
fn so_many_datagrams_may_come_in_a_second_and_then_their_sources_are_challenged_until_it_is_quiet()
{
    let over = NonZeroU32::new(3).unwrap();
    let world = querying(Trigger::Never, Trigger::Over(over));
    for _ in 0..3 {
        assert_eq!(world.ask(53, true, START), Effect::Unasked);
    }
    assert_eq!(world.ask(53, true, START), Effect::Challenged);
    let later = START + SECOND;
    assert_eq!(world.ask(53, true, later), Effect::Challenged);
    assert_eq!(world.on[1].get().since_ns, START);
    assert_eq!(world.ask(53, true, START + HOLD_NS), Effect::Unasked);
    // The challenge of connections is off.
    assert_eq!(world.on[0].get(), Period::default());
}

#[test]
fn answers_to_queries_are_of_the_budgets_of_all_answers() {
    let world = querying(Trigger::Always, Trigger::Always);
    for _ in 0..ANSWERS_PER_SOURCE / 2 {
        assert_eq!(world.ask(53, true, START), Effect::Challenged);
        assert_eq!(world.judge(SOURCE, SYN, 7, START), Effect::Challenged);
    }
    assert_eq!(world.ask(53, true, START), Effect::Unasked);
    // An unanswered packet leaves the reserve of the node to verified sources.
    let world = World {
        rules: Some(world.rules.unwrap().preferring_verified(true)),
        ..World::new(None, 1_000)
    };
    assert_eq!(world.ask(53, false, START), Effect::Unverified);
    assert_eq!(world.ask(54, true, START), Effect::Unverified);
}

#[test]
fn while_it_is_paused_no_source_is_challenged() {
    let over = NonZeroU32::new(1).unwrap();
    for when in [Trigger::Always, Trigger::Over(over)] {
        let world = querying(when, when);
        let ask = |at| {
            let datagrams = [0; 2].map(|_| world.ask(53, true, at));
            let segments = [0; 2].map(|_| world.judge(SOURCE, SYN, 7, at));
            (datagrams[1], segments[1])
        };
        assert_eq!(ask(START), (Effect::Challenged, Effect::Challenged));
        let ends = START + 60 * SECOND;
        world.paused.set(Instant::from_nanos(ends));
        assert_eq!(ask(ends - 1), (Effect::Unasked, Effect::Unasked));
        assert_eq!(ask(ends), (Effect::Challenged, Effect::Challenged));
    }
}

/// A challenge of connections and of datagrams to ports 53 and 5353.
fn querying(connections: Trigger, queries: Trigger) -> World {
    querying_at([53, 5353], connections, queries)
}

/// A challenge of connections and of datagrams to these ports.
fn querying_at([one, other]: [u16; 2], connections: Trigger, queries: Trigger) -> World {
    let answers = NonZeroU32::new(1_000).unwrap();
    let rules = Rules::new(connections, Duration::from_mins(10), answers, 1).unwrap();
    let rules = rules.asking_queries(queries, [one, other, 0, 0, 0, 0, 0, 0], 1);
    World {
        rules,
        ..World::new(None, 1_000)
    }
}

/// The sequence number of segments that the listener accepts.
const TAKEN: u32 = 77;

/// The state of a challenge, of one CPU.
struct World {
    rules: Option<Rules>,
    words: [Word; 3],
    own: RefCell<LocalState>,
    answered: RefCell<BTreeMap<[u8; 16], Word>>,
    on: [Cell<Period>; 2],
    paused: Cell<Instant>,
    verified: RefCell<BTreeMap<[u8; 16], Verified>>,
}

impl World {
    fn new(over: Option<u32>, answers: u32) -> Self {
        let when = over.map_or(Trigger::Always, |over| {
            Trigger::Over(NonZeroU32::new(over).unwrap())
        });
        let rules = Rules::new(
            when,
            Duration::from_mins(10),
            NonZeroU32::new(answers).unwrap(),
            1,
        );
        Self {
            rules: Some(rules.unwrap()),
            words: Default::default(),
            own: RefCell::default(),
            answered: RefCell::default(),
            on: Default::default(),
            paused: Cell::default(),
            verified: RefCell::default(),
        }
    }

    fn by(self, change: impl FnOnce(Rules) -> Rules) -> Self {
        Self {
            rules: self.rules.map(change),
            ..self
        }
    }

    /// Whether the packet is [not challenged](is_unchallenged), by the settings of the rules.
    fn is_unchallenged(&self, source: Ipv4, frame: Cursor<'_>, now: Instant) -> bool {
        let settings = self
            .rules
            .unwrap()
            .with_challenge_flags(Settings::default());
        is_unchallenged(&source, || frame, &flow(frame), settings, now, self)
    }

    fn judge(&self, source: Ipv4, flags: u8, sequence: u32, at_ns: u64) -> Effect {
        let classes = |_| panic!("nobody asks for classes that none is named of");
        self.judge_of(source, flags, sequence, classes, at_ns)
    }

    fn judge_of(
        &self,
        source: Ipv4,
        flags: u8,
        sequence: u32,
        classes: impl FnOnce(bool) -> ClassSet,
        at_ns: u64,
    ) -> Effect {
        let segment = segment(source, flags, sequence);
        judge(&source, &segment, classes, Instant::from_nanos(at_ns), self)
    }

    fn ask(&self, port: u16, is_query: bool, at_ns: u64) -> Effect {
        let now = Instant::from_nanos(at_ns);
        judge_datagram(&SOURCE, port, || is_query, now, self)
    }

    fn judge_at_length(&self, source: Ipv4, frame: Cursor<'_>, now: Instant) -> Effect {
        record_idle::<Ipv4, _>(now, self);
        let upper = upper(frame);
        if let Some(segment) = super::segment::<Ipv4>(frame, LinkLayer::None, upper) {
            return judge(&source, &segment, |_| ClassSet::NONE, now, self);
        }
        match query::port(frame, upper) {
            Some(port) => judge_datagram(&source, port, || true, now, self),
            None => without_challenge(&source, now, self),
        }
    }

    /// The rest of each shared budget.
    fn left(&self) -> ([u64; 3], [Share; 3]) {
        let words = self.words.each_ref().map(|word| word.0.get());
        (words, self.own.borrow().shares)
    }

    fn cookie_of(&self, source: Ipv4, at_ns: u64) -> u32 {
        let connection = segment(source, SYN, 7).connection;
        self.cookie(&cookie::message(&connection, Instant::from_nanos(at_ns)))
    }
}

fn segment(source: Ipv4, flags: u8, sequence: u32) -> Segment<Ipv4> {
    let packet = packet(source, 6, &tcp(flags, sequence));
    let frame = Cursor::new(&packet);
    super::segment::<Ipv4>(frame, LinkLayer::None, upper(frame)).unwrap()
}

fn packet(source: Ipv4, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend(&source.octets()[12..]);
    packet.extend([198, 51, 100, 7]);
    packet.extend(upper);
    packet
}

fn tcp(flags: u8, sequence: u32) -> Vec<u8> {
    tcp_to(80, flags, sequence)
}

fn tcp_to(port: u8, flags: u8, sequence: u32) -> Vec<u8> {
    let mut header = std::vec![0xc0, 1, 0, port];
    header.extend(sequence.to_be_bytes());
    header.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    header
}

fn upper(frame: Cursor<'_>) -> UpperLayer {
    flow(frame).upper
}

fn flow(frame: Cursor<'_>) -> Flow<Ipv4> {
    let mut cursor = frame;
    payload(&mut cursor, LinkLayer::None).unwrap();
    ipv4::flow(&mut cursor).unwrap()
}

impl ChallengeState<Ipv4> for World {
    fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    fn cookie(&self, message: &Message) -> u32 {
        cookie::hash(Key([3, 4]), message)
    }

    fn acknowledges_listener(&self, segment: &Segment<Ipv4>) -> bool {
        segment.sequence == TAKEN
    }

    fn takes(&self, which: Shared, now: Instant) -> bool {
        let budget = &self.rules.as_ref().unwrap().shared()[which as usize];
        let share = &mut self.own.borrow_mut().shares[which as usize];
        let next = budget.take(&self.words[which as usize], *share, now);
        next.map(|next| *share = next).is_some()
    }

    fn passes(&self, traffic: Traffic, source: &Ipv4, now: Instant) -> bool {
        let mut own = self.own.borrow_mut();
        own.passes(traffic, || source, Generation::First, now)
    }

    fn passes_but_to_dns(&self, now: Instant) -> bool {
        let mut own = self.own.borrow_mut();
        own.passes_but_to_dns(Generation::First, now)
    }

    fn set_counted(&self, traffic: Traffic, counted: Option<Counted>) {
        let mut own = self.own.borrow_mut();
        own.set_counted(traffic, counted, Generation::First);
    }

    fn set_passes_verified(&self, traffic: Traffic, until: Instant) {
        self.own.borrow_mut().set_passes_verified(traffic, until);
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.own.borrow().is_idle(now)
    }

    fn set_idle_until(&self, until: Instant) {
        self.own.borrow_mut().set_idle_until(until);
    }

    fn invalidate_next(&self) {
        self.own.borrow_mut().invalidate_next();
    }

    fn knows_verified(&self, source: &Ipv4, now: Instant) -> bool {
        self.own.borrow().verified.knows(source, now)
    }

    fn is_verified(&self, source: &Ipv4, now: Instant) -> bool {
        let Some(verified) = self.verified(source) else {
            return false;
        };
        let prefers = self.rules.is_some_and(|rules| rules.prefers_verified());
        if !verified.is_by_reset() || !prefers {
            let mut own = self.own.borrow_mut();
            own.verified.keep(source, verified.until(), now);
        }
        now < verified.until()
    }

    fn may_answer(&self, source: &Ipv4, now: Instant) -> bool {
        let mut answered = self.answered.borrow_mut();
        let word = answered.entry(source.octets()).or_default();
        self.rules.as_ref().unwrap().answer_limit().take(word, now)
    }

    fn until(&self, traffic: Traffic) -> Instant {
        Instant::from_nanos(self.on[traffic as usize].get().until_ns)
    }

    fn paused_until(&self) -> Instant {
        self.paused.get()
    }

    fn set_until(&self, traffic: Traffic, until: Instant) {
        let on = &self.on[traffic as usize];
        on.set(Period {
            until_ns: until.as_nanos(),
            ..on.get()
        });
    }

    fn set_since(&self, traffic: Traffic, since: Instant) {
        let on = &self.on[traffic as usize];
        on.set(Period {
            since_ns: since.as_nanos(),
            ..on.get()
        });
    }

    fn verified(&self, source: &Ipv4) -> Option<Verified> {
        self.verified.borrow().get(&source.octets()).copied()
    }

    fn verify(&self, source: &Ipv4, verified: Verified) {
        self.verified.borrow_mut().insert(source.octets(), verified);
    }
}

#[derive(Default)]
struct Word(Cell<u64>);

impl Words for Word {
    type Ring = Absent;

    fn load(&self, _: usize) -> u64 {
        self.0.get()
    }

    fn compare_exchange(&self, _: usize, current: u64, new: u64) -> Result<(), u64> {
        assert_eq!(self.0.replace(new), current);
        Ok(())
    }
}
