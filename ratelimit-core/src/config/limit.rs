//! A limit of a policy: `{ packets = 1000, per = "1s" }` or `{ bytes = "50MB", per = "1s",
//! algorithm = "token-bucket", burst = "100MB" }`, each of a class with `match = "tcp-syn"`.

use std::time::Duration;

use ratelimit_common::{algorithm::sliding_log::TIMES_MAX, limit::LIMITS_MAX};

use super::{
    class,
    report::{At, Report},
    table::{Section, Value, given},
};
use crate::{
    diagnostic::Problem,
    limit::{
        AlgorithmName, Burst, Counting, Division, LimitError, LimitSpec, LimitUnit, Scope,
        WINDOW_MAX, WINDOW_MIN,
    },
    quantity,
};

const EXAMPLE: &str = "{ packets = 1000, per = \"1s\" }";

/// Limits that a packet is charged to together: of a policy, of a prefix around its source, of its
/// destination, or of the node.
pub struct Group<'d> {
    /// The name in messages: `[policy.default]`.
    pub title: String,
    /// The limits, in the order of the file.
    pub limits: Vec<&'d At<LimitSpec>>,
}

/// Reads the limits of what messages name `title`.
pub fn read_list(value: Value<'_>, title: &str, example: &str) -> Vec<At<LimitSpec>> {
    let items = value.list(example).unwrap_or_default();
    if let Some(ninth) = items.get(LIMITS_MAX) {
        let message = format!("{title} has {} limits", items.len());
        let hint = format!("keep {LIMITS_MAX}, the most that a policy can have");
        ninth.complain(message, hint);
    }
    items.into_iter().filter_map(read).collect()
}

/// Reports limits by sliding logs of what many CPUs charge.
pub fn refuse_logs(title: &str, limits: &[At<LimitSpec>], report: &Report) {
    for At { spot, .. } in limits.iter().filter(|at| at.value.compile().is_log()) {
        let message = format!(
            "{title} cannot have a limit by sliding-log: one log would be written by every CPU for \
             every packet"
        );
        let hint = "write algorithm = \"sliding-window\" or \"token-bucket\"";
        report.add(spot, Problem::new(message, hint));
    }
}

/// Reports limits that nodes are to share where they share none.
pub fn refuse_shared<'d>(
    title: &str,
    limits: impl IntoIterator<Item = &'d At<LimitSpec>>,
    report: &Report,
) {
    let shared = limits
        .into_iter()
        .filter(|at| at.value.division().is_some());
    for At { spot, .. } in shared {
        let message = format!("nodes cannot share limits of {title}");
        let hint =
            "remove `scope`, and write the part of each node: the limit divided by the nodes";
        report.add(spot, Problem::new(message, hint));
    }
}

/// Reads a limit.
pub fn read(value: Value<'_>) -> Option<At<LimitSpec>> {
    read_section(value.table("a limit", EXAMPLE)?)
}

/// Reads the rest of a table as a limit.
pub fn read_section(mut section: Section<'_>) -> Option<At<LimitSpec>> {
    let report = section.report;
    let amount = read_amount(&mut section);
    let window = read_window(&mut section);
    let algorithm: Option<Option<AlgorithmName>> =
        section.take("algorithm").map(|value| value.choice());
    let burst = section.take("burst");
    let burst = burst.map(|value| read_burst(&value, amount.as_ref()));
    let class = section.take("match");
    let class = class.map(class::read_match);
    let shared = read_shared(&mut section);
    let spot = section.finish();
    let (amount, window, algorithm) = (amount?, window?, given(algorithm)?);
    let (units, unit) = amount.value;
    let (burst, class) = (given(burst)?, given(class)?);
    let counting = Counting {
        algorithm,
        burst: burst.as_ref().map(|burst| burst.value).unwrap_or_default(),
        scope: shared.map_or(Scope::Node, |_| Scope::Cluster),
    };
    let spec = counting
        .of(units, unit, window)
        .and_then(|algorithm| LimitSpec::new(units, unit, window, algorithm));
    let blamed = match &spec {
        Err(error) if is_about_burst(error) => burst.as_ref().map(|burst| &burst.spot),
        Ok(_) | Err(_) => None,
    };
    let spec = spec.map_err(|error| explain(&error, unit, window));
    let mut value = report.accept(blamed.unwrap_or(&amount.spot), spec)?;
    if let Some(class) = class {
        value = value.of_class(class);
    }
    if let Some(division) = shared {
        value = value.shared(division);
    }
    Some(At { value, spot })
}

/// Reads a limit of requests: `{ requests = 15, per = "1s" }`.
pub fn read_requests(value: Value<'_>) -> Option<At<LimitSpec>> {
    const REQUESTS: &str = "{ requests = 15, per = \"1s\" }";
    let mut section = value.table("a limit", REQUESTS)?;
    let report = section.report;
    let requests = section.require("requests", &format!("write {REQUESTS}"));
    let requests = requests.and_then(|value| {
        let count = value.integer("requests = 15")?;
        if count < 1 {
            let message = format!("an amount of {count} would refuse every request");
            return value.refuse(message, "write at least 1");
        }
        Some(value.at(u64::try_from(count).unwrap_or(u64::MAX)))
    });
    let window = read_window(&mut section);
    let algorithm: Option<Option<AlgorithmName>> =
        section.take("algorithm").map(|value| value.choice());
    let burst = section.take("burst");
    let burst = burst.map(|value| {
        let amount = requests.as_ref().map(|at| at.spot.clone());
        let amount = amount.map(|spot| At {
            value: (0, LimitUnit::Packets),
            spot,
        });
        read_burst(&value, amount.as_ref())
    });
    let shared = read_shared(&mut section);
    let spot = section.finish();
    let (amount, window, algorithm) = (requests?, window?, given(algorithm)?);
    let burst = given(burst)?;
    let counting = Counting {
        algorithm,
        burst: burst.as_ref().map(|burst| burst.value).unwrap_or_default(),
        scope: shared.map_or(Scope::Node, |_| Scope::Cluster),
    };
    // A request is counted as a packet is.
    let unit = LimitUnit::Packets;
    let spec = counting
        .of(amount.value, unit, window)
        .and_then(|algorithm| LimitSpec::new(amount.value, unit, window, algorithm));
    let spec = spec.map_err(|error| explain(&error, unit, window));
    let mut value = report.accept(&amount.spot, spec)?;
    if let Some(division) = shared {
        value = value.shared(division);
    }
    Some(At { value, spot })
}

/// Reads how nodes share the limit; `None` where they do not.
fn read_shared(section: &mut Section<'_>) -> Option<Division> {
    let (scope, stated) = (section.take("scope"), section.take("division"));
    let said = scope.as_ref().and_then(Value::choice);
    let division = stated.as_ref().and_then(Value::choice);
    if said == Some(Scope::Cluster) {
        return Some(division.unwrap_or_default());
    }
    if let Some(stated) = stated.filter(|_| said.is_some() || scope.is_none()) {
        let message = "`division` needs scope = \"cluster\"";
        stated.complain(message, "write scope = \"cluster\" beside it, or remove it");
    }
    None
}

fn read_amount(section: &mut Section<'_>) -> Option<At<(u64, LimitUnit)>> {
    match (section.take("packets"), section.take("bytes")) {
        (Some(packets), None) => {
            let count = read_count(&packets, "packets = 1000")?;
            Some(packets.at((count, LimitUnit::Packets)))
        }
        (None, Some(bytes)) => {
            let size = read_size(&bytes, "bytes = \"50MB\"")?;
            Some(bytes.at((size, LimitUnit::Bytes)))
        }
        (Some(_), Some(bytes)) => {
            let message = "a limit counts either `packets` or `bytes`, not both";
            bytes.refuse(message, "write two limits")
        }
        (None, None) => {
            let message = "a limit has neither `packets` nor `bytes`";
            section.complain(message, format!("write {EXAMPLE}"));
            None
        }
    }
}

fn read_count(value: &Value<'_>, example: &str) -> Option<u64> {
    let count = value.integer(example)?;
    if count < 1 {
        return value.accept(Err(nothing_passes(count)));
    }
    // Larger values fit into no window; the error names the largest valid amount.
    Some(u64::try_from(count).unwrap_or(u64::MAX))
}

fn read_size(value: &Value<'_>, example: &str) -> Option<u64> {
    if !value.is_text() {
        return read_count(value, example);
    }
    match value.accept(quantity::parse_bytes(value.text("")?))? {
        0 => value.accept(Err(nothing_passes(0))),
        size => Some(size),
    }
}

/// Reads a burst, which is in the unit of the limit; where that is not known, as a size.
fn read_burst(value: &Value<'_>, amount: Option<&At<(u64, LimitUnit)>>) -> Option<At<Burst>> {
    value.located(|value| {
        if value.is_text() && value.text("")? == "auto" {
            return Some(Burst::Auto);
        }
        let burst = match amount.map(|amount| amount.value.1) {
            Some(LimitUnit::Packets) => read_count(value, "burst = 200"),
            Some(LimitUnit::Bytes) | None => read_size(value, "burst = \"100MB\""),
        };
        burst.map(Burst::Of)
    })
}

fn read_window(section: &mut Section<'_>) -> Option<Duration> {
    let value = section.require("per", "write for example per = \"1s\"")?;
    let example = format!("per = \"{}s\"", value.digits().unwrap_or("1"));
    value.accept(parse_window(value.text(&example)?))
}

/// Reads the length of a window that can be kept.
pub fn parse_window(text: &str) -> Result<Duration, Problem> {
    let window = quantity::parse_duration(text)?;
    let shown = quantity::duration(window);
    if window < WINDOW_MIN {
        let message = format!("the window {shown} is too short");
        let hint = format!("write at least {}", quantity::duration(WINDOW_MIN));
        return Err(Problem::new(message, hint));
    }
    if window > WINDOW_MAX {
        let message = format!("the window {shown} is too long");
        let hint = format!("write at most {}", quantity::duration(WINDOW_MAX));
        return Err(Problem::new(message, hint));
    }
    Ok(window)
}

fn is_about_burst(error: &LimitError) -> bool {
    matches!(
        error,
        LimitError::BurstWithoutBucket | LimitError::ZeroBurst | LimitError::BurstTooLarge { .. }
    )
}

/// Explains why there is no limit of this amount in a valid `window`.
pub fn explain(error: &LimitError, unit: LimitUnit, window: Duration) -> Problem {
    match *error {
        LimitError::ZeroAmount | LimitError::ZeroBurst => nothing_passes(0),
        LimitError::Unrepresentable { amount_max } => {
            let window = quantity::duration(window);
            let amount_max = unit.amount(amount_max);
            let message = format!("the amount is too large for a window of {window}");
            let hint = format!("write at most {amount_max}, or a longer window");
            Problem::new(message, hint)
        }
        LimitError::BurstWithoutBucket => Problem::new(
            "only a token bucket has a `burst`",
            "remove it, or add algorithm = \"token-bucket\"",
        ),
        LimitError::BurstTooLarge { burst_max } => {
            let message = "the burst is too large";
            let hint = format!("write a burst of at most {}", unit.amount(burst_max));
            Problem::new(message, hint)
        }
        LimitError::LogOfBytes => Problem::new(
            "a sliding log counts packets, not bytes",
            "write `packets`, or another algorithm",
        ),
        LimitError::LogTooLong => Problem::new(
            format!("a sliding log keeps the times of at most {TIMES_MAX} packets"),
            "reduce the amount, or use algorithm = \"sliding-window\"",
        ),
        LimitError::Unit | LimitError::WindowTooShort | LimitError::WindowTooLong => {
            Problem::new(error.to_string(), format!("write {EXAMPLE}"))
        }
    }
}

fn nothing_passes(amount: i128) -> Problem {
    Problem::new(
        format!("an amount of {amount} would drop every packet"),
        "write at least 1; to drop everything of a source, ban it",
    )
}
