//! The ban of a policy: `{ after = 5000, within = "10s", for = "10m", factor = 2, max = "24h",
//! forgeable = "limit" }`.

use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use ratelimit_common::strikes::AFTER_MAX;

use super::{
    model::SourceConfig,
    report::{At, Report, Spot},
    table::{Section, Value},
};
use crate::{
    ban::{
        BanSpec, FACTOR_DEFAULT, FACTOR_MAX, LENGTH_MAX, LENGTH_MAX_DEFAULT, LENGTH_MIN,
        LONGEST_WITHIN, SHORTEST_WITHIN,
    },
    diagnostic::Problem,
    quantity,
};

const EXAMPLE: &str = "{ after = 5000, within = \"10s\", for = \"10m\" }";

/// The widest sources that a policy may ban.
const IPV4_WIDEST: u8 = 24;
const IPV6_WIDEST: u8 = 48;

/// Reads the ban of a policy.
pub fn read(value: Value<'_>) -> Option<At<BanSpec>> {
    let mut section = value.table("a ban", EXAMPLE)?;
    let after = section.require("after", "write how many drops it takes: after = 5000");
    let after = after.and_then(|value| value.integer_in(1..=AFTER_MAX, 5000));
    let within = SHORTEST_WITHIN..=LONGEST_WITHIN;
    let within = required(&mut section, "within", "10s", &within);
    let lengths = LENGTH_MIN..=LENGTH_MAX;
    let length = required(&mut section, "for", "10m", &lengths);
    let factor = section.integer("factor", 1..=FACTOR_MAX, FACTOR_DEFAULT);
    let max = section.take("max");
    let longest = max.as_ref().map(|value| value.duration_in(&lengths, "24h"));
    let forgeable = section.choice("forgeable");
    let spot = section.finish();
    let length = length?;
    let longest = longest.unwrap_or(Some(LENGTH_MAX_DEFAULT.max(length)))?;
    if longest < length {
        let first = quantity::duration(length);
        let message = format!("the longest ban is shorter than the first, which is {first}");
        return max?.refuse(message, format!("write max = \"{first}\" or longer"));
    }
    let value = BanSpec::new(
        (NonZeroU32::new(after?)?, within?),
        length,
        (NonZeroU32::new(factor)?, longest),
        forgeable.unwrap_or_default(),
    )?;
    Some(At { value, spot })
}

/// Reports a ban of wide sources, which would hit uninvolved hosts.
pub fn check_width(spot: &Spot, source: &SourceConfig, report: &Report) {
    let families = [
        ("ipv4_prefix", source.ipv4_prefix, IPV4_WIDEST),
        ("ipv6_prefix", source.ipv6_prefix, IPV6_WIDEST),
    ];
    for (key, length, widest) in families {
        if length < widest {
            let message = format!("a source is a /{length}, too wide for bans by policies");
            let hint = format!("write {key} = {widest} or more in [source], or remove `ban`");
            report.add(spot, Problem::new(message, hint));
        }
    }
}

fn required(
    section: &mut Section<'_>,
    key: &'static str,
    example: &str,
    range: &RangeInclusive<Duration>,
) -> Option<Duration> {
    let value = section.require(key, &format!("write for example {key} = \"{example}\""))?;
    value.duration_in(range, example)
}
