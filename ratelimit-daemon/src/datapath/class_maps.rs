//! The maps by which the classes of a packet are looked up.

use std::{
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{Array, MapData};
use ratelimit_common::ClassSet;
use ratelimit_core::class_tables::{ClassArray, ClassTables};

use super::{
    DatapathError, batch,
    family_maps::{failed, unreadable},
    maps::Maps,
};

const BY_KIND: &str = "CLASSES_BY_KIND";
const FROM_PORT: &str = "CLASSES_FROM_PORT";
const TO_PORT: &str = "CLASSES_TO_PORT";

/// The three arrays.
pub struct ClassMaps {
    by_kind: ClassMap,
    from_port: ClassMap,
    to_port: ClassMap,
}

struct ClassMap {
    name: &'static str,
    map: Array<MapData, ClassSet>,
    descriptor: OwnedFd,
}

impl ClassMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            by_kind: ClassMap::new(maps, BY_KIND)?,
            from_port: ClassMap::new(maps, FROM_PORT)?,
            to_port: ClassMap::new(maps, TO_PORT)?,
        })
    }

    /// Writes the entries that are different.
    pub fn set(&mut self, classes: &ClassTables) -> Result<(), DatapathError> {
        self.by_kind.set(classes.by_kind())?;
        self.from_port.set(classes.from_port())?;
        self.to_port.set(classes.to_port())
    }

    /// Some elements of one array.
    pub fn read_some(
        &self,
        array: ClassArray,
        indices: Range<u32>,
    ) -> Result<Vec<ClassSet>, DatapathError> {
        match array {
            ClassArray::ByKind => self.by_kind.read_some(indices),
            ClassArray::FromPort => self.from_port.read_some(indices),
            ClassArray::ToPort => self.to_port.read_some(indices),
        }
    }

    pub fn read(&self) -> Result<ClassTables, DatapathError> {
        Ok(ClassTables::from_arrays(
            self.by_kind.read()?,
            self.from_port.read()?,
            self.to_port.read()?,
        ))
    }
}

impl ClassMap {
    fn new(maps: &Maps, name: &'static str) -> anyhow::Result<Self> {
        Ok(Self {
            name,
            descriptor: maps.descriptor(name)?,
            map: maps.open(name)?,
        })
    }

    fn set(&mut self, wanted: &[ClassSet]) -> Result<(), DatapathError> {
        let held = self.read()?;
        let entries = (0..).zip(wanted.iter().zip(held));
        for (index, (wanted, held)) in entries {
            if *wanted != held {
                self.map
                    .set(index, *wanted, 0)
                    .map_err(failed("writing", self.name, 0))?;
            }
        }
        Ok(())
    }

    fn read_some(&self, indices: Range<u32>) -> Result<Vec<ClassSet>, DatapathError> {
        let mut classes = Vec::with_capacity(indices.len());
        let visit = |_, class| classes.push(class);
        batch::for_range(self.descriptor.as_fd(), indices, visit).map_err(unreadable(self.name))?;
        Ok(classes)
    }

    fn read(&self) -> Result<Vec<ClassSet>, DatapathError> {
        let mut classes = vec![ClassSet::NONE; self.map.len() as usize];
        batch::for_each(self.descriptor.as_fd(), |index: u32, class: ClassSet| {
            if let Some(place) = classes.get_mut(index as usize) {
                *place = class;
            }
        })
        .map_err(unreadable(self.name))?;
        Ok(classes)
    }
}
