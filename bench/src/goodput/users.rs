//! Users of the servers, who send requests at a steady pace from many addresses: wrk with a new
//! connection each time, and dnsperf.
//!
//! dnsperf queries a resolver (Unbound) at the far end, which queries the DNS server. By itself,
//! dnsperf would count a truncated response as a success, where a resolver retries over TCP (RFC
//! 7766, 5).

use std::{fmt::Write, thread, time::Duration};

use anyhow::{Context, Result, anyhow};
use ratelimit_tests::lab::Namespace;
use tempfile::TempDir;

use super::servers::{self, SERVER, Server};

/// Their network, behind the far end as a router.
pub const NETWORK: &str = "10.77.1.0/24";
/// The users are as many of its addresses, from the first on.
const USERS: u32 = 200;
/// Connections that are open at a time. Each user thinks for 0.4 s between two requests.
const CONNECTIONS: &str = "100";
/// Queries in a second, each for a name of its own.
const QUERIES: u64 = 250;
/// The timeout of a query, in seconds.
const PATIENCE: &str = "0.5";

/// The script for wrk. The last line of its output is what the measurement reads.
const SCRIPT: &str = r#"
wrk.headers["Connection"] = "close"
local asked = 0
function delay()
  asked = asked + 1
  return asked > 100 and 400 or 4 * asked
end
function done(summary, latency)
  local served = summary.requests - summary.errors.status
  io.write(string.format("\n%d %d", served, latency:percentile(99)))
end
"#;

/// The users, with the resolver and the files of theirs.
pub struct Users {
    directory: TempDir,
    _resolver: Server,
}

/// The service that the users got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Web requests and queries that succeeded, in a second.
    pub per_second: [f64; 2],
    /// The longest time of 99 % of the successful web requests, in milliseconds.
    pub wait: f64,
}

impl Users {
    /// Settles them at the far end, and waits until a query of theirs is answered.
    pub fn new(far: &Namespace) -> Result<Self> {
        far.ip(&["route", "add", "local", NETWORK, "dev", "lo"])?;
        far.run("nft", &[&from_many_addresses()])?;
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        servers::write(path, "users.lua", SCRIPT)?;
        let names = (0..QUERIES * 60).fold(String::new(), |mut names, number| {
            let _ = writeln!(names, "w{number}.test A");
            names
        });
        servers::write(path, "queries", &names)?;
        let resolver = servers::write(path, "unbound.conf", &resolver(&directory))?;
        let resolver = Server::start(far, "unbound", &["-dc", &resolver])?;
        let users = Self {
            directory,
            _resolver: resolver,
        };
        servers::wait_for(
            || users.queries(far, "0.1").is_ok_and(|count| count > 0.0),
            "unbound",
        )?;
        Ok(users)
    }

    /// They ask both servers for so long.
    pub fn ask(&self, far: &Namespace, duration: Duration) -> Result<Served> {
        let seconds = duration.as_secs();
        thread::scope(|scope| {
            let web = scope.spawn(|| self.web(far, seconds));
            let queries = self.queries(far, &seconds.to_string())?;
            let web = web.join().map_err(|_| anyhow!("a thread has panicked"))?;
            let [web, micros] = web?;
            Ok(Served {
                per_second: [web, queries].map(|count| count / duration.as_secs_f64()),
                wait: micros / 1e3,
            })
        })
    }

    /// Runs `SCRIPT` and returns the numbers that it prints.
    fn web(&self, far: &Namespace, seconds: u64) -> Result<[f64; 2]> {
        let (duration, script) = (format!("-d{seconds}s"), self.path("users.lua"));
        let url = format!("http://{SERVER}/");
        let said = far.run(
            "wrk",
            &["-t1", "-c", CONNECTIONS, &duration, "-s", &script, &url],
        )?;
        let figures = said.lines().next_back().and_then(|line| {
            let figures: Result<Vec<_>, _> = line.split(' ').map(str::parse).collect();
            figures.ok()?.try_into().ok()
        });
        figures.with_context(|| format!("wrk says {said}"))
    }

    /// Returns the number of answered queries.
    fn queries(&self, far: &Namespace, seconds: &str) -> Result<f64> {
        let (pace, queries) = (QUERIES.to_string(), self.path("queries"));
        let arguments = ["-Q", &pace, "-l", seconds, "-t", PATIENCE, "-d", &queries];
        let said = far.run("dnsperf", &[&arguments[..], &["-q", "1000"]].concat())?;
        answered(&said).with_context(|| format!("dnsperf says {said}"))
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

/// The queries without an error, as dnsperf reports them: none where it does not list that code.
fn answered(said: &str) -> Option<f64> {
    let (_, codes) = said.split_once("Response codes:")?;
    let Some((_, count)) = codes.lines().next()?.split_once("NOERROR ") else {
        return Some(0.0);
    };
    count.split(' ').next()?.parse().ok()
}

/// wrk has one address. Its connections get those of all users by their ports, without connection
/// tracking, so that answers of all limiters arrive as they are.
fn from_many_addresses() -> String {
    let mut addresses = String::new();
    for user in 0..USERS {
        let _ = write!(addresses, "{user} : 10.77.1.{}, ", user + 1);
    }
    format!(
        "add table ip users; add chain ip users out {{ type filter hook output priority 0; }}; add \
         chain ip users in {{ type filter hook prerouting priority raw; }}; add rule ip users out \
         ip saddr 10.77.0.2 tcp dport 80 ip saddr set jhash tcp sport mod {USERS} map \
         {{ {addresses} }}; add rule ip users in tcp sport 80 ip daddr set 10.77.0.2"
    )
}

/// It caches nothing, as the answers are good for no time.
fn resolver(directory: &TempDir) -> String {
    let path = directory.path().display();
    let mut text = format!(
        "server:\n \
         interface: 127.0.0.1\n \
         username: \"\"\n \
         chroot: \"\"\n \
         directory: \"{path}\"\n\
         \x20pidfile: \"{path}/unbound.pid\"\n \
         logfile: \"{path}/unbound.log\"\n \
         use-syslog: no\n \
         num-threads: 1\n\
         \x20module-config: \"iterator\"\n \
         qname-minimisation: no\n \
         local-zone: \"test.\" nodefault\n"
    );
    for user in 1..=USERS {
        let _ = writeln!(text, " outgoing-interface: 10.77.1.{user}");
    }
    text + &format!(
        "remote-control:\n control-enable: no\nstub-zone:\n name: \"test\"\n stub-addr: {SERVER}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_queries_without_an_error_are_answered() {
        let said =
            |codes| format!("  Queries lost: 3\n\n  Response codes:       {codes}\n  Average");
        for (codes, expected) in [
            ("NOERROR 497 (99.40%), SERVFAIL 3 (0.60%)", 497.0),
            ("SERVFAIL 3 (0.60%), NOERROR 41 (8.20%)", 41.0),
            ("SERVFAIL 3 (100.00%)", 0.0),
            ("", 0.0),
        ] {
            assert_eq!(answered(&said(codes)), Some(expected), "{codes}");
        }
        assert_eq!(answered("no server"), None);
    }
}
