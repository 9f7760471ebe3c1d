//! Sizes: `1500`, `50MB`, `64KiB`.

use super::{QuantityError, largest_divisor, scale, split_number, too_large};

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

/// Reads `1500`, `50MB` (10^6), `64KiB` (2^10).
///
/// # Errors
///
/// The invalid text, with a valid example.
///
/// # Examples
///
/// ```
/// use ratelimit_core::quantity::parse_bytes;
///
/// assert_eq!(parse_bytes("50MB"), Ok(50_000_000));
/// assert_eq!(parse_bytes("64KiB"), Ok(65_536));
/// assert!(parse_bytes("50 apples").is_err());
/// ```
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

/// Shows a number of bytes as [`parse_bytes`] reads it, exactly.
///
/// ```
/// use ratelimit_core::quantity::bytes;
///
/// assert_eq!(bytes(50_000_000), "50MB");
/// ```
pub fn bytes(bytes: u64) -> String {
    let bytes = u128::from(bytes);
    let (unit, name) = if bytes == 0 {
        (1, "B")
    } else {
        largest_divisor(bytes, &BYTE_UNITS)
    };
    format!("{}{name}", bytes / unit)
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
    if let Some(bytes) = in_bytes(text, number, name) {
        return QuantityError::new(
            format!("`{name}` in `{text}` is a unit of bits"),
            format!("write the bytes, an eighth: `{bytes}`"),
        );
    }
    if meant.is_empty() {
        return QuantityError::new(problem, "write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB");
    }
    QuantityError::new(problem, format!("write {}", meant.join(" or ")))
}

/// Converts bits to bytes: `300Mbit`, `300Mbps`, `300 Mb/s`, `1Gbit/s`.
fn in_bytes(text: &str, number: &str, name: &str) -> Option<String> {
    // `300mb` are megabytes more often than not.
    let bits = ["bit", "bits", "bit/s", "bits/s", "bps", "b/s"]
        .iter()
        .find_map(|unit| name.strip_suffix(unit))?;
    let units = BYTE_UNITS.iter();
    let mut unit = units.filter(|(unit, _)| unit.trim_end_matches('B').eq_ignore_ascii_case(bits));
    let (_, unit) = unit.next()?;
    let bits = scale(text, number, *unit).ok()?;
    Some(bytes(u64::try_from(bits / 8).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bits_are_refused_with_the_bytes() {
        for (text, bytes) in [
            ("300Mbit", "37500kB"),
            ("300 Mbps", "37500kB"),
            ("1Gbit/s", "125MB"),
            ("8Mb/s", "1MB"),
            ("800bit", "100B"),
        ] {
            let error = parse_bytes(text).unwrap_err();
            assert!(
                error.remedy().ends_with(&format!("`{bytes}`")),
                "{text}: {error}"
            );
        }
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
    fn a_text_that_is_no_size_is_refused_with_a_hint() {
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
            "50Mcd",
            Err(
                "`Mcd` in `50Mcd` is not a unit of bytes: write B, kB, MB, GB, TB, KiB, MiB, GiB \
                 or TiB",
            ),
        );
        check_bytes(
            "1.5B",
            Err(
                "`1.5` in `1.5B` is not a whole number of the smallest unit: write fewer digits \
                 after the decimal point",
            ),
        );
        check_bytes(
            "16777216TiB",
            Err("`16777216TiB` is too large: write less than 2^64"),
        );
    }

    #[test]
    fn sizes_are_shown_as_people_write_them() {
        for text in ["0B", "1500B", "1kB", "50MB", "64KiB", "1MiB", "1TiB"] {
            assert_eq!(bytes(parse_bytes(text).unwrap()), text);
        }
    }

    proptest! {
        #[test]
        fn every_size_reads_back_as_itself(
            number: u64, shift in 0u32..64, factor in prop::sample::select(vec![1, 1000, 1024]),
        ) {
            let value = (number >> shift).saturating_mul(factor);
            prop_assert_eq!(parse_bytes(&bytes(value)), Ok(value));
        }

        #[test]
        fn no_text_is_too_strange_to_be_answered(text in "[0-9]{0,30}[0-9.kMGTiBé -]{0,20}") {
            let _ = parse_bytes(&text);
        }
    }

    fn check_bytes(text: &str, expected: Result<u64, &str>) {
        let answer = parse_bytes(text).map_err(|error| error.to_string());
        assert_eq!(answer, expected.map_err(str::to_owned));
    }
}
