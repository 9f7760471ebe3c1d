//! The maps of the sliding logs. They are as large as the limits need, and one small entry where there are none.
//!
//! The program says no sizes that hold: the daemon makes these maps before the program is loaded, and the program finds them
//! by their pins.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use anyhow::{Context, anyhow};
use aya::maps::MapData;
use aya_obj::{
    Map, Object,
    generated::{bpf_attr, bpf_cmd},
};
use ratelimit_common::source::LogKey;
use zerocopy::IntoBytes;

use super::{DatapathError, Pins, family_maps::unreadable};

const LOGS: &str = "LOGS";
const EMPTY_LOG: &str = "EMPTY_LOG";

/// What the sliding logs can hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogSize {
    /// Packets of the largest limit; 0 where no limit is a sliding log.
    pub times: u32,
    /// Logs, one for each source and limit.
    pub logs: u32,
}

impl LogSize {
    /// No logs at all.
    pub const NONE: Self = Self { times: 0, logs: 1 };

    /// The words of a log: its head, and its times.
    #[must_use]
    pub const fn words(self) -> u32 {
        self.times + 1
    }

    const fn value_bytes(self) -> u32 {
        self.words() * size_of::<u64>() as u32
    }
}

/// Gives the maps of the object their size.
///
/// # Errors
///
/// When the object does not have them.
pub fn resize(object: &mut Object, size: LogSize) -> anyhow::Result<()> {
    for name in [LOGS, EMPTY_LOG] {
        let Some(Map::Legacy(map)) = object.maps.get_mut(name) else {
            return Err(anyhow!("the BPF object has no map {name}"));
        };
        map.def.value_size = size.value_bytes();
    }
    if let Some(map) = object.maps.get_mut(LOGS) {
        map.set_max_entries(size.logs);
    }
    Ok(())
}

/// Makes the maps that are not pinned yet.
///
/// # Errors
///
/// When the kernel refuses: usually for want of memory.
pub fn make(object: &Object, pins: &Pins) -> anyhow::Result<()> {
    for name in [LOGS, EMPTY_LOG] {
        let path = pins.map(name);
        let Some(map) = object.maps.get(name).filter(|_| !path.exists()) else {
            continue;
        };
        let made = MapData::create(map.clone(), name, None).with_context(|| {
            let bytes = u64::from(map.max_entries()) * u64::from(map.value_size());
            format!("making the map {name} of {bytes} bytes")
        })?;
        made.pin(&path)
            .with_context(|| format!("pinning {}", path.display()))?;
    }
    Ok(())
}

/// The logs, to read from.
pub struct Logs {
    map: OwnedFd,
    size: LogSize,
}

impl Logs {
    /// The logs in `map`, which is of this size.
    pub const fn new(map: OwnedFd, size: LogSize) -> Self {
        Self { map, size }
    }

    /// What they can hold.
    pub const fn size(&self) -> LogSize {
        self.size
    }

    /// The words of a log; `None` when nothing was logged.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn words(&self, key: LogKey) -> Result<Option<Vec<u64>>, DatapathError> {
        let mut words = vec![0; self.size.words() as usize];
        match lookup(self.map.as_fd(), key.as_bytes(), &mut words) {
            Ok(()) => Ok(Some(words)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(unreadable(LOGS)(error)),
        }
    }
}

/// `BPF_MAP_LOOKUP_ELEM` into as many words as a value of the map has: aya knows only sizes that a type has.
fn lookup(map: BorrowedFd<'_>, key: &[u8], words: &mut [u64]) -> io::Result<()> {
    // SAFETY: `bpf_attr` is plain data, valid when all zero.
    let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the fields of this command; writing to a union's field is safe.
    let element = unsafe { &mut attributes.__bindgen_anon_2 };
    element.map_fd = map.as_raw_fd().cast_unsigned();
    element.key = key.as_ptr().expose_provenance() as u64;
    element.__bindgen_anon_1.value = words.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: key and value are as long as those of the map, and outlive the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            bpf_cmd::BPF_MAP_LOOKUP_ELEM,
            &raw mut attributes,
            size_of::<bpf_attr>(),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
