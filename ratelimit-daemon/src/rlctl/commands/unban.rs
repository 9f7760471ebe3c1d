//! `rlctl unban`: whose ban ends now.

use crate::rlctl::{
    arguments::PrefixesArguments, client::Client, commands::removal::Removal, failure::Failure,
    report::Report,
};

/// Takes the bans of the prefixes away.
pub fn run(arguments: &PrefixesArguments, client: &Client) -> Result<Report, Failure> {
    let removal = Removal {
        path: "/v1/bans",
        done: |whom| format!("unbanned {whom}"),
        absent: "is not banned",
        absent_many: "are not banned",
    };
    removal.run(arguments, client)
}
