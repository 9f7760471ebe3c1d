//! `rlctl stats`: packets and bytes by interface, family, verdict and reason.

use ratelimit_core::api::StatsRow;

use crate::{
    client::{Answer, Client},
    failure::Failure,
    report::Report,
    table::{Table, left, right},
};

/// Shows the counters; those that are zero only when `all` are wanted.
pub fn run(all: bool, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
    let shown: Vec<&StatsRow> = answer
        .value
        .iter()
        .filter(|row| all || row.packets > 0)
        .collect();
    if shown.is_empty() {
        return Ok(Report::new(answer, "").note("no packet was counted"));
    }
    let text = table(&shown).to_string();
    Ok(Report::new(answer, text))
}

fn table(rows: &[&StatsRow]) -> Table {
    let mut table = Table::new([
        left("INTERFACE"),
        left("FAMILY"),
        left("ACTION"),
        left("REASON"),
        right("PACKETS"),
        right("BYTES"),
    ]);
    for row in rows {
        table.row([
            row.interface.clone(),
            row.family.clone(),
            row.action.clone(),
            row.reason.clone(),
            row.packets.to_string(),
            row.bytes.to_string(),
        ]);
    }
    table
}
