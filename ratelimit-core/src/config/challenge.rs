//! `[challenge.tcp]` and `[challenge.dns]`: when sources have to prove that they receive what is
//! sent to them.

use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use ratelimit_common::{
    challenge::{PORTS_MAX, Traffic, Trigger, query::DNS_PORT},
    new_sources::COUNT_MAX,
};

use super::{
    report::At,
    table::{Section, Value},
};
use crate::{
    challenge::{self, Challenge, DESTINATIONS_MAX, Way},
    prefix::Prefix,
};

const LASTS: Duration = Duration::from_mins(10);
const LASTS_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
const ANSWERS: u32 = 1_000_000;
const BACK_OFF: Duration = Duration::from_mins(1);
const CLASSES_EXAMPLE: &str = "classes = [\"web\"]";
const DESTINATIONS_EXAMPLE: &str = "destinations = [\"198.51.100.7\"]";

/// The content of `[challenge]`.
pub struct Located {
    /// `None` if there is no challenge, or if it has reported errors.
    pub challenge: Option<Challenge>,
    /// The names of the classes of which SYNs are challenged.
    pub classes: Vec<At<String>>,
}

/// Without `[challenge.tcp]`.
const DEFAULT: Challenge = Challenge {
    connections: Trigger::Never,
    queries: Trigger::Never,
    destinations: Vec::new(),
    connection_ports: Vec::new(),
    classes: Vec::new(),
    ports: Vec::new(),
    lasts: LASTS,
    answers: NonZeroU32::new(ANSWERS).expect("it is not 0"),
    way: Way::Rst,
    window_scaling: false,
    back_off: Some(BACK_OFF),
};

/// Reads `[challenge]`.
pub(super) fn read(mut section: Section<'_>) -> At<Located> {
    let (tcp, dns) = (section.take("tcp"), section.take("dns"));
    if tcp.is_none() && dns.is_none() {
        section.lacks("tcp", "write [challenge.tcp] or [challenge.dns]");
    }
    let spot = section.finish();
    let mut challenge = Some(DEFAULT);
    let mut classes = Vec::new();
    if let Some(tcp) = tcp {
        let tcp = tcp.table("[challenge.tcp]", "[challenge.tcp]");
        challenge = tcp.and_then(|tcp| read_tcp(tcp, &mut classes));
    }
    if let Some(dns) = dns {
        let dns = dns.table("[challenge.dns]", "[challenge.dns]");
        let both = challenge.zip(dns.and_then(read_dns));
        challenge = both.map(|(challenge, (queries, ports))| Challenge {
            queries,
            ports,
            ..challenge
        });
    }
    let challenge =
        challenge.filter(|it| it.connections != Trigger::Never || it.queries != Trigger::Never);
    let value = Located { challenge, classes };
    At { value, spot }
}

/// Reads `[challenge.tcp]`, whose `classes` go there.
fn read_tcp(mut section: Section<'_>, classes: &mut Vec<At<String>>) -> Option<Challenge> {
    let when = read_when(Traffic::Connections, &mut section);
    let lasts = section.duration("for", &LASTS_RANGE, LASTS);
    let answers = section.integer("answers_per_second", 1..=COUNT_MAX, ANSWERS);
    let destinations = section.take("destinations");
    let destinations = destinations.map(|value| {
        let read = |it: &Value<'_>| it.parsed::<Prefix>(DESTINATIONS_EXAMPLE);
        read_few(
            "destinations",
            DESTINATIONS_MAX,
            DESTINATIONS_EXAMPLE,
            value,
            read,
        )
    });
    let ports = section.take("ports");
    let ports = ports.map(|value| read_ports(value, "ports = [443]"));
    let named = section.take("classes");
    let named = named.map(read_classes);
    let way = section.choice("method");
    let window_scaling = section.take("window_scaling");
    let window_scaling =
        window_scaling.map_or(Some(false), |value| match (value.boolean()?, way) {
            (true, Some(Way::Syncookie)) => Some(true),
            (true, _) => value.refuse(
                "`window_scaling` needs method = \"syncookie\"",
                "write that too, or remove it: with rst, listeners scale windows anyway",
            ),
            (false, _) => Some(false),
        });
    let back_off = section.take("back_off");
    let back_off = back_off.map(|value| match value.text("back_off = \"1m\"")? {
        "never" => Some(None),
        _ => value.duration_in(&LASTS_RANGE, "1m").map(Some),
    });
    section.finish();
    *classes = named.unwrap_or_else(|| Some(Vec::new()))?;
    Some(Challenge {
        connections: when?,
        destinations: destinations.unwrap_or_else(|| Some(Vec::new()))?,
        connection_ports: ports.unwrap_or_else(|| Some(Vec::new()))?,
        classes: classes.iter().map(|at| at.value.clone()).collect(),
        lasts,
        answers: NonZeroU32::new(answers)?,
        way: way.unwrap_or(Way::Rst),
        window_scaling: window_scaling?,
        back_off: back_off.unwrap_or(Some(DEFAULT.back_off))?,
        ..DEFAULT
    })
}

fn read_dns(mut section: Section<'_>) -> Option<(Trigger, Vec<u16>)> {
    let when = read_when(Traffic::Queries, &mut section);
    let ports = section.take("ports");
    let read = |value| read_ports(value, "ports = [53]");
    let ports = ports.map_or_else(|| Some(vec![DNS_PORT]), read);
    section.finish();
    Some((when?, ports?))
}

fn read_ports(value: Value<'_>, example: &str) -> Option<Vec<u16>> {
    let port = |it: &Value<'_>| {
        let port = it.integer_in(1..=u16::MAX.into(), DNS_PORT.into())?;
        u16::try_from(port).ok()
    };
    read_few("ports", PORTS_MAX, example, value, port)
}

fn read_classes(value: Value<'_>) -> Option<Vec<At<String>>> {
    if value.len() == Some(0) {
        let hint = format!("write {CLASSES_EXAMPLE}, or remove it");
        return value.refuse("`classes` is empty", hint);
    }
    let name = |it: &Value<'_>| Some(it.at(it.text(CLASSES_EXAMPLE)?.to_owned()));
    let names: Vec<_> = value.list(CLASSES_EXAMPLE)?.iter().map(name).collect();
    names.into_iter().collect()
}

/// Reads a list of a few.
fn read_few<T>(
    key: &str,
    most: usize,
    example: &str,
    value: Value<'_>,
    read: impl FnMut(&Value<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    if let Some(count) = value.len().filter(|count| !(1..=most).contains(count)) {
        let hint = format!("write from 1 to {most} {key}, as in {example}");
        return value.refuse(format!("`{key}` has {count} {key}"), hint);
    }
    let items: Vec<_> = value.list(example)?.iter().map(read).collect();
    items.into_iter().collect()
}

/// Reads when, of a section that has to tell.
fn read_when(traffic: Traffic, section: &mut Section<'_>) -> Option<Trigger> {
    let unit = challenge::unit(traffic);
    let hint = format!("write when = \"over 5_000 {unit}\", \"always\" or \"never\"");
    let value = section.require("when", &hint)?;
    let text = value.text("when = \"always\"")?;
    match text {
        "always" => return Some(Trigger::Always),
        "never" => return Some(Trigger::Never),
        _ => {}
    }
    let rate = text.strip_prefix("over ");
    let rate = rate.and_then(|rate| rate.strip_suffix(unit)?.strip_suffix(' '));
    let Some(digits) = rate.map(|rate| rate.replace('_', "")) else {
        return value.refuse(format!("`when` is `{text}`, which is invalid"), hint);
    };
    let over = digits.parse().ok().and_then(NonZeroU32::new);
    let Some(over) = over.filter(|over| over.get() <= COUNT_MAX) else {
        let message = format!("`when` is `{text}`: {digits} is out of range");
        let hint = format!("write a number from 1 to {COUNT_MAX}, or \"always\"");
        return value.refuse(message, hint);
    };
    Some(Trigger::Over(over))
}
