//! Bans exempt protected addresses, unless they were forced.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{Counted, longer};
use crate::prefix::Prefix;

/// The few protected prefixes, and the bans that apply despite them.
#[derive(Clone, Debug, Default)]
pub struct Exemptions {
    protected: BTreeSet<Prefix>,
    /// Prefixes other than single addresses.
    wide: Vec<Prefix>,
    /// The manual bans that were forced.
    forced: BTreeMap<Prefix, Counted>,
}

impl Exemptions {
    /// Protects these prefixes and no others.
    pub fn set_protected(&mut self, protected: BTreeSet<Prefix>) {
        let wide = protected.iter().filter(|prefix| !prefix.is_address());
        self.wide = wide.copied().collect();
        self.protected = protected;
    }

    /// Notes that the ban of a prefix was forced, or ends that.
    pub fn set_forced(&mut self, prefix: Prefix, until: Option<Counted>) {
        match until {
            Some(until) => self.forced.insert(prefix, until),
            None => self.forced.remove(&prefix),
        };
    }

    /// The protected prefixes.
    pub fn protected(&self) -> &BTreeSet<Prefix> {
        &self.protected
    }

    /// Whether every address of a prefix is protected.
    pub fn is_protected(&self, prefix: Prefix) -> bool {
        self.protected.contains(&prefix) || self.wide.iter().any(|wide| wide.covers(prefix))
    }

    /// The end of the longest forced ban around a prefix.
    pub fn forced_around(&self, prefix: Prefix) -> Option<Counted> {
        let forced = self.forced.iter();
        let around = forced.filter(|(own, _)| own.covers(prefix));
        around.fold(None, |longest, (_, ban)| longer(longest, Some(*ban)))
    }

    /// The narrowest protected prefix around an address.
    pub fn around(&self, address: IpAddr) -> Option<Prefix> {
        let address = Prefix::from(address);
        let wide = self.wide.iter().copied();
        let wide = wide.filter(|wide| wide.covers(address));
        let exact = self.protected.get(&address).copied();
        exact.or_else(|| wide.max_by_key(|prefix| prefix.len()))
    }
}
