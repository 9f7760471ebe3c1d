//! Warnings about valid configurations that are probably mistakes.

mod bans;
mod challenge;
mod classes;
pub mod throughput;

use std::{collections::HashMap, time::Duration};

use super::{
    destination, detection,
    document::Document,
    interface,
    limit::Group,
    model::{Config, Interface, Mode},
    policy,
    report::{At, Report, Spot},
};
use crate::{
    class::Catalogue,
    diagnostic::Problem,
    limit::{Algorithm, FRAME_BYTES, LimitSpec, LimitUnit},
    prefix::Prefix,
    quantity,
};

/// Reports what is suspicious in `document`, which says `config`.
pub fn find(document: &Document, config: &Config, warnings: &Report) {
    let classes = &config.classes;
    let allowed: HashMap<Prefix, &Spot> = document
        .allow
        .iter()
        .map(|at| (at.value, &at.spot))
        .collect();
    for At { value, spot } in &document.allow {
        if value.is_empty() {
            let message = format!("{value} allows every source of its family");
            let hint = "to limit nothing, write limits = []; to try limits out, observe = true";
            warnings.add(spot, Problem::new(message, hint));
        }
    }
    for policy in &document.policies {
        for source in &policy.sources {
            warn_of_allowed_source(source, &policy.title, &allowed, warnings);
        }
    }
    for located in document.interfaces.iter().flatten() {
        warn_of_pattern(&located.interface, warnings);
    }
    for group in document.groups() {
        warn_of_idle_limits(&group, classes, warnings);
        warn_of_tiny_limits(&group, warnings);
        if group.title != detection::TITLE {
            warn_of_merged_frames(&group, config, warnings);
        }
        throughput::find(&group, classes, warnings);
    }
    bans::find(document, warnings);
    policy::drops::warn(document, config, warnings);
    challenge::find(document, config, warnings);
    classes::find(document, classes, warnings);
    warn_of_narrow_aggregates(document, classes, warnings);
    if let Some(At { spot, .. }) = &document.detection {
        interface::warn_of_limits_left_out(config, spot, warnings);
    }
}

/// Linux allows such a name, but it is unlikely to exist.
fn warn_of_pattern(interface: &At<Interface>, warnings: &Report) {
    let name = &interface.value.name;
    if name.contains(['*', '?', '[']) {
        let message = format!("`{name}` is the name of one interface, and no pattern");
        let hint = "write an [[interface]] for each that `ip -br link` shows";
        warnings.add(&interface.spot, Problem::new(message, hint));
    }
}

fn warn_of_allowed_source(
    source: &At<Prefix>,
    title: &str,
    allowed: &HashMap<Prefix, &Spot>,
    warnings: &Report,
) {
    let At { value, spot } = source;
    let entry = value
        .supernets()
        .find_map(|prefix| allowed.get_key_value(&prefix));
    if let Some((prefix, place)) = entry {
        let place = warnings.name(place);
        let message = format!("{title} never limits {value}: {prefix} is allowed at {place}");
        let hint = "remove it here, or from [allow]";
        warnings.add(spot, Problem::new(message, hint));
    }
}

/// Warns of limits that never refuse a packet because another one refuses it first; of equal ones
/// the first is kept.
fn warn_of_idle_limits(group: &Group<'_>, classes: &Catalogue, warnings: &Report) {
    for (index, limit) in group.limits.iter().enumerate() {
        let stricter = group.limits.iter().enumerate().find(|(other, stricter)| {
            let counts = stricter.value != limit.value || *other < index;
            counts && is_idle_beside(&limit.value, &stricter.value, classes)
        });
        if let Some((_, stricter)) = stricter {
            let (limit_text, stricter_text) = (&limit.value, &stricter.value);
            let message = format!("{limit_text} can never be reached because of {stricter_text}");
            warnings.add(&limit.spot, Problem::new(message, "remove one of them"));
        }
    }
}

/// Whether `stricter` refuses everything that `limit` would, as far as that is easy to decide. For
/// different algorithms it is decided only if `limit` is a fixed window or a log, for which only
/// the sum within its window matters.
fn is_idle_beside(limit: &LimitSpec, stricter: &LimitSpec, classes: &Catalogue) -> bool {
    use Algorithm::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket};
    if limit.unit() != stricter.unit() || !classes::counts_all_of(stricter, limit, classes) {
        return false;
    }
    let amount = u128::from(stricter.amount());
    let (window, inner) = (limit.window(), stricter.window());
    match (limit.algorithm(), stricter.algorithm()) {
        (FixedWindow, FixedWindow) => {
            amount * windows_within(window, inner) <= u128::from(limit.amount())
        }
        (FixedWindow | SlidingLog, SlidingWindow) => {
            let windows = window.as_nanos().div_ceil(inner.as_nanos()) + 1;
            amount * windows <= u128::from(limit.amount())
        }
        (SlidingLog, FixedWindow) => {
            // A time as long as a window touches two of them.
            let windows = window.as_nanos().div_ceil(inner.as_nanos()) + 1;
            amount * windows <= u128::from(limit.amount())
        }
        (FixedWindow | SlidingLog, SlidingLog) => {
            let windows = window.as_nanos().div_ceil(inner.as_nanos());
            amount * windows <= u128::from(limit.amount())
        }
        (FixedWindow | SlidingLog, TokenBucket { burst }) => {
            let flown_in = (amount * window.as_nanos()).div_ceil(inner.as_nanos());
            u128::from(burst) + flown_in <= u128::from(limit.amount())
        }
        (SlidingWindow, SlidingWindow) => window == inner && amount <= u128::from(limit.amount()),
        (TokenBucket { burst: larger }, TokenBucket { burst }) => {
            burst <= larger
                && amount * window.as_nanos() <= u128::from(limit.amount()) * inner.as_nanos()
        }
        (SlidingWindow, FixedWindow | TokenBucket { .. } | SlidingLog)
        | (TokenBucket { .. }, FixedWindow | SlidingWindow | SlidingLog) => false,
    }
}

/// Warns of limits of many sources that one of them uses up.
fn warn_of_narrow_aggregates(document: &Document, classes: &Catalogue, warnings: &Report) {
    let default = document
        .policies
        .iter()
        .find(|policy| policy.name == policy::DEFAULT);
    let of_source = || default.iter().flat_map(|policy| &policy.limits);
    let wide = document.groups().into_iter().skip(document.policies.len());
    // A limit for one destination does not bound all packets of a source.
    let wide = wide.filter(|group| {
        group.title != detection::TITLE && !group.title.contains(destination::TITLE)
    });
    for group in wide {
        for limit in group.limits {
            let reached = of_source().find(|at| is_idle_beside(&at.value, &limit.value, classes));
            if let Some(At { value, .. }) = reached {
                let message = format!(
                    "{} for all of {} are no more than one source may send by [policy.default]: \
                     its {value} are never reached",
                    limit.value, group.title
                );
                let hint = "write what many sources may send together";
                warnings.add(&limit.spot, Problem::new(message, hint));
            }
        }
    }
}

/// The number of windows of the length `inner` that one of the length `outer` can touch. Windows of
/// one length open together, with the same packet; otherwise one may be open already.
fn windows_within(outer: Duration, inner: Duration) -> u128 {
    if outer == inner {
        1
    } else {
        outer.as_nanos().div_ceil(inner.as_nanos()) + 1
    }
}

/// A deliberate limit that lets nothing pass, as docs/limits.md suggests.
const NOTHING_BYTES: u64 = 1;

/// Warns of limits into which a full frame never fits.
fn warn_of_tiny_limits(group: &Group<'_>, warnings: &Report) {
    for At { value, spot } in group.limits.iter().copied() {
        if value.unit() == LimitUnit::Bytes
            && (NOTHING_BYTES + 1..FRAME_BYTES).contains(&value.capacity())
        {
            let amount = quantity::bytes(value.capacity());
            let message = format!(
                "{amount} is less than a full frame of {FRAME_BYTES} bytes, so none passes"
            );
            let hint = format!("write at least {FRAME_BYTES}; a plain number is bytes");
            warnings.add(spot, Problem::new(message, hint));
        }
    }
}

/// The most full frames of TCP that GRO merges into one of 64 KiB.
const MERGED_PACKETS: u64 = 45;

/// Warns of limits at TCX that merged frames never fit into. Those of a class are left out, since
/// few classes are of packets that GRO merges.
fn warn_of_merged_frames(group: &Group<'_>, config: &Config, warnings: &Report) {
    let Some(interface) = config.interfaces.iter().find(|it| it.mode == Mode::Tcx) else {
        return;
    };
    for At { value, spot } in group.limits.iter().copied() {
        let is_of_packets = value.unit() == LimitUnit::Packets && value.class().is_none();
        if is_of_packets && (1..MERGED_PACKETS).contains(&value.capacity()) {
            let message = format!(
                "on {}, in tcx mode, GRO merges up to {MERGED_PACKETS} packets into a frame, \
                 which {value} never lets pass",
                interface.name
            );
            let hint = format!(
                "allow {MERGED_PACKETS} packets at once, or run `ethtool -K {} gro off`",
                interface.name
            );
            warnings.add(spot, Problem::new(message, hint));
        }
    }
}
