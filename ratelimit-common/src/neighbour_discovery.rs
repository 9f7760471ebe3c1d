//! The budget of neighbour discovery, which passes before bans and limits. Without it a flood of it
//! would pass as well.
//!
//! A fixed window for each CPU, in one word: the tick at which it opened, above the count.

use crate::Instant;

/// The packets of neighbour discovery that pass on one CPU per [`WINDOW_TICKS`]. A router that
/// probes 100,000 neighbours every 30 seconds, the time of RFC 4861, receives 3,300 answers per
/// second.
pub const AMOUNT: u64 = 10_000;

/// A tick is 2^16 ns.
const TICK_SHIFT: u32 = 16;
/// A second: 15,259 ticks are 1.00001 of it.
pub const WINDOW_TICKS: u64 = 15_259;
const COUNT: u64 = (1 << TICK_SHIFT) - 1;
const _: () = assert!(AMOUNT <= COUNT);

/// The word after one more packet at `now`; `None` when the budget is spent.
#[inline(always)]
pub const fn step(word: u64, now: Instant) -> Option<u64> {
    let tick = now.as_nanos() >> TICK_SHIFT;
    let opened = word >> TICK_SHIFT;
    if word == 0 || tick.saturating_sub(opened) >= WINDOW_TICKS {
        return Some(tick << TICK_SHIFT | 1);
    }
    if word & COUNT >= AMOUNT {
        return None;
    }
    Some(word.wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1 << 50;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn so_many_pass_in_a_second_and_then_again() {
        let mut word = 0;
        for second in [0, 2, 4] {
            let at = Instant::from_nanos(START + second * SECOND);
            for _ in 0..AMOUNT {
                word = step(word, at).unwrap();
            }
            assert_eq!(step(word, at), None);
            let later = Instant::from_nanos(START + second * SECOND + SECOND * 99 / 100);
            assert_eq!(step(word, later), None);
        }
    }

    #[test]
    fn a_clock_that_goes_back_opens_no_window() {
        let mut word = step(0, Instant::from_nanos(START)).unwrap();
        for _ in 1..AMOUNT {
            word = step(word, Instant::from_nanos(START)).unwrap();
        }
        assert_eq!(step(word, Instant::from_nanos(START - SECOND * 9)), None);
    }
}
