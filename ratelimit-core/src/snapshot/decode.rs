//! Reading a snapshot. All frames are checked before an entry is shown.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ratelimit_common::{Instant, Limit, Record, layout, limit::LIMITS_MAX};
use zerocopy::FromBytes;

use super::{END, FORMAT, Group, HEADER, Header, LOG, MAGIC, SavedUsage, TOTAL, WORDS};
use crate::ip_family::IpFamily;

/// The reason a file cannot be restored as a snapshot.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// The file is not one of ours.
    #[error("it is not a snapshot of usage")]
    Foreign,
    /// Another version wrote it.
    #[error("another version of ratelimitd wrote it, whose tables are different")]
    OtherVersion,
    /// The file was cut or changed.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

const CUT: Unreadable = Unreadable::Damaged("it is cut");
const UNKNOWN: Unreadable = Unreadable::Damaged("an entry has an unknown form");

/// A snapshot whose checksums are right.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// The conditions of its entries.
    pub header: Header,
    /// The number of entries.
    pub entries: u64,
    frames: Vec<&'a [u8]>,
}

impl<'a> Snapshot<'a> {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If no entry of it can be used.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or(Unreadable::Foreign)?;
        let mut frames = Vec::new();
        while !rest.is_empty() {
            frames.push(take_frame(&mut rest)?);
        }
        let [header, between @ .., end] = &frames[..] else {
            return Err(CUT);
        };
        let header = read_header(header)?;
        let mut end = end.strip_prefix(&[END]).ok_or(CUT)?;
        let entries = u64::from_le_bytes(take(&mut end)?);
        let snapshot = Self {
            header,
            entries,
            frames: between.to_vec(),
        };
        let mut count = 0;
        snapshot.visit(|_| count += 1)?;
        if count != entries {
            return Err(Unreadable::Damaged("the number of entries is wrong"));
        }
        Ok(snapshot)
    }

    /// Shows all entries.
    ///
    /// # Errors
    ///
    /// When an entry has no form that is known, which [`decode`](Self::decode) has checked.
    pub fn visit(&self, mut visit: impl FnMut(SavedUsage)) -> Result<(), Unreadable> {
        for frame in &self.frames {
            let mut rest = *frame;
            match take(&mut rest)? {
                [WORDS] => visit_words(rest, &mut visit)?,
                [LOG] => visit(read_log(rest)?),
                [TOTAL] => {
                    let scope = u32::from_le_bytes(take(&mut rest)?);
                    let record = take_words(&mut rest, 0..LIMITS_MAX)?;
                    visit(SavedUsage::Total { scope, record });
                }
                _ => return Err(UNKNOWN),
            }
        }
        Ok(())
    }
}

fn read_header(payload: &[u8]) -> Result<Header, Unreadable> {
    let mut rest = payload.strip_prefix(&[HEADER]).ok_or(CUT)?;
    let format = u32::from_le_bytes(take(&mut rest)?);
    let version = u32::from_le_bytes(take(&mut rest)?);
    if format != FORMAT || version != layout::VERSION {
        return Err(Unreadable::OtherVersion);
    }
    let [is_compact] = take(&mut rest)?;
    let at = Instant::from_nanos(u64::from_le_bytes(take(&mut rest)?));
    let time_ns = i64::from_le_bytes(take(&mut rest)?);
    let mut scopes = BTreeMap::new();
    while !rest.is_empty() {
        let scope = u32::from_le_bytes(take(&mut rest)?);
        let [count] = take(&mut rest)?;
        let mut limits = Vec::new();
        for _ in 0..count {
            let limit = take::<{ size_of::<Limit>() }>(&mut rest)?;
            limits.push(Limit::read_from_bytes(&limit).map_err(|_| CUT)?);
        }
        scopes.insert(scope, limits);
    }
    Ok(Header {
        layout: version,
        is_compact: is_compact != 0,
        at,
        time_ns,
        scopes,
    })
}

fn visit_words(mut rest: &[u8], visit: &mut impl FnMut(SavedUsage)) -> Result<(), Unreadable> {
    let [family, limits] = take(&mut rest)?;
    let family = read_family(family)?;
    let scope = u32::from_le_bytes(take(&mut rest)?);
    let group = Group {
        scope,
        family,
        limits,
    };
    while !rest.is_empty() {
        let source = take_address(&mut rest, family)?;
        let record = take_words(&mut rest, group.indices())?;
        visit(SavedUsage::Words {
            group,
            source,
            record,
        });
    }
    Ok(())
}

fn read_log(mut rest: &[u8]) -> Result<SavedUsage, Unreadable> {
    let [family] = take(&mut rest)?;
    let scope = u32::from_le_bytes(take(&mut rest)?);
    let limit = u32::from_le_bytes(take(&mut rest)?);
    let source = take_address(&mut rest, read_family(family)?)?;
    let (times, []) = rest.as_chunks() else {
        return Err(CUT);
    };
    Ok(SavedUsage::Log {
        scope,
        limit,
        source,
        times: times.iter().map(|time| u64::from_le_bytes(*time)).collect(),
    })
}

fn read_family(number: u8) -> Result<IpFamily, Unreadable> {
    let mut families = IpFamily::ALL.into_iter();
    families
        .find(|family| *family as u8 == number)
        .ok_or(UNKNOWN)
}

fn take_address(rest: &mut &[u8], family: IpFamily) -> Result<IpAddr, Unreadable> {
    Ok(match family {
        IpFamily::V4 => Ipv4Addr::from(take::<4>(rest)?).into(),
        IpFamily::V6 => Ipv6Addr::from(take::<16>(rest)?).into(),
    })
}

fn take_words(
    rest: &mut &[u8],
    indices: impl Iterator<Item = usize>,
) -> Result<Record, Unreadable> {
    let mut record = Record::default();
    for index in indices {
        record.words[index] = u64::from_le_bytes(take(rest)?);
    }
    Ok(record)
}

fn take_frame<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Unreadable> {
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let sum = u32::from_le_bytes(take(rest)?);
    let (payload, after) = rest.split_at_checked(length).ok_or(CUT)?;
    *rest = after;
    if crc32fast::hash(payload) != sum {
        return Err(Unreadable::Damaged("a checksum is wrong"));
    }
    Ok(payload)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Unreadable> {
    let (taken, after) = rest.split_first_chunk().ok_or(CUT)?;
    *rest = after;
    Ok(*taken)
}
