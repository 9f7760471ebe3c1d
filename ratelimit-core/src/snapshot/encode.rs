//! Writing a snapshot.

use std::{collections::BTreeMap, net::IpAddr};

use ratelimit_common::{Record, limit::LIMITS_MAX};
use zerocopy::IntoBytes;

use super::{END, FORMAT, Group, HEADER, Header, LOG, MAGIC, TOTAL, WORDS};

/// The bytes of entries after which a frame ends.
const FRAME: usize = 1 << 16;

/// Encodes entries in the order in which they come.
#[derive(Debug)]
pub struct Encoder {
    written: Vec<u8>,
    /// Entries that have no frame yet.
    open: BTreeMap<Group, Vec<u8>>,
    entries: u64,
}

impl Encoder {
    /// Begins with the header.
    pub fn new(header: &Header) -> Self {
        let mut encoder = Self {
            written: MAGIC.to_vec(),
            open: BTreeMap::new(),
            entries: 0,
        };
        let mut payload = vec![HEADER];
        payload.extend(FORMAT.to_le_bytes());
        payload.extend(header.layout.to_le_bytes());
        payload.push(header.is_compact.into());
        payload.extend(header.at.as_nanos().to_le_bytes());
        payload.extend(header.time_ns.to_le_bytes());
        for (scope, limits) in &header.scopes {
            payload.extend(scope.to_le_bytes());
            let limits = limits.get(..LIMITS_MAX).unwrap_or(limits);
            payload.push(u8::try_from(limits.len()).unwrap_or(u8::MAX));
            payload.extend(limits.as_bytes());
        }
        encoder.frame(&payload);
        encoder
    }

    /// Adds the words of a source, those of the limits of its group.
    pub fn words(&mut self, group: Group, source: IpAddr, record: &Record) {
        let open = self.open.entry(group).or_default();
        add_address(open, source);
        for index in group.indices() {
            open.extend(record.words[index].to_le_bytes());
        }
        self.entries += 1;
        if open.len() >= FRAME {
            let rows = std::mem::take(open);
            self.words_frame(group, &rows);
        }
    }

    /// Adds the times of a sliding log.
    pub fn log(&mut self, (scope, limit): (u32, u32), source: IpAddr, times: &[u64]) {
        let mut payload = vec![LOG, source.is_ipv6().into()];
        payload.extend(scope.to_le_bytes());
        payload.extend(limit.to_le_bytes());
        add_address(&mut payload, source);
        for time in times {
            payload.extend(time.to_le_bytes());
        }
        self.frame(&payload);
        self.entries += 1;
    }

    /// Adds the words of limits of all packets together.
    pub fn total(&mut self, scope: u32, record: &Record) {
        let mut payload = vec![TOTAL];
        payload.extend(scope.to_le_bytes());
        for word in record.words {
            payload.extend(word.to_le_bytes());
        }
        self.frame(&payload);
        self.entries += 1;
    }

    /// Returns the number of added entries.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Takes the bytes to write next.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.written)
    }

    /// Ends the snapshot, and returns the last bytes to write.
    pub fn finish(mut self) -> Vec<u8> {
        for (group, rows) in std::mem::take(&mut self.open) {
            if !rows.is_empty() {
                self.words_frame(group, &rows);
            }
        }
        let mut payload = vec![END];
        payload.extend(self.entries.to_le_bytes());
        self.frame(&payload);
        self.written
    }

    fn words_frame(&mut self, group: Group, rows: &[u8]) {
        let mut payload = vec![WORDS, group.family as u8, group.limits];
        payload.extend(group.scope.to_le_bytes());
        payload.extend(rows);
        self.frame(&payload);
    }

    fn frame(&mut self, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("frames are short");
        self.written.extend(length.to_le_bytes());
        self.written.extend(crc32fast::hash(payload).to_le_bytes());
        self.written.extend(payload);
    }
}

fn add_address(bytes: &mut Vec<u8>, source: IpAddr) {
    match source {
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
}
