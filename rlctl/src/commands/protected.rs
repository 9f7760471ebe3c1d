//! `rlctl list protected`: the addresses without which this host would be cut off, and why.

use ratelimit_core::api::ProtectedView;

use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::printable,
    phrase,
    report::Report,
    table::Table,
};

/// Lists the addresses that only forced bans apply to.
pub fn run(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Vec<ProtectedView>> = client.get("/v1/protected")?;
    let mut table = Table::new("PREFIX | REASON | EXEMPT FROM A WIDER BAN");
    for own in &answer.value {
        let reasons: Vec<String> = own.reasons.iter().map(|reason| printable(reason)).collect();
        let exempt = if own.exempt { "yes" } else { "no" };
        table.row([
            own.prefix.to_string(),
            phrase::and(&reasons),
            exempt.to_owned(),
        ]);
    }
    Ok(Report::new(answer, table.to_string()))
}
