//! When sources are challenged, for how long they are verified, and how much is answered.

use core::{num::NonZeroU32, time::Duration};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::ANSWERS_PER_SOURCE;
use crate::{
    Instant,
    algorithm::FixedWindow,
    charge::words::{Words, charge_word},
    new_sources::Budget,
    node::Share,
};

/// The window in which answers to a source are counted: as in the word of a [`Budget`].
const COUNT_BITS: u32 = 24;

const SECOND: Duration = Duration::from_secs(1);

/// What all CPUs take of together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shared {
    /// The connections that sources which are not verified may ask for before they are challenged.
    Unverified = 0,
    /// The answers.
    Answers = 1,
}

/// What the program keeps of the challenge, for all CPUs.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Taken {
    /// What was taken of each [`Shared`]: words of a window of a second.
    pub words: [u64; 2],
    /// Since when it is on, and until when, in nanoseconds since boot.
    pub since_ns: u64,
    /// See above.
    pub until_ns: u64,
}

/// The shares that a CPU has drawn.
pub type Shares = [Share; 2];

/// When sources are challenged, for how long they are verified, and how much is answered.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Rules {
    unverified: Budget,
    answers: Budget,
    of_source: FixedWindow,
    lasts_ns: u64,
    is_always: u32,
    asks_listeners: u16,
    prefers_verified: u16,
}

impl Rules {
    /// Rules by which sources are challenged where more than `over` ask for a connection in a second, or always, and stay verified
    /// for `lasts`. Of `answers` a second, and of `over`, so many CPUs draw shares. `None` when a number is more than a word counts.
    #[must_use]
    pub fn new(
        over: Option<NonZeroU32>,
        lasts: Duration,
        answers: NonZeroU32,
        cpus: u32,
    ) -> Option<Self> {
        let unverified = match over {
            Some(over) => Budget::new(over, SECOND, cpus)?,
            None => Budget::default(),
        };
        Some(Self {
            unverified,
            answers: Budget::new(answers, SECOND, cpus)?,
            of_source: FixedWindow::with_count_bits(COUNT_BITS, ANSWERS_PER_SOURCE, SECOND).ok()?,
            lasts_ns: u64::try_from(lasts.as_nanos()).ok()?,
            is_always: over.is_none().into(),
            asks_listeners: 0,
            prefers_verified: 0,
        })
    }

    /// The same, where listeners of this host answer with cookies of their own (`bpf_tcp_gen_syncookie`).
    #[must_use]
    pub fn asking_listeners(self, asks_listeners: bool) -> Self {
        Self {
            asks_listeners: asks_listeners.into(),
            ..self
        }
    }

    /// The same, where the [reserve](crate::node::RESERVE_PART) of the node's limits is for verified sources, while it is on.
    #[must_use]
    pub fn preferring_verified(self, prefers_verified: bool) -> Self {
        Self {
            prefers_verified: prefers_verified.into(),
            ..self
        }
    }

    /// Whether it is.
    #[must_use]
    #[inline(always)]
    pub const fn prefers_verified(&self) -> bool {
        self.prefers_verified != 0
    }

    /// Whether a listener of this host is asked for a cookie first.
    #[must_use]
    #[inline(always)]
    pub const fn asks_listeners(&self) -> bool {
        self.asks_listeners != 0
    }

    /// Whether it is always on.
    #[must_use]
    #[inline(always)]
    pub const fn is_always(&self) -> bool {
        self.is_always != 0
    }

    /// How long a source stays verified.
    #[must_use]
    #[inline(always)]
    pub const fn lasts_ns(&self) -> u64 {
        self.lasts_ns
    }

    /// The budget of what all CPUs take of together.
    #[must_use]
    #[inline(always)]
    pub const fn shared(&self, which: Shared) -> &Budget {
        match which {
            Shared::Unverified => &self.unverified,
            Shared::Answers => &self.answers,
        }
    }

    /// Takes one of the answers to a source, which are counted in `word`; `false` when it had enough of them.
    #[inline(always)]
    pub fn take_of_source(&self, word: &impl Words, now: Instant) -> bool {
        !charge_word(word, 0, |word| self.of_source.step(word, now, 1)).is_refused()
    }
}
