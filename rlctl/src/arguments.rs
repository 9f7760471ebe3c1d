//! The command line as people type it, and the help that teaches it.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Arg, ArgAction, ArgGroup, Args, Parser, Subcommand, ValueEnum};
use ratelimit_core::{api::EventKind, quantity, watched::Watched};

use crate::{
    ban_arguments::BanFilterArguments,
    capture_arguments::CaptureArguments,
    client::SOCKET,
    cluster_arguments::ClusterVerb,
    completions, exit_code,
    key_arguments::KeysArguments,
    lifetime::Lifetime,
    limit_arguments::LimitArguments,
    list_arguments::{ExportArguments, FetchArguments, ImportArguments},
    prefixes::HostBits,
    simulate_arguments::SimulateArguments,
};

/// Controls the rate limiter on this host.
///
/// `rlctl` talks to the daemon `ratelimitd` over a Unix socket. Its changes apply at once, and
/// survive a restart of the daemon. They do not touch the configuration file.
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
    /// Color the output: auto colors on a terminal unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub color: Color,
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
    /// The verb; `status` by default.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// When output has colors.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl From<Color> for anstream::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// The path of the configuration.
pub const CONFIG: &str = "/etc/ratelimit/config.toml";

const EXAMPLES: &str = "\
Examples:
  rlctl protect eth0 --observe            count what would be dropped on eth0; without --observe, \
drop it
  rlctl status                            whether it works, and on which interfaces
  rlctl check 203.0.113.7                 why packets of this address are dropped
  rlctl ban 203.0.113.7 --for 10m         drop all its packets for ten minutes
  rlctl top                               the busiest sources

Completion after Tab, also for the names of lists:
  source <(COMPLETE=bash rlctl)           in ~/.bashrc, and the same with zsh in ~/.zshrc
  COMPLETE=fish rlctl | source            in ~/.config/fish/config.fish";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Protect an interface: check the host, configure the interface, start the service
    Protect(ProtectArguments),
    /// Show the state of the limiter: interfaces, configuration, traffic, failures
    #[command(after_help = "\
Examples:
  rlctl status
  rlctl status --maps
  rlctl status --json | jq .interfaces

`rlctl` without a command is `rlctl status`. On a terminal it measures the traffic for half a \
second.")]
    Status {
        /// Also show the BPF maps with their usage and memory
        #[arg(long)]
        maps: bool,
    },
    /// Drop all packets from addresses or prefixes
    Ban(BanArguments),
    /// Remove bans
    #[command(after_help = "\
Examples:
  rlctl unban 203.0.113.7
  rlctl unban @scanners.txt
  rlctl unban 203.0.113.7 --program fail2ban/sshd
  rlctl unban --within 203.0.113.0/24
  rlctl unban --origin detected --reason-contains flood
  rlctl unban --all

Bans of lists are not affected; remove a list with `rlctl import --remove`. The exit code is 1 if \
none of the prefixes was banned, but 0 with `--program`.")]
    Unban(UnbanArguments),
    /// Exempt addresses and prefixes from bans and limits
    #[command(
        subcommand,
        after_help = "\
Examples:
  rlctl allow add 192.0.2.10 --reason monitoring
  rlctl allow add 203.0.113.7 --for 2h
  rlctl list allows"
    )]
    Allow(AllowVerb),
    /// Add limits at run time, or replace those of the configuration
    #[command(
        subcommand,
        alias = "limits",
        after_help = "\
Examples:
  rlctl limit set --packets 1000 --per 1s
  rlctl limit set --prefix 203.0.113.0/24 --packets 5000 --per 1s --for 2h
  rlctl limit rm --prefix 203.0.113.0/24"
    )]
    Limit(LimitVerb),
    /// List bans, allows, limits, lists or protected addresses
    List(ListArguments),
    /// Import a list from a file: plain text, ipset, nft, blocklists, output of `export`
    Import(ImportArguments),
    /// Export bans, allows and lists as lines of text
    Export(ExportArguments),
    /// Download the lists with a `url` in the configuration
    Fetch(FetchArguments),
    /// Renamed to `rlctl fetch`, `rlctl import --remove` and `rlctl list lists`
    #[command(hide = true, disable_help_flag = true)]
    Lists(OldArguments),
    /// Show or reset the usage of keys: users, tokens and URLs
    Keys(KeysArguments),
    /// Show the verdict for packets from an address, and why
    Check(CheckArguments),
    /// Show the busiest sources
    Top(TopArguments),
    /// Suggest limits against attacks in progress, or against those in a capture
    Suggest(SuggestArguments),
    /// Show packets and bytes by interface, family, verdict and reason; now, or over past days
    Stats(StatsArguments),
    /// Renamed to `rlctl stats --since`
    #[command(hide = true, disable_help_flag = true)]
    History(OldArguments),
    /// Show recent bans, other changes, and a sample of drops
    Events(EventsArguments),
    /// Capture dropped packets to a file, each with its reason as a comment
    Capture(CaptureArguments),
    /// Reload the configuration. If it is invalid, the running one stays active
    #[command(after_help = "\
Examples:
  rlctl config check /etc/ratelimit/config.toml && rlctl reload
  rlctl reload --dry-run
  rlctl reload --dry-run new.toml && rlctl apply new.toml

Runtime limits and the attachment of interfaces are not compared.")]
    Reload {
        /// Show the changes without making them
        #[arg(long)]
        dry_run: bool,
        /// Compare this file instead of the daemon's configuration file; its `conf.d` still applies
        #[arg(requires = "dry_run")]
        file: Option<PathBuf>,
        /// Discard a confirmed configuration that was not saved
        #[arg(long, conflicts_with = "dry_run")]
        discard: bool,
        /// Let policies drop every packet of a gateway, a resolver or an SSH client
        #[arg(long, conflicts_with = "dry_run")]
        force: bool,
    },
    /// Renamed to `rlctl reload --dry-run`
    #[command(hide = true)]
    Diff {
        /// The file, for the hint.
        file: Option<PathBuf>,
    },
    /// Try a configuration; without a confirmation in time the previous one is restored
    ///
    /// The file takes the place of the daemon's configuration file; its `conf.d` still applies. It
    /// is checked and applied at once. On a terminal, Enter keeps it; Ctrl-C, Ctrl-D and the end of
    /// the session roll it back at once. `rlctl confirm` keeps it from any session. Without a
    /// confirmation in time the previous configuration is restored.
    ///
    /// If stdin is not a terminal, `apply` returns while the trial continues. The trial survives a
    /// restart of the daemon. `rlctl reload` applies a configuration without a trial.
    #[command(after_help = "\
Examples:
  rlctl apply new.toml --confirm 60s
  rlctl apply /etc/ratelimit/config.toml
  rlctl confirm")]
    Apply {
        /// The configuration to try
        file: PathBuf,
        /// How long the trial lasts
        #[arg(
            long,
            value_name = "TIME",
            default_value = "60s",
            value_parser = quantity::parse_duration,
        )]
        confirm: Duration,
    },
    /// Keep the configuration on trial
    ///
    /// A file in the same directory as the daemon's configuration file also replaces it, so that
    /// the configuration survives a reload and a restart. The previous file is kept as
    /// `config.toml.before`.
    #[command(after_help = "Examples:\n  rlctl confirm\n  rlctl confirm --save")]
    Confirm {
        /// Write it to the daemon's configuration file, also from another directory
        #[arg(long)]
        save: bool,
    },
    /// Restore the configuration before the trial or the last reload
    #[command(after_help = "Examples:\n  rlctl rollback")]
    Rollback,
    /// Show the cluster and its nodes, or revoke a node
    #[command(
        subcommand,
        after_help = "Examples:\n  rlctl cluster status\n  rlctl cluster revoke edge-3"
    )]
    Cluster(ClusterVerb),
    /// Renamed to `rlctl list protected`
    #[command(hide = true)]
    Protected,
    /// Suspend all limits and bans, or enforce them again
    PassAll(PassAllArguments),
    /// Detach the program from all interfaces; limits and bans no longer apply
    #[command(after_help = "\
Examples:
  rlctl detach

There is no confirmation prompt. The daemon keeps running; `rlctl reload` or a restart attaches \
the program again.")]
    Detach,
    /// Find problems of this host, with commands that fix them; write an archive for a bug report
    Doctor(DoctorArguments),
    /// Limit and ban real packets between two network namespaces, to see how it works
    #[command(after_help = "\
Examples:
  rlctl demo

It starts its own ratelimitd, takes about ten seconds and removes everything at the end. \
Interfaces of the host and a running daemon are not touched. The exit code is 0 if all counts \
match the limits.")]
    Demo,
    /// Renamed to `rlctl doctor --archive`
    #[command(hide = true, disable_help_flag = true)]
    Support(OldArguments),
    /// Show which packets of a capture a configuration would drop, without a daemon
    Simulate(SimulateArguments),
    /// Check a configuration file without a daemon
    #[command(
        subcommand,
        after_help = "Examples:\n  rlctl config check /etc/ratelimit/config.toml"
    )]
    Config(ConfigVerb),
}

/// The arguments of a verb that was renamed, for the hint.
#[derive(Args, Debug)]
pub struct OldArguments {
    /// The words after the verb
    #[arg(allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// `doctor [IFACE] [--config FILE]`, `doctor --archive [FILE] [--with-addresses] [--log FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl doctor
  rlctl doctor eth0
  rlctl doctor --json | jq '.[] | select(.state != \"ok\")'
  rlctl doctor --archive
  rlctl doctor --archive /tmp/ratelimit.tar.gz --with-addresses

It changes nothing and works without a daemon. Without root it reports what it could not check. A \
warning degrades the limiter, an error keeps it from working. The exit code is 1 if there is an \
error, otherwise 0.

The archive contains versions, the output of `rlctl doctor`, status, configuration, limits, lists, \
counters, recent events, metrics, and the log of the last hour. Only its owner can read it. \
Existing files are not overwritten.

Passwords, keys and secrets are removed from it. Addresses, and hosts in URLs, are replaced by \
documentation addresses, consistently in all files. Names of users, nodes, interfaces, policies \
and lists, and reasons, are kept: review them before you send the archive.")]
pub struct DoctorArguments {
    /// The interface [default: all configured ones]
    #[arg(value_name = "IFACE", add = completions::interfaces())]
    pub interface: Option<String>,
    /// The configuration file to use without a daemon
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
    /// Write an archive for a bug report, a .tar.gz [default: ratelimit-support-TIME.tar.gz]
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "interface")]
    #[expect(clippy::option_option, reason = "the option may have no value")]
    pub archive: Option<Option<PathBuf>>,
    /// Keep addresses and hosts in the archive
    #[arg(long, requires = "archive")]
    pub with_addresses: bool,
    /// The log file for the archive, if it is not in the systemd journal
    #[arg(long, value_name = "FILE", requires = "archive")]
    pub log: Option<PathBuf>,
}

/// `protect IFACE [--observe] [--replace] [--config FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl protect eth0 --observe
  rlctl protect eth0

It runs the checks of `rlctl doctor` and stops at an error. A missing configuration is written, \
with a limit of 1000 packets per second for each source. An existing one is not changed: the \
interface gets a file in conf.d beside it, unless the configuration names it already. Then the \
service is enabled and started, or the running daemon reloads. Where systemd does not run, the \
output names the command that starts the daemon.

With --observe nothing is dropped; `protect` without it ends the dry run. The exit code is 6 if \
the program could not be attached, and 4 if the daemon has to be started by hand.")]
pub struct ProtectArguments {
    /// The interface
    #[arg(value_name = "IFACE", add = completions::interfaces())]
    pub interface: String,
    /// Dry run: count what would be dropped, and let it pass
    #[arg(long)]
    pub observe: bool,
    /// Replace the configuration file; the previous one is kept as `config.toml.before`
    #[arg(long)]
    pub replace: bool,
    /// The configuration file to use without a daemon
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// `pass-all on [--for TIME]`, `pass-all off`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl pass-all on
  rlctl pass-all on --for 10m
  rlctl pass-all off

Every command warns while pass-all is on.")]
pub struct PassAllArguments {
    /// Whether all packets pass
    pub state: Switch,
    #[command(flatten)]
    pub lifetime: LifetimeArgument,
}

/// On or off.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Switch {
    /// Suspend all limits and bans
    On,
    /// Enforce bans and limits again
    Off,
}

/// `check IP [--proto P] [--dport N] [--sport N] [--flags F] [--iface NAME]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl check 203.0.113.7
  rlctl check 203.0.113.7 --proto udp --dport 53
  rlctl check 203.0.113.7 --dport 443 --flags syn --iface eth0
  rlctl check 2001:db8::1 > /dev/null || echo 'blocked, or no answer'

Without packet options the packet has no class, and the answer lists each class with a different \
verdict. A TCP packet without --flags belongs to an established connection. A port that is not \
given matches no class.

The exit code is 3 if the packets, or those of a listed class, are dropped, and 0 if all pass. \
Packets in a dry run pass.")]
pub struct CheckArguments {
    /// The address, without a prefix length
    #[arg(value_name = "IP", value_parser = address)]
    pub address: IpAddr,
    /// Protocol of the packet: tcp, udp, icmp, or a number
    #[arg(long, value_name = "PROTOCOL")]
    pub proto: Option<String>,
    /// Destination port
    #[arg(long, value_name = "PORT")]
    pub dport: Option<u16>,
    /// Source port
    #[arg(long, value_name = "PORT")]
    pub sport: Option<u16>,
    /// Comma-separated TCP flags: syn,ack, or none
    #[arg(long, value_name = "FLAGS")]
    pub flags: Option<String>,
    /// Destination address, whose limits are checked too
    #[arg(long, value_name = "IP", value_parser = address)]
    pub to: Option<IpAddr>,
    /// Receiving interface
    #[arg(long, value_name = "NAME", add = completions::interfaces())]
    pub iface: Option<String>,
}

/// `suggest [CAPTURE] [--apply [--for TIME]]`
#[derive(Args, Debug)]
#[command(
    // Understood for one release.
    arg = Arg::new("attack").long("attack").hide(true).action(ArgAction::SetTrue),
    after_help = "\
Examples:
  rlctl suggest
  rlctl suggest --apply --for 10m
  rlctl suggest flood.pcap

It prints TOML for the configuration, with the equivalent commands and the other traffic that they \
block as comments. The exit code is 1 if there is no attack."
)]
pub struct SuggestArguments {
    /// A capture, pcap or pcapng, to analyze instead of the attacks in progress. `-` reads stdin
    #[arg(value_name = "CAPTURE", conflicts_with = "apply")]
    pub capture: Option<PathBuf>,
    /// Apply the suggestion against attacks in progress
    #[arg(long)]
    pub apply: bool,
    /// How long the applied limits last
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "1h",
        requires = "apply",
        value_parser = quantity::parse_duration,
    )]
    pub lifetime: Duration,
}

/// Parses the interval of a display.
fn interval(text: &str) -> Result<Duration, String> {
    at_least(Duration::from_millis(100), text)
}

fn at_least(least: Duration, text: &str) -> Result<Duration, String> {
    let time = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    if time < least {
        return Err(format!("write at least {}", quantity::duration(least)));
    }
    Ok(time)
}

fn address(text: &str) -> Result<IpAddr, String> {
    let unknown =
        |_| "not an IPv4 or IPv6 address: write for example 203.0.113.7 or 2001:db8::1".to_owned();
    match text.split_once('/') {
        Some((address, _)) => Err(format!(
            "a prefix is no address: write one, such as {address}; `rlctl list bans --within \
             {text}` shows its bans"
        )),
        None => text.parse().map_err(unknown),
    }
}

/// `--for TIME`, forever by default.
#[derive(Args, Debug)]
pub struct LifetimeArgument {
    /// Lifetime: 90 (seconds), 10m, 1h30m, 1d, or forever
    #[arg(
        long = "for",
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "forever"
    )]
    pub lifetime: Lifetime,
}

/// Prefixes, in any of the ways to give them.
#[derive(Args, Debug)]
pub struct PrefixesArguments {
    /// Addresses and prefixes. `@FILE` reads them from a file, `-` from stdin
    ///
    /// 203.0.113.7, 203.0.113.0/24, 203.0.113.0/255.255.255.0 or `2001:db8::/48`. Files have one
    /// per line, with comments after `#`. If one is invalid, nothing changes.
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
    /// The treatment of host bits.
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
#[command(after_help = "\
Examples:
  rlctl ban 203.0.113.7 --for 10m --reason scanner
  rlctl ban 2001:db8:bad::/48 --forever
  rlctl ban 2001:db8:bad::7/64 --network
  grep -o '^[0-9.]*' access.log | sort -u | rlctl ban - --for 1d
  rlctl ban 203.0.113.7 --for 10m --program fail2ban/sshd

An IPv6 address without a prefix length means its source prefix, a /64 unless [source] ipv6_prefix \
differs. Use 2001:db8::7/128 to ban only that address.")]
pub struct BanArguments {
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    /// Lifetime: 90 (seconds), 10m, 1h30m, 1d [default: `[ban] for` of the configuration, 4h]
    #[arg(long = "for", value_name = "TIME", allow_negative_numbers = true)]
    pub lifetime: Option<Lifetime>,
    /// Ban permanently
    #[arg(long, conflicts_with = "lifetime")]
    pub forever: bool,
    /// Reason shown with the ban
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Also ban protected addresses (`rlctl list protected`) and prefixes wider than /8 (IPv6: /19)
    #[arg(long)]
    pub force: bool,
    /// Ban on behalf of a program, whose bans are separate from manual ones
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    pub program: Option<String>,
}

/// `list KIND [--within PREFIX] [--origin ORIGIN] [--reason-contains TEXT] [--ending TIME]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl list bans
  rlctl list bans --within 203.0.113.0/24 --origin detected
  rlctl list bans --reason-contains flood --ending 10m
  rlctl list limits --json | jq '.[].name'
  rlctl list bans --json | jq 'sort_by(-.packets)[:10]'

Without a filter each list is one line; `--within` and `--origin list` show its entries. With \
--json, lists are in `rlctl list lists --json`. Detection, lists, CrowdSec and other nodes never \
ban protected addresses, and `rlctl ban` needs --force for them; add more in `[protected]` of the \
configuration.

PACKETS and BYTES count what matched the entry; `-` means not counted.")]
pub struct ListArguments {
    /// Which list
    pub kind: ListKind,
    /// Of bans, which.
    #[command(flatten)]
    pub filter: BanFilterArguments,
}

/// `unban PREFIX... [--program NAME]`, or `unban` of those that a filter has
#[derive(Args, Debug)]
#[command(
    group(
        ArgGroup::new("whom").required(true).multiple(true).args(
            ["prefixes", "all", "within", "origin", "reason_part", "ending"]
        )
    )
)]
pub struct UnbanArguments {
    /// Addresses and prefixes. `@FILE` reads them from a file, `-` from stdin
    ///
    /// 203.0.113.7, 203.0.113.0/24, 203.0.113.0/255.255.255.0 or `2001:db8::/48`. Files have one
    /// per line, with comments after `#`. If one is invalid, nothing changes.
    #[arg(
        value_name = "PREFIX",
        conflicts_with_all = ["all", "within", "origin", "reason_part", "ending"],
        add = completions::banned(),
    )]
    pub prefixes: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgument,
    /// Remove only the bans of this program
    #[arg(long, value_name = "NAME", requires = "prefixes")]
    pub program: Option<String>,
    /// Remove all bans
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub filter: BanFilterArguments,
}

/// `top [--rows N] [--batch] [--times N] [--interval TIME]`
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "\
Examples:
  rlctl top
  rlctl top --rows 50 --interval 5s
  rlctl top --batch -n 3
  rlctl top --batch --json | jq .verdicts

On a terminal the view is live: s sorts, / filters, p pauses, arrows select a source, b bans it \
after a prompt, q quits. Banned sources stay in the view. Otherwise one table is printed, or one \
per second with --batch.

ADMITTED/S is the rate admitted by the fullest limit: over the current or previous window, for a \
token bucket since the last refresh. Drops by limits are counted per source, not per prefix. Drops \
by bans are not counted per source.")]
pub struct TopArguments {
    /// List destinations instead of sources, those closest to their limits first. There is no live
    /// view; use --batch to repeat
    #[arg(long)]
    pub destinations: bool,
    /// Number of sources or destinations
    #[arg(
        long,
        alias = "count",
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    pub rows: u32,
    /// Print plain tables; with --json one line each
    #[arg(long)]
    pub batch: bool,
    /// Number of tables [default: until Ctrl-C]
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        requires = "batch",
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    pub times: Option<u32>,
    /// Refresh interval
    #[arg(
        long,
        alias = "delay",
        value_name = "TIME",
        default_value = "1s",
        value_parser = interval,
    )]
    pub interval: Duration,
}

/// `stats [--with-zeros] [--interval [TIME]] [--times N]`, `stats --since TIME [--interval TIME]`,
/// `stats --quota SOURCE`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl stats
  rlctl stats --interval 10s --times 6 --json
  rlctl stats --since 7d
  rlctl stats --since 30d --json | jq .attacks
  rlctl stats --since 7d --quota 203.0.113.7

With --interval each table, and each line of JSON, has the packets of one interval. Ctrl-C exits \
with code 0.

With --since it shows the rates of a past period and its attacks, in rows of --interval. The \
daemon keeps seconds for an hour, minutes for a week and hours for 30 days ([history] retention). \
Periods without a daemon are shown as `-`. With --quota it shows the smallest remaining quota of \
each limit, sampled once per second from when the source was added to [history] watch. For a \
policy, and for a prefix without its own limits, it shows the source with the smallest remaining \
quota.")]
pub struct StatsArguments {
    /// Also show rows without packets
    #[arg(long, alias = "all")]
    pub with_zeros: bool,
    /// Show the packets of each second, or of each TIME, until Ctrl-C; with --since, the length of
    /// a row
    #[arg(
        long,
        aliases = ["watch", "step"],
        value_name = "TIME",
        num_args = 0..=1,
        default_missing_value = "1s",
        value_parser = interval,
    )]
    pub interval: Option<Duration>,
    /// Number of tables [default: until Ctrl-C]
    #[arg(
        long,
        short = 'n',
        alias = "count",
        value_name = "N",
        requires = "interval",
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    pub times: Option<u32>,
    /// Show recorded rates and attacks of the last 1h, 7d, ... in 24 rows
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::parse_duration,
        conflicts_with_all = ["times", "with_zeros"],
    )]
    pub since: Option<Duration>,
    /// Remaining quota of an address, a prefix, `policy:NAME` or `node` in `[history] watch`, since
    /// an hour ago or since --since
    #[arg(
        long,
        alias = "source",
        value_name = "SOURCE",
        add = completions::watched(),
        conflicts_with_all = ["times", "with_zeros"],
    )]
    pub quota: Option<Watched>,
}

/// `events [--follow] [--last N] [--kind KIND] [--within PREFIX] [--since TIME] [--run PROGRAM]
/// [--cursor-file FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl events --kind bans
  rlctl events --since 1h --kind changes
  rlctl events --follow --kind attacks --run /usr/local/bin/notify
  rlctl events --follow --within 203.0.113.0/24
  rlctl events --follow --json | jq -r .event

The daemon keeps the last 1000 changes by operators, the last 1000 caused by traffic, and, until a \
restart, the last 1000 sampled drops. At most 100 drops per second and CPU are sampled; `rlctl \
stats` counts all of them. Consecutive similar drops are shown as one line with their count; with \
--follow, --cursor-file and --json every event is a line.

If a --run program fails, the failure is reported on stderr and the next event follows. With \
--cursor-file a call continues where the last one ended; the first call starts with new events. \
--follow exits with 0 on Ctrl-C and with 4 when the daemon stops.")]
pub struct EventsArguments {
    /// Continue with new events
    #[arg(long, short)]
    pub follow: bool,
    /// Number of recent events [default: all, 10 with --follow]
    #[arg(long, alias = "count", value_name = "N")]
    pub last: Option<u32>,
    /// Only events of one kind
    #[arg(long, alias = "only", value_name = "KIND")]
    pub kind: Option<EventKind>,
    /// Only events about an address or a prefix
    #[arg(long, alias = "source", value_name = "PREFIX")]
    pub within: Option<String>,
    /// Only events of the last 10m, 1h30m, ...
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub since: Option<Duration>,
    /// Run a program for each event in turn, with its line of JSON on stdin
    #[arg(long, value_name = "PROGRAM")]
    pub run: Option<PathBuf>,
    /// Continue after the cursor in this file, and save the last cursor there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["last", "since"])]
    pub cursor_file: Option<PathBuf>,
}

/// Changes of the allow list.
#[derive(Debug, Subcommand)]
pub enum AllowVerb {
    /// Add addresses and prefixes to the allow list
    Add(AllowAddArguments),
    /// Remove addresses and prefixes from the allow list
    #[command(after_help = "\
Examples:
  rlctl allow rm 192.0.2.10

The exit code is 1 if none of them was on it.")]
    Rm(AllowRmArguments),
    /// Renamed to `rlctl list allows`
    #[command(hide = true)]
    List,
}

/// `allow add PREFIX... [--for TIME] [--reason TEXT]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl allow add 192.0.2.10 --reason monitoring
  rlctl allow add 203.0.113.7 --for 2h --reason 'migration of a customer'
  rlctl allow add @offices.txt
  rlctl allow add 203.0.113.7 --for 2h --cluster

The kernel enforces the expiry even without the daemon. A ban of the same prefix then takes \
effect.")]
pub struct AllowAddArguments {
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    #[command(flatten)]
    pub lifetime: LifetimeArgument,
    /// Reason shown with the entry
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Also allow prefixes wider than /8 (IPv6: /16)
    #[arg(long)]
    pub force: bool,
    /// Allow on all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// `allow rm PREFIX... [--cluster]`
#[derive(Args, Debug)]
pub struct AllowRmArguments {
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    /// Apply to all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// Changes of limits.
#[derive(Debug, Subcommand)]
pub enum LimitVerb {
    /// Set limits for a prefix, a destination, or the default policy
    Set(LimitSetArguments),
    /// Remove runtime limits; the configuration applies again
    #[command(after_help = "\
Examples:
  rlctl limit rm --prefix 203.0.113.0/24
  rlctl limit rm --destination 198.51.100.7
  rlctl limit rm")]
    Rm {
        /// The sources [default: the default policy]
        #[arg(long, value_name = "PREFIX", add = completions::limited_at_runtime())]
        prefix: Option<String>,
        /// The destination
        #[arg(long, value_name = "PREFIX", conflicts_with = "prefix")]
        destination: Option<String>,
        /// Apply to all nodes of the cluster
        #[arg(long)]
        cluster: bool,
    },
    /// Renamed to `rlctl list limits`
    #[command(hide = true)]
    List,
}

/// `limit set [--prefix P] --packets N --per TIME ...`
#[derive(Args, Debug)]
#[command(
    override_usage = "rlctl limit set [--prefix <PREFIX> | --destination <PREFIX>] \
                      {--packets <N> | --bytes <SIZE>} --per <TIME> [OPTIONS]\n       \
                      rlctl limit set [--prefix <PREFIX> | --destination <PREFIX>] --limit <LIMIT> \
                      [--limit <LIMIT>]... [OPTIONS]",
    after_help = "\
Examples:
  rlctl limit set --packets 1000 --per 1s
  rlctl limit set --prefix 203.0.113.0/24 --limit packets=5000,per=1s --limit bytes=50MB,per=1s
  rlctl limit set --packets 100 --per 1s --observe
  rlctl limit set --bytes 50MB --per 1s --algorithm token-bucket --burst 100MB
  rlctl limit set --limit packets=1000,per=1s --limit packets=20,per=1s,match=tcp-syn
  rlctl limit set --prefix 203.0.113.7 --packets 50 --per 1s --for 2h --reason crawler
  rlctl limit set --prefix 203.0.113.7 --packets 50 --per 1s --for 2h --cluster
  rlctl limit set --destination 198.51.100.7 --limit packets=50000,per=1s,match=tcp-syn
  rlctl limit set --prefix 203.0.113.7 --packets 9000 --per 1s --only

A limit replaces existing ones with the same unit (packets or bytes) and class; if there are \
several with different windows, the one with the same window. All other limits of the policy and \
its ban stay in force unless --only is given. The output lists what is in force afterwards. Limits \
set later are added to these, and all get the new lifetime.

A packet passes if all limits accept it. Each source in the prefix has the limits for itself; a \
destination shares them. When the limits expire, the configuration applies again. This needs the \
daemon: if it is down, it happens at its next start."
)]
pub struct LimitSetArguments {
    /// The sources [default: the default policy]
    #[arg(long, value_name = "PREFIX", add = completions::limited())]
    pub prefix: Option<String>,
    /// A destination, whose traffic from all sources shares the limits
    #[arg(long, value_name = "PREFIX", conflicts_with = "prefix")]
    pub destination: Option<String>,
    #[command(flatten)]
    pub limits: LimitArguments,
    /// Replace all other limits of these sources, and the ban of their policy
    #[arg(long)]
    pub only: bool,
    /// Dry run: count and pass packets over any limit of these sources
    #[arg(long)]
    pub observe: bool,
    #[command(flatten)]
    pub lifetime: LifetimeArgument,
    /// Reason shown with the limits
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Set the limits on all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// The lists that there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ListKind {
    /// Bans, with lifetime, author and reason
    Bans,
    /// The allow list, with lifetime, author and reason
    Allows,
    /// Policies and their limits; runtime limits with lifetime, author and reason
    Limits,
    /// Lists of any origin, with their entries, files and errors
    Lists,
    /// Protected addresses, and why they are protected
    Protected,
}

/// Verbs for configurations.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Check a configuration file and show its errors
    ///
    /// It only reads files, so the result is the same on every host. Problems that depend on the
    /// host are shown by `rlctl doctor --config FILE`, `rlctl reload --dry-run` and the log:
    /// destinations that are not routed here, VLANs on interfaces without Ethernet, and tunnel
    /// interfaces that `tunnels` also looks into.
    #[command(after_help = "\
Examples:
  rlctl config check /etc/ratelimit/config.toml
  rlctl config check --upgrade /etc/ratelimit/config.toml")]
    Check {
        /// Rename keys that have a new name, in the file and in conf.d beside it
        ///
        /// Comments and layout stay. Files with errors are not changed.
        #[arg(long)]
        upgrade: bool,
        /// The file
        file: PathBuf,
    },
    /// Show all settings in force
    #[command(after_help = "\
Examples:
  rlctl config show
  rlctl config show --with-origin
  rlctl config show --with-origin --json | jq '.[] | select(.origin == \"file\")'

Without --with-origin the output is a configuration that `rlctl config check` accepts; with --json \
it is the same as a JSON object. Runtime limits replace those of files, or are comments if no file \
has any. Secrets are not shown.")]
    Show {
        /// Show the file and line of each setting, or that it is a default
        #[arg(long, alias = "origin")]
        with_origin: bool,
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
    fn flags_are_understood_by_their_old_names_which_no_help_shows() {
        for (old, new) in [
            ("top --count 5 --delay 2s", "top --rows 5 --interval 2s"),
            ("stats --all", "stats --with-zeros"),
            (
                "stats --watch 2s --count 3",
                "stats --interval 2s --times 3",
            ),
            (
                "stats --since 1h --step 1m --source node",
                "stats --since 1h --interval 1m --quota node",
            ),
            (
                "events --count 3 --source 192.0.2.1",
                "events --last 3 --within 192.0.2.1",
            ),
            (
                "list bans --reason scan",
                "list bans --reason-contains scan",
            ),
            (
                "capture -w x --reason limited --source 192.0.2.1",
                "capture -w x --drop-reason limited --within 192.0.2.1",
            ),
            (
                "simulate x --config y --top 3",
                "simulate x --config y --rows 3",
            ),
            ("config show --origin", "config show --with-origin"),
            ("suggest --attack x.pcap", "suggest x.pcap"),
            ("events --only bans", "events --kind bans"),
            (
                "limit set --packets 9 --per 1s --scope cluster --share equal --cluster",
                "limit set --packets 9 --per 1s --scope cluster --division equal --cluster",
            ),
        ] {
            let parsed = [old, new].map(|line| {
                let words = format!("rlctl {line}");
                let parsed = Arguments::try_parse_from(words.split_whitespace());
                format!(
                    "{:?}",
                    parsed.unwrap_or_else(|error| panic!("{line}: {error}"))
                )
            });
            assert_eq!(parsed[0], parsed[1]);
            let mut command = Arguments::command();
            let verbs = old.split(' ').take_while(|word| !word.starts_with('-'));
            let command = verbs.take(2).fold(&mut command, |command, verb| {
                if command.find_subcommand(verb).is_some() {
                    command.find_subcommand_mut(verb).unwrap()
                } else {
                    command
                }
            });
            let help = command.render_long_help().to_string();
            for flag in old
                .split(' ')
                .filter(|word| word.starts_with("--") && !new.contains(word))
            {
                assert!(!help.contains(&format!("{flag} ")), "{flag}: {help}");
            }
        }
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
        for verb in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            check(verb);
        }
    }

    /// Returns the command of an example line, without redirections and the description.
    fn example(line: &str) -> Option<&str> {
        let example = line.strip_prefix("  rlctl").map(|_| line.trim())?;
        let ends = ["   ", " |", " >", " &&"].map(|end| example.find(end).unwrap_or(example.len()));
        ends.into_iter().min().map(|end| &example[..end])
    }
}
