//! The tables of one address family.

use std::{
    cell::{Cell, Ref, RefCell},
    collections::HashMap,
    hash::Hash,
    rc::Rc,
};

use ratelimit_common::{
    Address, AtomicWords, BanRule, Instant, Limit, ListEntry, PolicyBan, Record, SourceKey,
    aggregate::Aggregates,
    algorithm::sliding_log::TIMES_MAX,
    challenge::{Rules, Verified},
    charge::{self, Outcome, Words},
    limit::LIMITS_MAX,
    list::PrefixKey,
    parse::Connection,
    prefix_filter::{self, Level, WIDTHS},
    refused::{self, Filter, Refused, WAYS},
    source::LogKey,
    store::InsertError,
};

use super::{
    compact::{CompactSource, MemoryCompact},
    recent::Recent,
};

/// The words of the narrower levels of the prefix-length filter, as a power of two.
const FILTER_WIDTH: u8 = 12;

/// The number of sets of refused sources on the only CPU, as on each of eight CPUs in the kernel:
/// enough to keep ten thousand sources apart.
pub const REFUSED_SETS: u32 = refused::sets_of_cpu(8);

/// The words of one source, one for each limit.
type Cells = [Cell<u64>; LIMITS_MAX];

/// The lists of an address family, and the state of its sources.
#[derive(Debug)]
pub struct MemoryFamily<A: Address + Hash + Default> {
    /// The bits of an address that make it a source.
    pub(super) source_mask: A,
    prefix_filter: Vec<u64>,
    lists: HashMap<PrefixKey<A>, ListEntry>,
    /// The wider prefixes that have limits.
    pub(super) aggregates: Aggregates,
    sources: RefCell<Recent<SourceKey<A>, Cells>>,
    /// The table, where the state of sources is in one.
    pub(super) compact: Option<MemoryCompact>,
    logs: RefCell<HashMap<LogKey, MemoryRing>>,
    refused: RefCell<Vec<[Refused<A>; WAYS]>>,
    refused_filter: RefCell<Filter>,
    connections: Vec<Connection<A>>,
    strikes: RefCell<HashMap<A, Cell<u64>>>,
    policy_bans: RefCell<HashMap<A, PolicyBan>>,
    answered: RefCell<HashMap<A, Cell<u64>>>,
    verified: RefCell<HashMap<A, Verified>>,
}

impl<A: Address + Hash + Default> MemoryFamily<A> {
    pub(super) fn new(source_mask: A) -> Self {
        Self {
            source_mask,
            prefix_filter: vec![0; A::LEVELS.words() as usize],
            lists: HashMap::new(),
            aggregates: Aggregates::default(),
            sources: RefCell::default(),
            compact: None,
            logs: RefCell::default(),
            refused: RefCell::new(vec![Default::default(); REFUSED_SETS as usize]),
            refused_filter: RefCell::default(),
            connections: Vec::new(),
            strikes: RefCell::default(),
            policy_bans: RefCell::default(),
            answered: RefCell::default(),
            verified: RefCell::default(),
        }
    }

    /// Takes one of the answers to a source. Here no source shares its word with another.
    pub(super) fn may_answer(&self, source: A, rules: &Rules, now: Instant) -> bool {
        let mut answered = self.answered.borrow_mut();
        let word = MemoryWord(answered.entry(source).or_default());
        rules.answer_limit().take(&word, now)
    }

    /// The last expiry of a source's verification, which may be in the past.
    pub(super) fn verified(&self, source: &A) -> Option<Verified> {
        self.verified.borrow().get(source).copied()
    }

    /// Notes that a source is verified.
    pub(super) fn verify(&self, source: A, verified: Verified) {
        self.verified.borrow_mut().insert(source, verified);
    }

    /// The state of every source that was seen.
    pub fn records(&self) -> Vec<(SourceKey<A>, Record)> {
        let sources = self.sources.borrow();
        sources
            .iter()
            .map(|(key, cells)| (*key, record(cells)))
            .collect()
    }

    /// The `compact` table, where the state of sources is in one.
    pub const fn compact(&self) -> Option<&MemoryCompact> {
        self.compact.as_ref()
    }

    /// Every source that is known to have been refused, how often, and the denial that was cached.
    pub fn refused(&self) -> Vec<(A, Refused<A>)> {
        let refused = self.refused.borrow();
        let known = refused.iter().flatten();
        known
            .filter_map(|known| Some((known.source()?, *known)))
            .collect()
    }

    /// Every source under a policy that bans, and its strikes, as a word of [`BanRule`].
    pub fn strikes(&self) -> Vec<(A, u64)> {
        let strikes = self.strikes.borrow();
        strikes
            .iter()
            .map(|(source, word)| (*source, word.get()))
            .collect()
    }

    /// The sources that policies banned, with the expiry and the cause of the ban.
    pub fn bans(&self) -> Vec<(A, PolicyBan)> {
        let policy_bans = self.policy_bans.borrow();
        policy_bans
            .iter()
            .map(|(source, ban)| (*source, *ban))
            .collect()
    }

    /// The words of every sliding log.
    pub fn logs(&self) -> Vec<(LogKey, Vec<u64>)> {
        let logs = self.logs.borrow();
        let words = |ring: &MemoryRing| ring.0.iter().map(Cell::get).collect();
        logs.iter().map(|(key, ring)| (*key, words(ring))).collect()
    }

    pub(super) fn set_capacity(&self, capacity: u32) {
        self.sources.borrow_mut().set_capacity(capacity as usize);
    }

    pub(super) fn evicted(&self) -> u64 {
        match &self.compact {
            Some(table) => table.evicted(),
            None => self.sources.borrow().forgotten(),
        }
    }

    pub(super) fn set_list_entry(&mut self, address: A, length: u8, entry: ListEntry) {
        let widths = A::LEVELS.all_of_width(FILTER_WIDTH);
        self.prefix_filter[WIDTHS as usize] = widths.to_word();
        A::LEVELS.marks(address, length, widths, |index, mark| {
            self.prefix_filter[index as usize] |= mark;
        });
        self.lists.insert(PrefixKey::new(address, length), entry);
    }

    /// The entry of the longest prefix that matches.
    pub(super) fn list_entry(&self, address: A) -> Option<ListEntry> {
        let word = |index: u32| self.prefix_filter[index as usize];
        prefix_filter::longest_match(address, word, &|level: Level, word| {
            level.longest_match::<A, _>(word, |length| {
                let front = level.candidate(word, address, length)?;
                self.lists.get(&PrefixKey::new(front, length)).copied()
            })
        })
    }

    pub(super) fn words(&self, key: &SourceKey<A>) -> Option<MemoryWords<'_>> {
        let words = if let Some(table) = &self.compact {
            State::Slots(table.source(key.address()))
        } else {
            let words = Ref::filter_map(self.sources.borrow(), |sources| sources.get(key));
            State::Words(words.ok()?)
        };
        Some(MemoryWords {
            words,
            logs: &self.logs,
            log: LogKey::new(key),
        })
    }

    pub(super) fn insert(&self, key: &SourceKey<A>) -> Result<(), InsertError> {
        let is_new = self.sources.borrow_mut().insert(*key);
        is_new.then_some(()).ok_or(InsertError::Exists)
    }

    /// Counts a refusal, as a CPU of the kernel does.
    pub(super) fn count_refusal(&self, source: A, now: Instant) {
        let mut refused = self.refused.borrow_mut();
        Refused::count(&mut refused[Self::set_of(&source)], &source, now);
    }

    /// Whether the word by which the only limit of a policy refused a source before refuses it
    /// again, which is counted.
    pub(super) fn is_denied(
        &self,
        source: &A,
        scope: u32,
        at: Instant,
        refuses: impl FnOnce(MemoryDenial) -> bool,
    ) -> bool {
        if self.compact.is_some() {
            return false;
        }
        let mut refused = self.refused.borrow_mut();
        let set = refused.get_mut(Self::set_of(source));
        let mut filter = self.refused_filter.borrow_mut();
        refused::is_refused_again(
            &mut filter,
            || set,
            source,
            scope,
            at,
            |word| refuses(MemoryDenial(*word)),
        )
    }

    pub(super) fn keep_denial(&self, key: &SourceKey<A>, words: &MemoryWords<'_>) {
        if self.compact.is_none() {
            let mut refused = self.refused.borrow_mut();
            let set = &mut refused[Self::set_of(key.as_address())];
            let mut filter = self.refused_filter.borrow_mut();
            refused::keep_word(
                &mut filter,
                set,
                key.as_address(),
                key.scope(),
                words.load(0),
            );
        }
    }

    fn set_of(source: &A) -> usize {
        refused::set_of(source, 0, REFUSED_SETS) as usize
    }

    pub(super) fn count_strike(&self, source: A, rule: &BanRule, now: Instant) -> bool {
        let mut strikes = self.strikes.borrow_mut();
        let word = strikes.entry(source).or_default();
        rule.strike(&MemoryWord(word), now)
    }

    /// Notes an established TCP connection.
    pub(super) fn connect(&mut self, connection: Connection<A>) {
        self.connections.push(connection);
    }

    /// Whether there is such a connection.
    pub(super) fn has(&self, connection: &Connection<A>) -> bool {
        self.connections.contains(connection)
    }

    /// Counts a strike with which a ban is due.
    pub(super) fn confirm_strike(
        &self,
        source: A,
        rule: &BanRule,
        is_connected: bool,
        now: Instant,
    ) -> bool {
        let mut strikes = self.strikes.borrow_mut();
        let word = strikes.entry(source).or_default();
        rule.confirm(&MemoryWord(word), is_connected, now)
    }

    /// The ban that a policy made of a source.
    pub(super) fn policy_ban(&self, source: A) -> Option<PolicyBan> {
        self.policy_bans.borrow().get(&source).copied()
    }

    pub(super) fn set_policy_ban(&self, source: A, ban: Option<PolicyBan>) {
        let mut policy_bans = self.policy_bans.borrow_mut();
        match ban {
            Some(ban) => policy_bans.insert(source, ban),
            None => policy_bans.remove(&source),
        };
    }
}

/// The state of one source, borrowed from its table.
#[derive(Debug)]
pub struct MemoryWords<'a> {
    words: State<'a>,
    logs: &'a RefCell<HashMap<LogKey, MemoryRing>>,
    log: LogKey,
}

/// The words of a source.
#[derive(Debug)]
enum State<'a> {
    /// In a record.
    Words(Ref<'a, Cells>),
    /// In a `compact` table, in a set for each limit.
    Slots(CompactSource<'a>),
}

impl Words for MemoryWords<'_> {
    type Ring = MemoryRing;

    fn load(&self, index: usize) -> u64 {
        match &self.words {
            State::Words(words) => words[index].get(),
            State::Slots(_) => 0,
        }
    }

    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        match &self.words {
            State::Words(words) => exchange(&words[index], current, new),
            State::Slots(_) => Err(0),
        }
    }

    fn check(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        match &self.words {
            State::Slots(source) if !limit.is_log() => source.check(limit, at, cost),
            State::Slots(_) | State::Words(_) => charge::check_limit(limit, self, index, at, cost),
        }
    }

    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        match &self.words {
            State::Slots(source) if !limit.is_log() => source.charge(limit, at, cost),
            State::Slots(_) | State::Words(_) => charge::charge_limit(limit, self, index, at, cost),
        }
    }

    fn ring(&self, index: usize) -> Option<MemoryRing> {
        self.logs.borrow().get(&self.log_of(index)).cloned()
    }

    fn make_ring(&self, index: usize) -> Option<MemoryRing> {
        let mut logs = self.logs.borrow_mut();
        Some(logs.entry(self.log_of(index)).or_default().clone())
    }

    fn has_own(&self, index: usize, limit: &Limit) -> bool {
        match &self.words {
            State::Slots(_) if limit.is_log() => {
                self.logs.borrow().contains_key(&self.log_of(index))
            }
            State::Slots(source) => source.has_slot(limit),
            State::Words(_) => true,
        }
    }
}

impl MemoryWords<'_> {
    fn log_of(&self, index: usize) -> LogKey {
        let index = u32::try_from(index).expect("a policy has few limits");
        self.log.of_limit(index)
    }
}

/// The word of one limit, or of strikes, whatever its index.
pub(super) struct MemoryWord<'a>(pub &'a Cell<u64>);

impl Words for MemoryWord<'_> {
    type Ring = MemoryRing;

    fn load(&self, _: usize) -> u64 {
        self.0.get()
    }

    fn compare_exchange(&self, _: usize, current: u64, new: u64) -> Result<(), u64> {
        exchange(self.0, current, new)
    }
}

/// A word by which a limit refused a source before.
pub struct MemoryDenial(u64);

impl Words for MemoryDenial {
    type Ring = MemoryRing;

    fn load(&self, _: usize) -> u64 {
        self.0
    }

    /// It is only read.
    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        Err(self.0)
    }
}

/// The ring of a sliding log, as long as the longest may be.
#[derive(Clone, Debug)]
pub struct MemoryRing(Rc<[Cell<u64>]>);

impl Default for MemoryRing {
    fn default() -> Self {
        Self((0..=TIMES_MAX).map(|_| Cell::new(0)).collect())
    }
}

impl AtomicWords for MemoryRing {
    fn load(&self, index: u32) -> u64 {
        self.0[index as usize].get()
    }

    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        exchange(&self.0[index as usize], current, new)
    }
}

pub(super) fn exchange(word: &Cell<u64>, current: u64, new: u64) -> Result<(), u64> {
    let actual = word.get();
    if actual != current {
        return Err(actual);
    }
    word.set(new);
    Ok(())
}

fn record(cells: &Cells) -> Record {
    Record::new(cells.each_ref().map(Cell::get))
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{Ipv4, Ipv6};

    use super::*;

    #[test]
    fn the_longest_prefix_that_matches_is_the_answer() {
        let mut family = MemoryFamily::new(Ipv4::new([0xff; 4]));
        for (octets, length, policy) in [
            ([0, 0, 0, 0], 0, 0),
            ([10, 0, 0, 0], 8, 8),
            ([10, 1, 2, 0], 24, 24),
            ([10, 1, 2, 3], 32, 32),
        ] {
            let entry = ListEntry::new(false, None, Some(policy));
            family.set_list_entry(Ipv4::new(octets), length, entry);
        }
        let policy = |octets| {
            family
                .list_entry(Ipv4::new(octets))
                .and_then(|entry| entry.policy())
        };
        assert_eq!(policy([10, 1, 2, 3]), Some(32));
        assert_eq!(policy([10, 1, 2, 4]), Some(24));
        assert_eq!(policy([10, 9, 9, 9]), Some(8));
        assert_eq!(policy([192, 0, 2, 1]), Some(0));
    }

    #[test]
    fn a_prefix_matches_no_address_beside_it() {
        let mut family = MemoryFamily::new(Ipv6::new([0xff; 16]));
        let address = |last| Ipv6::new([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        family.set_list_entry(address(4), 127, ListEntry::new(true, None, None));
        let is_listed: Vec<bool> = (3..7)
            .map(|last| family.list_entry(address(last)).is_some())
            .collect();
        assert_eq!(is_listed, [false, true, true, false]);
    }

    #[test]
    fn a_word_changes_only_from_what_stands_there() {
        let family = MemoryFamily::new(Ipv4::new([0xff; 4]));
        let key = SourceKey::new(Ipv4::new([192, 0, 2, 1]), 7);
        assert_eq!(family.insert(&key), Ok(()));
        assert_eq!(family.insert(&key), Err(InsertError::Exists));
        let words = family.words(&key).expect("the source was inserted");
        assert_eq!(words.compare_exchange(2, 4, 9), Err(0));
        assert_eq!(words.compare_exchange(2, 0, 9), Ok(()));
        assert_eq!(words.load(2), 9);
        assert!(family.words(&SourceKey::new(key.address(), 8)).is_none());
    }
}
