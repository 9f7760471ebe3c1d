//! The default duration of a ban, and folding: `[ban]`.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    model::SourceConfig,
    report::{At, Report},
    table::{Section, Value},
};
use crate::{
    ban::{LENGTH_MAX, LENGTH_MIN},
    diagnostic::Problem,
    folding::Fold,
    ip_family::IpFamily,
};

/// The time unless the configuration says otherwise.
pub const DEFAULT: Duration = Duration::from_hours(4);
const RANGE: RangeInclusive<Duration> = LENGTH_MIN..=LENGTH_MAX;
const DEFAULT_PREFIXES: [u8; 2] = [24, 56];
const FOLD_EXAMPLE: &str = "fold = { percent = 75 }";

/// `[ban]`.
pub struct Bans {
    /// The time of a ban; `None` is without an end.
    pub length: Option<Duration>,
    fold: Option<Folds>,
}

/// `fold` with the positions of its values.
struct Folds {
    percent: u8,
    prefixes: [Option<At<u8>>; 2],
}

/// Reads `[ban]`.
pub(super) fn read(mut section: Section<'_>) -> At<Bans> {
    let length = section.take("for").and_then(|value| {
        value.unless_false(
            "it needs a duration",
            "write for = \"4h\", or false for bans without an end",
            |value| value.duration_in(&RANGE, "4h"),
        )
    });
    let fold = section.take("fold").and_then(|value| {
        let hint = format!("write {FOLD_EXAMPLE}");
        value.unless_false("it needs a share", &hint, read_fold)?
    });
    let spot = section.finish();
    let length = length.unwrap_or(Some(DEFAULT));
    let value = Bans { length, fold };
    At { value, spot }
}

/// Reads `fold`. No prefix is wider than those that are banned automatically.
fn read_fold(value: &Value<'_>) -> Option<Folds> {
    let mut section = value.as_table("`fold` of [ban]", FOLD_EXAMPLE)?;
    let percent = section.require("percent", "write the share of sources: percent = 75");
    let percent = percent.and_then(|value| value.integer_in(1..=100, 75));
    let mut length = |key, range, default| {
        let value = section.take(key)?;
        value.located(|value| value.integer_in(range, default)?.try_into().ok())
    };
    let prefixes = [
        length("ipv4_prefix", 24..=31, 24),
        length("ipv6_prefix", 48..=127, 56),
    ];
    section.finish();
    let percent = percent?.try_into().ok()?;
    Some(Folds { percent, prefixes })
}

impl Bans {
    /// Returns when prefixes are folded, of sources like these.
    pub fn fold(&self, source: &SourceConfig, report: &Report) -> Option<Fold> {
        let fold = self.fold.as_ref()?;
        let sources = [source.ipv4_prefix, source.ipv6_prefix];
        for (prefix, source) in fold.prefixes.iter().zip(sources) {
            if let Some(prefix) = prefix.as_ref().filter(|it| it.value >= source) {
                let message = format!(
                    "a /{} is not wider than a source, which is a /{source}",
                    prefix.value
                );
                let hint = format!("write a number below {source}, or remove it");
                report.add(&prefix.spot, Problem::new(message, hint));
            }
        }
        let length = |family: IpFamily| {
            let given = fold.prefixes[family as usize].as_ref();
            given.map_or(DEFAULT_PREFIXES[family as usize], |it| it.value)
        };
        Some(Fold {
            percent: fold.percent,
            prefixes: IpFamily::ALL.map(length),
            sources,
        })
    }
}
