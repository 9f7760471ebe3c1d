//! The table of nodes: the packets sent to each, what it admits of the busy source, and its share.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratelimit_core::api::Check;
use ratelimit_tests::cluster::{Node, admitted_of};

use super::{BUSY, LIMIT, NAMES, QUIET_IS_ONE_IN, Screen, tail, wait};
use crate::screen::bar;

/// The time for which packets are counted: whole windows.
const COUNTED: Duration = Duration::from_secs(3);
/// The last second is shown while the demo runs.
const SHOWN: Duration = Duration::from_secs(1);
const REDRAW: Duration = Duration::from_millis(250);

/// The table.
pub struct Board<'a> {
    nodes: &'a [Node],
    load: [u32; 3],
}

impl<'a> Board<'a> {
    /// Creates a table of nodes with the packets per second sent to each.
    pub fn new(nodes: &'a [Node], load: [u32; 3]) -> Self {
        Self { nodes, load }
    }

    /// Shows what is admitted, for so long.
    pub fn watch(&self, screen: &mut Screen, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            wait(REDRAW.min(left))?;
            if screen.is_live() {
                let now = Instant::now();
                let since = now.checked_sub(SHOWN).unwrap_or(now);
                let admitted = self.admitted(&(since..now))?;
                screen.redraw(&self.rows(&admitted, &[])?)?;
            }
        }
        Ok(())
    }

    /// Shows what is admitted, and gives what each node did a second.
    pub fn count(&self, screen: &mut Screen) -> Result<Vec<u64>> {
        let start = Instant::now();
        self.watch(screen, COUNTED)?;
        self.admitted(&(start..start + COUNTED))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate of packets"
    )]
    fn admitted(&self, time: &Range<Instant>) -> Result<Vec<u64>> {
        let rates = admitted_of(self.nodes, tail(BUSY)?, time).into_iter();
        Ok(rates.map(|rate| rate.round() as u64).collect())
    }

    /// The rows, with marks at their ends when there are any.
    pub fn rows(&self, admitted: &[u64], marks: &[String]) -> Result<Vec<String>> {
        let mut rows = vec![row(["NODE", "SENT/s", "ADMITTED/s", "SHARE"])];
        let sent = |load: u32| u64::from(load) - u64::from(load) / QUIET_IS_ONE_IN as u64;
        let mut sums = [0; 3];
        for (place, node) in self.nodes.iter().enumerate() {
            let cells = [sent(self.load[place]), admitted[place], share(node)?];
            sums.iter_mut().zip(cells).for_each(|(sum, it)| *sum += it);
            rows.push(row_of(NAMES[place], cells, marks.get(place)));
        }
        rows.push(row_of("together", sums, marks.get(self.nodes.len())));
        rows.push(format!("limit of all  {LIMIT:>21}"));
        Ok(rows)
    }
}

/// Returns the current share of a node for the busy source.
fn share(node: &Node) -> Result<u64> {
    let said = node.service().rlctl(&["--json", "check", BUSY])?;
    let check: Check = serde_json::from_str(&said.stdout)?;
    let limit = check.limits.first().context("the source has a limit")?;
    let share = limit.share.context("the nodes share the limit")?;
    Ok(share.here)
}

fn row_of(name: &str, cells: [u64; 3], mark: Option<&String>) -> String {
    let [sent, admitted, share] = cells.map(|it| it.to_string());
    let row = row([name, &sent, &admitted, &share]);
    let mark = mark.map_or("", String::as_str);
    format!("{row}  {} {mark}", bar(cells[1], LIMIT))
}

fn row([node, sent, admitted, share]: [&str; 4]) -> String {
    format!("{node:<13} {sent:>9} {admitted:>11} {share:>7}")
}
