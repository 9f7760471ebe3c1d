//! Any bytes are a list, or are refused. What was read of one comes back from the lines that an export writes of it.

#![no_main]

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use ratelimit_core::lists::{self, Line, Reading, Source, Vetting};

fuzz_target!(|bytes: &[u8]| {
    let Some(reading) = read(bytes) else { return };
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
    let again = read(text.as_bytes()).expect("an export is a list");
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

fn read(bytes: &[u8]) -> Option<Reading> {
    let source = Source {
        name: "list",
        bytes,
        now: Timestamp::UNIX_EPOCH,
        written: Timestamp::UNIX_EPOCH,
    };
    let reading = lists::read(source, &Vetting::default()).ok()?;
    // What is said of bad lines quotes them.
    let _ = (
        reading.bad.to_string(),
        reading.bad.unquoted(),
        reading.bad.to_string(),
    );
    Some(reading)
}
