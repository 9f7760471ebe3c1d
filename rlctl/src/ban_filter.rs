//! Arguments that select bans: for `list bans` and `unban`.

use std::time::Duration;

use clap::Args;
use ratelimit_core::{api::BanFilter, quantity};

use crate::{completions, failure::Failure, prefixes};

/// `[--within PREFIX] [--origin ORIGIN] [--reason-contains TEXT] [--ending TIME]`
#[derive(Args, Clone, Debug, Default)]
pub struct BanFilterArguments {
    /// Bans within this prefix
    #[arg(long, value_name = "PREFIX")]
    pub within: Option<String>,
    /// Bans with this origin: manual, forced, automatic, folded, crowdsec, program, cluster or
    /// list, optionally with a name: program:NAME
    #[arg(long, value_name = "ORIGIN", add = completions::origins())]
    pub origin: Option<String>,
    /// Bans whose reason contains this text
    #[arg(
        long = "reason-contains",
        alias = "reason",
        value_name = "TEXT",
        id = "reason_part"
    )]
    pub reason: Option<String>,
    /// Bans that expire within this time
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub ending: Option<Duration>,
}

impl BanFilterArguments {
    /// Returns the filter that the options describe.
    pub fn filter(&self) -> Result<BanFilter, Failure> {
        let within = self.within.as_deref().map(prefixes::read_one);
        Ok(BanFilter {
            within: within.transpose()?,
            origin: self.origin.clone(),
            reason: self.reason.clone(),
            ending_in_seconds: self.ending.map(|ending| ending.as_secs_f64()),
        })
    }
}
