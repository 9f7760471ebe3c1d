//! A statement of a node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Writer, Wrong};
use crate::key::Key;
use crate::name::NodeName;
use crate::time::{Millis, Stamp};

/// The longest note, in bytes.
pub const NOTE_MAX: usize = 200;
/// The longest text of limits, in bytes. It is small because a message must have room for it.
pub const LIMITS_MAX: usize = 1_500;

/// The subject of a statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject<K> {
    /// Bans the key.
    Ban(K),
    /// Allows the key.
    Allow(K),
    /// Sets the limits in the note for the key.
    Limits(K),
    /// Revokes the node: its statements do not count, and its messages are not read.
    Node(NodeName),
}

/// Whether a statement makes or lifts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(from = "bool", into = "bool")]
pub enum Verb {
    /// In force until the end.
    Says,
    /// Lifts earlier statements that end no later than this one.
    Lifts,
}

/// A statement of a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Statement<K> {
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject<K>,
    /// Whether it makes or lifts something.
    #[serde(rename = "lifts")]
    pub verb: Verb,
    /// The time of the statement, in an order that all nodes agree on.
    pub stamp: Stamp,
    /// Its end, by the wall clock.
    pub until: Millis,
    /// The reason, for users.
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
    /// Returns the longest note for the subject, in bytes.
    pub fn note_max(&self) -> usize {
        match self {
            Self::Limits(_) => LIMITS_MAX,
            Self::Ban(_) | Self::Allow(_) | Self::Node(_) => NOTE_MAX,
        }
    }

    /// Returns a note of at most [`Subject::note_max`] bytes.
    pub fn note(&self, text: &str) -> Arc<str> {
        text.get(..text.floor_char_boundary(self.note_max()))
            .unwrap_or_default()
            .into()
    }
}

impl<K: Key> Subject<K> {
    /// Serializes the subject.
    pub(crate) fn write(&self, writer: &mut Writer) {
        match self {
            Self::Ban(key) | Self::Allow(key) | Self::Limits(key) => writer.key(key),
            Self::Node(name) => writer.name(name),
        }
    }
}

impl<K: Key> Statement<K> {
    /// Serializes the statement, for messages and for its hash.
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

    /// Parses the output of [`Statement::write`].
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
