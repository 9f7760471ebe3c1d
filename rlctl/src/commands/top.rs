//! `rlctl top`: the sources that are busy at the moment, and the destinations.

mod keys;
mod live;
mod rates;
mod screen;

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    thread,
    time::Duration,
};

use clap::Args;
use jiff::Zoned;
use ratelimit_core::{
    api::{StatsRow, TopRequest, TopSource, WiderLimits},
    detection::Sending,
    prefix::Prefix,
};
use serde_json::Value;

use self::rates::{Picture, Row, Sample};
use crate::{
    arguments::interval,
    client::{self, Answer, Client},
    clock,
    commands::stats,
    failure::Failure,
    output::{Output, printable},
    phrase,
    report::Report,
    table::Table,
};

/// `top [--rows N] [--batch] [--times N] [--interval TIME]`
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "\
Examples:
  rlctl top
  rlctl top --rows 50 --interval 5s
  rlctl top --batch -n 3
  rlctl top --batch --json | jq .verdicts

On a terminal the view is live: s sorts, / filters, p pauses, arrows select a source, b bans it \
after a prompt, q quits. Banned sources stay in the view. Otherwise one table is printed, or one \
per second with --batch.

ADMITTED/S is the rate admitted by the fullest limit: over the current or previous window, for a \
token bucket since the last refresh. Drops by limits are counted per source, not per prefix. Drops \
by bans are not counted per source.")]
pub struct TopArguments {
    /// List destinations instead of sources, those closest to their limits first. There is no live
    /// view; use --batch to repeat
    #[arg(long)]
    pub destinations: bool,
    /// Number of sources or destinations
    #[arg(
        long,
        alias = "count",
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    pub rows: u32,
    /// Print plain tables; with --json one line each
    #[arg(long)]
    pub batch: bool,
    /// Number of tables [default: until Ctrl-C]
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        requires = "batch",
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    pub times: Option<u32>,
    /// Refresh interval
    #[arg(
        long,
        alias = "delay",
        value_name = "TIME",
        default_value = "1s",
        value_parser = interval,
    )]
    pub interval: Duration,
}

/// Shows the busiest sources: live on a terminal, otherwise one table or the requested number.
pub fn run(arguments: &TopArguments, client: &Client, output: &Output) -> Result<Report, Failure> {
    let TopArguments {
        rows: count,
        interval: delay,
        ..
    } = *arguments;
    match (arguments.destinations, arguments.batch) {
        (true, true) => return batch_of_destinations(arguments, client, output),
        (true, false) => return destinations(count, client),
        (false, true) => return batch(arguments, client, output),
        (false, false) => {}
    }
    if output.is_for_people() && io::stdin().is_terminal() && io::stdout().is_terminal() {
        return live::run(count, delay, client);
    }
    once(count, client)
}

/// Lists the `count` busiest sources, in the order of the daemon.
fn once(count: u32, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Vec<TopSource>> = client.get(&format!("/v1/top?count={count}"))?;
    if answer.value.is_empty() {
        return Ok(Report::new(answer, "").note("no busy sources"));
    }
    let table = source_table(&answer.value);
    Ok(Report::new(answer, table.to_string()))
}

/// Lists sources, with protocol and port if there are samples of any of them.
fn source_table(sources: &[TopSource]) -> Table {
    let are_sampled = sources.iter().any(|source| source.sending.is_some());
    let are_placed = sources.iter().any(|source| source.place.is_some());
    let mut table = Table::new(match (are_sampled, are_placed) {
        (true, true) => {
            "SOURCE | POLICY | SENDS | >PACKETS/S | LIMIT | >USED | >% | >REFUSED | PLACE"
        }
        (true, false) => "SOURCE | POLICY | SENDS | >PACKETS/S | LIMIT | >USED | >% | >REFUSED",
        (false, true) => "SOURCE | POLICY | LIMIT | >USED | >% | >REFUSED | PLACE",
        (false, false) => "SOURCE | POLICY | LIMIT | >USED | >% | >REFUSED",
    });
    for source in sources {
        let limit = source.limit.as_ref();
        let mut row = vec![source.source.to_string(), source.policy.clone()];
        if are_sampled {
            let rate = source.sending.as_ref().map(|it| it.packets_per_second);
            row.push(sending(source.sending.as_ref()));
            row.push(rate.map_or_else(String::new, |rate| rate.to_string()));
        }
        row.extend([
            limit.map_or_else(String::new, |state| state.limit.to_string()),
            limit.map_or_else(String::new, |state| state.used.to_string()),
            limit.map_or_else(String::new, |state| rates::percent(state).to_string()),
            source.refused_packets.to_string(),
        ]);
        if are_placed {
            let place = source.place.as_ref();
            row.push(place.map_or_else(String::new, |place| printable(&place.to_string())));
        }
        table.row(row);
    }
    table
}

/// Describes the most frequent kind of packet of a source.
fn sending(sending: Option<&Sending>) -> String {
    sending.map_or_else(String::new, |sending| printable(&sending.to_string()))
}

/// Lists the `count` destinations whose limits are fullest.
fn destinations(count: u32, client: &Client) -> Result<Report, Failure> {
    let answer = fullest_destinations(count, client)?;
    if answer.value.is_empty() {
        return Ok(Report::new(answer, "").note("no [destination] has `limits`"));
    }
    let table = destination_table(&answer.value);
    Ok(Report::new(answer, table.to_string()))
}

/// Lists them again and again.
fn batch_of_destinations(
    arguments: &TopArguments,
    client: &Client,
    output: &Output,
) -> Result<Report, Failure> {
    let mut times = 0;
    loop {
        let answer = fullest_destinations(arguments.rows, client)?;
        let text = || {
            let at = clock::local().strftime("%H:%M:%S").to_string();
            format!("{at}\n{}\n", destination_table(&answer.value))
        };
        times += 1;
        let is_last = arguments.times == Some(times);
        if !output.line(&answer.json, text)? || is_last {
            return Ok(Report::printed());
        }
        thread::sleep(arguments.interval);
    }
}

fn fullest_destinations(count: u32, client: &Client) -> Result<Answer<Vec<WiderLimits>>, Failure> {
    client.get(&format!("/v1/top/destinations?count={count}"))
}

fn destination_table(fullest: &[WiderLimits]) -> Table {
    let mut table = Table::new("DESTINATION | LIMIT | >USED | >ROOM | >%");
    for it in fullest {
        let destination = it.destination.map(|it| it.to_string());
        for state in &it.limits {
            table.row([
                destination.clone().unwrap_or_default(),
                state.limit.to_string(),
                state.used.to_string(),
                state
                    .limit
                    .capacity()
                    .saturating_sub(state.used)
                    .to_string(),
                rates::percent(state).to_string(),
            ]);
        }
    }
    table
}

/// Prints what the live view would show, again and again.
fn batch(arguments: &TopArguments, client: &Client, output: &Output) -> Result<Report, Failure> {
    let mut before = sample(arguments.rows, &[], client)?;
    let mut times = 0;
    while arguments.times.is_none_or(|wanted| times < wanted) {
        thread::sleep(arguments.interval);
        let shown: Vec<Prefix> = before.sources.iter().map(|it| it.source).collect();
        let mut after = sample(arguments.rows, &shown, client)?;
        after.keep_idle(&before);
        let picture = Picture::between(&before, &after, clock::wall());
        let json = serde_json::to_value(&picture).unwrap_or(Value::Null);
        if !output.line(&json, || text(&picture, &clock::local()))? {
            break;
        }
        before = after;
        times += 1;
    }
    Ok(Report::printed())
}

/// The most sources that one request may name: its address has at most 64 kB.
const NAMED_MAX: usize = 1_000;

/// Queries everything that one refresh needs. The first sources of `with` are included even while
/// banned.
fn sample(count: u32, with: &[Prefix], client: &Client) -> Result<Sample, Failure> {
    let with = with.iter().take(NAMED_MAX);
    let with: Vec<String> = with.map(ToString::to_string).collect();
    let request = TopRequest {
        count: Some(count as usize),
        with: with.join(","),
    };
    let path = client::with_query("/v1/top", &request);
    let counters: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
    let sources: Answer<Vec<TopSource>> = client.get(&path)?;
    Ok(Sample {
        at: clock::monotonic(),
        counters: counters.value,
        sources: sources.value,
        idle: BTreeMap::new(),
    })
}

fn text(picture: &Picture, now: &Zoned) -> String {
    let verdicts = stats::rate_table(&picture.verdicts);
    let mut sources = Table::new(SOURCE_HEAD);
    for row in &picture.sources {
        sources.row(cells(row, now));
    }
    let at = now.strftime("%H:%M:%S");
    format!("{at}\n{verdicts}\n\n{sources}\n")
}

/// Columns of a source.
const SOURCE_HEAD: &str =
    "SOURCE | POLICY | >ADMITTED/S | >LEVEL | >REFUSED/S | >REFUSED | BAN | LIMIT | SENDS";

/// Cells of a source.
fn cells(row: &Row, now: &Zoned) -> [String; 9] {
    let limit = row.limit.as_ref();
    [
        row.source.to_string(),
        row.policy.clone(),
        row.admitted(),
        limit.map_or_else(String::new, |_| format!("{}%", row.percent())),
        phrase::rate(row.refused_packets_per_second),
        row.refused_packets.to_string(),
        row.banned_for(now),
        limit.map_or_else(String::new, |state| state.limit.to_string()),
        sending(row.sending.as_ref()),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_core::{
        api::{LimitState, TopSource},
        detection::Sending,
        geo::Place,
        limit::{Algorithm, LimitSpec, LimitUnit},
    };

    #[test]
    fn what_sources_send_and_where_they_are_has_columns_if_it_is_known() {
        let source = TopSource {
            source: "192.0.2.1".parse().unwrap(),
            policy: "default".to_owned(),
            limit: None,
            refused_packets: 3,
            ban: None,
            sending: None,
            place: None,
        };
        let sampled = TopSource {
            sending: Some(Sending {
                class: "udp".to_owned(),
                to_port: Some(53),
                from_port: None,
                packets_per_second: 41,
            }),
            ..source.clone()
        };
        let head = |sources: &[TopSource]| {
            let table = super::source_table(sources).to_string();
            let words = table.lines().next().unwrap().split_whitespace();
            words.collect::<Vec<_>>().join(" ")
        };
        let without = head(std::slice::from_ref(&source));
        assert!(without.contains("POLICY LIMIT"), "{without}");
        let placed = TopSource {
            place: Some(Place {
                country: Some("FR".to_owned()),
                ..Place::default()
            }),
            ..source.clone()
        };
        let with = head(&[source.clone(), sampled]);
        assert!(with.contains("POLICY SENDS PACKETS/S LIMIT"), "{with}");
        assert!(!with.contains("PLACE"), "{with}");
        let with = head(&[source, placed]);
        assert!(with.contains("REFUSED PLACE"), "{with}");
    }

    /// A limit of ten packets per second with `used` in use.
    pub fn level(used: u64) -> LimitState {
        let (second, algorithm) = (Duration::from_secs(1), Algorithm::FixedWindow);
        LimitState {
            limit: LimitSpec::new(10, LimitUnit::Packets, second, algorithm).unwrap(),
            used,
            room_in_seconds: 0.0,
            clears_in_seconds: 0.5,
            share: None,
        }
    }
}
