//! `rlctl top`: the sources that are busy at the moment.

use ratelimit_core::api::{LimitState, TopSource};

use crate::{
    client::{Answer, Client},
    failure::Failure,
    report::Report,
    table::{Table, left, right},
};

/// Lists the `count` busiest sources, in the order of the daemon.
pub fn run(count: u32, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Vec<TopSource>> = client.get(&format!("/v1/top?count={count}"))?;
    if answer.value.is_empty() {
        return Ok(Report::new(answer, "").note("no source is busy"));
    }
    let mut table = Table::new([
        left("SOURCE"),
        left("POLICY"),
        left("LIMIT"),
        right("USED"),
        right("%"),
        right("REFUSED"),
    ]);
    for source in &answer.value {
        let limit = source.limit.as_ref();
        table.row([
            source.source.to_string(),
            source.policy.clone(),
            limit.map_or_else(String::new, |state| state.limit.to_string()),
            limit.map_or_else(String::new, |state| state.used.to_string()),
            limit.map_or_else(String::new, |state| percent(state).to_string()),
            source.refused_packets.to_string(),
        ]);
    }
    Ok(Report::new(answer, table.to_string()))
}

/// The used part of a limit, rounded down: only a full one is 100.
fn percent(state: &LimitState) -> u128 {
    u128::from(state.used) * 100 / u128::from(state.limit.capacity().max(1))
}
