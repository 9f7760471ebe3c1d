//! A limit of a policy: `{ packets = 1000, per = "1s" }` or
//! `{ bytes = "50MB", per = "1s", algorithm = "token-bucket", burst = "100MB" }`, each of a class with `match = "tcp-syn"`.

use std::time::Duration;

use ratelimit_common::algorithm::sliding_log::TIMES_MAX;

use super::{
    class,
    report::{At, Report},
    table::{Section, Value},
};
use crate::{
    diagnostic::Problem,
    limit::{
        AlgorithmName, Division, LimitError, LimitSpec, LimitUnit, Scope, WINDOW_MAX, WINDOW_MIN,
    },
    quantity,
};

pub(super) const SCOPES: [(&str, Scope); 2] = [("cluster", Scope::Cluster), ("node", Scope::Node)];
const DIVISIONS: [(&str, Division); 2] = [
    ("equal", Division::Equal),
    ("proportional", Division::Proportional),
];

const EXAMPLE: &str = "{ packets = 1000, per = \"1s\" }";

/// Reads a limit. The names of classes that it mentions are added to `mentions`.
pub fn read(
    value: Value<'_>,
    mentions: &mut Vec<At<String>>,
    report: &mut Report,
) -> Option<At<LimitSpec>> {
    let section = value.table("a limit".to_owned(), EXAMPLE, report)?;
    read_section(section, mentions, report)
}

/// Reads the rest of a table as a limit.
pub fn read_section(
    mut section: Section<'_>,
    mentions: &mut Vec<At<String>>,
    report: &mut Report,
) -> Option<At<LimitSpec>> {
    let amount = read_amount(&mut section, report);
    let window = read_window(&mut section, report);
    let algorithm = section.take("algorithm");
    let algorithm = algorithm.map_or(Some(AlgorithmName::default()), |value| {
        read_algorithm(value, report)
    });
    let burst = section.take("burst");
    let burst = burst.map(|value| read_burst(value, amount.as_ref(), report));
    let class = section.take("match");
    let class = class.map(|value| class::read_match(value, mentions, report));
    let shared = read_shared(&mut section, report);
    let spot = section.spot.clone();
    section.finish(report);
    let (amount, window, algorithm) = (amount?, window?, algorithm?);
    let (units, unit) = amount.value;
    let burst = match burst {
        None => None,
        Some(burst) => Some(burst?),
    };
    let class = match class {
        None => None,
        Some(class) => Some(class?),
    };
    let spec = algorithm
        .with(units, burst.as_ref().map(|burst| burst.value))
        .and_then(|algorithm| LimitSpec::new(units, unit, window.value, algorithm));
    match spec {
        Ok(value) => {
            let value = match class {
                Some(class) => value.of_class(class),
                None => value,
            };
            let value = match shared {
                Some(division) => value.shared(division),
                None => value,
            };
            Some(At { value, spot })
        }
        Err(error) => {
            let problem = explain(&error, unit, window.value);
            let blamed = burst.as_ref().filter(|_| is_about_burst(&error));
            report.add(blamed.map_or(&amount.spot, |burst| &burst.spot), problem);
            None
        }
    }
}

/// Reads how nodes share the limit; `None` where they do not.
fn read_shared(section: &mut Section<'_>, report: &mut Report) -> Option<Division> {
    let scope = section.take("scope");
    let is_reported = scope.is_some();
    let scope = scope.and_then(|value| value.choice(&SCOPES, report));
    let scope = scope.map(|scope| scope.value);
    let is_shared = scope == Some(Scope::Cluster);
    let share = section.take("share");
    let spot = share.as_ref().map(|share| share.spot.clone());
    let share = share.and_then(|value| value.choice(&DIVISIONS, report));
    if let Some(spot) = spot.filter(|_| !is_shared && (scope.is_some() || !is_reported)) {
        let message = "`share` is for limits with scope = \"cluster\" alone";
        let hint = "write scope = \"cluster\" beside it, or remove it";
        report.add(&spot, Problem::new(message, hint));
    }
    is_shared.then(|| share.map(|share| share.value).unwrap_or_default())
}

fn read_amount(section: &mut Section<'_>, report: &mut Report) -> Option<At<(u64, LimitUnit)>> {
    match (section.take("packets"), section.take("bytes")) {
        (Some(packets), None) => {
            let count = read_count(packets, "packets = 1000", report)?;
            Some(count.map(|count| (count, LimitUnit::Packets)))
        }
        (None, Some(bytes)) => {
            let size = read_size(bytes, "bytes = \"50MB\"", report)?;
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

fn read_size(value: Value<'_>, example: &str, report: &mut Report) -> Option<At<u64>> {
    if !value.is_text() {
        return read_count(value, example, report);
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

/// Reads a burst, which is in the unit of the limit; where that is not known, as a size.
fn read_burst(
    value: Value<'_>,
    amount: Option<&At<(u64, LimitUnit)>>,
    report: &mut Report,
) -> Option<At<u64>> {
    match amount.map(|amount| amount.value.1) {
        Some(LimitUnit::Packets) => read_count(value, "burst = 200", report),
        Some(LimitUnit::Bytes) | None => read_size(value, "burst = \"100MB\"", report),
    }
}

fn read_window(section: &mut Section<'_>, report: &mut Report) -> Option<At<Duration>> {
    let value = section.require("per", "write for example per = \"1s\"", report)?;
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

fn read_algorithm(value: Value<'_>, report: &mut Report) -> Option<AlgorithmName> {
    let name = value.text("algorithm = \"fixed-window\"", report)?;
    if let Ok(algorithm) = name.value.parse() {
        return Some(algorithm);
    }
    let message = format!("this version has no algorithm `{}`", name.value);
    let hint = "write \"fixed-window\", \"sliding-window\", \"token-bucket\" or \"sliding-log\"";
    report.add(&name.spot, Problem::new(message, hint));
    None
}

fn is_about_burst(error: &LimitError) -> bool {
    matches!(
        error,
        LimitError::BurstWithoutBucket | LimitError::ZeroBurst | LimitError::BurstTooLarge { .. }
    )
}

/// Why there is no limit of this amount in a good `window`.
pub fn explain(error: &LimitError, unit: LimitUnit, window: Duration) -> Problem {
    match *error {
        LimitError::ZeroAmount | LimitError::ZeroBurst => nothing_passes(0),
        LimitError::Unrepresentable { amount_max } => {
            let window = quantity::duration(window);
            let amount_max = unit.amount(amount_max);
            let message = format!("one word of state cannot count so many in {window}");
            let hint = format!("write at most {amount_max}, or a longer window");
            Problem::new(message, hint)
        }
        LimitError::BurstWithoutBucket => Problem::new(
            "only a token bucket has a `burst`",
            "remove it, or add algorithm = \"token-bucket\"",
        ),
        LimitError::BurstTooLarge { burst_max } => {
            let message = "one word of state does not hold a burst of so many";
            let hint = format!("write a burst of at most {}", unit.amount(burst_max));
            Problem::new(message, hint)
        }
        LimitError::LogOfBytes => Problem::new(
            "a sliding log keeps the time of each packet, and counts no bytes",
            "write `packets`, or another algorithm",
        ),
        LimitError::LogTooLong => Problem::new(
            format!("a sliding log keeps the times of at most {TIMES_MAX} packets"),
            "write at most so many, or algorithm = \"sliding-window\", which keeps none",
        ),
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
