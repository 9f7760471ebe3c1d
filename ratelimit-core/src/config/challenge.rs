//! `[challenge.tcp]` and `[challenge.dns]`: when sources have to prove that they receive what is sent to them.

use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use ratelimit_common::{
    challenge::{Asked, PORTS_MAX, When},
    new_sources::COUNT_MAX,
};

use super::{
    limit::SCOPES,
    report::{At, Report},
    table::{Section, Value},
};
use crate::{
    challenge::{self, Challenge, DESTINATIONS_MAX, Way},
    diagnostic::Problem,
    limit::Scope,
    prefix::Prefix,
    quantity,
};

const WHEN_EXAMPLE: &str = "when = \"always\"";

const LASTS: Duration = Duration::from_mins(10);
const LASTS_EXAMPLE: &str = "for = \"10m\"";
const LASTS_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);

const ANSWERS: u32 = 1_000_000;

const BACK_OFF: Duration = Duration::from_mins(1);
const BACK_OFF_EXAMPLE: &str = "back_off = \"1m\"";

const WAY_EXAMPLE: &str = "way = \"rst\"";
const WAY_HINT: &str = "write way = \"rst\" or \"syncookie\"";

const DNS_PORT: u16 = 53;
const DNS_PORTS_EXAMPLE: &str = "ports = [53]";
const PORTS_EXAMPLE: &str = "ports = [443]";
const CLASSES_EXAMPLE: &str = "classes = [\"web\"]";
const DESTINATIONS_EXAMPLE: &str = "destinations = [\"198.51.100.7\"]";

/// What `[challenge]` says.
pub struct Located {
    /// `None` where nobody is challenged, or where something is wrong, and reported.
    pub challenge: Option<Challenge>,
    /// The names of the classes of which SYNs are challenged.
    pub classes: Vec<At<String>>,
}

/// Without `[challenge.tcp]`.
const DEFAULT: Challenge = Challenge {
    connections: When::Never,
    queries: When::Never,
    destinations: [None; DESTINATIONS_MAX],
    connection_ports: [0; PORTS_MAX],
    classes: Vec::new(),
    ports: [0; PORTS_MAX],
    lasts: LASTS,
    answers: NonZeroU32::new(ANSWERS).expect("it is not 0"),
    way: Way::Rst,
    scope: Scope::Cluster,
    back_off: Some(BACK_OFF),
};

/// Reads `[challenge]`.
pub(super) fn read(mut section: Section<'_>, report: &mut Report) -> At<Located> {
    let (tcp, dns) = (section.take("tcp"), section.take("dns"));
    if tcp.is_none() && dns.is_none() {
        section.lacks("tcp", "write [challenge.tcp] or [challenge.dns]", report);
    }
    let spot = section.spot.clone();
    section.finish(report);
    let mut challenge = Some(DEFAULT);
    let mut classes = Vec::new();
    if let Some(tcp) = tcp {
        let tcp = tcp.table("[challenge.tcp]".to_owned(), "[challenge.tcp]", report);
        challenge = tcp.and_then(|tcp| read_tcp(tcp, &mut classes, report));
    }
    if let Some(dns) = dns {
        let dns = dns.table("[challenge.dns]".to_owned(), "[challenge.dns]", report);
        let dns = dns.and_then(|dns| read_dns(dns, report));
        challenge = challenge
            .zip(dns)
            .map(|(challenge, (queries, ports))| Challenge {
                queries,
                ports,
                ..challenge
            });
    }
    let challenge =
        challenge.filter(|it| it.connections != When::Never || it.queries != When::Never);
    let value = Located { challenge, classes };
    At { value, spot }
}

/// Reads when, of a section that has to tell.
fn take_when(asked: Asked, section: &mut Section<'_>, report: &mut Report) -> Option<When> {
    let Some(when) = section.take("when") else {
        section.lacks("when", &when_hint(asked), report);
        return None;
    };
    read_when(asked, when, report)
}

fn when_hint(asked: Asked) -> String {
    let unit = challenge::unit(asked);
    format!("write when = \"over 5_000 {unit}\", \"always\" or \"never\"")
}

fn read_dns(mut section: Section<'_>, report: &mut Report) -> Option<(When, [u16; PORTS_MAX])> {
    let when = take_when(Asked::Queries, &mut section, report);
    let ports = section.take("ports");
    let ports = ports.map_or(Some(first([DNS_PORT])), |value| {
        read_ports(value, DNS_PORTS_EXAMPLE, report)
    });
    section.finish(report);
    Some((when?, ports?))
}

fn read_ports(value: Value<'_>, example: &str, report: &mut Report) -> Option<[u16; PORTS_MAX]> {
    let spot = value.spot.clone();
    let values = value.list(example, report)?;
    if values.is_empty() || values.len() > PORTS_MAX {
        let message = format!("`ports` has {} ports", values.len());
        let hint = format!("write from 1 to {PORTS_MAX} ports, as in {example}");
        report.add(&spot, Problem::new(message, hint));
        return None;
    }
    let ports = values.into_iter();
    let ports: Vec<_> = ports
        .map(|value| value.integer_in(1..=u16::MAX.into(), DNS_PORT.into(), report))
        .collect();
    let ports = ports.into_iter();
    let ports: Option<Vec<u16>> = ports
        .map(|port| port.and_then(|port| u16::try_from(port).ok()))
        .collect();
    ports.map(first)
}

/// The first of them, and behind them none.
fn first<T: Copy + Default, const COUNT: usize>(values: impl IntoIterator<Item = T>) -> [T; COUNT] {
    let mut array = [T::default(); COUNT];
    for (place, value) in array.iter_mut().zip(values) {
        *place = value;
    }
    array
}

fn read_destinations(
    value: Value<'_>,
    report: &mut Report,
) -> Option<[Option<Prefix>; DESTINATIONS_MAX]> {
    let spot = value.spot.clone();
    let values = value.list(DESTINATIONS_EXAMPLE, report)?;
    if values.is_empty() || values.len() > DESTINATIONS_MAX {
        let message = format!("`destinations` has {} destinations", values.len());
        let hint =
            format!("write from 1 to {DESTINATIONS_MAX} of them, as in {DESTINATIONS_EXAMPLE}");
        report.add(&spot, Problem::new(message, hint));
        return None;
    }
    let values = values.into_iter();
    let prefixes: Vec<_> = values
        .map(|value| read_destination(value, report))
        .collect();
    let prefixes: Option<Vec<Prefix>> = prefixes.into_iter().collect();
    prefixes.map(|prefixes| first(prefixes.into_iter().map(Some)))
}

fn read_destination(value: Value<'_>, report: &mut Report) -> Option<Prefix> {
    let At { value, spot } = value.text(DESTINATIONS_EXAMPLE, report)?;
    let prefix = value.parse::<Prefix>();
    prefix
        .map_err(|error| report.add(&spot, Problem::from(error)))
        .ok()
}

fn read_classes(value: Value<'_>, report: &mut Report) -> Option<Vec<At<String>>> {
    let spot = value.spot.clone();
    let values = value.list(CLASSES_EXAMPLE, report)?;
    if values.is_empty() {
        let hint = format!("write {CLASSES_EXAMPLE}, or remove it");
        report.add(&spot, Problem::new("`classes` names no class", hint));
        return None;
    }
    let names = values.into_iter();
    let names: Vec<_> = names
        .map(|value| value.text(CLASSES_EXAMPLE, report))
        .collect();
    names.into_iter().collect()
}

/// Reads `[challenge.tcp]`, whose `classes` go there.
fn read_tcp(
    mut section: Section<'_>,
    classes: &mut Vec<At<String>>,
    report: &mut Report,
) -> Option<Challenge> {
    let when = take_when(Asked::Connections, &mut section, report);
    let lasts = section.take("for");
    let lasts = lasts.map_or(Some(LASTS), |value| read_lasts(value, report));
    let answers = section.take("answers");
    let answers = answers.map_or(Some(ANSWERS), |value| {
        value.integer_in(1..=COUNT_MAX, ANSWERS, report)
    });
    let destinations = section.take("destinations");
    let destinations = destinations.map_or(Some(DEFAULT.destinations), |value| {
        read_destinations(value, report)
    });
    let ports = section.take("ports");
    let ports = ports.map_or(Some(DEFAULT.connection_ports), |value| {
        read_ports(value, PORTS_EXAMPLE, report)
    });
    let named = section.take("classes");
    let named = named.map_or(Some(Vec::new()), |value| read_classes(value, report));
    let way = section.take("way");
    let way = way.map_or(Some(Way::Rst), |value| read_way(value, report));
    let scope = section.take("scope");
    let scope = scope.map_or(Some(DEFAULT.scope), |value| {
        value.choice(&SCOPES, report).map(|scope| scope.value)
    });
    let back_off = section.take("back_off");
    let back_off = back_off.map_or(Some(BACK_OFF), |value| read_back_off(value, report));
    section.finish(report);
    *classes = named?;
    Some(Challenge {
        connections: when?,
        destinations: destinations?,
        connection_ports: ports?,
        classes: classes.iter().map(|at| at.value.clone()).collect(),
        lasts: lasts?,
        answers: NonZeroU32::new(answers?)?,
        way: way?,
        scope: scope?,
        back_off: Some(back_off?).filter(|time| !time.is_zero()),
        ..DEFAULT
    })
}

fn read_when(asked: Asked, value: Value<'_>, report: &mut Report) -> Option<When> {
    let At { value, spot } = value.text(WHEN_EXAMPLE, report)?;
    match value.as_str() {
        "always" => return Some(When::Always),
        "never" => return Some(When::Never),
        _ => {}
    }
    let rate = value
        .strip_prefix("over ")
        .and_then(|rate| rate.strip_suffix(challenge::unit(asked)))
        .and_then(|rate| rate.strip_suffix(' '));
    let Some(digits) = rate.map(|rate| rate.replace('_', "")) else {
        let message = format!("`when` is `{value}`, which says no time");
        report.add(&spot, Problem::new(message, when_hint(asked)));
        return None;
    };
    let over = digits.parse().ok().and_then(NonZeroU32::new);
    let over = over.filter(|over| over.get() <= COUNT_MAX);
    if over.is_none() {
        let message = format!("`when` is `{value}`: {digits} is out of range");
        let hint = format!("write a number from 1 to {COUNT_MAX}, or \"always\"");
        report.add(&spot, Problem::new(message, hint));
    }
    over.map(When::Over)
}

fn read_way(value: Value<'_>, report: &mut Report) -> Option<Way> {
    let At { value, spot } = value.text(WAY_EXAMPLE, report)?;
    let way = Way::ALL.into_iter().find(|way| way.name() == value);
    if way.is_none() {
        let message = format!("`way` is `{value}`, which is none");
        report.add(&spot, Problem::new(message, WAY_HINT));
    }
    way
}

/// Reads how long the challenge is suspended; no time where it never is.
fn read_back_off(value: Value<'_>, report: &mut Report) -> Option<Duration> {
    let At { value, spot } = value.text(BACK_OFF_EXAMPLE, report)?;
    if value == "never" {
        return Some(Duration::ZERO);
    }
    read_duration("back_off", At { value, spot }, BACK_OFF_EXAMPLE, report)
}

fn read_lasts(value: Value<'_>, report: &mut Report) -> Option<Duration> {
    let text = value.text(LASTS_EXAMPLE, report)?;
    read_duration("for", text, LASTS_EXAMPLE, report)
}

fn read_duration(
    key: &str,
    At { value, spot }: At<String>,
    example: &str,
    report: &mut Report,
) -> Option<Duration> {
    let lasts = match quantity::parse_duration(&value) {
        Ok(lasts) => lasts,
        Err(error) => {
            report.add(&spot, error.into());
            return None;
        }
    };
    if LASTS_RANGE.contains(&lasts) {
        return Some(lasts);
    }
    let message = format!("`{key}` is {value}, which is not between 1s and 24h");
    report.add(&spot, Problem::new(message, format!("write {example}")));
    None
}
