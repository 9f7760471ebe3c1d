//! The program as called by a foreign one, without a link of ours. Callers hold a pinned entry, and
//! a map names the program behind it, so the program can be replaced without them.
//!
//! `<root>/entries/<interface>/program`, with its maps beside it, where `xdp-loader load
//! --pin-path` finds them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Map, MapData, ProgramArray},
    programs::{ProgramInfo, Xdp},
};
use ratelimit_common::layout::{ENTRIES, ENTRIES_FRAGS};

use super::{
    Attachment, InterfacePlan, entry_point::EntryPoint, load::pass_verifier, next, object::ENTRY,
    pins::Pins,
};
use crate::private;

/// The name of the pinned program.
const PROGRAM: &str = "program";
const EMPTYING: &str = "emptying the map of an entry";

/// An entry, whose maps live as long as this or their pins.
pub struct DispatcherEntry {
    ebpf: Ebpf,
    directory: PathBuf,
    frags: bool,
}

impl DispatcherEntry {
    /// Opens or creates the entry in this directory, and points it to `program`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or a foreign object is pinned there.
    pub fn set(directory: PathBuf, program: &Xdp, frags: bool) -> anyhow::Result<Self> {
        private::make_directory(&directory)
            .with_context(|| format!("creating the directory {}", directory.display()))?;
        let mut loader = EbpfLoader::new();
        for [_, map] in [ENTRIES, ENTRIES_FRAGS] {
            loader.map_pin_path(map, directory.join(map));
        }
        let ebpf = loader
            .load(&ENTRY)
            .context("making the maps of the entry")?;
        let mut entry = Self {
            ebpf,
            directory,
            frags,
        };
        pass_verifier(entry.xdp()?, Xdp::load).context("loading the entry")?;
        entry.leave_to(program)?;
        entry.pin()?;
        Ok(entry)
    }

    /// Returns the pin of the program that others call.
    pub fn path(&self) -> PathBuf {
        self.directory.join(PROGRAM)
    }

    /// Whether a pin is gone.
    pub fn is_incomplete(&self) -> bool {
        let names = [PROGRAM, ENTRIES[1], ENTRIES_FRAGS[1]];
        names.iter().any(|name| !self.directory.join(name).exists())
    }

    /// Makes the pins that are missing, of the maps that others hold.
    pub fn pin(&mut self) -> anyhow::Result<()> {
        private::make_directory(&self.directory)?;
        for [_, name] in [ENTRIES, ENTRIES_FRAGS] {
            let path = self.directory.join(name);
            if !path.exists()
                && let Some(Map::ProgramArray(map)) = self.ebpf.map(name)
            {
                map.pin(&path)
                    .with_context(|| format!("pinning {}", path.display()))?;
            }
        }
        let path = self.path();
        let wanted = self.names()[0];
        match ProgramInfo::from_pin(&path) {
            Ok(info) if info.name_as_str() == Some(wanted) => return Ok(()),
            Ok(_) => drop(private::remove(&path)?),
            Err(_) => {}
        }
        self.xdp()?
            .pin(&path)
            .with_context(|| format!("pinning {}", path.display()))
    }

    /// The program, and the map of its target.
    const fn names(&self) -> [&'static str; 2] {
        if self.frags { ENTRIES_FRAGS } else { ENTRIES }
    }

    fn xdp(&mut self) -> anyhow::Result<&mut Xdp> {
        let [name, _] = self.names();
        let program = self.ebpf.program_mut(name);
        let program = program.ok_or_else(|| anyhow!("the BPF object has no program {name}"))?;
        program
            .try_into()
            .context("the entry is not an XDP program")
    }

    /// The other map is emptied, so that callers of the previous entry call nothing.
    fn leave_to(&mut self, program: &Xdp) -> anyhow::Result<()> {
        let [_, wanted] = self.names();
        for [_, name] in [ENTRIES, ENTRIES_FRAGS] {
            let map = self.ebpf.map_mut(name);
            let map = map.ok_or_else(|| anyhow!("the BPF object has no map {name}"))?;
            let mut behind = ProgramArray::try_from(map)?;
            if name == wanted {
                let set = behind.set(0, program.fd()?, 0);
                set.with_context(|| format!("passing packets to the program by {name}"))?;
            } else {
                next::clear(&mut behind, 0).context(EMPTYING)?;
            }
        }
        Ok(())
    }
}

/// Pins a program for foreign callers.
pub fn give(
    program: &mut Xdp,
    plan: &InterfacePlan,
    entry_point: EntryPoint,
    pins: &Pins,
) -> anyhow::Result<(Attachment, DispatcherEntry)> {
    let entry = DispatcherEntry::set(
        pins.entry(&plan.name),
        program,
        entry_point.takes_long_frames(),
    )?;
    unpin_program(pins, &plan.name)?;
    let path = pins.program(plan.slot, &plan.name, entry_point);
    program
        .pin(&path)
        .with_context(|| format!("pinning {}", path.display()))?;
    let attachment = Attachment {
        mode: None,
        entry: Some(entry.path()),
        program: program.info().context("reading the program")?.id(),
        next: None,
        remark: None,
    };
    Ok((attachment, entry))
}

/// Removes the program of an interface from its callers, and returns whether there was one.
pub fn take_away(pins: &Pins, interface: &str) -> anyhow::Result<bool> {
    let directory = pins.entry(interface);
    empty(&directory)?;
    let removed = private::if_there(fs::remove_dir_all(&directory));
    removed.with_context(|| format!("removing {}", directory.display()))?;
    unpin_program(pins, interface)
}

/// Points the entry to nothing, so that it stays pinned and passes all packets until the program
/// returns.
pub fn vacate(pins: &Pins, interface: &str) -> anyhow::Result<()> {
    empty(&pins.entry(interface))?;
    unpin_program(pins, interface).map(drop)
}

fn unpin_program(pins: &Pins, interface: &str) -> anyhow::Result<bool> {
    let mut is_pinned = false;
    for pin in pins.all_programs()? {
        if pin.interface == interface {
            private::remove(&pin.path)?;
            is_pinned = true;
        }
    }
    Ok(is_pinned)
}

/// Clears the entry of a directory, if there is one. Its callers then pass everything.
fn empty(directory: &Path) -> anyhow::Result<()> {
    for [_, name] in [ENTRIES, ENTRIES_FRAGS] {
        let path = directory.join(name);
        if path.exists() {
            let map =
                MapData::from_pin(&path).with_context(|| format!("opening {}", path.display()))?;
            let mut behind = ProgramArray::try_from(Map::ProgramArray(map))?;
            next::clear(&mut behind, 0).context(EMPTYING)?;
        }
    }
    Ok(())
}
