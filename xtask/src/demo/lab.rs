//! The network of the demo: two namespaces and a veth pair between them.

use std::process;

use anyhow::{Context, Result};

use super::{
    frame::{HOST_MAC, OUTSIDE_MAC},
    namespace::Namespace,
};

/// The interface at either end.
pub const INTERFACE: &str = "eth0";

/// The network.
pub struct Lab {
    /// Where the daemon protects an interface.
    pub host: Namespace,
    /// Where the traffic comes from.
    pub outside: Namespace,
}

impl Lab {
    /// Makes it, under names that no other run has.
    pub fn build() -> Result<Self> {
        let lab = Self {
            host: Namespace::create(name("host"))?,
            outside: Namespace::create(name("outside"))?,
        };
        lab.join().context("joining the namespaces")?;
        Ok(lab)
    }

    /// Frames that the host's interface received, as `ip -s link` counts them.
    pub fn received(&self) -> Result<u64> {
        let answer = self
            .host
            .ip(&["-s", "-j", "link", "show", "dev", INTERFACE])?;
        let links: serde_json::Value =
            serde_json::from_str(&answer).context("reading JSON of `ip`")?;
        links[0]["stats64"]["rx"]["packets"]
            .as_u64()
            .with_context(|| format!("`ip` does not say what {INTERFACE} received: {answer}"))
    }

    /// One queue in each direction keeps the frames in order.
    fn join(&self) -> Result<()> {
        let (host, outside) = (mac(HOST_MAC), mac(OUTSIDE_MAC));
        let end = ["numtxqueues", "1", "numrxqueues", "1"];
        let near = ["link", "add", INTERFACE, "address", &host];
        let far = ["type", "veth", "peer", "name", INTERFACE];
        let there = ["netns", self.outside.name(), "address", &outside];
        self.host
            .ip(&[&near[..], &end, &far, &there, &end].concat())?;
        self.host.ip(&["link", "set", INTERFACE, "up"])?;
        self.outside.ip(&["link", "set", INTERFACE, "up"])?;
        Ok(())
    }
}

/// `rldemo-4711-host`
pub fn name(what: &str) -> String {
    format!("rldemo-{}-{what}", process::id())
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}
