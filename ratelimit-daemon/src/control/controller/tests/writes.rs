//! The writes to the tables, by what they mean.

use aya::Pod;
use ratelimit_common::{
    ClassSet, Ipv4, Ipv6, Policy, Record, Settings,
    aggregate::Aggregates,
    challenge,
    compact::{Region, WORDS},
    interface::InterfaceRule,
    list::PrefixKey,
    new_sources::Budget,
    parse::Tunnels,
};
use ratelimit_core::{compile::Switched, ip_family::IpAddress};

use super::*;
use crate::{datapath, loader::TABLES};

/// A write to the tables, or its removal.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Policy(u32, Box<Policy>),
    /// An entry, or its removal.
    Entry(Prefix, Option<EntryByGeneration>),
    /// Array of the class arrays.
    Classes(Vec<(u32, ClassSet)>),
    Switched(Part),
    /// Replaces the state in a slot of the node or of a destination.
    Total(u32),
    /// Clears a region of a `compact` table.
    Region(Region),
    /// Copies a region to another one, which was empty.
    CopiedRegion(Region, Region),
    Settings(Settings),
    /// The program is attached to an interface.
    Attached,
}

/// A table with a value for each generation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Aggregates(u32, ByGeneration<Aggregates>),
    NewSources(ByGeneration<Budget>),
    Tunnels(ByGeneration<Tunnels>),
    Challenge(Box<ByGeneration<challenge::Rules>>),
    Rules(ByGeneration<BTreeMap<String, InterfaceRule>>),
}

impl Part {
    /// Replaces this table.
    pub(super) fn apply(&self, switched: &mut ByGeneration<Switched>) {
        *switched = ByGeneration::each(|generation| {
            let mut tables = switched.of(generation).clone();
            match self {
                Self::Aggregates(family, new) => {
                    tables.aggregates[*family as usize] = *new.of(generation);
                }
                Self::NewSources(new) => tables.new_sources = *new.of(generation),
                Self::Tunnels(new) => tables.tunnels = *new.of(generation),
                Self::Challenge(new) => tables.challenge = *new.of(generation),
                Self::Rules(new) => tables.interfaces.clone_from(new.of(generation)),
            }
            tables
        });
    }
}

impl Lab {
    /// Returns the writes since the last call.
    pub(super) fn take_writes(&self) -> Vec<Write> {
        meanings(&std::mem::take(&mut self.switches().writes))
    }

    /// Returns all writes.
    pub(super) fn writes(&self) -> Vec<Write> {
        meanings(&self.switches().writes)
    }
}

/// Returns the meaning of writes to the maps.
pub(super) fn meanings(writes: &[datapath::Write]) -> Vec<Write> {
    let mut meanings = Vec::new();
    let mut writes = writes.iter().peekable();
    while let Some(write) = writes.next() {
        meanings.extend(entries::<Ipv4>("LISTS_V4", write));
        meanings.extend(entries::<Ipv6>("LISTS_V6", write));
        meanings.extend(tables(write));
        // The same follows for IPv6.
        if let Some(region) = region(write) {
            let copied = writes.peek().and_then(|next| self::region(next));
            meanings.push(match copied {
                Some(to) => Write::CopiedRegion(region, to),
                None => Write::Region(region),
            });
            if copied.is_some() {
                writes.next();
            }
        }
    }
    meanings
}

fn entries<A: IpAddress>(map: &str, write: &datapath::Write) -> Vec<Write>
where
    PrefixKey<A>: Pod,
{
    let entries = write.elements::<PrefixKey<A>, EntryByGeneration>(map);
    let entries = entries.into_iter().map(|(key, entry)| {
        let prefix = Prefix::around(key.address().to_std(), key.length().unwrap());
        Write::Entry(prefix.unwrap(), entry)
    });
    entries.collect()
}

/// Returns the region of a `compact` table for IPv4 that is mapped.
fn region(write: &datapath::Write) -> Option<Region> {
    let datapath::Write::Mapped(map, words) = write else {
        return None;
    };
    let sets = |words: usize| u32::try_from(words / WORDS).unwrap();
    (map == TABLES[0]).then(|| Region::new(sets(words.start), sets(words.len())))
}

fn tables(write: &datapath::Write) -> Vec<Write> {
    fn of<V: Pod>(
        map: &str,
        write: &datapath::Write,
        meaning: impl Fn(u32, V) -> Write,
    ) -> Vec<Write> {
        let elements = write.elements::<u32, V>(map).into_iter();
        elements
            .map(|(index, value)| meaning(index, value.unwrap()))
            .collect()
    }
    let classes = write.elements("EXCLUDED_CLASSES").into_iter();
    let classes = classes.map(|(index, set): (u32, Option<ClassSet>)| (index, set.unwrap()));
    let classes: Vec<_> = classes.collect();
    let classes = (!classes.is_empty()).then_some(Write::Classes(classes));
    let others = match write {
        datapath::Write::Rules(rules) => Some(Write::Switched(Part::Rules(rules.clone()))),
        datapath::Write::Attached => Some(Write::Attached),
        datapath::Write::Update(..) | datapath::Write::Delete(..) | datapath::Write::Mapped(..) => {
            None
        }
    };
    let policies = of("POLICIES", write, |index, policy: Policy| {
        Write::Policy(index, Box::new(policy))
    });
    let totals = of("NODE", write, |slot, _: Record| Write::Total(slot));
    let settings = of("SETTINGS", write, |_, new| Write::Settings(new));
    let parts = [
        of("AGGREGATES", write, |family, new| {
            Write::Switched(Part::Aggregates(family, new))
        }),
        of("NEW_SOURCES", write, |_, new| {
            Write::Switched(Part::NewSources(new))
        }),
        of("TUNNELS", write, |_, new| {
            Write::Switched(Part::Tunnels(new))
        }),
        of("CHALLENGE", write, |_, new| {
            Write::Switched(Part::Challenge(Box::new(new)))
        }),
    ];
    let all = classes.into_iter().chain(others).chain(policies);
    let all = all.chain(totals).chain(settings);
    all.chain(parts.into_iter().flatten()).collect()
}
