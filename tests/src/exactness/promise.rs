//! The promises about each answer, given the time of every packet.

use super::oracle::{Oracle, SlidingLog};

/// An answer beside the promise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judgement {
    /// The answer was as promised.
    Kept,
    /// The packet was admitted and must not be.
    OverAdmitted,
    /// The packet was refused and must not be.
    WronglyRefused,
}

/// A promise, which follows the answers that were given.
pub trait Promise {
    /// Judges the answer to a packet at `at_ns`.
    fn judge(&mut self, at_ns: u64, is_admitted: bool) -> Judgement;
}

/// The answer is the oracle's, packet by packet.
pub struct Exactly<O>(pub O);

impl<O: Oracle> Promise for Exactly<O> {
    fn judge(&mut self, at_ns: u64, is_admitted: bool) -> Judgement {
        match (is_admitted, self.0.admits(at_ns)) {
            (true, false) => Judgement::OverAdmitted,
            (false, true) => Judgement::WronglyRefused,
            _ => Judgement::Kept,
        }
    }
}

/// The bound of the sliding window, against the log of all that it admitted.
///
/// A packet comes when a fraction x of a window is over and the window before held p. When it is
/// admitted, the last window holds at most the amount and x p. When it is refused, the last window
/// and (1 - x) p leave it no room, but for rounding: a thousandth of the amount, and two.
pub struct Weighted {
    amount: u64,
    window_ns: u64,
    log: SlidingLog,
    index: u64,
    previous: u64,
    count: u64,
}

impl Weighted {
    /// The bound for `amount` in `window_ns`, a power of two: such windows are not rounded, and
    /// begin at their multiples.
    pub const fn new(amount: u64, window_ns: u64) -> Self {
        assert!(window_ns.is_power_of_two());
        Self {
            amount,
            window_ns,
            log: SlidingLog::new(amount, window_ns),
            index: 0,
            previous: 0,
            count: 0,
        }
    }

    fn advance(&mut self, index: u64) {
        if index > self.index {
            let follows = index == self.index + 1;
            self.previous = if follows { self.count } else { 0 };
            (self.index, self.count) = (index, 0);
        }
    }
}

impl Promise for Weighted {
    fn judge(&mut self, at_ns: u64, is_admitted: bool) -> Judgement {
        self.advance(at_ns / self.window_ns);
        let over_ns = at_ns % self.window_ns;
        let left_ns = self.window_ns - over_ns;
        let with_this = (self.log.used(at_ns) + 1) * self.window_ns;
        if is_admitted {
            self.log.push(at_ns);
            self.count += 1;
            let most = self.amount * self.window_ns + self.previous * over_ns;
            return if with_this > most {
                Judgement::OverAdmitted
            } else {
                Judgement::Kept
            };
        }
        let rounding = self.amount / 1024 + 2;
        let least = with_this + self.previous * left_ns + rounding * self.window_ns;
        if least > self.amount * self.window_ns {
            Judgement::Kept
        } else {
            Judgement::WronglyRefused
        }
    }
}

/// The bound of the token bucket, compared with the missing tokens in rational arithmetic.
///
/// An admitted packet leaves at most the burst and a 16,384th of a packet missing. A refused one
/// would have left more, except for that tolerance and the inflow of a rate that is lower by a part
/// of 2^31.
pub struct Filling {
    amount: i128,
    window_ns: i128,
    burst: i128,
    missing: i128,
    flowed: i128,
    last_ns: u64,
}

/// Missing tokens are multiplied by this and the length of the window, so that all numbers are
/// integers.
const PARTS: i128 = 1 << 14;

impl Filling {
    /// The bound for a bucket of `burst` tokens into which `amount` flow in each `window_ns`.
    pub fn new(amount: u64, window_ns: u64, burst: u64) -> Self {
        Self {
            amount: amount.into(),
            window_ns: window_ns.into(),
            burst: burst.into(),
            missing: 0,
            flowed: 0,
            last_ns: 0,
        }
    }
}

impl Promise for Filling {
    fn judge(&mut self, at_ns: u64, is_admitted: bool) -> Judgement {
        let flows = i128::from(at_ns - self.last_ns) * self.amount * PARTS;
        self.last_ns = at_ns;
        self.flowed += flows;
        // Less than nothing where the bucket has been full for a time: of a packet that is refused
        // then, that is room.
        let missing = self.missing - flows;
        let cost = PARTS * self.window_ns;
        let room = self.burst * PARTS * self.window_ns - missing - cost;
        self.missing = missing.max(0) + if is_admitted { cost } else { 0 };
        if is_admitted && room < -self.window_ns {
            Judgement::OverAdmitted
        } else if !is_admitted && room > self.window_ns + (self.flowed >> 31) {
            Judgement::WronglyRefused
        } else {
            Judgement::Kept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Judgement::{Kept, OverAdmitted, WronglyRefused};

    #[test]
    fn any_answer_but_the_oracles_breaks_an_exact_promise() {
        let mut promise = Exactly(SlidingLog::new(1, 100));
        let judgements = [(0, true), (5, false), (9, true), (100, false)]
            .map(|(at_ns, is_admitted)| promise.judge(at_ns, is_admitted));
        assert_eq!(judgements, [Kept, Kept, OverAdmitted, WronglyRefused]);
    }

    #[test]
    fn a_bucket_may_be_wrong_by_a_16384th_of_a_packet() {
        // A token takes 16,384 ns.
        let bucket = || Filling::new(1_000_000, 16_384_000_000, 1);
        for (at_ns, is_admitted, expected) in [
            (16_383, true, Kept),
            (16_382, true, OverAdmitted),
            (16_384, false, Kept),
            (16_386, false, WronglyRefused),
        ] {
            let mut bucket = bucket();
            assert_eq!(bucket.judge(0, true), Kept);
            assert_eq!(bucket.judge(at_ns, is_admitted), expected, "{at_ns}");
        }
    }

    #[test]
    fn a_weighted_window_may_exceed_the_log_by_what_the_window_before_weighs_less() {
        let mut promise = Weighted::new(10, 128);
        for _ in 0..10 {
            assert_eq!(promise.judge(127, true), Kept);
        }
        assert_eq!(promise.judge(127, true), OverAdmitted);
        // Half of the next window is over: five and a half of the eleven before it do not weigh.
        for _ in 0..4 {
            assert_eq!(promise.judge(128 + 64, true), Kept);
        }
        assert_eq!(promise.judge(128 + 64, true), OverAdmitted);
    }

    #[test]
    fn a_weighted_window_must_not_refuse_what_fits_in_any_case() {
        let mut promise = Weighted::new(10, 128);
        assert_eq!(promise.judge(0, false), WronglyRefused);
        for _ in 0..8 {
            assert_eq!(promise.judge(0, true), Kept);
        }
        assert_eq!(promise.judge(1, false), Kept);
    }
}
