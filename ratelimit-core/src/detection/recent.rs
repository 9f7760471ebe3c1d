//! Recently seen services with connections to this host, and recently asked servers.

use std::{collections::HashSet, hash::Hash};

use ratelimit_common::Instant;
use smart_default::SmartDefault;

/// Things of a generation.
const THINGS_MAX: usize = 1 << 14;
/// The shortest time for which a thing is remembered that is not seen again, in nanoseconds.
const REMEMBERED_NS: u64 = 600 * 1_000_000_000;

/// Two generations, the younger of which is filled.
#[derive(Debug, SmartDefault)]
pub struct Recent<T> {
    younger: HashSet<T>,
    older: HashSet<T>,
    /// The beginning of the younger generation.
    began: Option<Instant>,
}

impl<T: Eq + Hash> Recent<T> {
    /// A thing is there at `now`.
    pub fn note(&mut self, thing: T, now: Instant) {
        let began = self.began.get_or_insert(now).as_nanos();
        let is_over = now.as_nanos().saturating_sub(began) >= REMEMBERED_NS;
        if is_over || self.younger.len() >= THINGS_MAX {
            self.older = std::mem::take(&mut self.younger);
            self.began = Some(now);
        }
        self.younger.insert(thing);
    }

    /// Whether it was there of late.
    pub fn has(&self, thing: &T) -> bool {
        self.younger.contains(thing) || self.older.contains(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: u16 = 443;
    const MAIL: u16 = 25;

    #[test]
    fn a_thing_is_forgotten_that_was_not_seen_for_two_generations() {
        let mut recent = Recent::default();
        recent.note(WEB, Instant::from_nanos(0));
        for generation in 1..=2 {
            assert!(recent.has(&WEB), "generation {generation}");
            recent.note(MAIL, Instant::from_nanos(generation * REMEMBERED_NS));
        }
        assert!(!recent.has(&WEB));
        assert!(recent.has(&MAIL));
    }

    #[test]
    fn a_thing_that_is_seen_again_is_kept_among_many() {
        let mut recent = Recent::default();
        for other in 1..=u16::MAX {
            recent.note(other, Instant::from_nanos(0));
            recent.note(WEB, Instant::from_nanos(0));
        }
        assert!(recent.has(&WEB));
        assert!(recent.younger.len() + recent.older.len() <= 2 * THINGS_MAX);
    }
}
