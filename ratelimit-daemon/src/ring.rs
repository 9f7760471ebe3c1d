//! A ring of the kernel that is in memory only while somebody reads it.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use anyhow::Context;
use aya::maps::{Map, MapData, RingBuf};

/// A ring that is read.
pub type Events = RingBuf<MapData>;

/// A ring that nobody reads at the moment. What the kernel writes stays in it.
#[derive(Debug)]
pub struct Ring(OwnedFd);

impl Ring {
    pub(crate) const fn new(map: OwnedFd) -> Self {
        Self(map)
    }

    /// Brings it into memory, for one reader, empty: what was written while nobody read is passed over.
    pub fn open(&self) -> anyhow::Result<Events> {
        let map = MapData::from_fd(self.descriptor()?).context("opening a ring")?;
        let mut ring = RingBuf::try_from(Map::RingBuf(map)).context("mapping a ring")?;
        while ring.next().is_some() {}
        Ok(ring)
    }

    /// What can be waited for: it is readable when something is in the ring.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}
