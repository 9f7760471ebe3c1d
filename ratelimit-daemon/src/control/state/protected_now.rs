//! The addresses that are currently protected. Bans are vetted against them, and exempt them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use ratelimit_core::{
    api::{ProtectedView, Refused},
    intent::Edit,
    prefix::Prefix,
    rules::Rules,
};
use tracing::warn;

use crate::{
    clock,
    protected::{Protected, Requester, Why},
};

/// The time for which the client of an SSH session stays protected after its last command. Active
/// sessions are also found on the host; this is for hosts that do not list them.
const PEER_LASTS: Duration = Duration::from_hours(1);
/// The most such addresses. Users who can run commands could allow any address anyway.
const PEERS_MAX: usize = 64;

/// Protected addresses found on the host, learned from commands, and configured.
pub struct Protection {
    found: Protected,
    peers: BTreeMap<IpAddr, Instant>,
    configured: Vec<Prefix>,
    /// The union of all.
    all: Protected,
    /// The number of changes of the union.
    changes: u64,
    /// Addresses that bans exempt, as reported.
    reported: BTreeSet<Prefix>,
}

impl Protection {
    /// Starts with the addresses found on the host.
    pub fn new(found: Protected) -> Self {
        Self {
            all: found.clone(),
            found,
            peers: BTreeMap::new(),
            configured: Vec::new(),
            changes: 0,
            reported: BTreeSet::new(),
        }
    }

    /// See [`Protected::vet`].
    pub fn vet(&self, prefix: Prefix, requester: Requester) -> Result<(), Refused> {
        self.all.vet(prefix, requester)
    }

    /// Returns the protected prefixes.
    pub fn prefixes(&self) -> BTreeSet<Prefix> {
        self.all.prefixes().collect()
    }

    /// Returns everything protected, and the connected networks of this host.
    pub fn all(&self) -> &Protected {
        &self.all
    }

    /// Returns why an address is protected, if it is.
    pub fn why(&self, address: IpAddr) -> Option<&Why> {
        self.all.met_by(address.into()).map(|(_, why)| why)
    }

    /// Returns whether a change is a ban that covers a protected address.
    pub fn is_met_by(&self, edit: &Edit) -> bool {
        matches!(edit, Edit::Ban(prefix, ..) if self.all.met_by(*prefix).is_some())
    }

    /// Returns how often the protected addresses have changed.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Replaces the addresses found on the host.
    pub fn find(&mut self, found: Protected) {
        self.found = found;
    }

    /// Sets the configured prefixes.
    pub fn configure(&mut self, prefixes: &[Prefix]) {
        if self.configured != prefixes {
            self.configured = prefixes.to_vec();
            self.join();
        }
    }

    /// Protects the client of the SSH session that a command came from.
    pub fn note_ssh_peer(&mut self, peer: IpAddr) {
        if self.peers.len() < PEERS_MAX || self.peers.contains_key(&peer) {
            self.peers.insert(peer, clock::monotonic());
        }
    }

    /// Returns the protected addresses, with reasons.
    pub fn views(&self, rules: &Rules) -> Vec<ProtectedView> {
        let exempt: BTreeSet<Prefix> = rules.exempt().collect();
        let view = |(prefix, reasons): (Prefix, _)| ProtectedView {
            prefix,
            reasons: Iterator::map(reasons, Why::to_string).collect(),
            exempt: exempt.contains(&prefix),
        };
        self.all.iter().map(view).collect()
    }

    /// Logs each address that a ban exempts once.
    pub fn report(&mut self, rules: &Rules) {
        let exempt: BTreeSet<Prefix> = rules.exempt().collect();
        for prefix in exempt.difference(&self.reported) {
            if let Some((_, why)) = self.all.met_by(*prefix) {
                warn!(%prefix, %why, "a ban covers protected addresses and exempts them");
            }
        }
        self.reported = exempt;
    }

    /// Updates the union, and returns whether it changed.
    pub fn join(&mut self) -> bool {
        self.peers
            .retain(|_, last| clock::elapsed(*last) < PEER_LASTS);
        let mut all = self.found.clone();
        all.extend(self.peers.keys().map(|peer| (*peer, Why::SshPeer)));
        for prefix in &self.configured {
            all.add(*prefix, Why::Configured);
        }
        let different = !all.protects_as(&self.all);
        self.all = all;
        self.changes += u64::from(different);
        different
    }
}
