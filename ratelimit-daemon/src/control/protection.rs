//! What is protected at this moment, in the hands of the controller: bans are vetted by it, and stop at it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use ratelimit_core::{
    api::{ExemptEntries, ProtectedView},
    intent::{Edit, list::List},
    lists::Action,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::{exempt, state::State};
use crate::protected::{Protected, Refusal, Why, Word};

/// How long the other end of an SSH session is protected after the last command that came from it. While somebody is logged
/// in, the sessions of the host say so too; this is for hosts that do not tell.
const PEER_LASTS: Duration = Duration::from_hours(1);
/// Such addresses at a time: whoever may command the daemon may as well allow them.
const PEERS_MAX: usize = 64;

/// What was found, and what commands told.
pub struct Protection {
    found: Protected,
    peers: BTreeMap<IpAddr, Instant>,
    /// Both.
    all: Protected,
    /// Where bans stop, as it was told.
    told: BTreeSet<Prefix>,
}

impl Protection {
    /// What was found.
    pub fn new(found: Protected) -> Self {
        Self {
            all: found.clone(),
            found,
            peers: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// See [`Protected::vet`].
    pub fn vet(&self, prefix: Prefix, word: Word) -> Result<(), Refusal> {
        self.all.vet(prefix, word)
    }

    /// What is protected.
    pub fn prefixes(&self) -> BTreeSet<Prefix> {
        self.all.prefixes().collect()
    }

    /// The entries, in the order of their prefixes, that meet what is protected.
    pub fn exempt<E>(&self, entries: &[E], prefix: impl Fn(&E) -> Prefix) -> ExemptEntries {
        exempt::exempt(&self.all, entries, prefix)
    }

    /// The entries of a list that ban, and stop at what is protected.
    pub fn exempt_of(&self, list: &List) -> ExemptEntries {
        match list.action {
            Action::Ban => self.exempt(list.entries(), |entry| entry.prefix),
            Action::Allow => ExemptEntries::default(),
        }
    }

    /// Why an address is protected; `None` when it is not.
    pub fn why(&self, address: IpAddr) -> Option<&Why> {
        self.all.met_by(address.into()).map(|(_, why)| why)
    }

    /// Whether a change is of a ban that meets what is protected.
    pub fn is_met_by(&self, edit: &Edit) -> bool {
        matches!(edit, Edit::Ban(prefix, ..) if self.all.met_by(*prefix).is_some())
    }

    /// Puts both together, and answers whether that is different from before.
    fn join(&mut self) -> bool {
        self.peers.retain(|_, last| last.elapsed() < PEER_LASTS);
        let mut all = self.found.clone();
        all.extend(self.peers.keys().map(|peer| (*peer, Why::SshPeer)));
        let different = all != self.all;
        self.all = all;
        different
    }
}

impl State {
    /// Protects what was found, in place of what was found before.
    pub fn protect(&mut self, found: Protected) {
        self.protection.found = found;
        self.protect_again();
    }

    /// Protects the other end of the SSH session that a command came from.
    pub fn note_ssh_peer(&mut self, peer: IpAddr) {
        let peers = &mut self.protection.peers;
        if peers.len() < PEERS_MAX || peers.contains_key(&peer) {
            peers.insert(peer, Instant::now());
            self.protect_again();
        }
    }

    /// What is protected, and why.
    #[must_use]
    pub fn protected(&self) -> Vec<ProtectedView> {
        let exempt: BTreeSet<Prefix> = self.rules.exempt().collect();
        let view = |(prefix, reasons): (Prefix, _)| ProtectedView {
            prefix,
            reasons: Iterator::map(reasons, Why::to_string).collect(),
            exempt: exempt.contains(&prefix),
        };
        self.protection.all.iter().map(view).collect()
    }

    /// Logs where bans stop, once for each address.
    pub(super) fn report_exempt(&mut self) {
        let exempt: BTreeSet<Prefix> = self.rules.exempt().collect();
        for prefix in exempt.difference(&self.protection.told) {
            if let Some((_, why)) = self.protection.all.met_by(*prefix) {
                warn!(%prefix, %why, "a ban covers what is protected, and does not hold for it");
            }
        }
        self.protection.told = exempt;
    }

    fn protect_again(&mut self) {
        if !self.protection.join() {
            return;
        }
        match self.enforce_protection() {
            Ok(()) => info!(prefixes = self.protection.prefixes().len(), "protected"),
            // The tables are compared again from time to time.
            Err(error) => warn!(
                error = format!("{error:#}"),
                "what is protected is different, and the kernel could not be told"
            ),
        }
        self.report_exempt();
    }
}
