//! The arguments.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use clap::Parser;

use crate::measure::Effort;

/// Packets in a run.
const PACKETS: u32 = 2_000_000;
const PACKETS_QUICK: u32 = 500_000;
/// Runs of each case.
const ROUNDS: usize = 7;
const ROUNDS_QUICK: usize = 5;

/// Filters that name the group of a case, and occur in no other names.
const GROUPS: [&str; 2] = ["live", "tcp"];

/// The path of the program in a checkout of XDP-Firewall.
pub const XDP_FIREWALL_PROGRAM: &str = "src/xdp/prog.c";

/// Measures what a packet costs, as a ratio to an empty program
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag that one types"
)]
pub struct Arguments {
    /// The BPF object of the harness
    #[arg(long, value_name = "FILE", hide = true)]
    pub harness: PathBuf,

    /// Measure the core cases only, with fewer packets: under a minute
    #[arg(long)]
    pub quick: bool,

    /// Measure the cases whose names contain one of these
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub filter: Vec<String>,

    /// Measure the control plane with a million prefixes, and nothing else
    #[arg(long)]
    pub control: bool,

    /// Measure what reading a million sources takes, and an idle daemon, and nothing else
    #[arg(long)]
    pub reads: bool,

    /// Measure limits of keys beside those of other programs, and nothing else
    #[arg(long)]
    pub keys: bool,

    /// Measure which floods a web server withstands, and nothing else
    #[arg(long)]
    pub goodput: bool,

    /// Measure XDP-Firewall too, of this checkout: the live rows need clang for it
    #[arg(long, value_name = "DIR", value_parser = parse_checkout)]
    pub xdp_firewall: Option<PathBuf>,

    /// Packets in a run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub packets: Option<u32>,

    /// Runs of each case, of which the median counts
    #[arg(long, value_name = "N", value_parser = parse_rounds)]
    pub rounds: Option<usize>,

    /// Write the report to a file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the figures into docs/performance.md, with a plot
    #[arg(long)]
    pub write: bool,

    /// Measure nothing, and take the figures of this report
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Name what got slower by more than 10 % since this report
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
}

impl Arguments {
    /// Returns the extent of the measurement.
    pub fn effort(&self) -> Effort {
        let (packets, rounds) = if self.quick {
            (PACKETS_QUICK, ROUNDS_QUICK)
        } else {
            (PACKETS, ROUNDS)
        };
        Effort {
            packets: self.packets.unwrap_or(packets),
            rounds: self.rounds.unwrap_or(rounds),
        }
    }

    /// Returns the amount of live traffic: half as many packets, because each costs more.
    pub fn live_effort(&self) -> Effort {
        let effort = self.effort();
        Effort {
            packets: (effort.packets / 2).max(1),
            ..effort
        }
    }

    /// Whether a case is measured.
    pub fn wants(&self, is_core: bool, name: &str) -> bool {
        let is_named = |text: &String| {
            if GROUPS.contains(&text.as_str()) {
                name.split('/').next() == Some(text)
            } else {
                name.contains(text)
            }
        };
        let is_named = self.filter.is_empty() || self.filter.iter().any(is_named);
        is_named && (is_core || !self.quick)
    }

    /// Returns the command for the same figures.
    pub fn command(&self) -> String {
        let mut command = "cargo xtask bench".to_owned();
        if self.quick {
            command += " --quick";
        }
        for text in &self.filter {
            let _ = write!(command, " --filter {text}");
        }
        if self.xdp_firewall.is_some() {
            command += " --xdp-firewall DIR";
        }
        for (option, value) in [
            ("packets", self.packets.map(u64::from)),
            ("rounds", self.rounds.map(|n| n as u64)),
        ] {
            if let Some(value) = value {
                let _ = write!(command, " --{option} {value}");
            }
        }
        command
    }
}

/// Refused before anything is measured.
fn parse_checkout(text: &str) -> Result<PathBuf, String> {
    let program = Path::new(text).join(XDP_FIREWALL_PROGRAM);
    if program.is_file() {
        return Ok(text.into());
    }
    let said = format!("there is no {}", program.display());
    Err(format!(
        "{said}: name a checkout of https://github.com/gamemann/XDP-Firewall"
    ))
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    let rounds = text.parse().map_err(|error| format!("{error}"))?;
    if rounds == 0 {
        return Err("no round gives no figure: write at least 1".to_owned());
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_checkout_is_refused_with_what_to_name() {
        let error = parse_checkout("/nowhere").unwrap_err();
        assert!(error.contains("/nowhere/src/xdp/prog.c: name a checkout of https"));
    }
}
