//! The reasons of the entries of a list: each text is stored once, however many entries have it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

/// The most characters of a reason that are kept.
const CHARS_MAX: usize = 256;

/// The index of an entry's reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReasonId(u32);

impl ReasonId {
    /// No reason was given.
    pub const NONE: Self = Self(0);

    /// Returns the number of the reason; 0 means none.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The reason with a number.
    pub fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// The texts, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Reasons {
    text: String,
    ends: Vec<usize>,
    /// The reasons by hash: two texts with the same hash are both kept.
    seen: HashMap<u64, ReasonId>,
    hasher: RandomState,
}

impl Reasons {
    /// The number of a text; that of none where there is nothing in it.
    pub fn add(&mut self, reason: &str) -> ReasonId {
        let reason = reason.trim();
        if reason.is_empty() {
            return ReasonId::NONE;
        }
        let end = reason.char_indices().nth(CHARS_MAX);
        let reason = end.map_or(reason, |(end, _)| &reason[..end]);
        let hash = self.hasher.hash_one(reason);
        let known = self.seen.get(&hash).copied();
        if let Some(id) = known.filter(|id| self.get(*id) == Some(reason)) {
            return id;
        }
        let Ok(number) = u32::try_from(self.ends.len() + 1) else {
            return ReasonId::NONE;
        };
        self.text.push_str(reason);
        self.ends.push(self.text.len());
        let id = ReasonId(number);
        self.seen.insert(hash, id);
        id
    }

    /// Returns the text of a reason, if there is one.
    pub fn get(&self, id: ReasonId) -> Option<&str> {
        let index = usize::try_from(id.0).ok()?.checked_sub(1)?;
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..end)
    }

    /// All texts, in the order of their numbers, from 1.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let spans = starts.zip(&self.ends);
        spans.map(|(start, end)| &self.text[*start..*end])
    }
}

impl PartialEq for Reasons {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.ends == other.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let mut reasons = Reasons::default();
        let ids = ["scan", "flood", " scan ", "", "  "].map(|text| reasons.add(text).number());
        assert_eq!(ids, [1, 2, 1, 0, 0]);
        assert_eq!(reasons.iter().collect::<Vec<_>>(), ["scan", "flood"]);
        assert_eq!(reasons.get(ReasonId(2)), Some("flood"));
        assert_eq!(reasons.get(ReasonId(3)), None);
        assert_eq!(reasons.get(ReasonId::NONE), None);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut reasons = Reasons::default();
        let id = reasons.add(&"ö".repeat(300));
        assert_eq!(reasons.get(id), Some("ö".repeat(256).as_str()));
    }
}
