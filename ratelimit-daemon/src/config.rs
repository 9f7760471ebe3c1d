//! The configuration: TOML files become a [`Config`] that cannot be wrong, or an error that says where and what to write.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{limit::LimitSpec, prefix::Prefix};

/// What the daemon is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The files it was read from, in their order; empty when it came from the command line.
    pub files: Vec<PathBuf>,
    /// Where traffic is limited; at least one.
    pub interfaces: Vec<Interface>,
    /// What a source is.
    pub source: Source,
    /// The policy for sources that no other is for.
    pub default_policy: PolicyConfig,
    /// The other policies, by name.
    pub policies: BTreeMap<String, PolicyConfig>,
    /// The allow list.
    pub allow: Vec<Prefix>,
    /// Whether everything is a dry run.
    pub observe: bool,
    /// What becomes of the datapath when the daemon stops.
    pub on_stop: OnStop,
    /// Where the daemon keeps things.
    pub paths: Paths,
    /// Where metrics are served; `None` is nowhere.
    pub metrics: Option<std::net::SocketAddr>,
}

/// An interface to limit traffic on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// How to attach.
    pub mode: Mode,
}

/// Where in the kernel the program runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In the driver if it can, else before the network stack; which one is said loudly.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// Before the network stack.
    Generic,
}

/// What a source is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Source {
    /// Leading bits of an IPv4 address, 1 to 32.
    pub ipv4_prefix: u8,
    /// Leading bits of an IPv6 address, 1 to 128.
    pub ipv6_prefix: u8,
    /// Sources of each family that are remembered.
    pub capacity: u32,
}

/// A policy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PolicyConfig {
    /// The sources that it is for; empty for the default policy, and only for it.
    pub sources: Vec<Prefix>,
    /// Its limits, at most 8; none at all is no restriction, and must be written `limits = []`.
    pub limits: Vec<LimitSpec>,
    /// Whether to count and pass what it would drop.
    pub observe: bool,
}

/// What becomes of the datapath when the daemon stops.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// It goes on enforcing.
    #[default]
    Keep,
    /// It is detached, and its state is gone.
    Detach,
}

/// Where the daemon keeps things.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Paths {
    /// Pinned maps and links, on a bpffs: `/sys/fs/bpf/ratelimit`.
    pub pins: PathBuf,
    /// The database: `/var/lib/ratelimit`.
    pub state: PathBuf,
    /// The control socket and the lock: `/run/ratelimit`.
    pub runtime: PathBuf,
}

/// Temporary.
pub fn load(path: &std::path::Path) -> anyhow::Result<Config> {
    anyhow::bail!("{}", path.display())
}
