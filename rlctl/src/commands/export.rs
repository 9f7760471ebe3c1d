//! `rlctl export`: bans, allows and lists as lines of text, which are printed as they come.

mod speaker;
mod upstream;

use ratelimit_core::api::{ExportFormat, ExportRequest, Exported};

pub use self::speaker::Speaker;
use crate::{
    client::{self, Client},
    failure::Failure,
    list_arguments::ExportArguments,
    output::{self, Output},
    report::Report,
    stream::Ended,
};

/// Exports the requested entries as lines, also with `--json`.
pub fn run(
    arguments: &ExportArguments,
    client: &Client,
    output: &Output,
) -> Result<Report, Failure> {
    let format = match arguments.format.lines_or_speaker() {
        Err(speaker) if arguments.follow => return upstream::follow(speaker, client),
        Err(speaker) => return upstream::print(speaker, client),
        Ok(_) if arguments.follow => {
            return Err(Failure::usage("--follow needs a format for a BGP speaker")
                .hint("add --format exabgp, exabgp-flowspec or gobgp"));
        }
        Ok(format) => format,
    };
    if format == ExportFormat::Plain && !output.is_for_people() {
        return Err(
            Failure::usage("--format plain is not JSON").hint("remove --json or --format plain")
        );
    }
    let what = match arguments {
        ExportArguments { list: Some(_), .. } => Exported::List,
        ExportArguments { bans: true, .. } => Exported::Bans,
        ExportArguments { allows: true, .. } => Exported::Allows,
        ExportArguments { all: true, .. } => Exported::All,
        _ => Exported::Kept,
    };
    let request = ExportRequest {
        what,
        list: arguments.list.clone(),
        format,
    };
    let path = client::with_query("/v1/export", &request);
    let mut is_empty = true;
    let ended = client.follow(&path, |piece| {
        is_empty = false;
        output::piece(piece)
    })?;
    if ended == Ended::User {
        return Err(Failure::refused("the export was interrupted"));
    }
    let report = Report::printed();
    if is_empty {
        return Ok(report.note("there is nothing to export"));
    }
    Ok(report)
}
