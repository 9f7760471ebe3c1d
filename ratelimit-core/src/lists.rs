//! Lists of prefixes as the field writes them: a format a file, told by the content.
//!
//! ```text
//! text -> format -> its reader (each line an entry, or a problem with its place)
//!      -> vetting -> Reading
//! ```
//!
//! | format | told by |
//! |---|---|
//! | plain, `FireHOL` netsets, Spamhaus DROP text | an address, prefix or range begins a line |
//! | table | columns with addresses, most lines alike |
//! | JSON of `nft -j`, `CrowdSec`, Spamhaus, `rlctl export` | the keys of its first object |
//! | all others | words that only one tool writes |
//!
//! Host bits behind a prefix are refused, with the prefix and the address as the hint. `ipset` and
//! `nft` cut them off when they learn them, and so never write them. `CrowdSec` keeps what was
//! typed; of its ranges they are cut off here too, and of rules of firewalls.

mod acceptance;
mod address;
mod connected;
mod coverage;
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
mod typo;
mod vetting;

use std::borrow::Cow;

use self::reader::Reader;
pub use self::{
    acceptance::Acceptance,
    connected::Connected,
    coverage::Coverage,
    export_line::{Action, Facts, Line},
    format::Format,
    merge::{Merged, merge},
    reading::{BadLines, Entry, Reading},
    reasons::{ReasonId, Reasons},
    source::{ListText, NoList},
    vetting::Vetting,
};

/// The largest list that is read, in bytes.
pub const BYTES_MAX: usize = 256 << 20;

/// Reads a list, and reports its errors line by line.
///
/// # Errors
///
/// If the text is not a list: its kind, and a hint.
///
/// # Examples
///
/// ```
/// use ratelimit_core::lists::{Format, ListText, Vetting, read};
///
/// let now = "2026-01-01T00:00:00Z".parse()?;
/// let bytes = b"# my list\n192.0.2.7\n198.51.100.0/24\nnonsense\n";
/// let source = ListText { name: "mine", bytes, now, written: now };
/// let reading = read(source, &Vetting::default())?;
/// assert_eq!(reading.format, Format::Plain);
/// assert_eq!(reading.entries.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(source: ListText<'_>, vetting: &Vetting) -> Result<Reading, NoList> {
    let text = String::from_utf8_lossy(source.bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = &normalized(text);
    let format = formats::guess(source.bytes, text).map_err(|(what, hint)| {
        let error = format!("{}: {what}", source.name);
        NoList { error, hint }
    })?;
    let format = match (format, &vetting.json_path) {
        (format, None) => format,
        (
            Format::Json | Format::NftJson | Format::DropJson | Format::Own | Format::CrowdSecJson,
            Some(_),
        ) => Format::Json,
        (format, Some(path)) => {
            return Err(NoList {
                error: format!("{}: is {format}, and has no key {path}", source.name),
                hint: "remove --json-path or json_path: it is for JSON",
            });
        }
    };
    read_text(format, text, source, vetting)
}

/// Replaces the line ends of old Macs, and comments out the line in which Excel names its
/// delimiter. No place in the text changes.
fn normalized(text: &str) -> Cow<'_, str> {
    if text.starts_with("sep=") {
        text.replacen("sep=", "#ep=", 1).into()
    } else if text.contains('\r') && !text.contains('\n') {
        text.replace('\r', "\n").into()
    } else {
        text.into()
    }
}

/// Reads a list in a known format.
///
/// # Errors
///
/// Like those of [`read`], except for a text in another format: each of its lines is an error.
pub fn read_as(format: Format, source: ListText<'_>, vetting: &Vetting) -> Result<Reading, NoList> {
    read_text(
        format,
        &String::from_utf8_lossy(source.bytes),
        source,
        vetting,
    )
}

fn read_text(
    format: Format,
    text: &str,
    source: ListText<'_>,
    vetting: &Vetting,
) -> Result<Reading, NoList> {
    let mut reader = Reader::new(text, source, format, vetting);
    formats::read(format, &mut reader);
    reader.finish()
}
