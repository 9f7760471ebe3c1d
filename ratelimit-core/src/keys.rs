//! Limits of keys that packets do not show, such as users, tokens and URLs.
//!
//! The applications of the host ask the daemon before they serve a request. A key space counts the
//! requests of each key by the algorithms of the packet path.

mod counted;
mod fields;
mod selector;
mod sharing;
mod space;
mod stored;

use std::{collections::BTreeMap, fmt, net::SocketAddr, time::Duration};

use smart_default::SmartDefault;

use crate::{
    limit::{Algorithm, LimitSpec},
    prefix::Prefix,
    quantity,
};

pub use self::{
    counted::words_of,
    fields::{rate_limit, rate_limit_policy, retry_after_seconds},
    selector::{Part, PathTemplate, Request, key},
    sharing::{KeyHash, KeyShare, KeyShares},
    space::{Counts, Level, Mode, Obtained, Space, TopKey},
    stored::{Saved, SavedSpace, Unreadable},
};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Keys with usage per space, unless the configuration says otherwise.
pub const CAPACITY_DEFAULT: u32 = 100_000;

/// The configuration of `[keys]`.
#[derive(Clone, Debug, Eq, PartialEq, SmartDefault)]
pub struct KeysConfig {
    /// The address that serves applications and proxies; `None` if only the control socket does.
    pub listen: Option<SocketAddr>,
    /// The clients of that address, which are trusted to name the client of a request.
    #[default(loopback())]
    pub trusted_proxies: Vec<Prefix>,
    /// The key spaces, by name.
    pub spaces: BTreeMap<String, SpaceConfig>,
}

impl KeysConfig {
    /// Whether an address is a trusted proxy.
    pub fn is_trusted(&self, address: std::net::IpAddr) -> bool {
        let address = Prefix::from(address.to_canonical());
        let mut trusted = self.trusted_proxies.iter();
        trusted.any(|prefix| prefix.covers(address))
    }
}

/// The proxies that are trusted by default: those of this host.
fn loopback() -> Vec<Prefix> {
    let prefixes = ["127.0.0.0/8", "::1"];
    prefixes.map(|it| it.parse().expect("a prefix")).to_vec()
}

/// A key space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpaceConfig {
    /// The limits of each key, 1 to 8. A request is charged to all of them or to none.
    pub limits: Vec<RequestLimit>,
    /// The most keys with usage. Beyond it, the least recently used key is forgotten.
    pub capacity: u32,
    /// The parts of a request that make the key; empty if proxies cannot ask.
    pub key: Vec<Part>,
    /// The rule for banning clients that are refused again and again.
    pub on_refused: Option<OnRefused>,
    /// The nodes by which limits with `scope = "cluster"` are divided.
    pub nodes: u64,
}

/// The ban of a client that is refused again and again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OnRefused {
    /// The refusals that ban.
    pub after: u32,
    /// The window in which they are counted.
    pub within: Duration,
    /// The duration of the ban.
    pub ban: Duration,
}

/// A limit of requests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestLimit(pub LimitSpec);

impl fmt::Display for RequestLimit {
    /// `15 requests per 1s`, or `15 requests per 1s (token-bucket, burst 30)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(spec) = self;
        let plural = if spec.amount() == 1 { "" } else { "s" };
        let window = quantity::duration(spec.window());
        write!(formatter, "{} request{plural} per {window}", spec.amount())?;
        let label = spec.algorithm().name().label();
        match spec.algorithm() {
            Algorithm::FixedWindow => {}
            Algorithm::SlidingWindow | Algorithm::SlidingLog => write!(formatter, " ({label})")?,
            Algorithm::TokenBucket { burst } => write!(formatter, " ({label}, burst {burst})")?,
        }
        match spec.division() {
            Some(_) => formatter.write_str(", shared by all nodes"),
            None => Ok(()),
        }
    }
}
