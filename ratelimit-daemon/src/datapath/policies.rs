//! Policies, classes, and what applies to all packets.

use std::ops::Range;

use ratelimit_common::{
    ClassSet, Instant, Policy, Settings,
    aggregate::Aggregates,
    challenge,
    generation::ByGeneration,
    layout::{POLICIES_MAX, ends},
    new_sources::{Budget, UsedBudgets},
    parse::Tunnels,
};
use ratelimit_core::{class_tables::ClassTables, compile::Switched};

use super::{
    Result,
    batch::bytes_of,
    maps::{Array, Maps},
};

/// The policies, the settings for all packets, and the tables with a value for each generation.
pub struct PolicyTables {
    policies: Array<Policy>,
    settings: Array<Settings>,
    ends: Array<u64>,
    classes: Array<ClassSet>,
    aggregates: Array<ByGeneration<Aggregates>>,
    new_sources: Array<ByGeneration<Budget>>,
    new_sources_taken: Array<UsedBudgets>,
    tunnels: Array<ByGeneration<Tunnels>>,
    challenge: Array<ByGeneration<challenge::Rules>>,
}

impl PolicyTables {
    pub(super) fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            policies: maps.array("POLICIES")?,
            settings: maps.array("SETTINGS")?,
            ends: maps.array("ENDS")?,
            classes: maps.array("EXCLUDED_CLASSES")?,
            aggregates: maps.array("AGGREGATES")?,
            new_sources: maps.array("NEW_SOURCES")?,
            new_sources_taken: maps.array("NEW_SOURCES_TAKEN")?,
            tunnels: maps.array("TUNNELS")?,
            challenge: maps.array("CHALLENGE")?,
        })
    }

    /// Writes a policy.
    pub(super) fn set(&mut self, index: u32, policy: &Policy) -> Result<()> {
        self.policies.set(index, *policy)
    }

    /// Returns the policy at an index, which may be empty.
    pub fn get(&self, index: u32) -> Result<Policy> {
        self.policies.get(index)
    }

    /// Returns the policies that are not empty, except those of leases, by index.
    pub fn all(&self) -> Result<Vec<(u32, Policy)>> {
        self.some(0..POLICIES_MAX)
    }

    /// Returns the policies in a range of indices that are not empty.
    pub fn some(&self, indices: Range<u32>) -> Result<Vec<(u32, Policy)>> {
        let policies = indices.clone().zip(self.policies.some(indices)?);
        // As bytes, because there are many.
        let is_empty = |policy| bytes_of(&[policy]) == bytes_of(&[Policy::default()]);
        Ok(policies.filter(|(_, policy)| !is_empty(*policy)).collect())
    }

    /// Returns all policies, including empty ones and those of leases.
    pub(super) fn with_leased(&self) -> Result<Vec<Policy>> {
        self.policies.all()
    }

    /// Replaces the settings for all packets atomically.
    pub(super) fn set_settings(&mut self, settings: Settings) -> Result<()> {
        self.settings.set(0, settings)
    }

    /// Returns the settings for all packets.
    pub fn settings(&self) -> Result<Settings> {
        self.settings.get(0)
    }

    /// Replaces the class arrays. During the change, a packet may see a mixture of both.
    pub fn set_classes(&mut self, classes: &ClassTables) -> Result<()> {
        let held = self.classes()?;
        let entries = (0..).zip(classes.entries().iter().zip(held.entries()));
        let changed = entries.filter(|(_, (wanted, held))| wanted != held);
        let changed = changed.map(|(index, (wanted, _))| (index, *wanted));
        let (indices, entries): (Vec<_>, Vec<_>) = changed.unzip();
        self.classes.set_some(&indices, &entries)
    }

    /// Returns the class arrays.
    pub fn classes(&self) -> Result<ClassTables> {
        Ok(ClassTables::from_entries(self.classes.all()?))
    }

    /// Returns elements of the class arrays in a range of indices.
    pub fn some_classes(&self, indices: Range<u32>) -> Result<Vec<ClassSet>> {
        self.classes.some(indices)
    }

    /// Writes the tables with a value for each generation, each of them atomically, except the
    /// rules of interfaces.
    pub(super) fn set_switched(&mut self, switched: &ByGeneration<Switched>) -> Result<()> {
        for family in [0, 1] {
            let aggregates = switched.map(|tables| tables.aggregates[family as usize]);
            self.aggregates.set(family, aggregates)?;
        }
        self.new_sources
            .set(0, switched.map(|tables| tables.new_sources))?;
        self.tunnels.set(0, switched.map(|tables| tables.tunnels))?;
        self.challenge
            .set(0, switched.map(|tables| tables.challenge))
    }

    /// Returns these tables.
    pub(super) fn switched(&self) -> Result<ByGeneration<Switched>> {
        let aggregates = [self.aggregates.get(0)?, self.aggregates.get(1)?];
        let new_sources = self.new_sources.get(0)?;
        let tunnels = self.tunnels.get(0)?;
        let challenge = self.challenge.get(0)?;
        Ok(ByGeneration::each(|generation| Switched {
            aggregates: aggregates.map(|both| *both.of(generation)),
            new_sources: *new_sources.of(generation),
            tunnels: *tunnels.of(generation),
            challenge: *challenge.of(generation),
            ..Switched::default()
        }))
    }

    /// Returns the used part of the budget for new sources.
    pub fn new_sources_taken(&self) -> Result<UsedBudgets> {
        self.new_sources_taken.get(0)
    }

    /// Sets the end of pass-all, which the settings enable.
    pub fn set_pass_all_until(&mut self, until: Instant) -> Result<()> {
        self.ends.set(ends::PASS_ALL, until.as_nanos())
    }

    /// Returns the end of pass-all.
    pub fn pass_all_until(&self) -> Result<Instant> {
        self.ends.get(ends::PASS_ALL).map(Instant::from_nanos)
    }
}
