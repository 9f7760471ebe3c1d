//! What is protected at this moment: bans are vetted by it, and stop at it.

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

/// How long the other end of an SSH session is protected after the last command that came from it. While somebody is logged
/// in, the sessions of the host say so too; this is for hosts that do not tell.
const PEER_LASTS: Duration = Duration::from_hours(1);
/// Such addresses at a time: whoever may command the daemon may as well allow them.
const PEERS_MAX: usize = 64;

/// What was found, what commands told, and what the configuration names.
pub struct Protection {
    found: Protected,
    peers: BTreeMap<IpAddr, Instant>,
    configured: Vec<Prefix>,
    /// All of them.
    all: Protected,
    /// Where bans stop, as it was reported.
    reported: BTreeSet<Prefix>,
}

impl Protection {
    /// What was found.
    pub fn new(found: Protected) -> Self {
        Self {
            all: found.clone(),
            found,
            peers: BTreeMap::new(),
            configured: Vec::new(),
            reported: BTreeSet::new(),
        }
    }

    /// See [`Protected::vet`].
    pub fn vet(&self, prefix: Prefix, requester: Requester) -> Result<(), Refused> {
        self.all.vet(prefix, requester)
    }

    /// What is protected.
    pub fn prefixes(&self) -> BTreeSet<Prefix> {
        self.all.prefixes().collect()
    }

    /// What is protected, and the networks that this host is connected to.
    pub fn all(&self) -> &Protected {
        &self.all
    }

    /// Why an address is protected; `None` when it is not.
    pub fn why(&self, address: IpAddr) -> Option<&Why> {
        self.all.met_by(address.into()).map(|(_, why)| why)
    }

    /// Whether a change is of a ban that meets what is protected.
    pub fn is_met_by(&self, edit: &Edit) -> bool {
        matches!(edit, Edit::Ban(prefix, ..) if self.all.met_by(*prefix).is_some())
    }

    /// Has other addresses protected than those that were found before.
    pub fn find(&mut self, found: Protected) {
        self.found = found;
    }

    /// Has these prefixes protected beside, as the configuration names them.
    pub fn configure(&mut self, prefixes: &[Prefix]) {
        if self.configured != prefixes {
            self.configured = prefixes.to_vec();
            self.join();
        }
    }

    /// Has the other end of the SSH session protected that a command came from.
    pub fn note_ssh_peer(&mut self, peer: IpAddr) {
        if self.peers.len() < PEERS_MAX || self.peers.contains_key(&peer) {
            self.peers.insert(peer, clock::monotonic());
        }
    }

    /// What is protected, and why.
    pub fn views(&self, rules: &Rules) -> Vec<ProtectedView> {
        let exempt: BTreeSet<Prefix> = rules.exempt().collect();
        let view = |(prefix, reasons): (Prefix, _)| ProtectedView {
            prefix,
            reasons: Iterator::map(reasons, Why::to_string).collect(),
            exempt: exempt.contains(&prefix),
        };
        self.all.iter().map(view).collect()
    }

    /// Logs where bans stop, once for each address.
    pub fn report(&mut self, rules: &Rules) {
        let exempt: BTreeSet<Prefix> = rules.exempt().collect();
        for prefix in exempt.difference(&self.reported) {
            if let Some((_, why)) = self.all.met_by(*prefix) {
                warn!(%prefix, %why, "a ban covers protected addresses and exempts them");
            }
        }
        self.reported = exempt;
    }

    /// Puts all together, and answers whether that is different from before.
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
        different
    }
}
