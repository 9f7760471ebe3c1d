//! Users of the web server: wrk, which asks for the next page as soon as it has the last one, over
//! a new connection each time. Each of its ports has an address of its own.

use std::{fmt::Write, time::Duration};

use anyhow::Result;
use ratelimit_tests::lab::Namespace;

use super::servers::SERVER;
use crate::{
    server,
    wrk::{Pages, Wrk},
};

/// Their network, behind the far end as a router.
pub const NETWORK: &str = "10.78.0.0/16";
/// The ports, and so the users: each sends only a few packets per second.
const PORTS: [u16; 2] = [1_024, u16::MAX];
/// Connections that are open at a time.
const CONNECTIONS: usize = 100;

const SCRIPT: &str = r#"
wrk.headers["Connection"] = "close"
wrk.headers["Accept-Encoding"] = "gzip"
"#;

/// The users.
pub struct Users(Wrk);

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
        let rules = server::write(directory.path(), "users.nft", &from_many_addresses())?;
        far.run("nft", &["-f", &rules])?;
        Ok(Self(Wrk::new(SCRIPT)?))
    }

    /// They ask for so long.
    pub fn ask(&self, far: &Namespace, duration: Duration) -> Result<Pages> {
        let url = format!("http://{SERVER}/");
        self.0.ask(far, CONNECTIONS, duration, &url)
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
