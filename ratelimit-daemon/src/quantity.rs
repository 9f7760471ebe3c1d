//! Durations and sizes as people write them. What is shown reads back as the same value; nothing is rounded.

use std::{fmt, fmt::Write, time::Duration};

/// From large to small, as they follow each other in `1h30m`.
const DURATION_UNITS: [(&str, u128); 8] = [
    ("w", 7 * 86_400 * NANOS),
    ("d", 86_400 * NANOS),
    ("h", 3600 * NANOS),
    ("m", 60 * NANOS),
    ("s", NANOS),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];
const NANOS: u128 = 1_000_000_000;

const BYTE_UNITS: [(&str, u128); 9] = [
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

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

    /// What was written, and what is wrong with it.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What to write instead.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// Reads `10ms`, `90s`, `10m`, `1h30m`, `31d`, `1w`, or plain seconds: `90`, `0.5`.
///
/// # Errors
///
/// What was written, and what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let text = text.trim();
    let (number, unit) = split_number(text);
    if unit.is_empty() && !number.is_empty() {
        return nanos(scale(text, number, NANOS)?, text);
    }
    let mut rest = text;
    let mut units = DURATION_UNITS.as_slice();
    let mut total: u128 = 0;
    loop {
        let (number, after) = split_number(rest);
        if number.is_empty() {
            return Err(not_a_duration(text));
        }
        let end = after.find(is_numeric).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let name = name.trim();
        let Some(position) = units.iter().position(|unit| unit.0 == name) else {
            return Err(unexpected_duration_unit(text, number, name));
        };
        total = scale(text, number, units[position].1)?
            .checked_add(total)
            .ok_or_else(|| too_large(text))?;
        if after.is_empty() {
            return nanos(total, text);
        }
        units = &units[position + 1..];
        rest = after;
    }
}

/// Reads `1500`, `50MB` (10^6), `64KiB` (2^10).
///
/// # Errors
///
/// What was written, and what to write instead.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let (number, name) = split_number(text);
    if number.is_empty() {
        return Err(QuantityError::new(
            format!("`{text}` is not a number of bytes"),
            "write for example `1500`, `50MB` or `64KiB`",
        ));
    }
    let name = if name.is_empty() { "B" } else { name.trim() };
    let Some(&(_, unit)) = BYTE_UNITS.iter().find(|unit| unit.0 == name) else {
        return Err(unknown_byte_unit(text, number, name));
    };
    u64::try_from(scale(text, number, unit)?).map_err(|_| too_large(text))
}

/// Shows a duration as [`parse_duration`] reads it, exactly.
#[must_use]
pub fn duration(duration: Duration) -> impl fmt::Display {
    ShownDuration(duration)
}

/// Shows a number of bytes as [`parse_bytes`] reads it, exactly.
#[must_use]
pub fn bytes(bytes: u64) -> impl fmt::Display {
    ShownBytes(bytes)
}

struct ShownDuration(Duration);

impl fmt::Display for ShownDuration {
    /// Days, hours and minutes, then what is left in one unit.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut rest = self.0.as_nanos();
        for (name, unit) in &DURATION_UNITS[1..4] {
            if rest >= *unit {
                write!(text, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        if rest >= NANOS && !rest.is_multiple_of(NANOS) {
            let fraction = format!("{:09}", rest % NANOS);
            write!(text, "{}.{}s", rest / NANOS, fraction.trim_end_matches('0'))?;
        } else if rest != 0 || text.is_empty() {
            let (unit, name) = largest_divisor(rest, &DURATION_UNITS[4..]);
            write!(text, "{}{name}", rest / unit)?;
        }
        formatter.pad(&text)
    }
}

struct ShownBytes(u64);

impl fmt::Display for ShownBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = u128::from(self.0);
        let (unit, name) = if bytes == 0 {
            (1, "B")
        } else {
            largest_divisor(bytes, &BYTE_UNITS)
        };
        formatter.pad(&format!("{}{name}", bytes / unit))
    }
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

fn nanos(total: u128, text: &str) -> Result<Duration, QuantityError> {
    let seconds = u64::try_from(total / NANOS).map_err(|_| too_large(text))?;
    let rest = u32::try_from(total % NANOS).expect("below 10^9");
    Ok(Duration::new(seconds, rest))
}

fn not_a_duration(text: &str) -> QuantityError {
    QuantityError::new(
        format!("`{text}` is not a duration"),
        "write for example `10ms`, `90s`, `10m`, `1h30m` or `31d`",
    )
}

fn unexpected_duration_unit(text: &str, number: &str, name: &str) -> QuantityError {
    if name.is_empty() {
        return QuantityError::new(
            format!("`{number}` at the end of `{text}` has no unit"),
            "write one behind it: w, d, h, m, s, ms, us or ns",
        );
    }
    if DURATION_UNITS.iter().any(|unit| unit.0 == name) {
        return QuantityError::new(
            format!("`{number}{name}` in `{text}` follows a unit that is not larger"),
            "write each unit once, the largest first: `1h30m`",
        );
    }
    QuantityError::new(
        format!("`{name}` in `{text}` is not a unit of time"),
        "write w, d, h, m (minutes), s, ms, us or ns",
    )
}

fn unknown_byte_unit(text: &str, number: &str, name: &str) -> QuantityError {
    let problem = format!("`{name}` in `{text}` is not a unit of bytes");
    let meant = |unit: &&(&str, u128)| {
        let short = unit.0.trim_end_matches(['B', 'i']);
        unit.0.eq_ignore_ascii_case(name) || short.eq_ignore_ascii_case(name)
    };
    let meant: Vec<String> = BYTE_UNITS
        .iter()
        .filter(meant)
        .map(|unit| format!("`{number}{}`", unit.0))
        .collect();
    if meant.is_empty() {
        return QuantityError::new(problem, "write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB");
    }
    QuantityError::new(problem, format!("write {}", meant.join(" or ")))
}

fn too_large(text: &str) -> QuantityError {
    QuantityError::new(format!("`{text}` is too large"), "write less than 2^64")
}

fn too_fine(text: &str, number: &str) -> QuantityError {
    QuantityError::new(
        format!("`{number}` in `{text}` is no whole number of the smallest unit"),
        "write fewer digits behind the point",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        check_duration("1w", Ok(7 * 86_400_000_000_000));
        check_duration("31d", Ok(31 * 86_400_000_000_000));
        check_duration("1h30m", Ok(5_400_000_000_000));
        check_duration("10m", Ok(600_000_000_000));
        check_duration("90s", Ok(90_000_000_000));
        check_duration("10ms", Ok(10_000_000));
        check_duration("10us", Ok(10_000));
        check_duration("10ns", Ok(10));
        check_duration("1.5s", Ok(1_500_000_000));
        check_duration("1m0.25s", Ok(60_250_000_000));
        check_duration("1h 30 m", Ok(5_400_000_000_000));
        check_duration("0s", Ok(0));
        check_duration("0h5m", Ok(300_000_000_000));
        check_duration(" 1s\n", Ok(1_000_000_000));
    }

    #[test]
    fn a_plain_number_is_seconds() {
        check_duration("90", Ok(90_000_000_000));
        check_duration("0.5", Ok(500_000_000));
        check_duration("0.50000000000000000", Ok(500_000_000));
    }

    #[test]
    fn a_text_that_is_no_duration_is_refused_with_what_to_write() {
        for text in ["", "s", "-5s", "ten"] {
            let expected = format!(
                "`{text}` is not a duration: write for example `10ms`, `90s`, `10m`, `1h30m` or `31d`"
            );
            check_duration(text, Err(&expected));
        }
        check_duration(
            "10min",
            Err(
                "`min` in `10min` is not a unit of time: write w, d, h, m (minutes), s, ms, us or ns",
            ),
        );
        check_duration(
            "1h30",
            Err(
                "`30` at the end of `1h30` has no unit: write one behind it: w, d, h, m, s, ms, us or ns",
            ),
        );
        check_duration(
            "30m1h",
            Err(
                "`1h` in `30m1h` follows a unit that is not larger: write each unit once, the largest first: `1h30m`",
            ),
        );
        check_duration(
            "1m1m",
            Err(
                "`1m` in `1m1m` follows a unit that is not larger: write each unit once, the largest first: `1h30m`",
            ),
        );
        check_duration(
            "1.5.5s",
            Err(
                "`1.5.5` in `1.5.5s` is not a number: write digits, and at most one point between them",
            ),
        );
        check_duration(
            ".",
            Err("`.` in `.` is not a number: write digits, and at most one point between them"),
        );
        check_duration(
            "0.5ns",
            Err(
                "`0.5` in `0.5ns` is no whole number of the smallest unit: write fewer digits behind the point",
            ),
        );
    }

    #[test]
    fn a_duration_that_overflows_is_refused() {
        for text in [
            "18446744073709551616",
            "99999999999999999999999999999999999999999s",
            "18446744073709551615w",
            "18446744073709551615s1000ms",
        ] {
            let expected = format!("`{text}` is too large: write less than 2^64");
            check_duration(text, Err(&expected));
        }
        check_duration(
            "18446744073709551615s",
            Ok(18_446_744_073_709_551_615_000_000_000),
        );
    }

    #[test]
    fn sizes_are_read_in_every_unit() {
        check_bytes("1500", Ok(1500));
        check_bytes("1500B", Ok(1500));
        check_bytes("2kB", Ok(2000));
        check_bytes("50MB", Ok(50_000_000));
        check_bytes("50 MB", Ok(50_000_000));
        check_bytes("1.5GB", Ok(1_500_000_000));
        check_bytes("1TB", Ok(1_000_000_000_000));
        check_bytes("64KiB", Ok(65_536));
        check_bytes("1MiB", Ok(1 << 20));
        check_bytes("1GiB", Ok(1 << 30));
        check_bytes("0.5TiB", Ok(1 << 39));
        check_bytes("18446744073709551615", Ok(u64::MAX));
    }

    #[test]
    fn a_text_that_is_no_size_is_refused_with_what_to_write() {
        check_bytes(
            "MB",
            Err("`MB` is not a number of bytes: write for example `1500`, `50MB` or `64KiB`"),
        );
        check_bytes(
            "50M",
            Err("`M` in `50M` is not a unit of bytes: write `50MB` or `50MiB`"),
        );
        check_bytes(
            "50mb",
            Err("`mb` in `50mb` is not a unit of bytes: write `50MB`"),
        );
        check_bytes(
            "50Mbit",
            Err(
                "`Mbit` in `50Mbit` is not a unit of bytes: write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB",
            ),
        );
        check_bytes(
            "1.5B",
            Err(
                "`1.5` in `1.5B` is no whole number of the smallest unit: write fewer digits behind the point",
            ),
        );
        check_bytes(
            "16777216TiB",
            Err("`16777216TiB` is too large: write less than 2^64"),
        );
    }

    #[test]
    fn quantities_are_shown_as_people_write_them() {
        for text in [
            "0s", "1s", "10ms", "10us", "1ns", "1500us", "1.5s", "1m", "1m30s", "1h30m", "31d",
            "1d1ms",
        ] {
            assert_eq!(duration(parse_duration(text).unwrap()).to_string(), text);
        }
        for text in ["0B", "1500B", "1kB", "50MB", "64KiB", "1MiB", "1TiB"] {
            assert_eq!(bytes(parse_bytes(text).unwrap()).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_duration_reads_back_as_itself(seconds: u64, nanos in 0u32..1_000_000_000, shift in 0u32..64) {
            let value = Duration::new(seconds >> shift, nanos);
            prop_assert_eq!(parse_duration(&duration(value).to_string()), Ok(value));
        }

        #[test]
        fn every_size_reads_back_as_itself(number: u64, shift in 0u32..64, factor in prop::sample::select(vec![1, 1000, 1024])) {
            let value = (number >> shift).saturating_mul(factor);
            prop_assert_eq!(parse_bytes(&bytes(value).to_string()), Ok(value));
        }

        #[test]
        fn no_text_is_too_strange_to_be_answered(text in "[0-9.a-zA-Z -]{0,40}") {
            let _ = (parse_duration(&text), parse_bytes(&text));
        }
    }

    fn check_duration(text: &str, expected: Result<u128, &str>) {
        let answer = parse_duration(text).map(|duration| duration.as_nanos());
        let answer = answer.map_err(|error| error.to_string());
        assert_eq!(answer, expected.map_err(str::to_owned));
    }

    fn check_bytes(text: &str, expected: Result<u64, &str>) {
        let answer = parse_bytes(text).map_err(|error| error.to_string());
        assert_eq!(answer, expected.map_err(str::to_owned));
    }
}
