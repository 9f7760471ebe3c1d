//! `rlctl export`: bans, allows and lists as lines of text.

use crate::{
    api::{ExportRequest, Exported},
    rlctl::{client::Client, failure::Failure, list_arguments::ExportArguments, report::Report},
};

/// Exports what is asked for; with `--json` too, lines are lines.
pub fn run(arguments: &ExportArguments, client: &Client) -> Result<Report, Failure> {
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
        format: arguments.format,
    };
    let text = client.download("/v1/export", &request)?;
    let report = Report::verbatim(text);
    if report.text.is_empty() {
        return Ok(report.note("there is nothing to export"));
    }
    Ok(report)
}
