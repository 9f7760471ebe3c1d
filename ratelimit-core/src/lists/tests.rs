//! Lists as the tools write them, and the errors for wrong ones.

mod fuzz;
mod genuine;
mod kinds;
mod wrong;

use jiff::Timestamp;

use super::*;

/// The time at which every list here is read.
fn now() -> Timestamp {
    "2026-11-21T09:00:00Z".parse().unwrap()
}

fn read_text(text: &str) -> Result<Reading, NoList> {
    read_bytes(text.as_bytes(), Vetting::default())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "tests make one for each call"
)]
fn read_bytes(bytes: &[u8], vetting: Vetting) -> Result<Reading, NoList> {
    let source = ListText {
        name: "list",
        bytes,
        now: now(),
        written: now(),
    };
    read(source, &vetting)
}

/// The entries, a line each: `192.0.2.0/24 +300s login flood`.
fn entries(reading: &Reading) -> String {
    let lines = reading.entries.iter().map(|entry| {
        let until = entry.until.map(|until| {
            let left = until.duration_since(now());
            format!(" +{}s", left.as_secs())
        });
        let reason = reading.reasons.get(entry.reason);
        let reason = reason.map(|reason| format!(" {reason}"));
        let (until, reason) = (until.unwrap_or_default(), reason.unwrap_or_default());
        format!("{}{until}{reason}", entry.prefix)
    });
    lines.collect::<Vec<_>>().join("\n")
}
