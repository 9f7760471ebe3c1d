//! Durations and sizes in text form. The text parses to the same value; nothing is rounded.

mod bytes;
mod duration;

pub use self::{
    bytes::{bytes, parse_bytes},
    duration::{duration, parse_duration},
};

/// Digits behind the point; with them every product of this module fits into `u128`.
const FRACTION_DIGITS_MAX: usize = 12;

/// A text that is no quantity.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{problem}: {remedy}")]
pub struct QuantityError {
    problem: String,
    remedy: String,
}

impl QuantityError {
    fn new(problem: String, remedy: impl Into<String>) -> Self {
        let remedy = remedy.into();
        Self { problem, remedy }
    }

    /// Returns the error without the input.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns a correction.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// The number at the front of `text`, and what follows.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c| !is_numeric(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn is_numeric(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// `number` units, which must be whole.
fn scale(text: &str, number: &str, unit: u128) -> Result<u128, QuantityError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(QuantityError::new(
            format!("`{number}` in `{text}` is not a number"),
            "write digits, and at most one point between them",
        ));
    }
    let fraction = fraction.trim_end_matches('0');
    let whole: u64 = whole.parse().map_err(|_| too_large(text))?;
    if fraction.len() > FRACTION_DIGITS_MAX {
        return Err(too_fine(text, number));
    }
    let digits = if fraction.is_empty() { "0" } else { fraction };
    let parts: u128 = digits.parse().expect("at most 12 digits");
    let parts = parts * unit;
    let divisor = 10u128.pow(u32::try_from(fraction.len()).expect("at most 12"));
    if !parts.is_multiple_of(divisor) {
        return Err(too_fine(text, number));
    }
    Ok(u128::from(whole) * unit + parts / divisor)
}

/// The largest of `units` that `number` is whole in.
fn largest_divisor<'u>(number: u128, units: &[(&'u str, u128)]) -> (u128, &'u str) {
    let whole = units
        .iter()
        .filter(|(_, unit)| number.is_multiple_of(*unit));
    whole
        .map(|(name, unit)| (*unit, *name))
        .max()
        .unwrap_or((1, ""))
}

fn too_large(text: &str) -> QuantityError {
    QuantityError::new(format!("`{text}` is too large"), "write less than 2^64")
}

fn too_fine(text: &str, number: &str) -> QuantityError {
    QuantityError::new(
        format!("`{number}` in `{text}` is not a whole number of the smallest unit"),
        "write fewer digits after the decimal point",
    )
}
