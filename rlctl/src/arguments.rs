//! The command line as people type it, and the help that teaches it.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use ratelimit_core::{api::EventKind, quantity, watched::Watched};

use crate::{
    ban_arguments::BanFilterArguments,
    capture_arguments::CaptureArguments,
    client::SOCKET,
    cluster_arguments::ClusterVerb,
    completions, exit_code,
    lifetime::Lifetime,
    limit_arguments::LimitArguments,
    list_arguments::{ExportArguments, ImportArguments, ListsVerb},
    prefixes::HostBits,
    simulate_arguments::SimulateArguments,
};

/// Controls the rate limiter on this host.
///
/// `rlctl` talks to the daemon `ratelimitd` over a Unix socket. Its changes apply at once, and survive
/// a restart of the daemon. They do not touch the configuration file.
///
/// For each packet, allow beats ban beats limit. A source on the allow list is never dropped, and a
/// banned source always. The limits decide about all others.
#[derive(Debug, Parser)]
#[command(
    name = "rlctl",
    version,
    after_help = exit_code::help(),
    after_long_help = format!("{EXAMPLES}\n\n{}", exit_code::help()),
)]
pub struct Arguments {
    /// Print the answer as one JSON document, and errors as JSON on stderr
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// The socket of the daemon
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "PATH",
        env = "RATELIMIT_SOCKET",
        default_value = SOCKET
    )]
    pub socket: PathBuf,
    /// What to do [default: status].
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// Where the configuration is.
pub const CONFIG: &str = "/etc/ratelimit/config.toml";

const EXAMPLES: &str = "\
Examples:
  rlctl status                            whether it works, and on which interfaces
  rlctl check 203.0.113.7                 why packets of this address are dropped
  rlctl ban 203.0.113.7 --for 10m         drop all its packets for ten minutes
  rlctl top                               the busiest sources

Completion after Tab, also for the names of lists:
  source <(COMPLETE=bash rlctl)           in ~/.bashrc, and the same with zsh in ~/.zshrc
  COMPLETE=fish rlctl | source            in ~/.config/fish/config.fish";

/// What `rlctl` can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show whether the limiter works: interfaces, configuration, traffic, troubles
    #[command(
        after_help = "Examples:\n  rlctl status\n  rlctl status --maps\n  rlctl status --json | jq .interfaces\n\n`rlctl` alone is `rlctl status`. On a terminal it measures the traffic for half a second."
    )]
    Status {
        /// Show the BPF maps too, how full they are and what they take
        #[arg(long)]
        maps: bool,
    },
    /// Drop every packet of addresses or prefixes
    Ban(BanArguments),
    /// End bans
    #[command(
        after_help = "Examples:\n  rlctl unban 203.0.113.7\n  rlctl unban @scanners.txt\n  rlctl unban 203.0.113.7 --program fail2ban/sshd\n  rlctl unban --within 203.0.113.0/24\n  rlctl unban --origin detected --reason flood\n  rlctl unban --all\n\nBans of lists stay: `rlctl lists rm` removes a list. Ends with 1 when none of them was banned. With `--program` it ends with 0."
    )]
    Unban(UnbanArguments),
    /// Exempt addresses and prefixes from bans and limits
    #[command(
        subcommand,
        after_help = "Examples:\n  rlctl allow add 192.0.2.10 --reason monitoring\n  rlctl allow add 203.0.113.7 --for 2h\n  rlctl allow list"
    )]
    Allow(AllowVerb),
    /// Add limits at run time, or replace those of the configuration
    #[command(
        subcommand,
        alias = "limits",
        after_help = "Examples:\n  rlctl limit set --packets 1000 --per 1s\n  rlctl limit set --prefix 203.0.113.0/24 --packets 5000 --per 1s --for 2h\n  rlctl limit rm --prefix 203.0.113.0/24"
    )]
    Limit(LimitVerb),
    /// List bans, allows or limits
    List(ListArguments),
    /// Import a list from a file: plain text, ipset, nft, blocklists, output of `export`
    Import(ImportArguments),
    /// Write bans, allows and lists as lines of text
    Export(ExportArguments),
    /// Show the lists, download them, or remove one
    #[command(
        after_help = "Examples:\n  rlctl lists\n  rlctl lists fetch\n  rlctl lists rm spamhaus\n\nPACKETS and BYTES are those that matched one of its entries, and `-` where they are not counted."
    )]
    Lists {
        /// What to do [default: show the lists]
        #[command(subcommand)]
        verb: Option<ListsVerb>,
    },
    /// Show what happens to packets of an address, and why
    Check(CheckArguments),
    /// Show the busiest sources
    Top(TopArguments),
    /// Propose limits from what sources have sent
    Suggest(SuggestArguments),
    /// Show packets and bytes by interface, family, verdict and reason
    Stats(StatsArguments),
    /// Show packets by verdict over the last hours or days, and the attacks
    History(HistoryArguments),
    /// Show recent bans, other changes, and a sample of the drops
    Events(EventsArguments),
    /// Write dropped packets to a file, each with its reason as a comment
    Capture(CaptureArguments),
    /// Read the configuration again. A wrong one is refused, and the old one stays
    #[command(
        after_help = "Examples:\n  rlctl reload --dry-run\n  rlctl config check /etc/ratelimit/config.toml && rlctl reload"
    )]
    Reload {
        /// Show what would be different, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Reload also where a configuration is lost that was confirmed and not saved
        #[arg(long, conflicts_with = "dry_run")]
        discard: bool,
    },
    /// Show what is different between the configuration in force and a file
    ///
    /// The file would replace the configuration file of the daemon, beside its `conf.d`. Without a file it is what `rlctl reload`
    /// would read. Limits that were set at runtime, and how interfaces would be attached, are not compared.
    #[command(
        after_help = "Examples:\n  rlctl diff\n  rlctl diff new.toml && rlctl apply new.toml"
    )]
    Diff {
        /// The configuration to compare [default: the files of the daemon]
        file: Option<PathBuf>,
    },
    /// Try a configuration. Unless it is confirmed in time, the one before comes back
    ///
    /// The file replaces the configuration file of the daemon, beside its `conf.d`. It is checked, and applies at once. On a
    /// terminal, Enter keeps it. Ctrl-C, Ctrl-D and the end of the session take it back at once. `rlctl confirm` keeps it from anywhere.
    /// If nobody does in time, the configuration before comes back. In a script, with another stdin than a terminal, `apply` returns
    /// while the trial goes on. It also goes on where the daemon is started again. `rlctl reload` applies a configuration without a trial.
    #[command(
        after_help = "Examples:\n  rlctl apply new.toml --confirm 60s\n  rlctl apply /etc/ratelimit/config.toml\n  rlctl confirm"
    )]
    Apply {
        /// The configuration to try
        file: PathBuf,
        /// How long the trial lasts
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::parse_duration)]
        confirm: Duration,
    },
    /// Keep the configuration on trial
    ///
    /// A file beside the configuration file of the daemon also takes its place, so that a reload and a restart keep it. The file before is
    /// kept as `config.toml.before`.
    #[command(after_help = "Examples:\n  rlctl confirm\n  rlctl confirm --save")]
    Confirm {
        /// Write it over the configuration file of the daemon, also from another directory
        #[arg(long)]
        save: bool,
    },
    /// Return from the configuration on trial, or from the last reload, to the one before
    #[command(after_help = "Examples:\n  rlctl rollback")]
    Rollback,
    /// Show the cluster and its nodes, or revoke a node
    #[command(
        subcommand,
        after_help = "Examples:\n  rlctl cluster status\n  rlctl cluster nodes\n  rlctl cluster revoke edge-3"
    )]
    Cluster(ClusterVerb),
    /// Show the protected addresses, and why they are protected
    #[command(
        after_help = "Examples:\n  rlctl protected\n\nDetection, lists, CrowdSec and other nodes never ban them. `rlctl ban` needs --force for them. Their limits hold. `[protected]` of the configuration names more."
    )]
    Protected,
    /// Let everything pass, in spite of bans and limits
    #[command(
        subcommand,
        after_help = "Examples:\n  rlctl pass-all on --for 10m\n  rlctl pass-all off"
    )]
    PassAll(PassAllVerb),
    /// Remove the program from all interfaces: nothing is dropped, bans included
    #[command(
        after_help = "Examples:\n  rlctl detach\n\nIt does not ask for confirmation. The daemon keeps running. `rlctl reload` or a restart attaches the program again."
    )]
    Detach,
    /// Find what of this host hinders the limiter, with the commands that fix it
    Doctor(DoctorArguments),
    /// Write an archive for a bug report, without secrets and addresses
    Support(SupportArguments),
    /// Show what a configuration would have dropped of a capture, without a daemon
    Simulate(SimulateArguments),
    /// Check a configuration file without a daemon
    #[command(
        subcommand,
        after_help = "Examples:\n  rlctl config check /etc/ratelimit/config.toml"
    )]
    Config(ConfigVerb),
}

/// `doctor [IFACE] [--config FILE]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl doctor\n  rlctl doctor eth0\n  rlctl doctor --json | jq '.[] | select(.state != \"ok\")'\n\nIt changes nothing, and works without a daemon. Without root it reports what it could not see. A warning is something that makes the limiter worse, an error keeps it from working.\n\nEnds with 1 when something is an error, and with 0 otherwise."
)]
pub struct DoctorArguments {
    /// The interface [default: those that are configured]
    #[arg(value_name = "IFACE", add = completions::interfaces())]
    pub interface: Option<String>,
    /// The configuration file, where no daemon answers
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// `support [FILE] [--with-addresses] [--log FILE] [--config FILE]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl support\n  rlctl support /tmp/ratelimit.tar.gz --with-addresses\n  rlctl support --log /var/log/ratelimitd.log\n\nThe archive has versions, the findings of `rlctl doctor`, status, configuration, limits, lists, counters, the last events, metrics, and the log of the last hour. Only its owner may read it. A file that exists is not overwritten.\n\nPasswords, keys and secrets are taken out. Each address is replaced by one of documentation, the same in all files; so is a host in a URL. Names of users, nodes, interfaces, policies and lists stay, and so do reasons: read them before you send it."
)]
pub struct SupportArguments {
    /// The archive, a .tar.gz [default: ratelimit-support-TIME.tar.gz]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Leave addresses and hosts as they are
    #[arg(long)]
    pub with_addresses: bool,
    /// The log, where it is not in the journal of systemd
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The configuration file, where no daemon answers
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// What can be done about `pass-all`.
#[derive(Debug, Subcommand)]
pub enum PassAllVerb {
    /// Let everything pass. Every command warns about it meanwhile
    #[command(after_help = "Examples:\n  rlctl pass-all on\n  rlctl pass-all on --for 10m")]
    On {
        /// Lifetime: 90 (seconds), 10m, 1h30m, or forever
        #[arg(
            long = "for",
            value_name = "TIME",
            allow_negative_numbers = true,
            default_value = "forever"
        )]
        lifetime: Lifetime,
    },
    /// Apply bans and limits again
    #[command(after_help = "Examples:\n  rlctl pass-all off")]
    Off,
}

/// `check IP [--proto P] [--dport N] [--sport N] [--flags F] [--iface NAME]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl check 203.0.113.7\n  rlctl check 203.0.113.7 --proto udp --dport 53\n  rlctl check 203.0.113.7 --dport 443 --flags syn --iface eth0\n  rlctl check 2001:db8::1 > /dev/null || echo 'blocked, or no answer'\n\nWithout options about the packet it has no class, and the answer names each class that is treated differently. A TCP packet without --flags is one within a connection. A port that is not given is one that no class names.\n\nEnds with 3 when its packets are dropped, or those of a class that the answer names, and with 0 when all pass. A dry run passes."
)]
pub struct CheckArguments {
    /// The address, without a prefix length
    #[arg(value_name = "IP", value_parser = address)]
    pub address: IpAddr,
    /// Protocol of the packet: tcp, udp, icmp, or a number
    #[arg(long, value_name = "PROTOCOL")]
    pub proto: Option<String>,
    /// Port that it goes to
    #[arg(long, value_name = "PORT")]
    pub dport: Option<u16>,
    /// Port that it comes from
    #[arg(long, value_name = "PORT")]
    pub sport: Option<u16>,
    /// TCP flags, with commas between them: syn,ack. `none` is none
    #[arg(long, value_name = "FLAGS")]
    pub flags: Option<String>,
    /// Address that it goes to, whose limits count too
    #[arg(long, value_name = "IP", value_parser = address)]
    pub to: Option<IpAddr>,
    /// Interface that it comes to
    #[arg(long, value_name = "NAME", add = completions::interfaces())]
    pub iface: Option<String>,
}

/// `suggest [--percentile P] [--headroom N] [--since TIME] [--toml]`, `suggest --attack [CAPTURE]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl suggest\n  rlctl suggest --percentile 99.9 --headroom 3 --since 7d\n  rlctl suggest --toml > proposed.toml\n  rlctl suggest --attack\n  rlctl suggest --attack flood.pcap\n\nFor each limit, table scans measure what sources sent in a window. Windows without packets do not count. Of a token bucket they measure the part of the burst in use, of a sliding log its length, of the node what its CPUs have drawn. A limit measures only packets that it counts and admits, so write a generous one for what is to be measured. Nothing is measured during an attack. Ends with 1 when too little was seen."
)]
pub struct SuggestArguments {
    /// Percent of all windows that the limit is to admit
    #[arg(long, value_name = "P", default_value_t = 99.0, value_parser = percentile)]
    pub percentile: f64,
    /// Factor on top of that
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    pub headroom: f64,
    /// How far to look back, in hours. A week is kept
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = quantity::parse_duration)]
    pub since: Duration,
    /// Print policies as TOML for the configuration
    #[arg(long)]
    pub toml: bool,
    /// Print limits, as TOML, against the attacks that are going on, or against those of a capture
    #[arg(long, value_name = "CAPTURE", num_args = 0..=1, conflicts_with_all = ["percentile", "headroom", "since", "toml"])]
    #[expect(clippy::option_option, reason = "the option may have no value")]
    pub attack: Option<Option<PathBuf>>,
    /// Do what is proposed against the attacks that are going on
    #[arg(long, requires = "attack")]
    pub apply: bool,
    /// How long that lasts
    #[arg(long = "for", value_name = "TIME", default_value = "1h", requires = "apply", value_parser = quantity::parse_duration)]
    pub lifetime: Duration,
}

/// How often something is shown.
fn interval(text: &str) -> Result<Duration, String> {
    at_least(Duration::from_millis(100), text)
}

/// How long a row of the history is, which is kept by the second.
fn step(text: &str) -> Result<Duration, String> {
    at_least(Duration::from_secs(1), text)
}

fn at_least(least: Duration, text: &str) -> Result<Duration, String> {
    let time = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    if time < least {
        return Err(format!("write at least {}", quantity::duration(least)));
    }
    Ok(time)
}

/// A part of all windows.
fn percentile(text: &str) -> Result<f64, String> {
    let percent = text.parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent) && *percent > 0.0);
    percent.ok_or_else(|| "write a number above 0, and up to 100, such as 99.9".to_owned())
}

fn address(text: &str) -> Result<IpAddr, String> {
    let unknown =
        |_| "not an IPv4 or IPv6 address: write for example 203.0.113.7 or 2001:db8::1".to_owned();
    match text.split_once('/') {
        Some((address, _)) => Err(format!(
            "a prefix is no address: write one, such as {address}; `rlctl list bans --within {text}` shows its bans"
        )),
        None => text.parse().map_err(unknown),
    }
}

/// Prefixes, in any of the ways to give them.
#[derive(Args, Debug)]
pub struct PrefixesArguments {
    /// Addresses and prefixes. `@FILE` reads them from a file, `-` from stdin
    ///
    /// 203.0.113.7, 203.0.113.0/24, 203.0.113.0/255.255.255.0 or `2001:db8::/48`. A file has one on each line,
    /// and comments behind `#`. If one of them is wrong, nothing changes.
    #[arg(value_name = "PREFIX", required = true)]
    pub prefixes: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgument,
}

/// `--network`
#[derive(Args, Clone, Copy, Debug)]
pub struct NetworkArgument {
    /// Take the network of each address with a length: `2001:db8::7/64` means `2001:db8::/64`
    #[arg(long = "network")]
    is_wanted: bool,
}

impl NetworkArgument {
    /// What to do with host bits.
    pub fn host_bits(self) -> HostBits {
        if self.is_wanted {
            HostBits::Cleared
        } else {
            HostBits::Refused
        }
    }
}

/// `ban PREFIX... [--for TIME] [--reason TEXT] [--force]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl ban 203.0.113.7 --for 10m --reason scanner\n  rlctl ban 2001:db8:bad::/48 --forever\n  rlctl ban 2001:db8:bad::7/64 --network\n  grep -o '^[0-9.]*' access.log | sort -u | rlctl ban - --for 1d\n  rlctl ban 203.0.113.7 --for 10m --program fail2ban/sshd\n\nAn IPv6 address without a prefix length stands for its source, the /64 unless [source] ipv6_prefix says otherwise: write 2001:db8::7/128 to ban that address alone."
)]
pub struct BanArguments {
    /// Whom.
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    /// Lifetime: 90 (seconds), 10m, 1h30m, 1d [default: `[ban] for` of the configuration, 4h]
    #[arg(long = "for", value_name = "TIME", allow_negative_numbers = true)]
    pub lifetime: Option<Lifetime>,
    /// Ban without an end
    #[arg(long, conflicts_with = "lifetime")]
    pub forever: bool,
    /// Why, shown with the ban
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Ban also protected addresses (`rlctl protected`), and prefixes wider than /8 (IPv6: /19)
    #[arg(long)]
    pub force: bool,
    /// Ban in the name of a program. Its bans are separate from manual bans and those of others
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    pub program: Option<String>,
}

/// `list KIND [--within PREFIX] [--origin ORIGIN] [--reason TEXT] [--ending TIME]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl list bans\n  rlctl list bans --within 203.0.113.0/24 --origin detected\n  rlctl list bans --reason flood --ending 10m\n  rlctl list limits --json | jq '.[].name'\n  rlctl list bans --json | jq 'sort_by(-.packets)[:10]'\n\nWithout a filter a list is one line. `--within` and `--origin list` show its entries. With --json, lists are in `rlctl lists --json`.\n\nPACKETS and BYTES are those that matched the entry, and `-` where they are not counted."
)]
pub struct ListArguments {
    /// Which list
    pub kind: ListKind,
    /// Of bans, which.
    #[command(flatten)]
    pub filter: BanFilterArguments,
}

/// `unban PREFIX... [--program NAME]`, or `unban` of those that a filter has
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("whom").required(true).multiple(true).args(["prefixes", "all", "within", "origin", "reason_part", "ending"])))]
pub struct UnbanArguments {
    /// Addresses and prefixes. `@FILE` reads them from a file, `-` from stdin
    ///
    /// 203.0.113.7, 203.0.113.0/24, 203.0.113.0/255.255.255.0 or `2001:db8::/48`. A file has one on each line,
    /// and comments behind `#`. If one of them is wrong, nothing changes.
    #[arg(value_name = "PREFIX", conflicts_with_all = ["all", "within", "origin", "reason_part", "ending"], add = completions::banned())]
    pub prefixes: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgument,
    /// End only the bans in the name of this program
    #[arg(long, value_name = "NAME", requires = "prefixes")]
    pub program: Option<String>,
    /// End every ban
    #[arg(long)]
    pub all: bool,
    /// Which.
    #[command(flatten)]
    pub filter: BanFilterArguments,
}

/// `top [--count N] [--batch] [-n TIMES] [--delay TIME]`
#[derive(Args, Clone, Copy, Debug)]
#[command(
    after_help = "Examples:\n  rlctl top\n  rlctl top --count 50 --delay 5s\n  rlctl top --batch -n 3\n  rlctl top --batch --json | jq .verdicts\n\nOn a terminal the view is live: s sorts, / filters, p pauses, arrows mark a source, b bans it after a question, q ends. A source that was shown stays while it is banned. Elsewhere one table is printed, and with --batch one in each second.\n\nADMITTED/S is what the fullest limit admits: over the window that is open, over the one behind it, of a token bucket since the last refresh. Refusals by limits are known of sources, not of wider prefixes. What a ban drops is not counted by source."
)]
pub struct TopArguments {
    /// List the destinations with limits in place of sources, those whose limits are fullest first. There is no live view of them:
    /// --batch lists them again and again
    #[arg(long)]
    pub destinations: bool,
    /// How many sources, or destinations
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Print tables for scripts. With --json each is a line
    #[arg(long)]
    pub batch: bool,
    /// How many tables [default: until Ctrl-C]
    #[arg(short = 'n', value_name = "TIMES", requires = "batch", value_parser = clap::value_parser!(u32).range(1..))]
    pub times: Option<u32>,
    /// Refresh interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub delay: Duration,
}

/// `stats [--all] [--watch [TIME]] [--count N]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl stats\n  rlctl stats --all\n  rlctl stats --watch\n  rlctl stats --watch 10s --count 6 --json\n\nWith --watch each line of JSON is a table of what came in that time. It ends with 0 at Ctrl-C."
)]
pub struct StatsArguments {
    /// Show also rows without packets
    #[arg(long)]
    pub all: bool,
    /// Show what comes in each second, or in each TIME, until Ctrl-C
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s", value_parser = interval)]
    pub watch: Option<Duration>,
    /// How many times [default: until Ctrl-C]
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
}

/// `history [--since TIME] [--step TIME] [--source SOURCE]`
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  rlctl history\n  rlctl history --since 7d\n  rlctl history --since 30d --json | jq .attacks\n  rlctl history --since 7d --source 203.0.113.7\n\nThe daemon keeps each second for an hour, each minute for a week, and each hour for 30 days ([history] keep). A time without a daemon is shown as `-`. With --source it shows the least that was left of each limit, sampled once a second since [history] watch names the source. For a policy, and for a prefix without limits of its own, it shows the source with the least left."
)]
pub struct HistoryArguments {
    /// How far to look back
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = quantity::parse_duration)]
    pub since: Duration,
    /// How long each row is [default: what makes 24 rows]
    #[arg(long, value_name = "TIME", value_parser = step)]
    pub step: Option<Duration>,
    /// What was left of the limits of an address, a prefix, `policy:NAME` or `node` that `[history] watch` names
    #[arg(long, value_name = "SOURCE", add = completions::watched())]
    pub source: Option<Watched>,
}

/// `events [--follow] [--count N] [--only KIND] [--source PREFIX] [--since TIME] [--run PROGRAM] [--cursor-file FILE]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl events --only bans\n  rlctl events --since 1h --only changes\n  rlctl events --follow --only attacks --run /usr/local/bin/notify\n  rlctl events --follow --source 203.0.113.0/24\n  rlctl events --follow --json | jq -r .event\n\nThe daemon keeps the last 1000 changes by people, the last 1000 that traffic caused, and until a restart the last 1000 sampled drops. The sample has at most 100 drops a second and CPU. Counters have them all (`rlctl stats`). Drops that are alike are one line with their count, until another event comes. With --follow, --cursor-file and --json each event is a line. A program of --run that fails is reported on stderr, and the next event follows. With --cursor-file a call continues where the last one ended. The first call begins with new events. --follow ends with 0 at Ctrl-C, and with 4 when the daemon stops."
)]
pub struct EventsArguments {
    /// Continue with new events
    #[arg(long, short)]
    pub follow: bool,
    /// How many of the last events [default: all, with --follow 10]
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    /// Only events of one kind
    #[arg(long, value_name = "KIND")]
    pub only: Option<EventKind>,
    /// Only events about an address or a prefix
    #[arg(long, value_name = "PREFIX")]
    pub source: Option<String>,
    /// Only events since that time ago, as 10m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub since: Option<Duration>,
    /// Run a program for each event, with its line of JSON on stdin, one after the other
    #[arg(long, value_name = "PROGRAM")]
    pub run: Option<PathBuf>,
    /// Begin behind the event whose cursor is in the file, and keep the cursor of the last one there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "since"])]
    pub cursor_file: Option<PathBuf>,
}

/// What can be done to the allow list.
#[derive(Debug, Subcommand)]
pub enum AllowVerb {
    /// Put addresses and prefixes on the allow list
    Add(AllowAddArguments),
    /// Take addresses and prefixes off the allow list
    #[command(
        after_help = "Examples:\n  rlctl allow rm 192.0.2.10\n\nEnds with 1 when none of them was on it."
    )]
    Rm(AllowRmArguments),
    /// Show the allow list
    #[command(after_help = "Examples:\n  rlctl allow list")]
    List,
}

/// `allow add PREFIX... [--for TIME] [--reason TEXT]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl allow add 192.0.2.10 --reason monitoring\n  rlctl allow add 203.0.113.7 --for 2h --reason 'migration of a customer'\n  rlctl allow add @offices.txt\n  rlctl allow add 203.0.113.7 --for 2h --cluster\n\nThe kernel ends an allow, whether or not the daemon runs. A ban that still holds takes effect then."
)]
pub struct AllowAddArguments {
    /// Whom.
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    /// Lifetime: 90 (seconds), 10m, 1h30m, 1d, or forever
    #[arg(
        long = "for",
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "forever"
    )]
    pub lifetime: Lifetime,
    /// Why, shown with the entry
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Allow also prefixes wider than /8 (IPv6: /16)
    #[arg(long)]
    pub force: bool,
    /// Allow on all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// `allow rm PREFIX... [--cluster]`
#[derive(Args, Debug)]
pub struct AllowRmArguments {
    /// Whom.
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    /// Do it on all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// What can be done to limits.
#[derive(Debug, Subcommand)]
pub enum LimitVerb {
    /// Set limits of a prefix, of a destination, or of all sources without a policy of their own
    Set(LimitSetArguments),
    /// Remove runtime limits, so that the configuration holds again
    #[command(
        after_help = "Examples:\n  rlctl limit rm --prefix 203.0.113.0/24\n  rlctl limit rm --destination 198.51.100.7\n  rlctl limit rm"
    )]
    Rm {
        /// The sources [default: those without a policy of their own]
        #[arg(long, value_name = "PREFIX", add = completions::limited_at_runtime())]
        prefix: Option<String>,
        /// The destination
        #[arg(long, value_name = "PREFIX", conflicts_with = "prefix")]
        destination: Option<String>,
        /// Do it on all nodes of the cluster
        #[arg(long)]
        cluster: bool,
    },
    /// Show all policies and their limits
    #[command(after_help = "Examples:\n  rlctl limit list")]
    List,
}

/// `limit set [--prefix P] --packets N --per TIME ...`
#[derive(Args, Debug)]
#[command(
    override_usage = "rlctl limit set [--prefix <PREFIX> | --destination <PREFIX>] {--packets <N> | --bytes <SIZE>} --per <TIME> [OPTIONS]\n       rlctl limit set [--prefix <PREFIX> | --destination <PREFIX>] --limit <LIMIT> [--limit <LIMIT>]... [OPTIONS]",
    after_help = "Examples:\n  rlctl limit set --packets 1000 --per 1s\n  rlctl limit set --prefix 203.0.113.0/24 --limit packets=5000,per=1s --limit bytes=50MB,per=1s\n  rlctl limit set --packets 100 --per 1s --observe\n  rlctl limit set --bytes 50MB --per 1s --algorithm token-bucket --burst 100MB\n  rlctl limit set --limit packets=1000,per=1s --limit packets=20,per=1s,match=tcp-syn\n  rlctl limit set --prefix 203.0.113.7 --packets 50 --per 1s --for 2h --reason crawler\n  rlctl limit set --prefix 203.0.113.7 --packets 50 --per 1s --for 2h --cluster\n  rlctl limit set --destination 198.51.100.7 --limit packets=50000,per=1s,match=tcp-syn\n  rlctl limit set --prefix 203.0.113.7 --packets 9000 --per 1s --only\n\nA limit replaces those of the same unit (packets or bytes) and class; where several have other windows, the one with its window. All other limits of the policy stay, and so does its ban, unless --only is given. The answer says what is in force then. Limits that are set later add to these, and all of them get the new lifetime.\n\nA packet passes when all limits have room. Each source of the prefix has the limits for itself, and a destination as a whole. At the end of their lifetime the configuration holds again: the daemon sees to that. A daemon that was down meanwhile does it first when it starts."
)]
pub struct LimitSetArguments {
    /// The sources [default: those without a policy of their own]
    #[arg(long, value_name = "PREFIX", add = completions::limited())]
    pub prefix: Option<String>,
    /// A destination: what its addresses receive of all sources together
    #[arg(long, value_name = "PREFIX", conflicts_with = "prefix")]
    pub destination: Option<String>,
    /// The limits.
    #[command(flatten)]
    pub limits: LimitArguments,
    /// Remove all other limits of these sources meanwhile, and the ban of their policy
    #[arg(long)]
    pub only: bool,
    /// Dry run: count what all limits of these sources would drop, and let it pass
    #[arg(long)]
    pub observe: bool,
    /// Lifetime: 90 (seconds), 10m, 1h30m, 1d, or forever
    #[arg(
        long = "for",
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "forever"
    )]
    pub lifetime: Lifetime,
    /// Why, shown with the limits
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Set them on all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// The lists that there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ListKind {
    /// Bans, with lifetime, requester and reason
    Bans,
    /// The allow list, with lifetime, requester and reason
    Allows,
    /// Policies and their limits. Runtime limits with lifetime, requester and reason
    Limits,
}

/// What can be done to a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Check a configuration file, and show where it is wrong
    ///
    /// It reads files alone, so it says the same on every host. What depends on this host is told by `rlctl doctor --config FILE`,
    /// `rlctl reload --dry-run` and the log. These are destinations that are not routed here, VLANs of interfaces without Ethernet,
    /// and interfaces of a tunnel that `inner` looks into as well.
    #[command(after_help = "Examples:\n  rlctl config check /etc/ratelimit/config.toml")]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show every setting in force
    #[command(
        after_help = "Examples:\n  rlctl config show\n  rlctl config show --origin\n  rlctl config show --json | jq '.[] | select(.origin == \"file\")'\n\nWithout --origin it is a configuration that `rlctl config check` reads. Runtime limits are in place of those of files, or comments where no file has any. Secrets are not shown."
    )]
    Show {
        /// Show the file and line that set it, or that it is a default
        #[arg(long)]
        origin: bool,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_manual_says_what_the_help_says() {
        let related = ["ratelimitd(8)", "ratelimit.toml(5)"];
        manual::committed(&manual::pages(Arguments::command(), "1", &related));
    }

    #[test]
    fn every_verb_has_an_example_that_is_understood() {
        check(&Arguments::command());
    }

    /// Parses every line of help that begins with `  rlctl`, up to a shell operator.
    fn check(command: &clap::Command) {
        let help = command.get_after_long_help().or(command.get_after_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> = help.lines().filter_map(example).collect();
        assert!(!examples.is_empty(), "{}", command.get_name());
        for example in examples {
            let line = example.replace('\'', "");
            let parsed = Arguments::try_parse_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
        for verb in command.get_subcommands() {
            check(verb);
        }
    }

    /// The command of a line, without redirections and what is said about it.
    fn example(line: &str) -> Option<&str> {
        let example = line.strip_prefix("  rlctl").map(|_| line.trim())?;
        let ends = ["   ", " |", " >", " &&"].map(|end| example.find(end).unwrap_or(example.len()));
        ends.into_iter().min().map(|end| &example[..end])
    }
}
