//! The messages of nodes.
//!
//! A message is a header, a body and a signature (`seal.rs`). All lengths are bounded, and a
//! message is parsed completely before anything is applied.

mod refusal;
mod replay;
mod seal;
#[cfg(test)]
mod tests;

pub use refusal::Refusal;
pub use replay::{OVERLAP, Replay, Seen, WINDOW};
pub use seal::{Header, MESSAGE_MAX, SIGNATURE, Secret, VERSION, open, seal};

use crate::budget::{KeyReport, Report};
use crate::bytes::{Reader, Writer, Wrong};
use crate::key::Key;
use crate::name::NodeName;
use crate::statements::{Digest, PART_BITS_MAX, Statement};
use crate::time::{Millis, Stamp};

/// The most statements of a message.
pub const STATEMENTS_MAX: usize = 1024;

/// The most keys of a report.
pub const ENTRIES_MAX: usize = 4096;

/// The most nodes of a cluster.
pub const MEMBERS_MAX: usize = 16_384;

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<K> {
    /// The report of the sender, and a digest of all its statements.
    Report(Report<K>, Stated),
    /// New statements of the sender.
    Statements(Vec<Statement<K>>),
    /// A part of the sender's statements, for the store.
    Part(Part<K>),
    /// The sender misses statements of a node.
    Ask(Ask),
    /// The sender refuses messages of a node, because it knows a later incarnation of it.
    Outdone {
        /// The node.
        node: NodeName,
        /// The known incarnation.
        incarnation: u64,
    },
}

/// A summary of a node's statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// Statements that end later than this are included.
    pub after: Millis,
    /// The digest.
    pub digest: Digest,
    /// The base-2 logarithm of the number of stored parts.
    pub part_bits: u8,
}

/// A part of a node's statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<K> {
    /// The index of the part.
    pub index: u16,
    /// The base-2 logarithm of the number of parts.
    pub bits: u8,
    /// The last stamp of the node when it wrote this.
    pub at: Stamp,
    /// All statements of the node that belong to the part.
    pub statements: Vec<Statement<K>>,
}

/// Digests of the known statements of a node, by part, so that the node stores those that differ
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The node.
    pub node: NodeName,
    /// Statements that end later than this are included.
    pub after: Millis,
    /// The digest of each part. Their number is a power of two.
    pub digests: Vec<u64>,
}

impl<K: Key> Body<K> {
    /// Serializes the body.
    pub fn write(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Report(report, stated) => {
                writer.0.push(1);
                write_report(&mut writer, report);
                writer.fixed(stated.after);
                writer.number(stated.digest.count);
                writer.fixed(stated.digest.sum);
                writer.0.push(stated.part_bits);
            }
            Self::Statements(statements) => {
                writer.0.push(2);
                writer.list(statements, Statement::write);
            }
            Self::Part(part) => {
                writer.0.push(3);
                writer.number(part.index.into());
                writer.0.push(part.bits);
                writer.fixed(part.at.0);
                writer.list(&part.statements, Statement::write);
            }
            Self::Ask(ask) => {
                writer.0.push(4);
                writer.name(&ask.node);
                writer.fixed(ask.after);
                writer.list(&ask.digests, |digest, writer| writer.fixed(*digest));
            }
            Self::Outdone { node, incarnation } => {
                writer.0.push(6);
                writer.name(node);
                writer.fixed(*incarnation);
            }
        }
        writer.0
    }

    /// Parses a body completely.
    ///
    /// # Errors
    ///
    /// Returns the first invalid field.
    pub fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut reader = Reader(bytes);
        let body = match reader.byte("the kind")? {
            1 => {
                let report = read_report(&mut reader)?;
                let after = reader.fixed("a time")?;
                let digest = Digest {
                    count: reader.number("a digest")?,
                    sum: reader.fixed("a digest")?,
                };
                Self::Report(
                    report,
                    Stated {
                        after,
                        digest,
                        part_bits: read_bits(&mut reader)?,
                    },
                )
            }
            2 => Self::Statements(read_statements(&mut reader)?),
            3 => {
                let index =
                    u16::try_from(reader.number("a part")?).map_err(|_| Wrong::Bound("a part"))?;
                let bits = read_bits(&mut reader)?;
                if index >> bits != 0 {
                    return Err(Wrong::Value("a part"));
                }
                let at = Stamp(reader.fixed("a stamp")?);
                Self::Part(Part {
                    index,
                    bits,
                    at,
                    statements: read_statements(&mut reader)?,
                })
            }
            4 => {
                let node = reader.name()?;
                let after = reader.fixed("a time")?;
                let digest = |reader: &mut Reader<'_>| reader.fixed("a digest");
                let digests = reader.list(1 << PART_BITS_MAX, "the parts", digest)?;
                if !digests.len().is_power_of_two() {
                    return Err(Wrong::Value("the parts"));
                }
                Self::Ask(Ask {
                    node,
                    after,
                    digests,
                })
            }
            6 => Self::Outdone {
                node: reader.name()?,
                incarnation: reader.fixed("an incarnation")?,
            },
            _ => return Err(Wrong::Value("the kind")),
        };
        reader.end()?;
        Ok(body)
    }
}

fn read_bits(reader: &mut Reader<'_>) -> Result<u8, Wrong> {
    let bits = reader.byte("the parts")?;
    if bits > PART_BITS_MAX {
        Err(Wrong::Bound("the parts"))
    } else {
        Ok(bits)
    }
}

fn write_report<K: Key>(writer: &mut Writer, report: &Report<K>) {
    writer.number(report.period);
    writer.fixed(report.view);
    writer.list(&report.unheard, |index, to| to.number((*index).into()));
    writer.list(&report.entries, |entry, to| {
        to.key(&entry.key);
        to.number(entry.claim);
        to.number(entry.demand);
        to.number(entry.held);
        to.number(entry.passed);
    });
}

fn read_report<K: Key>(reader: &mut Reader<'_>) -> Result<Report<K>, Wrong> {
    let period = reader.number("a period")?;
    let view = reader.fixed("a view")?;
    let index = |reader: &mut Reader<'_>| {
        u16::try_from(reader.number("the unheard")?).map_err(|_| Wrong::Bound("the unheard"))
    };
    let unheard = reader.list(MEMBERS_MAX, "the unheard", index)?;
    let entry = |reader: &mut Reader<'_>| {
        Ok(KeyReport {
            key: reader.key()?,
            claim: reader.number("a claim")?,
            demand: reader.number("a demand")?,
            held: reader.number("what is held")?,
            passed: reader.number("what passed")?,
        })
    };
    let entries: Vec<KeyReport<K>> = reader.list(ENTRIES_MAX, "the keys", entry)?;
    if !entries.is_sorted_by(|one, next| one.key < next.key) {
        return Err(Wrong::Value("the order of keys"));
    }
    Ok(Report {
        period,
        view,
        unheard,
        entries,
    })
}

fn read_statements<K: Key>(reader: &mut Reader<'_>) -> Result<Vec<Statement<K>>, Wrong> {
    reader.list(STATEMENTS_MAX, "the statements", Statement::read)
}
