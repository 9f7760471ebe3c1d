//! The foreign program that receives passed packets of an interface: a tail call through a slot of
//! a pinned map.

use std::{
    borrow::BorrowMut,
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use aya::{
    maps::{Map, MapData, MapError, ProgramArray},
    programs::{ProgramInfo, Xdp},
    sys::SyscallError,
};
use aya_obj::{
    generated::{bpf_cmd, bpf_prog_type},
    programs::XdpAttachType,
};

use ratelimit_common::layout::{ENTRIES, ENTRIES_FRAGS, PROGRAM, PROGRAM_FRAGS};

use super::pins::Pins;
use crate::syscall;

/// The map of the programs for frames that may take several buffers, or for those that fit into
/// one.
const fn map(frags: bool) -> &'static str {
    if frags { "NEXT_FRAGS" } else { "NEXT" }
}

/// Kernel names of our programs. Their maps are visible only with the permission to query any
/// program.
const OURS: [&str; 4] = [PROGRAM, PROGRAM_FRAGS, ENTRIES[0], ENTRIES_FRAGS[0]];

/// A program that is called, and where it was pinned.
#[derive(Clone)]
pub struct Next {
    path: PathBuf,
    number: u32,
}

impl Next {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether another one is pinned there, or none.
    pub fn is_stale(&self) -> bool {
        !ProgramInfo::from_pin(&self.path).is_ok_and(|pinned| pinned.id() == self.number)
    }
}

/// Makes the loaded program of a slot pass packets to the one pinned at `path`.
///
/// # Errors
///
/// If there is no such program, or ours cannot call it; the message contains a hint. The running
/// program is unchanged.
pub fn set(pins: &Pins, slot: u32, frags: bool, path: &Path) -> anyhow::Result<Next> {
    let next = program(path)?;
    let answer = open(pins, map(frags))?.set(slot, next.fd()?, 0);
    answer.map_err(|error| refused(path, frags, error))?;
    Ok(Next {
        path: path.to_owned(),
        number: next.info()?.id(),
    })
}

/// Whether the program of a slot calls another one. The kernel keeps it although its pin is gone.
pub fn is_held(pins: &Pins, slot: u32, frags: bool) -> anyhow::Result<bool> {
    let name = map(frags);
    let map = MapData::from_pin(pins.map(name));
    let map = map.with_context(|| format!("opening the map {name}"))?;
    let (command, mut number) = (bpf_cmd::BPF_MAP_LOOKUP_ELEM, 0_u32);
    let (key, value) = ((&raw const slot).cast(), (&raw mut number).cast());
    // SAFETY: keys and values of a `BPF_MAP_TYPE_PROG_ARRAY` are 32 bits wide.
    unsafe { syscall::element(command, map.fd().as_fd(), key, value, 0) }
        .with_context(|| format!("reading the map {name}"))
}

/// Releases the next programs of a slot, except that of the program that runs there now, if it
/// has one.
pub fn release(pins: &Pins, slot: u32, kept: Option<bool>) -> anyhow::Result<()> {
    for frags in [false, true] {
        if kept != Some(frags) && pins.map(map(frags)).exists() {
            clear(&mut open(pins, map(frags))?, slot).context("releasing the next program")?;
        }
    }
    Ok(())
}

fn open(pins: &Pins, map: &str) -> anyhow::Result<ProgramArray<MapData>> {
    let data = MapData::from_pin(pins.map(map));
    let data = data.with_context(|| format!("opening the map {map}"))?;
    Ok(ProgramArray::try_from(Map::ProgramArray(data))?)
}

/// Empties a slot, if there is something in it.
pub fn clear<T: BorrowMut<MapData>>(
    programs: &mut ProgramArray<T>,
    slot: u32,
) -> Result<(), MapError> {
    match programs.clear_index(&slot) {
        Err(error) if kind(&error) == Some(io::ErrorKind::NotFound) => Ok(()),
        answer => answer,
    }
}

fn kind(error: &MapError) -> Option<io::ErrorKind> {
    let MapError::SyscallError(SyscallError { io_error, .. }) = error else {
        return None;
    };
    Some(io_error.kind())
}

/// The kernel lets no program call one of another kind.
fn refused(path: &Path, frags: bool, error: MapError) -> anyhow::Error {
    let path = path.display();
    if kind(&error) != Some(io::ErrorKind::InvalidInput) {
        return anyhow!(error).context(format!("calling `chain`, {path}"));
    }
    if frags {
        anyhow!(
            "`chain`, {path}, does not support multi-buffer frames, which this interface has: \
             load it from the section `xdp.frags`, or set an MTU of at most 1500 and `jumbo = \
             false`"
        )
    } else {
        anyhow!(
            "`chain`, {path}, supports multi-buffer frames (`xdp.frags`), but ours does not on \
             this interface: set `jumbo = true`, or load it from the section `xdp`"
        )
    }
}

fn program(path: &Path) -> anyhow::Result<Xdp> {
    let shown = path.display();
    let info = ProgramInfo::from_pin(path).with_context(|| {
        format!(
            "there is no program at {shown}, `chain` of this interface: pin it there with \
             `bpftool prog load` or `bpftool prog pin`, or remove `chain`"
        )
    })?;
    if info.program_type() != bpf_prog_type::BPF_PROG_TYPE_XDP {
        bail!("`chain`, {shown}, is not an XDP program");
    }
    if info.name_as_str().is_some_and(|name| OURS.contains(&name)) {
        bail!(
            "`chain`, {shown}, is ratelimit itself: remove `chain`, or use the path of another \
             program"
        );
    }
    Ok(Xdp::from_pin(path, XdpAttachType::Interface)?)
}
