//! Durations and sizes as people write them.

use std::{fmt, time::Duration};

/// Reads `10ms`, `90s`, `10m`, `1h30m`, `31d`, or plain seconds.
///
/// # Errors
///
/// What was written, and what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    todo!("{text}")
}

/// Reads `1500`, `50MB` (10^6), `64KiB` (2^10).
///
/// # Errors
///
/// What was written, and what to write instead.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    todo!("{text}")
}

/// A text that is no quantity.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct QuantityError(String);

/// Shows a duration as [`parse_duration`] reads it, exactly.
pub fn duration(duration: Duration) -> impl fmt::Display {
    format!("{duration:?}")
}

/// Shows a number of bytes as [`parse_bytes`] reads it, exactly.
pub fn bytes(bytes: u64) -> impl fmt::Display {
    format!("{bytes}B")
}
