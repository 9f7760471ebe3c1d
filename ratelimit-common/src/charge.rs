//! Charging the limits of a policy: all that have room, or none.

use crate::{
    DropReason, Instant, Limit, Policy, algorithm::Denied, policy::LIMITS_MAX, source::Record,
};

/// How often a compare-and-swap is tried before the packet is refused. Ignoring the failure would admit 1.94 times the
/// limit on two CPUs.
pub const ATTEMPTS: usize = 4;

/// The words of one source's state, shared by all CPUs.
pub trait Words {
    /// The word at `index`, which is below [`LIMITS_MAX`].
    fn load(&self, index: usize) -> u64;

    /// Puts `new` at `index` if `current` stands there.
    ///
    /// # Errors
    ///
    /// The word that stands there in truth.
    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64>;
}

/// A packet that is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: DropReason,
    /// The index of the limit that refused; 0 where none did.
    pub limit: u8,
}

impl Refusal {
    /// The source has no state, and none could be made.
    pub const NO_STATE: Self = Self::without_limit(DropReason::NoState);

    /// A refusal that no limit decided.
    #[must_use]
    #[inline(always)]
    pub const fn without_limit(reason: DropReason) -> Self {
        Self { reason, limit: 0 }
    }

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index is below LIMITS_MAX"
    )]
    const fn new(reason: DropReason, index: usize) -> Self {
        Self {
            reason,
            limit: index as u8,
        }
    }
}

/// The state of a new source after its first packet.
///
/// # Errors
///
/// The first limit that is smaller than the packet.
#[inline(always)]
pub fn first(policy: &Policy, now: Instant, frame_bytes: u32) -> Result<Record, Refusal> {
    let mut record = Record::default();
    for (index, word) in record.words.iter_mut().enumerate() {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        *word = limit
            .step(0, now, frame_bytes)
            .map_err(|Denied| Refusal::new(DropReason::Limited, index))?;
    }
    Ok(record)
}

/// Charges a packet of `frame_bytes` to a source that has state.
///
/// All limits are read first; only if all have room are they charged. When another CPU takes the last room in between, the
/// packet is refused and what was charged stays charged: never more than the limit, at most a packet a CPU less.
///
/// # Errors
///
/// The first limit that refuses.
#[inline(always)]
pub fn charge(
    policy: &Policy,
    words: &impl Words,
    now: Instant,
    frame_bytes: u32,
) -> Result<(), Refusal> {
    if policy.len() > 1 {
        for index in 0..LIMITS_MAX {
            let Some(limit) = policy.limit(index) else {
                break;
            };
            limit
                .step(words.load(index), now, frame_bytes)
                .map_err(|Denied| Refusal::new(DropReason::Limited, index))?;
        }
    }
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        charge_one(limit, words, index, now, frame_bytes)?;
    }
    Ok(())
}

#[inline(always)]
fn charge_one(
    limit: &Limit,
    words: &impl Words,
    index: usize,
    now: Instant,
    frame_bytes: u32,
) -> Result<(), Refusal> {
    let mut word = words.load(index);
    for _ in 0..ATTEMPTS {
        let next = limit
            .step(word, now, frame_bytes)
            .map_err(|Denied| Refusal::new(DropReason::Limited, index))?;
        match words.compare_exchange(index, word, next) {
            Ok(()) => return Ok(()),
            Err(actual) => word = actual,
        }
    }
    Err(Refusal::new(DropReason::Contended, index))
}

#[cfg(test)]
mod tests {
    use core::{
        cell::Cell,
        sync::atomic::{AtomicU64, Ordering::Relaxed},
        time::Duration,
    };
    use std::{thread, vec::Vec};

    use super::*;
    use crate::{Unit, algorithm::FixedWindow};

    #[test]
    fn a_packet_refused_by_one_limit_is_charged_to_none() {
        let policy = policy(&[(10, Unit::Packets), (100, Unit::Bytes)]);
        let words = Shared::from(first(&policy, NOW, 60).unwrap());
        assert_eq!(
            charge(&policy, &words, NOW, 60),
            Err(Refusal {
                reason: DropReason::Limited,
                limit: 1
            })
        );
        assert_eq!(used(&policy, &words), [1, 60]);
        assert_eq!(charge(&policy, &words, NOW, 40), Ok(()));
        assert_eq!(used(&policy, &words), [2, 100]);
    }

    #[test]
    fn two_threads_at_once_admit_exactly_the_limit() {
        let policy = policy(&[(50_000, Unit::Packets)]);
        let words = Shared::from(first(&policy, NOW, 60).unwrap());
        let send = || {
            (0..50_000)
                .filter(|_| charge(&policy, &words, NOW, 60).is_ok())
                .count()
        };
        let admitted: usize = thread::scope(|scope| {
            let senders: Vec<_> = (0..2).map(|_| scope.spawn(send)).collect();
            senders
                .into_iter()
                .map(|sender| sender.join().unwrap())
                .sum()
        });
        assert_eq!(admitted, 49_999);
    }

    #[test]
    fn a_word_that_changes_at_every_try_refuses_the_packet() {
        let policy = policy(&[(1_000, Unit::Packets)]);
        let words = Restless(Cell::new(0));
        assert_eq!(
            charge(&policy, &words, NOW, 60),
            Err(Refusal {
                reason: DropReason::Contended,
                limit: 0
            })
        );
        assert_eq!(words.0.get(), ATTEMPTS as u64);
    }

    const NOW: Instant = Instant::from_nanos(5_000_000_000);

    fn policy(limits: &[(u64, Unit)]) -> Policy {
        let window = |amount| FixedWindow::new(amount, Duration::from_secs(1)).unwrap();
        let limits: Vec<Limit> = limits
            .iter()
            .map(|&(amount, unit)| Limit::new(window(amount), unit))
            .collect();
        Policy::new(&limits, 1, false).unwrap()
    }

    fn used(policy: &Policy, words: &impl Words) -> Vec<u64> {
        let used = |(index, limit): (usize, &Limit)| limit.algorithm().used(words.load(index), NOW);
        policy.limits().enumerate().map(used).collect()
    }

    struct Shared([AtomicU64; LIMITS_MAX]);

    impl From<Record> for Shared {
        fn from(record: Record) -> Self {
            Self(record.words.map(AtomicU64::new))
        }
    }

    impl Words for Shared {
        fn load(&self, index: usize) -> u64 {
            self.0[index].load(Relaxed)
        }

        fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
            self.0[index]
                .compare_exchange(current, new, Relaxed, Relaxed)
                .map(|_| ())
        }
    }

    /// Another CPU always comes first.
    struct Restless(Cell<u64>);

    impl Words for Restless {
        fn load(&self, _: usize) -> u64 {
            0
        }

        fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
            self.0.set(self.0.get() + 1);
            Err(self.0.get())
        }
    }
}
