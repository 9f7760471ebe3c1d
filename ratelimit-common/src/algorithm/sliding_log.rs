//! Sliding log: at most `amount` packets in any window, exactly.
//!
//! The log is a ring with the times of the last admitted packets, at least `amount`. A packet fits
//! if the `amount`th time from the end is a window old, and replaces the oldest one. So nothing is
//! estimated. The price is memory: 8 bytes for each packet of the longest log. The position of a
//! time depends only on the length of the ring, so usage survives a change of the amount or the
//! window.
//!
//! # Several CPUs
//!
//! The ring consists of words: the head and the times. A packet is admitted by the compare-and-swap
//! that replaces the oldest time of the ring, at the head. Advancing the head is a second step,
//! which any CPU may do. A head that was not advanced yet points at a time that is not older than
//! the one before it. By that, other CPUs notice, and advance it if that gives them room. The head
//! has a sequence number above its index, so that it is not advanced twice. A read is valid only if
//! the head did not change during it, because others may have overwritten the times.
//!
//! Times in the ring never decrease: a packet with a time before the newest is logged and judged at
//! the time of the newest.

use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::ParameterError;
use crate::{AtomicWords, Instant};

/// The largest amount.
pub const TIMES_MAX: u32 = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 10;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// The index of the head in a ring. The times follow it.
const HEAD: u32 = 0;
const TIMES: u32 = 1;

/// The parameters of a sliding log.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct SlidingLog {
    amount: u32,
    reserved: u32,
    window_ns: u64,
    reserved_2: u64,
}

/// The reason a log refuses a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The oldest packet is less than a window old.
    Denied,
    /// Another CPU changed the ring in between.
    Contended,
}

impl SlidingLog {
    /// Creates a log that admits `amount` packets in any time of the length `window`.
    ///
    /// # Errors
    ///
    /// See [`ParameterError`].
    pub fn new(amount: u64, window: Duration) -> Result<Self, ParameterError> {
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        if amount == 0 {
            return Err(ParameterError::ZeroAmount);
        }
        if amount > TIMES_MAX {
            return Err(ParameterError::TooLong);
        }
        Ok(Self {
            amount,
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            ..Self::default()
        })
    }

    /// The amount that any window admits.
    pub const fn amount(&self) -> u64 {
        self.amount as u64
    }

    /// The length of the window, in nanoseconds.
    pub const fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Whether a packet at `now` fits.
    #[inline(always)]
    pub fn has_room(&self, ring: &impl AtomicWords, now: Instant) -> bool {
        let (head, place) = self.end(ring);
        // If the head has moved, charging decides.
        self.fits(place.oldest, place.at(now)) || ring.load(HEAD) != head
    }

    /// Logs a packet at `now`, in one attempt.
    ///
    /// # Errors
    ///
    /// [`Refused`], and the packet is not logged.
    #[inline(always)]
    pub fn try_charge(&self, ring: &impl AtomicWords, now: Instant) -> Result<(), Refused> {
        let (head, place) = self.end(ring);
        // If the head has moved, these times belong to other CPUs' packets.
        if ring.load(HEAD) != head {
            return Err(Refused::Contended);
        }
        let time = place.at(now);
        if !self.fits(place.oldest, time) {
            return Err(Refused::Denied);
        }
        if place.head != head {
            self.move_on(ring, head);
        }
        let exchanged = ring.compare_exchange(place.index, place.found, time);
        if exchanged.is_err() {
            return Err(Refused::Contended);
        }
        self.move_on(ring, place.head);
        Ok(())
    }

    /// The number of packets admitted within the window up to `now`.
    pub fn used(&self, ring: &impl AtomicWords, now: Instant) -> u64 {
        let within = self
            .times(ring)
            .filter(|time| !self.fits(*time, now.as_nanos()));
        u64::try_from(within.count()).unwrap_or(u64::MAX)
    }

    /// Nanoseconds until a packet fits, if none comes before. 0 if one fits already.
    pub fn room_in_ns(&self, ring: &impl AtomicWords, now: Instant) -> u64 {
        self.left_ns(self.end(ring).1.oldest, now)
    }

    /// Nanoseconds until no packet is within the window, if no further packets arrive.
    pub fn clears_in_ns(&self, ring: &impl AtomicWords, now: Instant) -> u64 {
        self.left_ns(self.times(ring).max().unwrap_or(0), now)
    }

    fn times(&self, ring: &impl AtomicWords) -> impl Iterator<Item = u64> {
        (0..self.length(ring)).map(|index| ring.load(TIMES.saturating_add(index)))
    }

    /// The number of times in the ring. A missing ring has none, and room for all.
    #[inline(always)]
    fn length(&self, ring: &impl AtomicWords) -> u32 {
        ring.times().max(self.amount)
    }

    /// Advances the head, unless another CPU already has.
    #[inline(always)]
    fn move_on(&self, ring: &impl AtomicWords, head: u64) {
        let _ = ring.compare_exchange(HEAD, head, self.next(ring, head));
    }

    /// Whether a packet at `time` fits after one at `oldest`, with 0 for none.
    #[inline(always)]
    const fn fits(&self, oldest: u64, time: u64) -> bool {
        oldest == 0 || oldest.saturating_add(self.window_ns) <= time
    }

    fn left_ns(&self, time: u64, now: Instant) -> u64 {
        if time == 0 {
            return 0;
        }
        time.saturating_add(self.window_ns)
            .saturating_sub(now.as_nanos())
    }

    /// The head, and the position of the next packet: at the head, or behind it if the head was not
    /// advanced yet.
    #[inline(always)]
    fn end(&self, ring: &impl AtomicWords) -> (u64, RingPosition) {
        let head = ring.load(HEAD);
        let place = self.place(ring, head);
        if place.found == 0 || place.found < place.newest {
            return (head, place);
        }
        // If all times are equal, the position of the head does not matter.
        let next = self.place(ring, self.next(ring, head));
        if next.found < place.found {
            (head, next)
        } else {
            (head, place)
        }
    }

    #[inline(always)]
    fn place(&self, ring: &impl AtomicWords, head: u64) -> RingPosition {
        let length = self.length(ring);
        let index = index(head);
        // The position this many before the head, in a ring.
        let back = |by: u32| {
            let wraps = if index < by { length } else { 0 };
            index.wrapping_add(wraps).wrapping_sub(by)
        };
        RingPosition {
            head,
            index: index.wrapping_add(TIMES),
            found: ring.load(index.wrapping_add(TIMES)),
            oldest: ring.load(back(self.amount).wrapping_add(TIMES)),
            newest: ring.load(back(1).wrapping_add(TIMES)),
        }
    }

    /// The next head: its sequence number and its index, which wraps.
    #[inline(always)]
    fn next(&self, ring: &impl AtomicWords, head: u64) -> u64 {
        let sequence = (head | INDEX_MASK).wrapping_add(1);
        let index = index(head).wrapping_add(1);
        if index >= self.length(ring) {
            sequence
        } else {
            sequence | u64::from(index)
        }
    }
}

#[inline(always)]
const fn index(head: u64) -> u32 {
    (head & INDEX_MASK) as u32
}

struct RingPosition {
    head: u64,
    /// The index among the words of the ring.
    index: u32,
    /// The current time there: the oldest of the ring.
    found: u64,
    /// The oldest time that counts.
    oldest: u64,
    newest: u64,
}

impl RingPosition {
    /// The time at which a packet at `now` is judged, never 0.
    #[inline(always)]
    fn at(&self, now: Instant) -> u64 {
        now.as_nanos().max(self.newest).max(1)
    }
}

#[cfg(test)]
mod tests {
    use core::{
        cell::Cell,
        sync::atomic::{AtomicU64, Ordering::SeqCst},
    };
    use std::{collections::VecDeque, thread, vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;
    use crate::compare_and_swap::{ATTEMPTS, retry};

    const SECOND: u64 = 1_000_000_000;

    impl SlidingLog {
        /// Logs a packet in as many attempts as there are of any charge.
        fn charge(&self, ring: &impl AtomicWords, now: Instant) -> Result<(), Refused> {
            let attempt = || match self.try_charge(ring, now) {
                Err(Refused::Contended) => None,
                decided => Some(decided),
            };
            retry(ATTEMPTS, attempt).unwrap_or(Err(Refused::Contended))
        }
    }

    #[test]
    fn a_packet_fits_when_the_oldest_of_the_amount_is_a_window_old() {
        let log = log(2, SECOND);
        let ring = Words::new(2);
        for (time, fits) in [
            (10, true),
            (20, true),
            (21, false),
            (SECOND + 9, false),
            (SECOND + 10, true),
            (SECOND + 11, false),
            (SECOND + 20, true),
            (5 * SECOND, true),
            (5 * SECOND, true),
            (5 * SECOND, false),
        ] {
            assert_eq!(log.has_room(&ring, at(time)), fits, "{time}");
            assert_eq!(log.charge(&ring, at(time)).is_ok(), fits, "{time}");
        }
    }

    #[test]
    fn usage_and_the_next_room_are_reported() {
        let log = log(3, SECOND);
        let ring = Words::new(3);
        assert_eq!(
            (log.used(&ring, at(1)), log.room_in_ns(&ring, at(1))),
            (0, 0)
        );
        for time in [10, 20, 30] {
            assert_eq!(log.charge(&ring, at(time)), Ok(()));
        }
        assert_eq!(log.used(&ring, at(40)), 3);
        assert_eq!(log.room_in_ns(&ring, at(40)), SECOND - 30);
        assert_eq!(log.clears_in_ns(&ring, at(40)), SECOND - 10);
        assert_eq!(log.used(&ring, at(SECOND + 10)), 2);
        assert_eq!(log.room_in_ns(&ring, at(SECOND + 10)), 0);
    }

    #[test]
    fn a_head_that_was_not_moved_on_is_moved_by_the_next() {
        let log = log(3, SECOND);
        let ring = Words::new(3);
        assert_eq!(log.charge(&ring, at(10)), Ok(()));
        assert_eq!(log.charge(&ring, at(20)), Ok(()));
        // A CPU has written its time, and then stops.
        assert_eq!(ring.compare_exchange(TIMES + 2, 0, 30), Ok(()));
        assert!(!log.has_room(&ring, at(31)));
        assert_eq!(log.charge(&ring, at(31)), Err(Refused::Denied));
        assert!(log.has_room(&ring, at(SECOND + 10)));
        assert_eq!(log.charge(&ring, at(SECOND + 10)), Ok(()));
        assert_eq!(log.used(&ring, at(SECOND + 11)), 3);
    }

    #[test]
    fn a_time_that_the_head_was_not_moved_on_from_is_not_lost_in_a_longer_ring() {
        let log = log(2, SECOND);
        for longer in 3..6 {
            let ring = Words::new(longer);
            for time in [10, SECOND + 20] {
                assert_eq!(log.charge(&ring, at(time)), Ok(()));
            }
            // A CPU has written its time, and then stops.
            assert_eq!(ring.compare_exchange(TIMES + 2, 0, SECOND + 20), Ok(()));
            assert!(!log.has_room(&ring, at(SECOND + 30)));
            assert_eq!(
                log.charge(&ring, at(SECOND + 30)),
                Err(Refused::Denied),
                "{longer}"
            );
            assert_eq!(log.charge(&ring, at(2 * SECOND + 20)), Ok(()));
            assert_eq!(log.used(&ring, at(2 * SECOND + 20)), 1);
        }
    }

    #[test]
    fn amounts_that_no_ring_can_hold_are_refused() {
        let window = Duration::from_secs(1);
        assert_eq!(SlidingLog::new(0, window), Err(ParameterError::ZeroAmount));
        for amount in [1025, u64::from(u32::MAX) + 1, u64::MAX] {
            assert_eq!(
                SlidingLog::new(amount, window),
                Err(ParameterError::TooLong)
            );
        }
        assert!(SlidingLog::new(1024, window).is_ok());
    }

    #[test]
    fn a_refused_packet_writes_nothing() {
        let log = log(2, SECOND);
        let ring = Words::new(2);
        for _ in 0..2 {
            assert_eq!(log.charge(&ring, at(7)), Ok(()));
        }
        let before = ring.words();
        assert_eq!(log.charge(&ring, at(8)), Err(Refused::Denied));
        assert_eq!(ring.words(), before);
    }

    #[test]
    fn threads_at_once_admit_exactly_the_amount_of_each_window() {
        let log = log(100, SECOND);
        for length in [100, 101, 150, 1024] {
            let ring = Words::new(length);
            for window in 1..200 {
                let send = || {
                    let now = at(window * SECOND);
                    let sent = (0..400).map(|_| log.charge(&ring, now));
                    sent.flatten().count()
                };
                let admitted: usize = thread::scope(|scope| {
                    let senders = [scope.spawn(send), scope.spawn(send)];
                    senders
                        .into_iter()
                        .map(|sender| sender.join().unwrap())
                        .sum()
                });
                assert_eq!(admitted, 100, "window {window} in a ring of {length}");
            }
        }
    }

    #[test]
    fn a_packet_that_others_overtake_is_not_refused_while_there_is_room() {
        let log = log(5, SECOND);
        for others in 1..=4 {
            let ring = Overtaken::new(5, others);
            assert!(log.has_room(&ring, at(10)), "{others}");
            let ring = Overtaken::new(5, others);
            assert_eq!(log.charge(&ring, at(10)), Ok(()), "{others}");
            assert_eq!(log.used(&ring, at(10)), others + 1);
        }
        assert_eq!(
            log.charge(&Overtaken::new(5, 5), at(10)),
            Err(Refused::Denied)
        );
    }

    proptest! {
        #[test]
        fn it_decides_as_a_list_of_times_does(
            amount in 1u64..20,
            longer in 0u64..20,
            window in 1u64..50,
            start in prop::sample::select(
                vec![0, 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 63]
            ),
            steps in prop::collection::vec(0u64..30, 0..400),
        ) {
            let log = log(amount, window);
            let ring = Words::new(amount + longer);
            let mut accepted = VecDeque::new();
            let mut now = start;
            for step in steps {
                now += step;
                while accepted.front().is_some_and(|time| time + window <= now.max(1)) {
                    accepted.pop_front();
                }
                let fits = (accepted.len() as u64) < amount;
                prop_assert_eq!(log.has_room(&ring, at(now)), fits);
                prop_assert_eq!(log.charge(&ring, at(now)).is_ok(), fits);
                if fits {
                    accepted.push_back(now.max(1));
                }
                prop_assert_eq!(log.used(&ring, at(now)), accepted.len() as u64);
            }
        }

        /// Like a list of times, of which as many count as the current amount says.
        #[test]
        fn usage_survives_a_change_of_the_amount(
            window in 1u64..50, steps in prop::collection::vec((0u64..30, 1u64..20), 0..400),
        ) {
            let ring = Words::new(20);
            let (mut accepted, mut now) = (Vec::new(), 1);
            for (step, amount) in steps {
                now += step;
                let log = log(amount, window);
                let used = accepted.iter().filter(|time| **time + window > now).count() as u64;
                prop_assert_eq!(log.used(&ring, at(now)), used.min(20));
                prop_assert_eq!(log.has_room(&ring, at(now)), used < amount);
                prop_assert_eq!(log.room_in_ns(&ring, at(now)) == 0, used < amount);
                prop_assert_eq!(log.charge(&ring, at(now)).is_ok(), used < amount);
                if used < amount {
                    accepted.push(now);
                }
            }
        }

        #[test]
        fn no_window_holds_more_than_the_amount_whatever_the_clock_does(
            amount in 1u64..10,
            window in 1u64..50,
            times in prop::collection::vec(1u64..200, 0..400),
        ) {
            let log = log(amount, window);
            let ring = Words::new(amount);
            let mut newest = 0;
            let mut accepted = Vec::new();
            for time in times {
                if log.charge(&ring, at(time)).is_ok() {
                    newest = time.max(newest);
                    accepted.push(newest);
                }
            }
            for start in &accepted {
                let within = accepted.iter().filter(|time| (*start..start + window).contains(time));
                prop_assert!(within.count() as u64 <= amount);
            }
        }
    }

    fn log(amount: u64, window_ns: u64) -> SlidingLog {
        SlidingLog::new(amount, Duration::from_nanos(window_ns)).unwrap()
    }

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    struct Words(Vec<AtomicU64>);

    impl Words {
        fn new(amount: u64) -> Self {
            Self((0..=amount).map(|_| AtomicU64::new(0)).collect())
        }

        fn words(&self) -> Vec<u64> {
            self.0.iter().map(|word| word.load(SeqCst)).collect()
        }
    }

    impl AtomicWords for Words {
        fn times(&self) -> u32 {
            u32::try_from(self.0.len()).unwrap() - 1
        }

        fn load(&self, index: u32) -> u64 {
            self.0[index as usize].load(SeqCst)
        }

        fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
            self.0[index as usize]
                .compare_exchange(current, new, SeqCst, SeqCst)
                .map(|_| ())
        }
    }

    /// A ring into which other CPUs log packets just after its head was first read.
    struct Overtaken {
        words: Words,
        log: SlidingLog,
        others: Cell<u64>,
    }

    impl Overtaken {
        fn new(amount: u64, others: u64) -> Self {
            Self {
                words: Words::new(amount),
                log: log(amount, SECOND),
                others: Cell::new(others),
            }
        }
    }

    impl AtomicWords for Overtaken {
        fn times(&self) -> u32 {
            self.words.times()
        }

        fn load(&self, index: u32) -> u64 {
            let word = self.words.load(index);
            for _ in 0..self.others.take() {
                self.log.charge(&self.words, at(10)).unwrap();
            }
            word
        }

        fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
            self.words.compare_exchange(index, current, new)
        }
    }
}
