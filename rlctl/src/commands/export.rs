//! `rlctl export`: bans, allows and lists as lines of text, which are printed as they come.

mod speaker;
mod upstream;

use clap::{Args, ValueEnum};
use ratelimit_core::api::{ExportFormat as LineFormat, ExportRequest, Exported};

pub use self::speaker::Speaker;
use crate::{
    client::{self, Client},
    completions,
    failure::Failure,
    output::{self, Output},
    report::Report,
    stream::Ended,
};

/// `export [--list NAME | --bans | --allows | --all]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl export > backup.jsonl
  rlctl export --list spamhaus --format plain
  rlctl export --bans | jq .prefix
  rlctl export --format exabgp --follow
  rlctl export --format gobgp --follow | xargs -L1 gobgp

Without an option it exports bans, allows and imported lists, but not lists from files.

The formats for BGP speakers print a command for each route of [upstream]. With --follow a route \
is withdrawn when its ban ends, and all routes are withdrawn when rlctl is stopped. While the \
daemon is away, the routes stay.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct ExportArguments {
    /// The list with this name
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["bans", "allows", "all"],
        add = completions::lists(),
    )]
    pub list: Option<String>,
    /// Bans of any origin, without those of lists
    #[arg(long, conflicts_with_all = ["allows", "all"])]
    pub bans: bool,
    /// The allow list, without entries of the configuration and of lists
    #[arg(long, conflicts_with = "all")]
    pub allows: bool,
    /// Bans, allows and all lists
    #[arg(long)]
    pub all: bool,
    /// The output format
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub format: ExportFormat,
    /// Continue with changes of the routes
    #[arg(long, short, conflicts_with_all = ["list", "bans", "allows", "all"])]
    pub follow: bool,
}

/// The output formats of `rlctl export`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ExportFormat {
    /// JSON lines with all fields
    Json,
    /// One prefix per line, with its reason after #
    Plain,
    /// Routes of `[upstream]`, for the text API of exabgp
    Exabgp,
    /// The same as flow specifications
    ExabgpFlowspec,
    /// Routes of `[upstream]`, as arguments of gobgp
    Gobgp,
    /// Routes of `[upstream]`, as static routes of FRR
    Frr,
}

impl ExportFormat {
    /// Returns the format of lines, or the BGP speaker that the output is for.
    pub fn lines_or_speaker(self) -> Result<LineFormat, Speaker> {
        match self {
            Self::Json => Ok(LineFormat::Json),
            Self::Plain => Ok(LineFormat::Plain),
            Self::Exabgp => Err(Speaker::Exabgp),
            Self::ExabgpFlowspec => Err(Speaker::ExabgpFlowspec),
            Self::Gobgp => Err(Speaker::Gobgp),
            Self::Frr => Err(Speaker::Frr),
        }
    }
}

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
                .hint("add --format exabgp, exabgp-flowspec, gobgp or frr"));
        }
        Ok(format) => format,
    };
    if format == LineFormat::Plain && !output.is_for_people() {
        return Err(
            Failure::usage("--format plain is not JSON").hint("remove --json or --format plain")
        );
    }
    let is_of_one_kind = arguments.list.is_some() || arguments.bans || arguments.allows;
    if format == LineFormat::Plain && !is_of_one_kind {
        return Err(
            Failure::usage("--format plain does not tell bans from allows")
                .hint("add --bans, --allows or --list NAME"),
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
