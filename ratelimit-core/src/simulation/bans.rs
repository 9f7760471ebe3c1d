//! Processes bans of policies like the daemon: each further ban of a source is longer, and those of
//! a dry run are discarded.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use ratelimit_common::PolicyBan;

use crate::{compile::Compiled, intent::Offence, memory_tables::MemoryTables};

/// Ban history of sources.
#[derive(Debug, Default)]
pub struct Bans {
    offences: HashMap<IpAddr, Offence>,
    would_be: HashSet<IpAddr>,
}

impl Bans {
    /// Takes the ban over that the last packet may have brought its source. The daemon takes some
    /// milliseconds longer.
    pub fn adopt(&mut self, tables: &MemoryTables, compiled: &Compiled) {
        let Some((source, ban)) = tables.take_banned() else {
            return;
        };
        if compiled.config().observe {
            self.would_be.insert(source);
            tables.set_policy_ban(source, None);
            return;
        }
        let before = self.offences.get(&source).copied();
        let (until, offence) = Offence::next(before, &ban, compiled.ban_of(ban.scope));
        self.offences.insert(source, offence);
        let ban = PolicyBan {
            until_ns: until.as_nanos(),
            ..ban
        };
        tables.set_policy_ban(source, Some(ban));
    }

    /// Returns the number of sources that a dry run would have banned.
    pub fn would_be(&self) -> usize {
        self.would_be.len()
    }
}
