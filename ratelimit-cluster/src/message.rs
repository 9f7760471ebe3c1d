//! What nodes say to each other.
//!
//! A message is a header, a body and a signature (`seal.rs`). Each length has a bound, and nothing of a message is applied before
//! all of it was read.

mod refusal;
mod replay;
mod seal;
#[cfg(test)]
mod tests;

pub use refusal::Refusal;
pub use replay::{Replay, WINDOW};
pub use seal::{Header, MESSAGE_MAX, SIGNATURE, Secret, VERSION, open, seal};

use crate::budget::{Entry, Report};
use crate::bytes::{Reader, Writer, Wrong};
use crate::key::Key;
use crate::name::NodeName;
use crate::statements::{Digest, PART_BITS_MAX, Statement};
use crate::time::{Millis, Stamp};
use crate::verified::{VERIFIED_MAX, Verified};

/// The most statements of a message.
pub const STATEMENTS_MAX: usize = 1024;

/// The most keys of a report.
pub const ENTRIES_MAX: usize = 4096;

/// The most nodes of a cluster.
pub const MEMBERS_MAX: usize = 16_384;

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<K> {
    /// What the sender admitted and claims, and a digest of all that it stated.
    Report(Report<K>, Stated),
    /// New statements of the sender.
    Statements(Vec<Statement<K>>),
    /// A part of all statements of the sender, for the store.
    Part(Part<K>),
    /// The sender misses statements of a node.
    Ask(Ask),
    /// Sources that proved themselves on the sender.
    Verified(Vec<Verified<K>>),
}

/// What a node has stated, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// Statements that end later than this count.
    pub after: Millis,
    /// What they come to.
    pub digest: Digest,
    /// Its statements are stored in 2 to this power parts.
    pub part_bits: u8,
}

/// A part of all statements of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<K> {
    /// Which part.
    pub index: u16,
    /// There are 2 to this power of them.
    pub bits: u8,
    /// The last stamp of the node when it wrote this.
    pub at: Stamp,
    /// All of the node's statements that belong to the part.
    pub statements: Vec<Statement<K>>,
}

/// What a node holds of another one, part by part, so that this one stores again what differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who is asked.
    pub node: NodeName,
    /// Statements that end later than this count.
    pub after: Millis,
    /// What each part comes to: 2 to some power of them.
    pub digests: Vec<u64>,
}

impl<K: Key> Body<K> {
    /// The body as bytes.
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
                write_statements(&mut writer, statements);
            }
            Self::Part(part) => {
                writer.0.push(3);
                writer.number(part.index.into());
                writer.0.push(part.bits);
                writer.fixed(part.at.0);
                write_statements(&mut writer, &part.statements);
            }
            Self::Ask(ask) => {
                writer.0.push(4);
                writer.name(&ask.node);
                writer.fixed(ask.after);
                writer.count(ask.digests.len());
                ask.digests.iter().for_each(|digest| writer.fixed(*digest));
            }
            Self::Verified(sources) => {
                writer.0.push(5);
                writer.count(sources.len());
                for source in sources {
                    source.write(&mut writer);
                }
            }
        }
        writer.0
    }

    /// Reads a body, all of it or nothing.
    ///
    /// # Errors
    /// What is wrong with the first field that is.
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
                let count = reader.count(1 << PART_BITS_MAX, "the parts")?;
                if !count.is_power_of_two() {
                    return Err(Wrong::Value("the parts"));
                }
                let digests = (0..count)
                    .map(|_| reader.fixed("a digest"))
                    .collect::<Result<_, _>>()?;
                Self::Ask(Ask {
                    node,
                    after,
                    digests,
                })
            }
            5 => {
                let count = reader.count(VERIFIED_MAX, "the sources")?;
                let sources = (0..count).map(|_| Verified::read(&mut reader));
                Self::Verified(sources.collect::<Result<_, _>>()?)
            }
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
    writer.count(report.unheard.len());
    report
        .unheard
        .iter()
        .for_each(|index| writer.number((*index).into()));
    writer.count(report.entries.len());
    for entry in &report.entries {
        writer.key(&entry.key);
        writer.number(entry.claim);
        writer.number(entry.demand);
        writer.number(entry.held);
        writer.number(entry.passed);
    }
}

fn read_report<K: Key>(reader: &mut Reader<'_>) -> Result<Report<K>, Wrong> {
    let period = reader.number("a period")?;
    let view = reader.fixed("a view")?;
    let count = reader.count(MEMBERS_MAX, "the unheard")?;
    let index = |reader: &mut Reader<'_>| {
        u16::try_from(reader.number("the unheard")?).map_err(|_| Wrong::Bound("the unheard"))
    };
    let unheard = (0..count)
        .map(|_| index(reader))
        .collect::<Result<_, _>>()?;
    let count = reader.count(ENTRIES_MAX, "the keys")?;
    let entry = |reader: &mut Reader<'_>| {
        Ok(Entry {
            key: reader.key()?,
            claim: reader.number("a claim")?,
            demand: reader.number("a demand")?,
            held: reader.number("what is held")?,
            passed: reader.number("what passed")?,
        })
    };
    let entries: Vec<_> = (0..count)
        .map(|_| entry(reader))
        .collect::<Result<_, Wrong>>()?;
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

fn write_statements<K: Key>(writer: &mut Writer, statements: &[Statement<K>]) {
    writer.count(statements.len());
    for statement in statements {
        statement.write(writer);
    }
}

fn read_statements<K: Key>(reader: &mut Reader<'_>) -> Result<Vec<Statement<K>>, Wrong> {
    let count = reader.count(STATEMENTS_MAX, "the statements")?;
    (0..count).map(|_| Statement::read(reader)).collect()
}
