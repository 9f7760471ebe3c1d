//! The same definitions for packets whose time is known only as a range.
//!
//! Such a packet can be admitted if it fits at one time of its range, refused if it does not at
//! another, or both. Unknown state is tracked by its lower and upper bounds.

mod fixed_window;
mod sliding_log;
mod sliding_window;
mod token_bucket;

pub use fixed_window::FixedWindow;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// The earliest and latest nanosecond at which a packet may have been judged, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bracket {
    /// The earliest.
    pub earliest_ns: u64,
    /// The latest.
    pub latest_ns: u64,
}

impl Bracket {
    const fn covers(self, other: Self) -> bool {
        self.earliest_ns <= other.earliest_ns && other.latest_ns <= self.latest_ns
    }
}

/// A definition, with what can be known of its state.
pub trait Bracketed: Clone {
    /// Adds to `states` those in which this packet can have left it with this answer: none when no
    /// time gives that answer.
    fn follow(&self, at: Bracket, is_admitted: bool, states: &mut Vec<Self>);

    /// Whether all that the state `other` can be, this one can be.
    fn covers(&self, other: &Self) -> bool;

    /// Goes on after an answer that no time gives.
    fn force(&mut self, at: Bracket, is_admitted: bool);
}
