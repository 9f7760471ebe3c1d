//! wrk: clients that ask for the next page as soon as they have the last one.

use std::time::Duration;

use anyhow::{Context, Result};
use ratelimit_tests::lab::Namespace;
use tempfile::TempDir;

use crate::{placement::WORLD, server};

/// The end of each script. The last line of the output is what the measurement reads.
const DONE: &str = r#"
function done(summary, latency)
  local served = summary.requests - summary.errors.status
  io.write(string.format("\n%d %d %d", served, summary.duration, latency:percentile(99)))
end
"#;

/// wrk with a script.
pub struct Wrk {
    directory: TempDir,
}

/// The pages that clients got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Pages that are no errors.
    pub served: f64,
    /// The same per second.
    pub per_second: f64,
    /// The longest time that 99 % of them took, in milliseconds; `None` if there were none.
    pub slowest: Option<f64>,
}

impl Wrk {
    /// Writes the script.
    pub fn new(script: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let script = script.to_owned() + DONE;
        server::write(directory.path(), "wrk.lua", &script)?;
        Ok(Self { directory })
    }

    /// Asks for so long, on the CPU of the world.
    pub fn ask(
        &self,
        namespace: &Namespace,
        connections: usize,
        duration: Duration,
        url: &str,
    ) -> Result<Pages> {
        let duration = format!("-d{}s", duration.as_secs());
        let script = self.directory.path().join("wrk.lua").display().to_string();
        let (cpu, connections) = (WORLD.to_string(), connections.to_string());
        let wrk = ["-c", &cpu, "wrk", "-t1", "-c", &connections];
        let wrk = [&wrk[..], &[&duration, "-s", &script, url]].concat();
        let said = match namespace.run("taskset", &wrk) {
            // Its first connection, before it counts.
            Err(error) if format!("{error:#}").contains("unable to connect") => {
                return Ok(Pages {
                    served: 0.0,
                    per_second: 0.0,
                    slowest: None,
                });
            }
            said => said?,
        };
        let figures = said.lines().next_back().and_then(|line| {
            let figures: Result<Vec<f64>, _> = line.split(' ').map(str::parse).collect();
            figures.ok()?.try_into().ok()
        });
        let [served, micros, slowest]: [f64; 3] =
            figures.with_context(|| format!("wrk says {said}"))?;
        Ok(Pages {
            served,
            per_second: served / (micros / 1e6),
            slowest: (served > 0.0).then_some(slowest / 1e3),
        })
    }
}
