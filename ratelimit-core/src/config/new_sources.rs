//! `new_sources = { count = 100_000, per = "1s", over_budget = "drop"
//! }` in `[source]`, or `new_sources = "unlimited"`.

use std::{num::NonZeroU32, time::Duration};

use ratelimit_common::{
    new_sources::{COUNT_MAX, PER_MIN},
    settings::OverBudget,
};

use super::{
    model::{SourceConfig, StateStore},
    report::At,
    table::Value,
};
use crate::new_sources::{NewSources, OVER_BUDGET};

const EXAMPLE: &str = "new_sources = { count = 100_000, per = \"1s\", over_budget = \"drop\" }";

/// In place of a budget: all new sources get state.
const UNLIMITED: &str = "unlimited";

const COUNT_EXAMPLE: u32 = 100_000;

/// The longest window: a flood of an hour ago should not keep anybody out.
const PER_MAX: Duration = Duration::from_hours(1);

/// The prefixes that are charged as one where the budget is spent, of IPv4 and of IPv6.
const OVERFLOW_BUCKETS: [(&str, u8); 2] = [("ipv4_prefix", 24), ("ipv6_prefix", 48)];

/// The part of the capacity that may get state in a second where nothing else is configured.
const DEFAULT_PART: u32 = 16;

/// The smallest default budget. A smaller table would be refilled within a second.
const DEFAULT_MIN: u32 = 1024;

/// Returns the default budget. `lru` admits a sixteenth of its capacity per second, and passes
/// packets over budget. So a flood of forged sources causes few insertions, and active sources keep
/// their state. `compact` loses no usage, and has no budget.
pub fn of_store(source: &SourceConfig) -> Option<NewSources> {
    let count = (source.capacity / DEFAULT_PART).max(DEFAULT_MIN);
    match source.store {
        StateStore::Lru => Some(NewSources {
            count: NonZeroU32::new(count)?,
            per: Duration::from_secs(1),
            over_budget: OverBudget::Pass,
        }),
        StateStore::Compact => None,
    }
}

/// Reads the budget; the value is `None` if it is switched off.
pub fn read(value: Value<'_>, source: &SourceConfig) -> Option<At<Option<NewSources>>> {
    if value.is_text() {
        return value.located(|value| value.one_of(&[(UNLIMITED, None)]));
    }
    let mut section = value.table("new_sources", EXAMPLE)?;
    let count = section.require("count", "write count = 100_000");
    let count = count.and_then(|value| value.integer_in(1..=COUNT_MAX, COUNT_EXAMPLE));
    let per = section.require("per", "write per = \"1s\"");
    let per = per.and_then(|value| value.duration_in(&(PER_MIN..=PER_MAX), "1s"));
    let hint = "write over_budget = \"drop\", \"pass\" or \"aggregate\": the verdict over \
                budget";
    let over_budget = section.require("over_budget", hint);
    let over_budget = over_budget.and_then(|value| {
        let over_budget = value.one_of(&OVER_BUDGET)?;
        check_width(&value, over_budget, source);
        Some(over_budget)
    });
    let spot = section.finish();
    let value = Some(NewSources {
        count: NonZeroU32::new(count?)?,
        per: per?,
        over_budget: over_budget?,
    });
    Some(At { value, spot })
}

/// Refuses source prefixes as wide as the overflow bucket, which could not share it with others.
fn check_width(value: &Value<'_>, over_budget: OverBudget, source: &SourceConfig) {
    if over_budget != OverBudget::Aggregate {
        return;
    }
    let widths = [source.ipv4_prefix, source.ipv6_prefix];
    for ((key, overflow_bucket), width) in OVERFLOW_BUCKETS.into_iter().zip(widths) {
        if width <= overflow_bucket {
            let message = format!(
                "new sources cannot be charged to their /{overflow_bucket}: {key} is {width}, and \
                 a source is no narrower than that"
            );
            let hint = format!(
                "write over_budget = \"drop\" or \"pass\", or {key} = {} or more",
                overflow_bucket + 1
            );
            value.complain(message, hint);
        }
    }
}
