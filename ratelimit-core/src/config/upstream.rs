//! Bans as routes of a BGP speaker: `[upstream]`.

use std::{ops::RangeInclusive, str::FromStr, time::Duration};

use super::{
    report::At,
    table::{Section, Value},
};
use crate::upstream::{Community, Upstream};

/// The most routes: a BGP session of a customer has a prefix limit, commonly of some thousands.
const ROUTES_MAX: u32 = 100_000;
const FOR_MIN_RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
const COMMUNITIES_EXAMPLE: &str = "communities = [\"65535:666\"]";
const ORIGINS_EXAMPLE: &str = "origins = [\"manual\", \"automatic\"]";

/// Reads `[upstream]`.
pub(super) fn read(mut section: Section<'_>) -> At<Upstream> {
    let default = Upstream::default();
    let next_hop = read_next_hop(&mut section, "next_hop", "192.0.2.1");
    let next_hop_v6 = read_next_hop(&mut section, "next_hop_v6", "2001:db8::1");
    let communities = section.take("communities").and_then(|value| {
        value.each(COMMUNITIES_EXAMPLE, |item| {
            item.parsed::<Community>(COMMUNITIES_EXAMPLE)
        })
    });
    let origins = section.take("origins");
    let origins = origins.and_then(|value| value.each(ORIGINS_EXAMPLE, Value::choice));
    let routes_max = u32::try_from(default.routes_max).unwrap_or(ROUTES_MAX);
    let routes_max = section.integer("routes_max", 1..=ROUTES_MAX, routes_max);
    let mut prefix_min = |key, range: RangeInclusive<u32>, default: u8| {
        let length = section.integer(key, range, default.into());
        u8::try_from(length).unwrap_or(default)
    };
    let value = Upstream {
        ipv4_prefix_min: prefix_min("ipv4_prefix_min", 8..=32, default.ipv4_prefix_min),
        ipv6_prefix_min: prefix_min("ipv6_prefix_min", 19..=128, default.ipv6_prefix_min),
        next_hop,
        next_hop_v6,
        communities: communities.unwrap_or(default.communities),
        routes_max: usize::try_from(routes_max).unwrap_or(default.routes_max),
        for_min: section.duration("for_min", &FOR_MIN_RANGE, default.for_min),
        origins: origins.unwrap_or(default.origins),
    };
    let spot = section.finish();
    At { value, spot }
}

/// Reads an address of the family of the example.
fn read_next_hop<A: FromStr>(
    section: &mut Section<'_>,
    key: &'static str,
    example: &str,
) -> Option<A> {
    let value = section.take(key)?;
    let example = format!("{key} = \"{example}\"");
    let text = value.text(&example)?;
    let wrong = format!("`{text}` is not an address for `{key}`");
    let address = text.parse().ok();
    address.or_else(|| value.refuse(wrong, format!("write {example}")))
}
