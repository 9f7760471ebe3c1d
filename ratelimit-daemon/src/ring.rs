//! A ring buffer of the kernel that is mapped only while it is read.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use anyhow::Context;
use aya::maps::{Map, MapData, RingBuf};

/// A ring that is read.
pub type Events = RingBuf<MapData>;

/// A ring without a reader. Data of the kernel stays in it.
#[derive(Debug)]
pub struct Ring(OwnedFd);

impl Ring {
    pub(crate) const fn new(map: OwnedFd) -> Self {
        Self(map)
    }

    /// Maps the ring for one reader and discards older data.
    pub fn open(&self) -> anyhow::Result<Events> {
        let map = MapData::from_fd(self.descriptor()?).context("opening a ring")?;
        let mut ring = RingBuf::try_from(Map::RingBuf(map)).context("mapping a ring")?;
        while ring.next().is_some() {}
        Ok(ring)
    }

    /// Returns a descriptor that is readable when the ring is not empty.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}
