//! One statement of one node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Writer, Wrong};
use crate::key::Key;
use crate::name::NodeName;
use crate::time::{Millis, Stamp};

/// The longest note, in bytes.
pub const NOTE_MAX: usize = 200;
/// The longest text of limits, in bytes. A node is to state few of them: a message has to have room.
pub const LIMITS_MAX: usize = 1_500;

/// What a statement is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(from = "bool", into = "bool")]
pub enum Verb {
    /// It is so, until the end.
    Says,
    /// What was said before, and ends no later than this, does not count.
    Lifts,
}

/// What a node states.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Statement<K> {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject<K>,
    /// Whether it is so.
    #[serde(rename = "lifts")]
    pub verb: Verb,
    /// When it was stated, in an order that all nodes agree on.
    pub stamp: Stamp,
    /// Until when it counts, by the wall clock.
    pub until: Millis,
    /// Why, for people.
    pub note: Arc<str>,
}

impl From<bool> for Verb {
    fn from(lifts: bool) -> Self {
        if lifts { Self::Lifts } else { Self::Says }
    }
}

impl From<Verb> for bool {
    fn from(verb: Verb) -> Self {
        verb == Verb::Lifts
    }
}

impl<K> Subject<K> {
    /// The longest note about it, in bytes.
    pub fn note_max(&self) -> usize {
        match self {
            Self::Limits(_) => LIMITS_MAX,
            Self::Ban(_) | Self::Allow(_) | Self::Node(_) => NOTE_MAX,
        }
    }

    /// A note about it, of at most [`Subject::note_max`] bytes.
    pub fn note(&self, text: &str) -> Arc<str> {
        text.get(..text.floor_char_boundary(self.note_max()))
            .unwrap_or_default()
            .into()
    }
}

impl<K: Key> Subject<K> {
    /// Writes what it names.
    pub(crate) fn write(&self, writer: &mut Writer) {
        match self {
            Self::Ban(key) | Self::Allow(key) | Self::Limits(key) => writer.key(key),
            Self::Node(name) => writer.name(name),
        }
    }
}

impl<K: Key> Statement<K> {
    /// Writes it: into a message, and for its hash.
    pub(crate) fn write(&self, writer: &mut Writer) {
        let kind = match &self.subject {
            Subject::Ban(_) => 0,
            Subject::Allow(_) => 1,
            Subject::Node(_) => 2,
            Subject::Limits(_) => 3,
        };
        writer.0.push(kind << 1 | u8::from(bool::from(self.verb)));
        self.subject.write(writer);
        writer.number(self.stamp.0);
        writer.number(self.until);
        writer.bytes(self.note.as_bytes());
    }

    /// Reads what [`Statement::write`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Wrong> {
        let kind = reader.byte("a statement")?;
        let subject = match kind >> 1 {
            0 => Subject::Ban(reader.key()?),
            1 => Subject::Allow(reader.key()?),
            2 => Subject::Node(reader.name()?),
            3 => Subject::Limits(reader.key()?),
            _ => return Err(Wrong::Value("a statement")),
        };
        let verb = Verb::from(kind & 1 == 1);
        let stamp = Stamp(reader.number("a stamp")?);
        let until = reader.number("an end")?;
        let length = reader.count(subject.note_max(), "a note")?;
        let note = core::str::from_utf8(reader.bytes(length, "a note")?)
            .map_err(|_| Wrong::Value("a note"))?;
        Ok(Self {
            subject,
            verb,
            stamp,
            until,
            note: note.into(),
        })
    }
}
