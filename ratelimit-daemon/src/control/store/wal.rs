//! Whether the write-ahead log has lost anything that was committed.
//!
//! SQLite reads a log up to the first frame whose checksum is wrong and takes it for the end: a writer may have died there.
//! A flipped bit looks the same, and what was committed behind it would be gone without a word. But frames behind the end
//! of a writer that died are older and carry other salts. The format is that of <https://www.sqlite.org/fileformat2.html#walformat>.

use std::{fs, io, path::Path};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC: u32 = 0x377f_0682;

/// Why something committed is lost; `None` where nothing is.
///
/// # Errors
///
/// When the log is there and cannot be read.
pub fn damage(path: &Path) -> io::Result<Option<&'static str>> {
    match fs::read(path) {
        Ok(log) => Ok(find(&log)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn find(log: &[u8]) -> Option<&'static str> {
    if log.is_empty() {
        return None;
    }
    let header = log.get(..HEADER).filter(|header| is_header(header));
    let Some(header) = header else {
        return Some("the head of its log is damaged");
    };
    let big_endian = word(header, 0) & 1 == 1;
    let page = word(header, 8) as usize;
    let salts = &header[16..24];
    let mut sum = [word(header, 24), word(header, 28)];
    let mut sound = true;
    for frame in log[HEADER..].chunks_exact(FRAME_HEADER + page) {
        sum = checksum(
            checksum(sum, &frame[..8], big_endian),
            &frame[FRAME_HEADER..],
            big_endian,
        );
        sound &= &frame[8..16] == salts && sum == [word(frame, 16), word(frame, 20)];
        let commits = word(frame, 4) != 0;
        if !sound && commits && &frame[8..16] == salts {
            return Some("its log is damaged before a change that was committed");
        }
    }
    None
}

fn is_header(header: &[u8]) -> bool {
    let magic = word(header, 0);
    let page = word(header, 8);
    let sum = checksum([0, 0], &header[..24], magic & 1 == 1);
    magic & !1 == MAGIC
        && page.is_power_of_two()
        && (512..=65536).contains(&page)
        && sum == [word(header, 24), word(header, 28)]
}

fn checksum(sum: [u32; 2], bytes: &[u8], big_endian: bool) -> [u32; 2] {
    let read = |bytes: &[u8]| {
        let word = bytes.try_into().expect("chunks of four");
        if big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    };
    bytes.chunks_exact(8).fold(sum, |[first, second], pair| {
        let first = first.wrapping_add(read(&pair[..4])).wrapping_add(second);
        let second = second.wrapping_add(read(&pair[4..])).wrapping_add(first);
        [first, second]
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
