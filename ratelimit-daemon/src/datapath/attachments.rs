//! Programs on their interfaces.

use std::collections::BTreeMap;

use ratelimit_core::config::Interface;

use crate::links::Sight;

/// Programs on their interfaces.
pub trait Attachments {
    /// The slots of interfaces in the counters, with their names.
    fn slots(&self) -> Vec<(u32, String)>;

    /// What is seen of an interface.
    fn look(&self, interface: &str) -> anyhow::Result<Sight>;

    /// Has programs that run on interfaces of other names than when they were put there count for those, as far as they are wanted, and
    /// answers which. These are the names before, and those of today.
    ///
    /// # Errors
    ///
    /// When all of them count as before.
    fn follow(&mut self, wanted: &[Interface]) -> anyhow::Result<BTreeMap<String, String>>;

    /// Puts the program on an interface, or on the one that had its name, in place of the one of ours that is there. It answers what is
    /// to be known about that.
    ///
    /// # Errors
    ///
    /// Why it is not there, or goes on as it was.
    fn attach(&mut self, interface: &Interface) -> anyhow::Result<Option<String>>;

    /// Takes the program off an interface, or off the one that had its name.
    ///
    /// # Errors
    ///
    /// When it stays.
    fn take_off(&mut self, interface: &str) -> anyhow::Result<()>;

    /// Takes the program off all interfaces but these.
    ///
    /// # Errors
    ///
    /// The first that it stays on.
    fn keep_only(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Makes pins again that somebody removed, and answers whether there were any.
    ///
    /// # Errors
    ///
    /// When they cannot be made.
    fn keep_pinned(&mut self) -> anyhow::Result<bool>;

    /// The interfaces whose program calls another one than the one that is pinned where their `next` says, or where none is pinned there.
    ///
    /// # Errors
    ///
    /// When that cannot be told.
    fn stale_next(&mut self) -> anyhow::Result<Vec<String>>;

    /// Takes the programs off their interfaces, which it answers, and lets the tables go.
    fn detach(&mut self) -> anyhow::Result<Vec<String>>;
}
