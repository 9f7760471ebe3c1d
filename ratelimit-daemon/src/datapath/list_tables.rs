//! What lists say of prefixes, and the filter of prefix lengths before them.

use ratelimit_core::{ip_family::IpFamily, prefix::Prefix};

use super::{Entry, Place, Result};

/// What lists say of prefixes, and the filter of prefix lengths before them.
pub trait ListTables {
    /// Puts entries on the lists of their prefixes' families, or replaces them. When it fails, some of them are there.
    fn set_entries(&mut self, entries: &[(Prefix, Entry)]) -> Result<()>;

    /// Takes entries away; it is no error when one is not there. When it fails, some of them are gone.
    fn remove_entries(&mut self, prefixes: &[Prefix]) -> Result<()>;

    /// A word of the prefix-length filter of a family.
    fn filter_word(&self, family: IpFamily, index: u32) -> u64;

    /// Replaces a word of the prefix-length filter of a family.
    fn set_filter_word(&mut self, family: IpFamily, index: u32, word: u64);

    /// Lets go of memory that is only held to be fast, as of now and then when there is nothing to do.
    fn release(&mut self);

    /// The most entries of a family.
    fn list_capacity(&self, family: IpFamily) -> u32;

    /// The entry of a prefix.
    fn entry(&self, prefix: Prefix) -> Result<Option<Entry>>;

    /// All entries of both families.
    fn entries(&self) -> Result<Vec<(Prefix, Entry)>>;

    /// Shows up to `count` entries of a family from a place on, or some more, and answers where to go on: at the front
    /// after the last one.
    fn some_entries(
        &self,
        family: IpFamily,
        place: &Place,
        count: usize,
        visit: &mut dyn FnMut(Prefix, Entry),
    ) -> Result<Place>;

    /// How many entries of a family there are, told without looking at them; `None` where the kernel does not count (before 6.4).
    fn count_entries(&self, family: IpFamily) -> Option<u64>;
}
