//! The command line as people type it, and the help that teaches it.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use ratelimit_core::quantity;

use crate::{
    client,
    commands::{
        allow::AllowVerb, ban::BanArguments, capture::CaptureArguments, check::CheckArguments,
        cluster::ClusterVerb, config::ConfigVerb, doctor::DoctorArguments, events::EventsArguments,
        export::ExportArguments, fetch::FetchArguments, import::ImportArguments,
        keys::KeysArguments, limit::LimitVerb, list::ListArguments, pass_all::PassAllArguments,
        protect::ProtectArguments, simulate::SimulateArguments, stats::StatsArguments,
        suggest::SuggestArguments, top::TopArguments, unban::UnbanArguments,
    },
    exit_code,
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
    /// The socket of the daemon; set another default with `RATELIMIT_SOCKET`
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "PATH",
        // An argument with `env` counts as given, so usage lines of errors would require it.
        default_value_os_t = client::default_socket()
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
  rlctl unban --origin automatic --reason-contains flood
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

/// Parses the interval of a display.
pub fn interval(text: &str) -> Result<Duration, String> {
    at_least(Duration::from_millis(100), text)
}

pub fn at_least(least: Duration, text: &str) -> Result<Duration, String> {
    let time = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    if time < least {
        return Err(format!("write at least {}", quantity::duration(least)));
    }
    Ok(time)
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
