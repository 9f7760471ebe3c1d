//! How much of its limits a source has used, and when there is room again.

use std::time::Duration;

use ratelimit_common::{Instant, Record};

use super::policies::Named;
use crate::{
    api::LimitState,
    limit::{FRAME_BYTES, LimitUnit},
};

/// The state of each limit of a policy.
pub fn states(named: &Named, record: &Record, now: Instant) -> Vec<LimitState> {
    let words = record.words.iter().enumerate().take(named.limits.len());
    words
        .map(|(index, word)| state(named, index, *word, now))
        .collect()
}

/// The state of the limit at `index`, whose word is `word`.
pub fn state(named: &Named, index: usize, word: u64, now: Instant) -> LimitState {
    let spec = named.limits[index].clone();
    let algorithm = spec.compile().algorithm();
    let packet = match spec.unit() {
        LimitUnit::Packets => 1,
        LimitUnit::Bytes => FRAME_BYTES.min(spec.capacity()),
    };
    let seconds = |nanos| Duration::from_nanos(nanos).as_secs_f64();
    LimitState {
        used: algorithm.used(word, now),
        room_in_seconds: seconds(algorithm.room_in_ns(word, now, packet)),
        clears_in_seconds: seconds(algorithm.clears_in_ns(word, now)),
        limit: spec,
    }
}
