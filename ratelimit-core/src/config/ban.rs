//! The ban of a policy: `{ after = 5000, within = "10s", for = "10m", factor = 2, max = "24h", unverified = "limit" }`.

use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use ratelimit_common::strikes::AFTER_MAX;

use super::{
    Source,
    report::{At, Report, Spot},
    table::{Section, Value},
};
use crate::{
    ban::{
        BanSpec, FACTOR_DEFAULT, FACTOR_MAX, LENGTH_MAX, LENGTH_MAX_DEFAULT, LENGTH_MIN,
        LONGEST_WITHIN, SHORTEST_WITHIN, Unverified,
    },
    diagnostic::Problem,
    quantity,
};

const EXAMPLE: &str = "{ after = 5000, within = \"10s\", for = \"10m\" }";

/// The widest sources that a policy may ban.
const IPV4_WIDEST: u8 = 24;
const IPV6_WIDEST: u8 = 48;

/// Reads the ban of a policy.
pub fn read(value: Value<'_>, report: &mut Report) -> Option<At<BanSpec>> {
    let mut section = value.table("a ban".to_owned(), EXAMPLE, report)?;
    let after = read_after(&mut section, report);
    let within = SHORTEST_WITHIN..=LONGEST_WITHIN;
    let within = required(&mut section, "within", "10s", &within, report);
    let lengths = LENGTH_MIN..=LENGTH_MAX;
    let length = required(&mut section, "for", "10m", &lengths, report);
    let factor = section.take("factor");
    let factor = factor.map_or(Some(FACTOR_DEFAULT), |value| {
        value.integer_in(1..=FACTOR_MAX, FACTOR_DEFAULT, report)
    });
    let longest = section.take("max");
    let longest = longest.map(|value| value.duration_in(&lengths, "24h", report));
    let unverified = section.take("unverified");
    let choices = [("limit", Unverified::Limit), ("ban", Unverified::Ban)];
    let unverified = unverified.map(|value| value.choice(&choices, report));
    let spot = section.spot.clone();
    section.finish(report);
    let (after, within, length, factor) = (after?, within?, length?, factor?);
    let longest = match longest {
        Some(longest) => {
            let longest = longest?;
            check_longest(&length, &longest, report)?;
            longest.value
        }
        None => LENGTH_MAX_DEFAULT.max(length.value),
    };
    let unverified = match unverified {
        Some(unverified) => unverified?.value,
        None => Unverified::default(),
    };
    let value = BanSpec::new(
        (after, within.value),
        length.value,
        (NonZeroU32::new(factor)?, longest),
        unverified,
    )?;
    Some(At { value, spot })
}

/// Reports a ban, which stands at `spot`, of sources that are wide: it would hit too many who did nothing.
pub fn check_width(spot: &Spot, source: &Source, report: &mut Report) {
    let families = [
        ("ipv4_prefix", source.ipv4_prefix, IPV4_WIDEST),
        ("ipv6_prefix", source.ipv6_prefix, IPV6_WIDEST),
    ];
    for (key, length, widest) in families {
        if length < widest {
            let message =
                format!("a source is a /{length}, which is too wide to be banned by a policy");
            let hint = format!("write {key} = {widest} or more in [source], or remove `ban`");
            report.add(spot, Problem::new(message, hint));
        }
    }
}

fn read_after(section: &mut Section<'_>, report: &mut Report) -> Option<NonZeroU32> {
    let hint = "write how many drops it takes: after = 5000";
    let value = section.require("after", hint, report)?;
    NonZeroU32::new(value.integer_in(1..=AFTER_MAX, 5000, report)?)
}

fn required(
    section: &mut Section<'_>,
    key: &'static str,
    example: &str,
    range: &RangeInclusive<Duration>,
    report: &mut Report,
) -> Option<At<Duration>> {
    let hint = format!("write for example {key} = \"{example}\"");
    let value = section.require(key, &hint, report)?;
    value.duration_in(range, example, report)
}

fn check_longest(length: &At<Duration>, longest: &At<Duration>, report: &mut Report) -> Option<()> {
    if longest.value >= length.value {
        return Some(());
    }
    let first = quantity::duration(length.value);
    let message = format!("the longest ban is shorter than the first, which is {first}");
    let hint = format!("write max = \"{first}\" or longer");
    report.add(&longest.spot, Problem::new(message, hint));
    None
}
