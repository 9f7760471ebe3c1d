//! Users of the web server: wrk, which asks for the next page as soon as it has the last one, over
//! a new connection each time. Each of its ports has an address of its own.

use std::{fmt::Write, time::Duration};

use anyhow::{Context, Result};
use ratelimit_tests::lab::Namespace;
use tempfile::TempDir;

use super::{
    placement::WORLD,
    servers::{self, SERVER},
};

/// Their network, behind the far end as a router.
pub const NETWORK: &str = "10.78.0.0/16";
/// The ports, and so the users: each sends only a few packets per second.
const PORTS: [u16; 2] = [1_024, u16::MAX];
/// Connections that are open at a time.
const CONNECTIONS: &str = "100";

/// The script for wrk. The last line of its output is what the measurement reads.
const SCRIPT: &str = r#"
wrk.headers["Connection"] = "close"
wrk.headers["Accept-Encoding"] = "gzip"
function done(summary, latency)
  local served = summary.requests - summary.errors.status
  io.write(string.format("\n%d %d %d", served, summary.duration, latency:percentile(99)))
end
"#;

/// The users, with their script.
pub struct Users {
    directory: TempDir,
}

/// The pages that users got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Pages per second.
    pub per_second: f64,
    /// The longest time that 99 % of them took, in milliseconds; `None` if there were none.
    pub slowest: Option<f64>,
}

impl Users {
    /// Settles them at the far end.
    pub fn new(far: &Namespace) -> Result<Self> {
        far.ip(&["route", "add", "local", NETWORK, "dev", "lo"])?;
        let [first, last] = PORTS;
        let range = format!("net.ipv4.ip_local_port_range={first} {last}");
        // A user who gets no answer gives up after three seconds.
        far.run(
            "sysctl",
            &["-q", "-w", &range, "net.ipv4.tcp_syn_retries=1"],
        )?;
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        servers::write(path, "users.lua", SCRIPT)?;
        let rules = servers::write(path, "users.nft", &from_many_addresses())?;
        far.run("nft", &["-f", &rules])?;
        Ok(Self { directory })
    }

    /// They ask for so long.
    pub fn ask(&self, far: &Namespace, duration: Duration) -> Result<Pages> {
        let duration = format!("-d{}s", duration.as_secs());
        let script = self
            .directory
            .path()
            .join("users.lua")
            .display()
            .to_string();
        let url = format!("http://{SERVER}/");
        let cpu = WORLD.to_string();
        let wrk = ["-c", &cpu, "wrk", "-t1", "-c", CONNECTIONS];
        let wrk = [&wrk[..], &[&duration, "-s", &script, &url]].concat();
        let said = match far.run("taskset", &wrk) {
            // Its first connection, before it counts.
            Err(error) if format!("{error:#}").contains("unable to connect") => {
                return Ok(Pages {
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
            per_second: served / (micros / 1e6),
            slowest: (served > 0.0).then_some(slowest / 1e3),
        })
    }
}

/// wrk has one address. Its connections get those of all users by their ports, without connection
/// tracking, so that answers of all limiters arrive as they are.
fn from_many_addresses() -> String {
    let mut addresses = String::new();
    for port in PORTS[0]..=PORTS[1] {
        let [high, low] = port.to_be_bytes();
        let _ = write!(addresses, "{port} : 10.78.{high}.{low}, ");
    }
    format!(
        "table ip users {{\n\
         map by_port {{ type inet_service : ipv4_addr; elements = {{ {addresses} }} }}\n\
         chain out {{ type filter hook output priority 0; ip saddr 10.77.0.2 tcp dport 80 \
         ip saddr set tcp sport map @by_port; }}\n\
         chain in {{ type filter hook prerouting priority raw; tcp sport 80 \
         ip daddr set 10.77.0.2; }}\n}}\n"
    )
}
