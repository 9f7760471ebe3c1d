//! Lists of prefixes as the field writes them: a format a file, told by the content.
//!
//! ```text
//! text -> format -> its reader (each line an entry, or a problem with its place) -> vetting -> Reading
//! ```
//!
//! | format | told by |
//! |---|---|
//! | plain, also `FireHOL` netsets and Spamhaus DROP text | an address, a prefix or a range a line |
//! | JSON lines of Spamhaus DROP | objects with `cidr` |
//! | JSON lines of `rlctl export` | objects with `prefix` |
//! | `ipset save` | `create` and `add` |
//! | `nft list set`, `nft -f` | `table`, `set`, `add element`, `define` |
//! | `nft -j list set` | an object with `nftables` |
//! | `cscli decisions list -o raw`, `cscli decisions import` | a line of names with `ip` or `value` |
//! | `cscli decisions list -o json` | a list of objects |
//!
//! Host bits behind a prefix are refused, with the prefix and the address as the hint. `ipset` and `nft` cut them off when they
//! learn them, and so never write them. `CrowdSec` keeps what was typed; of its ranges they are cut off here too.

mod acceptance;
mod address;
mod connected;
mod export_line;
mod format;
mod formats;
mod merge;
mod reader;
mod reading;
mod reasons;
mod sets;
mod source;
#[cfg(test)]
mod tests;
mod vetting;

use self::reader::Reader;
pub use self::{
    acceptance::Acceptance,
    connected::Connected,
    export_line::{Action, Facts, Line},
    format::Format,
    merge::{Merged, merge},
    reading::{BadLines, Entry, Reading},
    reasons::{ReasonId, Reasons},
    source::{NoList, Source},
    vetting::Vetting,
};

/// The largest list that is read, in bytes.
pub const BYTES_MAX: usize = 256 << 20;

/// Reads a list. What is wrong in it is reported in the answer, line by line.
///
/// # Errors
///
/// When the text as a whole is no list: what it is, and what to do.
///
/// # Examples
///
/// ```
/// use ratelimit_core::lists::{Format, Source, Vetting, read};
///
/// let now = "2026-01-01T00:00:00Z".parse()?;
/// let bytes = b"# my list\n192.0.2.7\n198.51.100.0/24\nnonsense\n";
/// let source = Source { name: "mine", bytes, now, written: now };
/// let reading = read(source, &Vetting::default())?;
/// assert_eq!(reading.format, Format::Plain);
/// assert_eq!(reading.entries.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(source: Source<'_>, vetting: &Vetting) -> Result<Reading, NoList> {
    let text = String::from_utf8_lossy(source.bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let format = formats::guess(source.bytes, text).map_err(|(what, hint)| {
        let error = format!("{}: {what}", source.name);
        NoList { error, hint }
    })?;
    let mut reader = Reader::new(text, source, format, vetting);
    formats::read(format, &mut reader);
    Ok(reader.finish())
}
