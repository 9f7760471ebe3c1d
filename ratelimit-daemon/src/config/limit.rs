//! A limit of a policy: `{ packets = 1000, per = "1s" }` or `{ bytes = "50MB", per = "1s" }`.

use std::time::Duration;

use super::{
    diagnostic::Problem,
    report::{At, Report},
    table::{Section, Value},
};
use crate::{
    limit::{Algorithm, LimitError, LimitSpec, LimitUnit, WINDOW_MAX, WINDOW_MIN},
    quantity::{self, QuantityError},
};

const EXAMPLE: &str = "{ packets = 1000, per = \"1s\" }";

/// Reads a limit.
pub fn read(value: Value<'_>, report: &mut Report) -> Option<At<LimitSpec>> {
    let mut section = value.table("a limit".to_owned(), EXAMPLE, report)?;
    let amount = read_amount(&mut section, report);
    let window = read_window(&mut section, report);
    let algorithm = section.take("algorithm");
    let algorithm = algorithm.map_or(Some(Algorithm::default()), |value| {
        read_algorithm(value, report)
    });
    let spot = section.spot.clone();
    section.finish(report);
    let (amount, window) = (amount?, window?);
    let (units, unit) = amount.value;
    match LimitSpec::new(units, unit, window.value, algorithm?) {
        Ok(value) => Some(At { value, spot }),
        Err(error) => {
            let problem = explain(&error, unit, window.value);
            report.add(&amount.spot, problem);
            None
        }
    }
}

fn read_amount(section: &mut Section<'_>, report: &mut Report) -> Option<At<(u64, LimitUnit)>> {
    match (section.take("packets"), section.take("bytes")) {
        (Some(packets), None) => {
            let count = read_count(packets, "packets = 1000", report)?;
            Some(count.map(|count| (count, LimitUnit::Packets)))
        }
        (None, Some(bytes)) => {
            let size = read_size(bytes, report)?;
            Some(size.map(|size| (size, LimitUnit::Bytes)))
        }
        (Some(_), Some(bytes)) => {
            let message = "a limit counts either `packets` or `bytes`, not both";
            report.add(&bytes.spot, Problem::new(message, "write two limits"));
            None
        }
        (None, None) => {
            let message = "a limit has neither `packets` nor `bytes`";
            let hint = format!("write {EXAMPLE}");
            report.add(&section.spot, Problem::new(message, hint));
            None
        }
    }
}

fn read_count(value: Value<'_>, example: &str, report: &mut Report) -> Option<At<u64>> {
    let count = value.integer(example, report)?;
    if count.value < 1 {
        report.add(&count.spot, nothing_passes(count.value));
        return None;
    }
    // What is larger fits into no window, and is refused with the largest amount that does.
    Some(count.map(|count| u64::try_from(count).unwrap_or(u64::MAX)))
}

fn read_size(value: Value<'_>, report: &mut Report) -> Option<At<u64>> {
    if !value.is_text() {
        return read_count(value, "bytes = \"50MB\"", report);
    }
    let text = value.text("", report)?;
    match quantity::parse_bytes(&text.value) {
        Ok(0) => {
            report.add(&text.spot, nothing_passes(0));
            None
        }
        Ok(size) => Some(text.map(|_| size)),
        Err(error) => {
            report.add(&text.spot, error.into());
            None
        }
    }
}

fn read_window(section: &mut Section<'_>, report: &mut Report) -> Option<At<Duration>> {
    let Some(value) = section.take("per") else {
        section.lacks("per", "write for example per = \"1s\"", report);
        return None;
    };
    let example = format!("per = \"{}s\"", value.digits().unwrap_or("1"));
    let text = value.text(&example, report)?;
    match parse_window(&text.value) {
        Ok(window) => Some(text.map(|_| window)),
        Err(problem) => {
            report.add(&text.spot, problem);
            None
        }
    }
}

/// Reads the length of a window that can be kept.
pub fn parse_window(text: &str) -> Result<Duration, Problem> {
    let window = quantity::parse_duration(text)?;
    let shown = quantity::duration(window);
    if window < WINDOW_MIN {
        let message = format!("a window of {shown} is too short to be kept");
        let hint = format!("write at least {}", quantity::duration(WINDOW_MIN));
        return Err(Problem::new(message, hint));
    }
    if window > WINDOW_MAX {
        let message = format!("a window of {shown} is too long to be kept");
        let hint = format!("write at most {}", quantity::duration(WINDOW_MAX));
        return Err(Problem::new(message, hint));
    }
    Ok(window)
}

fn read_algorithm(value: Value<'_>, report: &mut Report) -> Option<Algorithm> {
    let name = value.text("algorithm = \"fixed-window\"", report)?;
    if name.value == "fixed-window" {
        return Some(Algorithm::FixedWindow);
    }
    let message = format!("this version has no algorithm `{}`", name.value);
    let hint = "write \"fixed-window\", which is the only one";
    report.add(&name.spot, Problem::new(message, hint));
    None
}

/// Why there is no limit of this amount in a good `window`.
pub fn explain(error: &LimitError, unit: LimitUnit, window: Duration) -> Problem {
    match *error {
        LimitError::ZeroAmount => nothing_passes(0),
        LimitError::Unrepresentable { amount_max } => {
            let window = quantity::duration(window);
            let amount_max = match unit {
                LimitUnit::Packets => amount_max.to_string(),
                LimitUnit::Bytes => quantity::bytes(amount_max).to_string(),
            };
            let message = format!("one word of state cannot count so many in {window}");
            let hint = format!("write at most {amount_max}, or a longer window");
            Problem::new(message, hint)
        }
        LimitError::Unit | LimitError::WindowTooShort | LimitError::WindowTooLong => {
            Problem::new(error.to_string(), format!("write {EXAMPLE}"))
        }
    }
}

fn nothing_passes(amount: i128) -> Problem {
    Problem::new(
        format!("with an amount of {amount} nothing would ever pass"),
        "write at least 1; to drop everything of a source, ban it",
    )
}

impl From<QuantityError> for Problem {
    fn from(error: QuantityError) -> Self {
        Self::new(error.problem(), error.remedy())
    }
}
