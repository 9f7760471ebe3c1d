//! The map by which the classes of a packet are looked up.

use std::{
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

use ratelimit_common::ClassSet;
use ratelimit_core::class_tables::ClassTables;

use super::{
    Result, batch,
    family_maps::unreadable,
    maps::{Elements, Maps},
};

const NAME: &str = "EXCLUDED_CLASSES";

/// An entry for each value of each property.
pub struct ClassMap {
    map: Elements<ClassSet>,
    descriptor: OwnedFd,
}

impl ClassMap {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            descriptor: maps.descriptor(NAME)?,
            map: maps.elements(NAME)?,
        })
    }

    /// Writes the entries that are different.
    pub fn set(&mut self, classes: &ClassTables) -> Result<()> {
        let held = self.read()?;
        let entries = (0..).zip(classes.entries().iter().zip(held.entries()));
        for (index, (wanted, held)) in entries {
            if wanted != held {
                self.map.set(index, *wanted)?;
            }
        }
        Ok(())
    }

    /// Some of the entries.
    pub fn read_some(&self, indices: Range<u32>) -> Result<Vec<ClassSet>> {
        let mut classes = Vec::with_capacity(indices.len());
        let visit = |_, class| classes.push(class);
        batch::for_range(self.descriptor.as_fd(), indices, visit).map_err(unreadable(NAME))?;
        Ok(classes)
    }

    pub fn read(&self) -> Result<ClassTables> {
        let mut classes = vec![ClassSet::NONE; self.map.len() as usize];
        batch::for_each(self.descriptor.as_fd(), |index: u32, class: ClassSet| {
            if let Some(place) = classes.get_mut(index as usize) {
                *place = class;
            }
        })
        .map_err(unreadable(NAME))?;
        Ok(ClassTables::from_entries(classes))
    }
}
