//! Suggestions for misspelled numbers.

/// Units behind a number of packets, without regard to case.
const MULTIPLES: [(&str, u64); 3] = [("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000)];

/// The integer that is meant by `"5000"`, `"5k"`, `1e6`, `"1.5M"`, `"/16"`, `"100/s"` or
/// `"5,000"`; `None` where that is not clear.
pub fn integer(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches('/');
    let text = text.replace(['_', '\u{a0}', ' '], "");
    let text = text.strip_suffix("pps").unwrap_or(&text);
    let text = text.split_once('/').map_or(text, |(number, _)| number);
    let number = match text.split(',').collect::<Vec<_>>()[..] {
        [first, ref groups @ ..] if groups.iter().all(|it| it.len() == 3) => {
            first.to_owned() + &groups.concat()
        }
        _ => return None,
    };
    let lower = number.to_ascii_lowercase();
    let unit = MULTIPLES
        .iter()
        .find_map(|(unit, times)| Some((lower.strip_suffix(unit)?, *times)));
    let (digits, times) = unit.unwrap_or((&lower, 1));
    let is_number = digits.starts_with(|it: char| it.is_ascii_digit())
        && digits
            .bytes()
            .all(|it| it.is_ascii_digit() || matches!(it, b'.' | b'e' | b'+'));
    if !is_number {
        return None;
    }
    if digits.bytes().all(|it| it.is_ascii_digit()) {
        let value: u64 = digits.parse().ok()?;
        return Some(value.checked_mul(times)?.to_string()).filter(|it| it != "0");
    }
    let value = digits.parse::<f64>().ok()? * as_float(times)?;
    // Up to there each integer is a float.
    let is_whole = value.fract() == 0.0 && (1.0..9e15).contains(&value);
    is_whole.then(|| format!("{value:.0}"))
}

fn as_float(times: u64) -> Option<f64> {
    u32::try_from(times).ok().map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_meant_however_it_is_written() {
        for (text, meant) in [
            ("10", "10"),
            ("007", "7"),
            ("5k", "5000"),
            ("5K", "5000"),
            ("1.5M", "1500000"),
            ("1e6", "1000000"),
            ("1e+6", "1000000"),
            ("2.0", "2"),
            ("/16", "16"),
            ("5,000", "5000"),
            ("1 000 000", "1000000"),
            ("500pps", "500"),
            ("100/s", "100"),
        ] {
            assert_eq!(integer(text).as_deref(), Some(meant), "{text}");
        }
        for text in [
            "", "0", "1.5", "5x", "-5", "5,00", "1e99", "k", "inf", "nan", "1e-3",
        ] {
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
