//! Times, amounts and lists as a colleague would say them.

use std::fmt::Display;

use jiff::{Timestamp, Zoned};
use ratelimit_core::{
    api::{
        Allowed, AttackView, Ban, Changed, ExemptEntries, ExemptEntry, LimitTarget, Origin,
        Unfolded,
    },
    prefix::Prefix,
};

use crate::{
    lifetime::Lifetime,
    output::{BAD, printable, styled},
};

/// A moment in local time, with its date when that is not today's: `14:32:07`,
/// `2026-03-02 14:32:07`.
pub fn moment(moment: Timestamp, now: &Zoned) -> String {
    let local = moment.to_zoned(now.time_zone().clone());
    let format = if local.date() == now.date() {
        "%H:%M:%S"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    local.strftime(format).to_string()
}

/// A moment, or `forever`.
pub fn end(until: Option<Timestamp>, now: &Zoned) -> String {
    until.map_or_else(|| "forever".to_owned(), |until| moment(until, now))
}

/// Formats the time between two moments in its two largest units: `42s`, `9m 58s`, `3h 2m`,
/// `12d 4h`. Zero if it is negative.
pub fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// The text if the condition holds, and nothing otherwise.
pub fn when(is_so: bool, text: &str) -> &str {
    if is_so { text } else { "" }
}

/// ` on all nodes`, if the change applies there.
pub fn everywhere(cluster: bool, changed: &Changed) -> &'static str {
    match (cluster, changed.waits_for_store) {
        (false, _) => "",
        (true, false) => " on all nodes",
        (true, true) => " here, and on other nodes when the cluster store returns",
    }
}

pub fn author(ban: &Ban) -> String {
    match &ban.origin {
        Origin::Config => "the configuration".to_owned(),
        Origin::Manual | Origin::Automatic => printable(&ban.author),
        Origin::Folded => "folding".to_owned(),
        Origin::Forced => format!("{} with --force", printable(&ban.author)),
        Origin::List(name) => format!("the list {}", printable(name)),
        Origin::Program(name) => printable(name),
        Origin::Crowdsec => format!("CrowdSec ({})", printable(&ban.author)),
        Origin::Cluster(node) => format!("node {} of the cluster", printable(node)),
    }
}

/// Names the folds that a change lifted.
pub fn unfolded(changed: &Changed) -> impl Iterator<Item = String> {
    changed.unfolded.iter().map(|Unfolded { prefix, bans }| {
        let bans = count(*bans, "ban inside it stays", "bans inside it stay");
        format!("{prefix} is no longer folded: {bans}")
    })
}

/// Describes bans that exempt addresses this host needs, if any.
pub fn exempt(exempt: &ExemptEntries) -> Option<String> {
    if exempt.count == 0 {
        return None;
    }
    let number = count(exempt.count, "entry does", "entries do");
    let named = exempt.first.iter().map(|entry| {
        let ExemptEntry {
            prefix,
            protected,
            why,
        } = entry;
        let why = printable(why);
        if prefix == protected {
            format!("  {prefix} is {why}")
        } else if prefix.covers(*protected) {
            format!("  {prefix}: banned except {protected}, {why}")
        } else {
            format!("  {prefix} is inside {protected}, {why}")
        }
    });
    let mut lines = vec![format!("{number} not apply to protected addresses:")];
    lines.extend(named);
    if exempt.count > exempt.first.len() {
        lines.push(format!("  and {} more", exempt.count - exempt.first.len()));
    }
    lines.push(
        "hint: `rlctl ban PREFIX --force` bans them too, which may cut this host off".to_owned(),
    );
    Some(lines.join("\n"))
}

/// Warns about bans and limits that drop nothing: of prefixes that are on the allow list, or in a
/// dry run of the host.
pub fn without_effect(changed: &Changed) -> Vec<String> {
    const NAMED_MAX: usize = 10;
    let allowed = &changed.allowed;
    let named = allowed
        .iter()
        .take(NAMED_MAX)
        .map(|Allowed { prefix, by }| {
            let whose = if prefix == by {
                format!("{prefix} is")
            } else {
                format!("{by}, which covers {prefix}, is")
            };
            format!("no effect while {whose} on the allow list: `rlctl list allows`")
        });
    let mut notes: Vec<String> = named.collect();
    if allowed.len() > NAMED_MAX {
        let others = allowed.len() - NAMED_MAX;
        notes.push(format!("no effect on {others} more allowed prefixes"));
    }
    if changed.dry_run {
        notes.push("the host is in a dry run (`observe = true`): nothing is dropped".to_owned());
    }
    notes
}

/// A number of packets: `1 packet`, `2 packets`.
pub fn packets(number: u64) -> String {
    count(number, "packet", "packets")
}

/// A figure of a table; `-` where nothing is counted.
pub fn counted(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// `until 14:32:07`, or `forever`.
pub fn until(until: Option<Timestamp>, now: &Zoned) -> String {
    match until {
        Some(until) => format!("until {}", moment(until, now)),
        None => "forever".to_owned(),
    }
}

/// Formats a lifetime that begins now: `for 10m (until 14:32:07)`, or `forever`.
pub fn lifetime(lifetime: Lifetime, until: Option<Timestamp>, now: &Zoned) -> String {
    let end = until.map(|until| format!(" (until {})", moment(until, now)));
    format!("{lifetime}{}", end.unwrap_or_default())
}

/// A number of things: `1 ban`, `2 bans`.
pub fn count<N: Copy + Display + From<u8> + PartialEq>(number: N, one: &str, many: &str) -> String {
    let what = if number == N::from(1) { one } else { many };
    format!("{number} {what}")
}

/// A list in a sentence: `a`, `a and b`, `a, b and c`.
pub fn and<T: Display>(items: &[T]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

/// Formats one prefix as its name, several as their number.
pub fn whom(prefixes: &[Prefix]) -> String {
    match prefixes {
        [prefix] => prefix.to_string(),
        several => format!("{} prefixes", several.len()),
    }
}

/// A number of bytes for the eye, in powers of 1024: `640 B`, `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = bytes.ilog2() / 10;
    let tenths = (u128::from(bytes) * 10) >> (power * 10);
    let unit = UNITS[power as usize - 1];
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// A rate in few letters: `950`, `12.3k`, `4.56M`.
pub fn rate(rate: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if rate >= unit {
            let digits = usize::from(rate < 100.0 * unit);
            return format!("{:.digits$}{name}", rate / unit);
        }
    }
    if rate >= 10.0 || rate == 0.0 {
        format!("{rate:.0}")
    } else {
        format!("{rate:.1}")
    }
}

/// `syn-flood to 192.0.2.1 since 14:32: up to 9000 packets/s from at least 300 sources`
pub fn attack(attack: &AttackView, now: &Zoned) -> String {
    format!(
        "{} {} since {}: up to {} packets/s from at least {}",
        styled(BAD, attack.kind.label()),
        printable(&attack.subject),
        moment(attack.since, now),
        attack.packets_per_second,
        count(attack.sources, "source", "sources")
    )
}

/// Formats the target of limits: `the destination 198.51.100.7`.
pub fn target(target: LimitTarget) -> String {
    match (target.prefix, target.destination) {
        (_, Some(prefix)) => format!("the destination {prefix}"),
        (Some(prefix), None) => prefix.to_string(),
        (None, None) => "the default policy".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_take_few_letters() {
        for (rate, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (950.4, "950"),
            (12_345.0, "12.3k"),
            (456_000.0, "456k"),
            (4_560_000.0, "4.6M"),
        ] {
            assert_eq!(super::rate(rate), text);
        }
    }

    #[test]
    fn a_moment_has_its_date_when_that_is_not_todays() {
        check_moment("2026-03-02T14:32:07Z", "14:32:07");
        check_moment("2026-03-02T23:59:59Z", "23:59:59");
        check_moment("2026-03-03T00:00:00Z", "2026-03-03 00:00:00");
        check_moment("2027-03-02T14:32:07Z", "2027-03-02 14:32:07");
    }

    #[test]
    fn a_moment_is_reported_in_the_zone_of_the_reader() {
        let now: Zoned = "2026-03-02T14:00:00+05:30[+05:30]".parse().unwrap();
        let later = "2026-03-02T14:32:07Z".parse().unwrap();
        assert_eq!(moment(later, &now), "20:02:07");
        let tomorrow = "2026-03-02T18:30:00Z".parse().unwrap();
        assert_eq!(moment(tomorrow, &now), "2026-03-03 00:00:00");
    }

    #[test]
    fn entries_that_do_not_hold_are_reported_with_the_reason_and_a_way_out() {
        assert_eq!(exempt(&ExemptEntries::default()), None);
        let entry = |prefix: &str, protected: &str, why: &str| ExemptEntry {
            prefix: prefix.parse().unwrap(),
            protected: protected.parse().unwrap(),
            why: why.to_owned(),
        };
        let entries = ExemptEntries {
            count: 9,
            first: vec![
                entry("10.0.0.0/8", "10.0.0.1", "the default gateway of eth0"),
                entry("127.0.0.1", "127.0.0.0/8", "the loopback of this host"),
                entry("192.0.2.1", "192.0.2.1", "a resolver in /etc/resolv.conf"),
            ],
        };
        let reported = exempt(&entries).unwrap();
        let expected = "9 entries do not apply to protected addresses:
  10.0.0.0/8: banned except 10.0.0.1, the default gateway of eth0
  127.0.0.1 is inside 127.0.0.0/8, the loopback of this host
  192.0.2.1 is a resolver in /etc/resolv.conf
  and 6 more
hint: `rlctl ban PREFIX --force` bans them too, which may cut this host off";
        assert_eq!(reported, expected);
    }

    #[test]
    fn a_span_is_reported_in_two_units() {
        check_span(0, "0s");
        check_span(59, "59s");
        check_span(598, "9m 58s");
        check_span(3_600, "1h 0m");
        check_span(10_979, "3h 2m");
        check_span(86_400 * 12 + 3_600 * 4, "12d 4h");
        check_span(-5, "0s");
    }

    #[test]
    fn sizes_are_reported_with_one_digit() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1024), "1.0 KiB");
        assert_eq!(size(1_572_864), "1.5 MiB");
        assert_eq!(size(u64::MAX), "15.9 EiB");
    }

    #[test]
    fn lists_end_with_and() {
        assert_eq!(and(&["a"]), "a");
        assert_eq!(and(&["a", "b"]), "a and b");
        assert_eq!(and(&["a", "b", "c"]), "a, b and c");
    }

    fn check_moment(text: &str, expected: &str) {
        let now: Zoned = "2026-03-02T14:22:07Z[UTC]".parse().unwrap();
        assert_eq!(moment(text.parse().unwrap(), &now), expected);
    }

    fn check_span(seconds: i64, expected: &str) {
        let from = Timestamp::from_second(1_000_000_000).unwrap();
        let to = Timestamp::from_second(1_000_000_000 + seconds).unwrap();
        assert_eq!(span(from, to), expected);
    }
}
