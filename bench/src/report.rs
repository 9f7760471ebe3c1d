//! The measurements, as they are stored in JSON.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{goal::Goal, machine::Machine, statistics::Spread};

/// A whole run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Report {
    /// The machine of the run.
    pub machine: Machine,
    /// The versions of those that live traffic goes through besides, in words of their own.
    #[serde(default)]
    pub others: Vec<String>,
    /// The date and time of the run, in UTC, to the minute.
    pub date: String,
    /// The command line.
    pub command: String,
    /// Packets in a run, on each CPU.
    pub packets: u32,
    /// Runs of each case.
    pub rounds: usize,
    /// The cases of `BPF_PROG_TEST_RUN`.
    pub rows: Vec<Row>,
    /// The cases with live traffic.
    pub live: Vec<LiveRow>,
    /// The throughput of TCP under limits of bytes.
    #[serde(default)]
    pub tcp: Vec<TcpRow>,
    /// Measurements that failed, and why.
    pub skipped: Vec<String>,
}

/// A case.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Its name: store, scenario, family, sources.
    pub name: String,
    /// The number of sources; `None` with two CPUs.
    pub sources: Option<u64>,
    /// Nanoseconds of a packet.
    pub nanos: Spread,
    /// Nanoseconds of a packet on the baseline, measured just before.
    pub zero_nanos: Spread,
    /// The first divided by the second, of each round.
    pub ratio: Spread,
    /// The highest ratio that meets the goal; `None` without a goal, or if that depends on a case
    /// that was not measured.
    pub goal: Option<f64>,
    /// The goal as people say it.
    pub goal_text: Option<String>,
}

/// A contender of live traffic.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LiveRow {
    /// The traffic: `live/hot`.
    pub name: String,
    /// The contender.
    pub contender: String,
    /// Packets that were received in a second.
    pub packets_per_second: Spread,
    /// The rate, divided by that of the first contender in the same round: an empty drop, or no
    /// limiter if nothing exceeds the limit.
    #[serde(alias = "of_empty_drop")]
    pub of_first: Spread,
    /// The part of the packets that was dropped, the least of all rounds.
    pub dropped: f64,
    /// The lowest `of_first` that meets the goal.
    pub goal: Option<f64>,
}

/// The throughput of TCP under a limit.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TcpRow {
    /// The limit, as it is written.
    pub limit: String,
    /// The number of sending connections.
    pub connections: usize,
    /// Their round-trip time, in milliseconds.
    pub round_trip: u64,
    /// The received bytes, divided by those that the limit admits.
    pub part: Spread,
}

impl Row {
    /// Whether it reaches its goal; `None` without one.
    pub fn is_reached(&self) -> Option<bool> {
        self.goal.map(|goal| self.ratio.median <= goal)
    }
}

impl LiveRow {
    /// Whether it reaches its goal; `None` without one.
    pub fn is_reached(&self) -> Option<bool> {
        self.goal.map(|goal| self.of_first.median >= goal)
    }
}

impl Report {
    /// Adds a case, and prints it.
    pub fn add(&mut self, row: Row) {
        eprintln!("{}: {:.2}", row.name, row.ratio.median);
        self.rows.push(row);
    }

    /// Notes what could not be measured, and why.
    pub fn skip(&mut self, what: String) {
        eprintln!("SKIPPED: {what}");
        self.skipped.push(what);
    }

    /// Works out the goals, by name of the case, from what was measured.
    pub fn set_goals<'a>(&mut self, goals: impl IntoIterator<Item = (String, &'a Goal)>) {
        let ratios: Vec<_> = self
            .rows
            .iter()
            .map(|row| (row.name.clone(), row.ratio.median))
            .collect();
        let ratio_of = |name: &str| {
            ratios
                .iter()
                .find(|(found, _)| found == name)
                .map(|(_, ratio)| *ratio)
        };
        for (name, goal) in goals {
            if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
                row.goal = goal.figure(ratio_of);
            }
        }
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{} was not written by `cargo xtask bench --json`",
                path.display()
            )
        })
    }

    /// Writes it as JSON.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }
}
