//! The arguments of `rlctl import`, `rlctl export` and `rlctl fetch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ratelimit_core::{
    api::ExportFormat as LineFormat,
    lists::{Action, Connected},
};

use crate::{arguments::CONFIG, commands::export::Speaker, completions, lifetime::Lifetime};

/// `import FILE|- [--list NAME | --ban | --allow]`, `import --remove NAME`
#[derive(Args, Debug)]
#[command(
    after_help = IMPORT_EXAMPLES,
    after_long_help = format!("{IMPORT_EXAMPLES}\n\n{FORMATS}")
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct ImportArguments {
    /// The list in a supported format; `-` reads stdin
    #[arg(value_name = "FILE", required_unless_present = "remove")]
    pub file: Option<PathBuf>,
    /// Replace the list of this name
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["ban", "allow"],
        add = completions::imported_lists(),
    )]
    pub list: Option<String>,
    /// Remove the imported list of this name
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["file", "list", "ban", "allow", "dry_run"],
        add = completions::imported_lists(),
    )]
    pub remove: Option<String>,
    /// Whether the list bans or allows its entries
    #[arg(long, value_name = "ACTION", requires = "list", default_value = "ban")]
    pub action: Action,
    /// Add all entries as manual bans
    #[arg(long, conflicts_with = "allow")]
    pub ban: bool,
    /// Add all entries to the allow list
    #[arg(long)]
    pub allow: bool,
    /// Lifetime of entries without an expiry
    #[arg(long = "for", value_name = "TIME", default_value = "forever")]
    pub lifetime: Lifetime,
    /// Reason for entries without one
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Show the changes without making them
    #[arg(long)]
    pub dry_run: bool,
    /// Skip invalid lines; without this flag an invalid line rejects the whole list
    #[arg(long)]
    pub skip_bad: bool,
    /// Accept prefixes wider than /8 (IPv6: /19), and keep --force on bans exported with it
    #[arg(long)]
    pub force: bool,
    /// Accept a list without entries
    #[arg(long)]
    pub allow_empty: bool,
    /// Accept a list that covers more than 1/64 of IPv4 or IPv6, or ten times as much as before
    #[arg(long)]
    pub allow_wide: bool,
    /// Skip entries with a smaller number after the address, as in `IPsum` lists
    #[arg(long, value_name = "N")]
    pub min_count: Option<u64>,
    /// JSON key of the addresses, such as `prefixes.ip_prefix` [default: found by its name]
    #[arg(long, value_name = "KEY")]
    pub json_path: Option<String>,
    /// Exempt networks that this host is connected to from entries that cover them
    #[arg(long, conflicts_with = "include_connected")]
    pub exempt_connected: bool,
    /// Also ban networks that this host is connected to
    #[arg(long)]
    pub include_connected: bool,
}

impl ImportArguments {
    /// Returns how entries treat the networks that the daemon's host is connected to.
    pub fn connected(&self) -> Option<Connected> {
        let exempt = self.exempt_connected.then_some(Connected::Exempt);
        exempt.or(self.include_connected.then_some(Connected::Include))
    }
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  rlctl import drop.txt --list spamhaus --dry-run
  rlctl import drop.txt --list spamhaus
  ipset save blacklist | rlctl import - --ban --for 1d
  nft -j list set inet filter blackhole | rlctl import - --list blackhole
  rlctl export | rlctl import -
  rlctl import --remove spamhaus

Without --list, --ban and --allow, lines of `rlctl export` return to their origin and everything
from other formats is banned. A list is imported completely or not at all.
If an entry covers a network of this host, such as 10.0.0.0/8 in FireHOL, choose
--exempt-connected or --include-connected.
Firewall rules contribute the sources that they drop without other conditions.";

const FORMATS: &str = "\
Formats, recognized by content:
  one address, prefix or range (192.0.2.1-192.0.2.9) per line, comments after #, ; or //
  FireHOL netset; Spamhaus DROP, text and JSON; IPsum; P2P ranges (.p2p, .dat)
  CSV with a column of addresses; any JSON, such as that of AWS, GitHub or AbuseIPDB
  ipset save, ipset list, files for ipset restore; XML of ipset, firewalld and pfSense
  nft list set, nft -j list set, files for nft -f
  iptables-save, iptables -S and -L -n; ufw status; MikroTik export; pf.conf; hosts.deny
  FortiGate addresses; netsh rules; acl of BIND and Varnish; tables of Postfix
  deny of nginx and Apache; rules of Suricata, Cisco and HAProxy; blackhole routes
  groups and prefix lists of Cisco, Juniper, VyOS and Palo Alto
  cscli decisions list -o raw, -o json; files for cscli decisions import
  fail2ban-client banned, status JAIL, get JAIL banip --with-time
  JSON lines of rlctl export: prefix, action, until, reason, author, since, origin";

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
        }
    }
}

/// `fetch [NAME...] [--config FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl fetch
  rlctl fetch spamhaus
  systemctl enable --now ratelimit-lists.timer

Lists with a `url` in the configuration are downloaded with curl to their `file`. A file is only \
replaced by a complete list that the daemon accepts; the daemon loads it at the interval `every`. \
The exit code is 1 if a download failed.")]
pub struct FetchArguments {
    /// The lists [default: all with a url]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The configuration that names them
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}
