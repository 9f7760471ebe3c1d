//! The arguments of `rlctl import`, `rlctl export` and `rlctl lists`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ratelimit_core::{
    api::ExportFormat,
    lists::{Action, Connected},
};

use crate::{arguments::CONFIG, completions, lifetime::Lifetime};

/// `import FILE|- [--list NAME | --ban | --allow]`
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
    /// The list, in any of the formats. `-` reads stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace the list of this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ban", "allow"], add = completions::imported_lists())]
    pub list: Option<String>,
    /// What happens to the sources on the list
    #[arg(long, value_name = "ACTION", requires = "list", default_value = "ban")]
    pub action: Action,
    /// Add all of it as manual bans
    #[arg(long, conflicts_with = "allow")]
    pub ban: bool,
    /// Add all of it to the allow list
    #[arg(long)]
    pub allow: bool,
    /// Lifetime of entries that have no end of their own
    #[arg(long = "for", value_name = "TIME", default_value = "forever")]
    pub lifetime: Lifetime,
    /// Reason of entries that have none of their own
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Leave bad lines out. Without this flag a bad line refuses the whole list
    #[arg(long)]
    pub skip_bad: bool,
    /// Accept prefixes wider than /8 (IPv6: /19), and keep --force on bans that were exported with it
    #[arg(long)]
    pub force: bool,
    /// Accept a list without entries
    #[arg(long)]
    pub allow_empty: bool,
    /// Accept a list that covers more than 1/64 of IPv4 or IPv6, or ten times as much as before
    #[arg(long)]
    pub allow_wide: bool,
    /// Leave entries out with a smaller number behind the address, as the lists of `IPsum` have it
    #[arg(long, value_name = "N")]
    pub min_count: Option<u64>,
    /// The key of JSON that has the addresses, as `prefixes.ip_prefix`. Found by its name without this option
    #[arg(long, value_name = "KEY")]
    pub json_path: Option<String>,
    /// Leave networks out that this host is connected to. Entries that cover them stay otherwise
    #[arg(long, conflicts_with = "include_connected")]
    pub exempt_connected: bool,
    /// Also ban networks that this host is connected to
    #[arg(long)]
    pub include_connected: bool,
}

impl ImportArguments {
    /// What entries are to networks that the host of the daemon is connected to.
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

Without --list, --ban and --allow, lines of `rlctl export` return to where they came from, and
all else is banned. A list is applied whole or not at all.
An entry that covers a network of this host, such as 10.0.0.0/8 of FireHOL, needs a word:
--exempt-connected or --include-connected.
Of rules, the sources that are dropped without other conditions are taken.";

const FORMATS: &str = "\
Formats, recognized by content:
  an address, a prefix or a range (192.0.2.1-192.0.2.9) a line, comments behind #, ; or //
  FireHOL netset; Spamhaus DROP, text and JSON; IPsum; P2P ranges (.p2p, .dat)
  CSV with a column of addresses; any JSON, such as that of AWS, GitHub or AbuseIPDB
  ipset save, ipset list, files for ipset restore; XML of ipset and firewalld
  nft list set, nft -j list set, files for nft -f
  iptables-save, iptables -S and -L -n; ufw status; MikroTik export; pf.conf; hosts.deny
  deny of nginx and Apache; rules of Suricata, Cisco, HAProxy and netsh; blackhole routes
  cscli decisions list -o raw, -o json; files for cscli decisions import
  fail2ban-client banned, status JAIL, get JAIL banip --with-time
  JSON lines of rlctl export: prefix, action, until, reason, author, since, origin";

/// `export [--list NAME | --bans | --allows | --all]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl export > backup.jsonl\n  rlctl export --list spamhaus --format plain\n  rlctl export --bans | jq .prefix\n\nWithout an option it exports bans, allows and imported lists. Lists from files are left out."
)]
pub struct ExportArguments {
    /// The list of this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["bans", "allows", "all"], add = completions::lists())]
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
}

/// `lists fetch [NAME...] [--config FILE]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl lists fetch\n  rlctl lists fetch spamhaus\n  systemctl enable --now ratelimit-lists.timer\n\nA list with `url` in the configuration is downloaded into its `file`, by curl. The file is replaced whole, and only by a list that the daemon takes; the daemon reads it as often as `every` says. Ends with 1 when one of them failed."
)]
pub struct FetchArguments {
    /// The lists [default: all with a url]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The configuration that names them
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// What can be done with lists.
#[derive(Debug, Subcommand)]
pub enum ListsVerb {
    /// Download the lists whose `url` the configuration names
    Fetch(FetchArguments),
    /// Remove an imported list
    #[command(after_help = "Examples:\n  rlctl lists rm spamhaus")]
    Rm {
        /// Its name
        #[arg(add = completions::imported_lists())]
        name: String,
    },
}
