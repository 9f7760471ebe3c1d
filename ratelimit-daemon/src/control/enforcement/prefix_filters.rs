//! The prefix-length filters in front of the lists. Counts how many prefixes need a bit, so that it
//! can be cleared again.

use std::{collections::BTreeMap, net::IpAddr, ops::Range};

use foldhash::{HashMap, HashMapExt};
use ratelimit_common::{
    Address, Ipv4, Ipv6, ListEntry,
    prefix_filter::{Level, Levels, WIDTHS, Widths},
};
use ratelimit_core::{ip_family::IpFamily, prefix::Prefix};

use crate::datapath::ListTables;

/// The number of bits by which a level may stay too wide after prefixes were removed, as their
/// number fluctuates.
const WIDTHS_KEPT: u8 = 2;

/// Counts that cannot be derived from the bits.
#[derive(Default)]
pub struct PrefixFilterCounts {
    /// The prefixes that share a bit, beyond the first one, by family, word and bit.
    others: HashMap<(IpFamily, u32, u8), u32>,
    /// The number of prefixes of each narrower level.
    prefixes: HashMap<(IpFamily, u8), usize>,
}

impl PrefixFilterCounts {
    /// Prepares wider levels if the coming prefixes need them: sets the bits in more words, then
    /// points packets to these.
    pub fn reserve(
        &mut self,
        coming: &[Prefix],
        held: &BTreeMap<Prefix, ListEntry>,
        lists: &mut ListTables,
    ) {
        let mut counts = HashMap::<_, usize>::new();
        for (family, level) in coming.iter().filter_map(|prefix| narrower(*prefix)) {
            *counts.entry((family, level.number())).or_default() += 1;
        }
        for family in IpFamily::ALL {
            for level in levels(family).all_narrower() {
                let key = (family, level.number());
                let held_before = self.prefixes.get(&key).copied().unwrap_or_default();
                let count = counts.get(&key).copied().unwrap_or_default();
                let width = level.width_for(held_before + count);
                if width > widths(family, lists).of(level) {
                    self.widen(family, level, width, held.keys(), lists);
                }
            }
        }
    }

    /// Returns whether packets look the prefix up.
    pub fn admit(prefix: Prefix, lists: &ListTables) -> bool {
        let family = IpFamily::of(prefix.address());
        let mut admit = true;
        marks(prefix, widths(family, lists), |index, mark| {
            admit &= lists.filter_word(family, index) & mark == mark;
        });
        admit
    }

    /// Sets the bits of a new prefix.
    pub fn add(&mut self, prefix: Prefix, lists: &mut ListTables) {
        let family = IpFamily::of(prefix.address());
        self.count(prefix);
        marks(prefix, widths(family, lists), |index, mark| {
            let word = lists.filter_word(family, index);
            if word | mark != word {
                lists.set_filter_word(family, index, word | mark);
            }
            self.note_others(family, index, word & mark);
        });
    }

    /// Clears the bits that no prefix needs after one was removed.
    pub fn remove(&mut self, prefix: Prefix, lists: &mut ListTables) {
        let family = IpFamily::of(prefix.address());
        if let Some((family, level)) = narrower(prefix) {
            *self.prefixes.entry((family, level.number())).or_default() -= 1;
        }
        marks(prefix, widths(family, lists), |index, mark| {
            let mut unneeded = mark;
            for bit in bits(mark) {
                let key = (family, index, bit);
                if let Some(count) = self.others.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        self.others.remove(&key);
                    }
                    unneeded &= !(1 << bit);
                }
            }
            if unneeded != 0 {
                let word = lists.filter_word(family, index);
                lists.set_filter_word(family, index, word & !unneeded);
            }
        });
    }

    /// Recounts the needs of all prefixes, repairs the words, and returns how many of those in use
    /// were wrong. Each word gets all its bits in one store, so no packet misses a prefix.
    pub fn restore(held: &BTreeMap<Prefix, ListEntry>, lists: &mut ListTables) -> (Self, usize) {
        let mut counts = Self::default();
        let mut wrong = 0;
        for prefix in held.keys() {
            counts.count(*prefix);
        }
        for family in IpFamily::ALL {
            let before = widths(family, lists);
            let widths = counts.widths_for(family, before);
            let of_family = held
                .keys()
                .filter(|prefix| IpFamily::of(prefix.address()) == family);
            let wanted = counts.words_for(family, widths, of_family);
            for (indices, words) in wanted.0 {
                for (index, word) in indices.zip(words) {
                    if lists.filter_word(family, index) != word {
                        lists.set_filter_word(family, index, word);
                        wrong += usize::from(widths == before);
                    }
                }
            }
        }
        (counts, wrong)
    }

    /// Returns the words of a family in use, with the bits that its prefixes need.
    fn words_for<'a>(
        &mut self,
        family: IpFamily,
        widths: Widths,
        prefixes: impl Iterator<Item = &'a Prefix>,
    ) -> WordsInUse {
        let mut words = WordsInUse::of(family, widths);
        *words.at(WIDTHS) = widths.to_word();
        for prefix in prefixes {
            marks(*prefix, widths, |index, mark| {
                let word = words.at(index);
                self.note_others(family, index, *word & mark);
                *word |= mark;
            });
        }
        words
    }

    fn widen<'a>(
        &mut self,
        family: IpFamily,
        level: Level,
        width: u8,
        held: impl Iterator<Item = &'a Prefix>,
        lists: &mut ListTables,
    ) {
        let before = widths(family, lists);
        let old = level.words_of(before.of(level));
        self.others
            .retain(|(of, index, _), _| *of != family || !old.contains(index));
        let new = level.words_of(width);
        for index in new.clone() {
            lists.set_filter_word(family, index, 0);
        }
        let after = before.with(level, width);
        for prefix in held.filter(|prefix| IpFamily::of(prefix.address()) == family) {
            marks(*prefix, after, |index, mark| {
                if new.contains(&index) {
                    let word = lists.filter_word(family, index);
                    lists.set_filter_word(family, index, word | mark);
                    self.note_others(family, index, word & mark);
                }
            });
        }
        lists.set_filter_word(family, WIDTHS, after.to_word());
    }

    /// Returns the widths for the counted prefixes: `before`, unless it is too small or much too
    /// large.
    fn widths_for(&self, family: IpFamily, before: Widths) -> Widths {
        let levels = levels(family).all_narrower();
        levels.fold(Widths::default(), |widths, level| {
            let prefixes = self.prefixes.get(&(family, level.number())).copied();
            let fits = level.width_for(prefixes.unwrap_or_default());
            let before = before.of(level);
            let is_kept =
                (fits..=fits + WIDTHS_KEPT).contains(&before) && before <= level.width_max();
            widths.with(level, if is_kept { before } else { fits })
        })
    }

    fn count(&mut self, prefix: Prefix) {
        if let Some((family, level)) = narrower(prefix) {
            *self.prefixes.entry((family, level.number())).or_default() += 1;
        }
    }

    /// Counts a prefix whose bits are already set.
    fn note_others(&mut self, family: IpFamily, index: u32, set: u64) {
        for bit in bits(set) {
            *self.others.entry((family, index, bit)).or_default() += 1;
        }
    }
}

/// The words of a family in use, in the order of writing: narrower levels first, then the ones that
/// point packets to these. Most words belong to other widths.
struct WordsInUse(Vec<(Range<u32>, Vec<u64>)>);

impl WordsInUse {
    fn of(family: IpFamily, widths: Widths) -> Self {
        let narrower = levels(family).all_narrower();
        let narrower = narrower.map(|level| level.words_of(widths.of(level)));
        let all = narrower.chain([WIDTHS..WIDTHS + 1, 0..WIDTHS]);
        Self(
            all.map(|indices| (indices.clone(), vec![0; indices.len()]))
                .collect(),
        )
    }

    fn at(&mut self, index: u32) -> &mut u64 {
        let mut all = self.0.iter_mut();
        let (indices, words) = all
            .find(|(indices, _)| indices.contains(&index))
            .expect("prefixes need words that packets ask for");
        &mut words[(index - indices.start) as usize]
    }
}

fn levels(family: IpFamily) -> Levels {
    match family {
        IpFamily::V4 => Ipv4::LEVELS,
        IpFamily::V6 => Ipv6::LEVELS,
    }
}

fn narrower(prefix: Prefix) -> Option<(IpFamily, Level)> {
    let family = IpFamily::of(prefix.address());
    Some((family, levels(family).narrower(prefix.len())?))
}

fn widths(family: IpFamily, lists: &ListTables) -> Widths {
    Widths::from_word(lists.filter_word(family, WIDTHS))
}

/// Calls `mark` with the bits that a prefix needs, word by word.
fn marks(prefix: Prefix, widths: Widths, mark: impl FnMut(u32, u64)) {
    match prefix.address() {
        IpAddr::V4(address) => Ipv4::LEVELS.marks(Ipv4::from(address), prefix.len(), widths, mark),
        IpAddr::V6(address) => Ipv6::LEVELS.marks(Ipv6::from(address), prefix.len(), widths, mark),
    }
}

/// Returns the positions of the set bits.
fn bits(mut word: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = u8::try_from(word.trailing_zeros()).ok();
        let bit = bit.filter(|_| word != 0)?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
pub(in crate::control) mod tests {
    use std::sync::Arc;

    use ratelimit_core::config::SourceConfig;

    use super::*;
    use crate::datapath::{Datapath, Memory};

    type Filters = BTreeMap<(IpFamily, u32), u64>;

    /// Returns the nonzero words of the filters of both families.
    pub(in crate::control) fn filter_words(memory: &Memory) -> Filters {
        let v4 = memory.words("FILTER_V4").unwrap();
        let v6 = memory.words("FILTER_V6").unwrap();
        let families = [(IpFamily::V4, v4), (IpFamily::V6, v6)].into_iter();
        let words = families.flat_map(|(family, words)| {
            let words = (0..).zip(words).filter(|(_, word)| *word != 0);
            words.map(move |(index, word)| ((family, index), word))
        });
        words.collect()
    }

    const PREFIXES: [&str; 14] = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.0.0/17",
        "10.1.2.0/24",
        "10.1.2.3",
        "::/0",
        "2001:d00::/24",
        "2001:db8::/32",
        "2001:db8::/48",
        "2001:db8::/49",
        "2001:db8::/64",
        "2001:db8::/81",
        "2001:db8::1",
    ];

    #[test]
    fn prefixes_that_come_and_go_in_any_order_leave_the_bits_of_those_that_stay() {
        for gone in [
            "0.0.0.0/0",
            "10.1.0.0/17",
            "10.1.2.3",
            "2001:db8::/49",
            "2001:db8::1",
        ] {
            let mut filtered = Filtered::with(&few());
            filtered.remove(&[prefix(gone)]);
            filtered.check();
            filtered.remove_all();
            filtered.check();
            assert!(filtered.counts.others.is_empty());
        }
    }

    #[test]
    fn with_more_prefixes_come_more_words_and_with_none_of_them_bits_stay() {
        let mut filtered = Filtered::with(&few());
        filtered.add(&many());
        filtered.check();
        filtered.remove(&many());
        filtered.check();
        filtered.remove_all();
        assert!(filtered.counts.others.is_empty());
    }

    #[test]
    fn restored_prefix_filters_are_as_if_nothing_had_happened_whatever_they_held() {
        let mut filtered = Filtered::with(&many());
        filtered.held.clear();
        filtered.held.extend(
            few()
                .into_iter()
                .map(|prefix| (prefix, ListEntry::default())),
        );
        filtered.restore();
        filtered.check();
        filtered
            .datapath
            .lists
            .set_filter_word(IpFamily::V4, 10 << 8 | 1, 0);
        assert_eq!(filtered.restore(), 1);
        filtered.check();
        filtered.remove_all();
        filtered.check();
        assert!(filtered.counts.others.is_empty());
    }

    fn few() -> Vec<Prefix> {
        PREFIXES.iter().map(|text| prefix(text)).collect()
    }

    fn many() -> Vec<Prefix> {
        let address = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        (1..3000)
            .map(|number| IpAddr::from(address(number)).into())
            .collect()
    }

    struct Filtered {
        memory: Arc<Memory>,
        datapath: Datapath,
        counts: PrefixFilterCounts,
        held: BTreeMap<Prefix, ListEntry>,
    }

    impl Filtered {
        fn with(prefixes: &[Prefix]) -> Self {
            let memory = Memory::new(&SourceConfig::default(), None).unwrap();
            let mut filtered = Self {
                counts: PrefixFilterCounts::default(),
                datapath: memory.open().unwrap(),
                memory,
                held: BTreeMap::new(),
            };
            filtered.add(prefixes);
            filtered
        }

        fn add(&mut self, prefixes: &[Prefix]) {
            for prefix in prefixes {
                self.counts
                    .reserve(&[*prefix], &self.held, &mut self.datapath.lists);
                self.counts.add(*prefix, &mut self.datapath.lists);
                self.held.insert(*prefix, ListEntry::default());
            }
        }

        fn remove(&mut self, prefixes: &[Prefix]) {
            for prefix in prefixes {
                self.held.remove(prefix);
                self.counts.remove(*prefix, &mut self.datapath.lists);
            }
        }

        fn remove_all(&mut self) {
            let all: Vec<Prefix> = self.held.keys().copied().collect();
            self.remove(&all);
        }

        fn restore(&mut self) -> usize {
            let wrong;
            (self.counts, wrong) =
                PrefixFilterCounts::restore(&self.held, &mut self.datapath.lists);
            wrong
        }

        fn prefix_filters(&self) -> Filters {
            let all = filter_words(&self.memory).into_iter();
            let is_in_use = |(family, index): &(IpFamily, u32)| {
                let widths = widths(*family, &self.datapath.lists);
                let mut narrower = levels(*family).all_narrower();
                *index < WIDTHS
                    || narrower.any(|level| level.words_of(widths.of(level)).contains(index))
            };
            all.filter(|(place, _)| is_in_use(place)).collect()
        }

        /// The words in use have exactly the bits that the prefixes need.
        fn check(&self) {
            let mut words = Filters::new();
            for prefix in self.held.keys() {
                let family = IpFamily::of(prefix.address());
                marks(
                    *prefix,
                    widths(family, &self.datapath.lists),
                    |index, mark| {
                        *words.entry((family, index)).or_default() |= mark;
                    },
                );
            }
            assert_eq!(self.prefix_filters(), words);
        }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }
}
