//! Clients with persistent connections, each of which waits for its answer.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ratelimit_tests::cpu;

use super::{
    CONNECTIONS, TURN,
    limiters::{self, Kind, Limiters, USERS},
};
use crate::placement::WORLD;

/// The time in which all clients connect.
const BEFORE: Duration = Duration::from_millis(100);
/// Requests of all connections until they repeat.
const REQUESTS: usize = 16_000;

/// The answers of a turn.
pub struct Load {
    pub answers: f64,
    pub per_second: f64,
    /// The milliseconds within which 99 % of them came.
    pub slowest: f64,
}

/// Asks as fast as answers come, or at this rate of requests per second: then an answer that comes
/// late delays the next request of its connection, and that counts for it.
#[expect(clippy::cast_precision_loss, reason = "millions")]
pub fn ask(limiters: &Limiters, kind: Kind, rate: Option<f64>) -> Result<Load> {
    let each = CONNECTIONS as f64;
    let gap = rate.map(|rate| Duration::from_secs_f64(each / rate));
    let request = |_| limiters.request(kind, || fastrand::u32(..USERS));
    let requests: Vec<_> = (0..REQUESTS).map(request).collect();
    let start = Instant::now() + BEFORE;
    let nanos = limiters.lab.near.enter(|| {
        cpu::pin(WORLD);
        thread::scope(|scope| {
            let connections = (0..CONNECTIONS).map(|index| {
                let offset = gap.unwrap_or_default().mul_f64(index as f64 / each);
                let first = index * REQUESTS / CONNECTIONS;
                let requests = requests.iter().cycle().skip(first);
                scope.spawn(move || connection(limiters, kind, requests, start + offset, gap))
            });
            let connections: Vec<_> = connections.collect();
            let nanos = connections
                .into_iter()
                .map(|connection| connection.join().expect("it does not panic"));
            nanos.collect::<Result<Vec<_>>>()
        })
    })?;
    let mut nanos = nanos.concat();
    nanos.sort_unstable();
    let slowest = nanos.get(nanos.len() * 99 / 100).context("no answer")?;
    Ok(Load {
        answers: nanos.len() as f64,
        per_second: nanos.len() as f64 / TURN.as_secs_f64(),
        slowest: *slowest as f64 / 1e6,
    })
}

/// Returns the nanoseconds that each answer took from when its request was due.
fn connection<'r>(
    limiters: &Limiters,
    kind: Kind,
    requests: impl Iterator<Item = &'r Vec<u8>>,
    start: Instant,
    gap: Option<Duration>,
) -> Result<Vec<u128>> {
    let mut client = limiters.client(kind)?;
    let (mut due, mut nanos) = (start, vec![]);
    for request in requests {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if due >= start + TURN {
            break;
        }
        let answer = client.ask(request)?;
        ensure!(
            limiters::is_admitted(answer)?,
            "{} refuses a request within the limit",
            kind.label()
        );
        nanos.push(due.elapsed().as_nanos());
        due = gap.map_or_else(Instant::now, |gap| due + gap);
    }
    Ok(nanos)
}
