//! One statement of one node.

use std::sync::Arc;

use crate::name::NodeName;
use crate::time::{Millis, Stamp};

/// The longest note, in bytes.
pub const NOTE_MAX: usize = 200;
/// The longest text of limits, in bytes. A node is to state few of them: a message has to have room.
pub const LIMITS_MAX: usize = 1_500;

/// What a statement is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject<K> {
    /// The key is banned.
    Ban(K),
    /// The key is allowed.
    Allow(K),
    /// The key has limits, which the note says.
    Limits(K),
    /// What the node stated does not count, and nothing that it sends is read.
    Node(NodeName),
}

/// Whether it is so, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// It is so, until the end.
    Says,
    /// What was said before, and ends no later than this, does not count.
    Lifts,
}

/// What a node states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<K> {
    /// What it is about.
    pub subject: Subject<K>,
    /// Whether it is so.
    pub verb: Verb,
    /// When it was stated, in an order that all nodes agree on.
    pub stamp: Stamp,
    /// Until when it counts, by the wall clock.
    pub until: Millis,
    /// Why, for people.
    pub note: Arc<str>,
}

impl<K> Subject<K> {
    /// The longest note about it, in bytes.
    #[must_use]
    pub fn note_max(&self) -> usize {
        match self {
            Self::Limits(_) => LIMITS_MAX,
            Self::Ban(_) | Self::Allow(_) | Self::Node(_) => NOTE_MAX,
        }
    }

    /// A note about it, of at most [`Subject::note_max`] bytes.
    #[must_use]
    pub fn note(&self, text: &str) -> Arc<str> {
        text.get(..text.floor_char_boundary(self.note_max()))
            .unwrap_or_default()
            .into()
    }
}
