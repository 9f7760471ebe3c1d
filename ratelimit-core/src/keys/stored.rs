//! The file with the usage of all spaces.
//!
//! A line with the format and the CRC-32 of the rest, which is JSON. The words are readings of the
//! clock of the spaces, which continues over a restart and a reboot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limit::LimitSpec;

/// The format. It changes with the meaning of the words.
const FORMAT: u32 = 1;

/// The usage of all spaces.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Saved {
    /// The time of saving, on the clock of the spaces, in nanoseconds.
    pub now: u64,
    /// The boot of the machine.
    pub boot: String,
    /// The time since that boot, in nanoseconds.
    pub since_boot: u64,
    /// The wall clock, in milliseconds since 1970.
    pub wall_millis: u64,
    /// The spaces, by name.
    pub spaces: BTreeMap<String, SavedSpace>,
}

/// The usage of a space.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SavedSpace {
    /// The limits, each with the clock of its algorithm.
    pub limits: Vec<(LimitSpec, Vec<u8>)>,
    /// The words of its keys, the least recently used key first.
    pub keys: Vec<(Box<str>, Vec<u64>)>,
}

/// The reason a file cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// The file is not one of ours.
    #[error("it is not a file of key usage")]
    Foreign,
    /// Another version wrote it.
    #[error("another version of ratelimitd wrote it")]
    OtherVersion,
    /// The file was cut or changed.
    #[error("it is damaged: the checksum is wrong")]
    Damaged,
}

#[derive(Deserialize, Serialize)]
struct Head {
    keys_format: u32,
    crc32: u32,
}

impl Saved {
    /// Returns the content of the file.
    ///
    /// # Panics
    ///
    /// Never: there is nothing in it that JSON cannot have.
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("it has names for keys");
        let head = Head {
            keys_format: FORMAT,
            crc32: crc32fast::hash(&body),
        };
        let mut file = serde_json::to_vec(&head).expect("it has names for keys");
        file.push(b'\n');
        file.extend(body);
        file
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If no part of it can be used.
    pub fn decode(file: &[u8]) -> Result<Self, Unreadable> {
        let end = file.iter().position(|byte| *byte == b'\n');
        let (head, body) = file.split_at(end.ok_or(Unreadable::Foreign)?);
        let body = body.get(1..).unwrap_or_default();
        let head: Head = serde_json::from_slice(head).map_err(|_| Unreadable::Foreign)?;
        if head.keys_format != FORMAT {
            return Err(Unreadable::OtherVersion);
        }
        if head.crc32 != crc32fast::hash(body) {
            return Err(Unreadable::Damaged);
        }
        serde_json::from_slice(body).map_err(|_| Unreadable::OtherVersion)
    }

    /// Returns the time on the clock of the spaces. Within the same boot it is exact, after a
    /// reboot it follows the wall clock, and never goes back.
    pub fn time(&self, boot: &str, since_boot: u64, wall_millis: u64) -> u64 {
        let elapsed = if self.boot == boot {
            since_boot.saturating_sub(self.since_boot)
        } else {
            let millis = wall_millis.saturating_sub(self.wall_millis);
            millis.saturating_mul(1_000_000)
        };
        self.now.saturating_add(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let limit = r#"{"packets": 5, "per": "1h"}"#;
        let space = SavedSpace {
            limits: vec![(serde_json::from_str(limit).unwrap(), vec![1, 2])],
            keys: vec![("a\"b".into(), vec![u64::MAX])],
        };
        Saved {
            now: 1_000,
            boot: "this".to_owned(),
            since_boot: 70,
            wall_millis: 9,
            spaces: BTreeMap::from([("users".to_owned(), space)]),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_any_change_is_noticed() {
        let file = saved().encode();
        assert_eq!(Saved::decode(&file), Ok(saved()));
        for at in 0..file.len() {
            let mut other = file.clone();
            other[at] ^= 1;
            assert!(Saved::decode(&other).is_err(), "{at}");
        }
        for length in 0..file.len() {
            assert!(Saved::decode(&file[..length]).is_err(), "{length}");
        }
        let text = String::from_utf8(file).unwrap();
        let newer = text.replace("\"keys_format\":1", "\"keys_format\":2");
        assert_eq!(
            Saved::decode(newer.as_bytes()),
            Err(Unreadable::OtherVersion)
        );
        assert_eq!(Saved::decode(b"[1]\n"), Err(Unreadable::Foreign));
    }

    #[test]
    fn the_clock_continues_over_a_reboot_and_never_goes_back() {
        let saved = saved();
        assert_eq!(saved.time("this", 75, 0), 1_005);
        assert_eq!(saved.time("next", 3, 11), 2_001_000);
        assert_eq!(saved.time("next", 3, 8), 1_000);
    }
}
