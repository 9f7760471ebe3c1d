//! Any bytes are a list, or are refused. A list that was read can be read again from its export.
//!
//! The first byte is the number of a format, so that each parser is reached. An invalid number
//! selects automatic recognition.

#![no_main]

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use ratelimit_core::lists::{self, Format, Line, Reading, ListText, Vetting};
use strum::VariantArray;

fuzz_target!(|bytes: &[u8]| {
    let Some((number, bytes)) = bytes.split_first() else {
        return;
    };
    let format = Format::VARIANTS.get(usize::from(*number)).copied();
    let Some(reading) = read(format, bytes) else {
        return;
    };
    let mut text = String::new();
    for entry in &reading.entries {
        let line = Line {
            prefix: entry.prefix.to_string().into(),
            action: None,
            until: entry.until,
            reason: None,
            author: None,
            since: None,
            origin: None,
        };
        text += &line.json();
        text.push('\n');
    }
    if text.is_empty() {
        return;
    }
    let again = read(None, text.as_bytes()).expect("an export is a list");
    assert_eq!(again.bad.count, 0, "{text}");
    let prefixes = |reading: &Reading| -> Vec<_> {
        reading
            .entries
            .iter()
            .map(|it| (it.prefix, it.until))
            .collect()
    };
    assert_eq!(prefixes(&again), prefixes(&reading));
});

fn read(format: Option<Format>, bytes: &[u8]) -> Option<Reading> {
    let source = ListText {
        name: "list",
        bytes,
        now: Timestamp::UNIX_EPOCH,
        written: Timestamp::UNIX_EPOCH,
    };
    let vetting = Vetting::default();
    let reading = match format {
        Some(format) => lists::read_as(format, source, &vetting),
        None => lists::read(source, &vetting),
    };
    let reading = reading.ok()?;
    // Reports of bad lines quote them.
    let _ = (
        reading.bad.to_string(),
        reading.bad.unquoted(),
        reading.bad.to_string(),
    );
    Some(reading)
}
