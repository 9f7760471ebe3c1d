//! Durations: `10ms`, `1h30m`, `31d`.
//!
//! jiff refuses days and weeks without a date, takes no plain seconds, and does not say what to
//! write instead.

use std::time::Duration;

use super::{QuantityError, is_numeric, largest_divisor, scale, split_number, too_large};

/// The units from large to small, as they follow each other in `1h30m`.
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

/// Reads `10ms`, `90s`, `10m`, `1h30m`, `31d`, `1w`, or plain seconds: `90`, `0.5`.
///
/// # Errors
///
/// The invalid text, with a valid example.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use ratelimit_core::quantity::parse_duration;
///
/// assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
/// assert!(parse_duration("soon").is_err());
/// ```
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

/// Shows a duration as [`parse_duration`] reads it, exactly: days, hours and minutes, then what is
/// left in one unit.
///
/// ```
/// use std::time::Duration;
///
/// use ratelimit_core::quantity::duration;
///
/// assert_eq!(duration(Duration::from_secs(5400)), "1h30m");
/// ```
pub fn duration(duration: Duration) -> String {
    let mut parts = Vec::new();
    let mut rest = duration.as_nanos();
    for (name, unit) in &DURATION_UNITS[1..4] {
        if rest >= *unit {
            parts.push(format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if rest >= NANOS && !rest.is_multiple_of(NANOS) {
        let fraction = format!("{:09}", rest % NANOS);
        let fraction = fraction.trim_end_matches('0');
        parts.push(format!("{}.{fraction}s", rest / NANOS));
    } else if rest != 0 || parts.is_empty() {
        let (unit, name) = largest_divisor(rest, &DURATION_UNITS[4..]);
        parts.push(format!("{}{name}", rest / unit));
    }
    parts.concat()
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
            "write one after it: w, d, h, m, s, ms, us or ns",
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
    fn a_text_that_is_no_duration_is_refused_with_a_hint() {
        for text in ["", "s", "-5s", "ten"] {
            let expected = format!(
                "`{text}` is not a duration: write for example `10ms`, `90s`, `10m`, `1h30m` or \
                 `31d`"
            );
            check_duration(text, Err(&expected));
        }
        check_duration(
            "10min",
            Err(
                "`min` in `10min` is not a unit of time: write w, d, h, m (minutes), s, ms, us or \
                 ns",
            ),
        );
        check_duration(
            "1h30",
            Err(
                "`30` at the end of `1h30` has no unit: write one after it: w, d, h, m, s, ms, us \
                 or ns",
            ),
        );
        check_duration(
            "30m1h",
            Err(
                "`1h` in `30m1h` follows a unit that is not larger: write each unit once, the \
                 largest first: `1h30m`",
            ),
        );
        check_duration(
            "1m1m",
            Err(
                "`1m` in `1m1m` follows a unit that is not larger: write each unit once, the \
                 largest first: `1h30m`",
            ),
        );
        check_duration(
            "1.5.5s",
            Err(
                "`1.5.5` in `1.5.5s` is not a number: write digits, and at most one point between \
                 them",
            ),
        );
        check_duration(
            ".",
            Err("`.` in `.` is not a number: write digits, and at most one point between them"),
        );
        check_duration(
            "0.5ns",
            Err(
                "`0.5` in `0.5ns` is not a whole number of the smallest unit: write fewer digits \
                 after the decimal point",
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
    fn durations_are_shown_as_people_write_them() {
        for text in [
            "0s", "1s", "10ms", "10us", "1ns", "1500us", "1.5s", "1m", "1m30s", "1h30m", "31d",
            "1d1ms",
        ] {
            assert_eq!(duration(parse_duration(text).unwrap()), text);
        }
    }

    proptest! {
        #[test]
        fn every_duration_reads_back_as_itself(
            seconds: u64, nanos in 0u32..1_000_000_000, shift in 0u32..64,
        ) {
            let value = Duration::new(seconds >> shift, nanos);
            prop_assert_eq!(parse_duration(&duration(value)), Ok(value));
        }

        #[test]
        fn no_text_is_too_strange_to_be_answered(text in "[0-9]{0,30}[0-9.dhmsuwé -]{0,20}") {
            let _ = parse_duration(&text);
        }
    }

    fn check_duration(text: &str, expected: Result<u128, &str>) {
        let answer = parse_duration(text).map(|duration| duration.as_nanos());
        let answer = answer.map_err(|error| error.to_string());
        assert_eq!(answer, expected.map_err(str::to_owned));
    }
}
