//! The pins: maps and links that outlive the daemon, on a bpffs.
//!
//! `<root>/v<layout>/maps/<map>` and `<root>/v<layout>/links/<slot>-<interface>`, with the
//! letter of the entry point after the slot. `<root>/v<layout>/programs`, named like links, holds
//! the programs that other programs call through `<root>/entries`.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use aya::maps::{MapData, MapInfo};
use aya_obj::Object;
use ratelimit_common::layout::{self, INTERFACES_MAX};
use tracing::{info, warn};

use super::entry_point::EntryPoint;
use crate::private;

/// The magic number of a bpffs, `BPF_FS_MAGIC` of linux/magic.h.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// The start of the name of a link that is to replace another one.
pub const ASIDE: &str = "new-";

/// The directory of all pins.
#[derive(Clone, Debug)]
pub struct Pins {
    root: PathBuf,
}

/// A pinned link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkPin {
    /// The path; in the directory of another layout if another version of the daemon created it.
    pub path: PathBuf,
    /// The slot of the interface.
    pub slot: u32,
    /// The name of the interface.
    pub interface: String,
    /// The entry point that it runs. Without the permission to query all programs this is the only
    /// way to find out.
    pub entry_point: EntryPoint,
}

impl LinkPin {
    /// Renames the interface of the pin.
    pub fn rename(&self, interface: &str) -> anyhow::Result<()> {
        let name = link_name(self.slot, interface, self.entry_point);
        let path = self.path.with_file_name(name);
        fs::rename(&self.path, &path)
            .with_context(|| format!("renaming {} to {}", self.path.display(), path.display()))
    }
}

impl Pins {
    /// Opens the pins under `root`, and creates missing directories. Only their owner may enter
    /// them: a pin that can be opened is a table that can be written.
    ///
    /// # Errors
    ///
    /// If `root` is not on a bpffs, or contains pins of another user; the message contains a
    /// command.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let parent = root.parent().unwrap_or(root);
        let place = if root.is_dir() { root } else { parent };
        if !is_bpffs(place).with_context(|| format!("looking at {}", place.display()))? {
            bail!(
                "{} is not a bpffs, where maps and links are pinned: mount it with `mount -t bpf \
                 bpf {}`",
                place.display(),
                place.display()
            );
        }
        let pins = Self {
            root: root.to_owned(),
        };
        private::make_directory(root)
            .with_context(|| format!("creating the directory {}", root.display()))?;
        require_owner(root, rustix::process::geteuid().as_raw())?;
        pins.make_directories()?;
        let narrow = fs::Permissions::from_mode(0o700);
        fs::set_permissions(root, narrow)
            .with_context(|| format!("setting the mode of {}", root.display()))?;
        pins.remove_aside()?;
        Ok(pins)
    }

    /// Detaches what a loader that was killed attached, but did not exchange for its predecessor.
    fn remove_aside(&self) -> anyhow::Result<()> {
        for layout in layouts(&self.root)? {
            for path in directory(&layout.join("links"))? {
                if path
                    .file_name()
                    .is_some_and(|name| name.as_bytes().starts_with(ASIDE.as_bytes()))
                {
                    private::remove(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the directories that are missing.
    pub fn make_directories(&self) -> anyhow::Result<()> {
        for directory in [self.maps(), self.links(), self.programs()] {
            private::make_directory(&directory)
                .with_context(|| format!("creating the directory {}", directory.display()))?;
        }
        Ok(())
    }

    /// The directory of all of them.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the pin of a map.
    pub fn map(&self, name: &str) -> PathBuf {
        self.maps().join(name)
    }

    /// Returns the pin of the link of an interface.
    pub fn link(&self, slot: u32, interface: &str, entry_point: EntryPoint) -> PathBuf {
        self.links().join(link_name(slot, interface, entry_point))
    }

    /// Returns the pin of the program of an interface that others call.
    pub fn program(&self, slot: u32, interface: &str, entry_point: EntryPoint) -> PathBuf {
        self.programs()
            .join(link_name(slot, interface, entry_point))
    }

    /// The directory through which other programs call that of an interface.
    pub fn entry(&self, interface: &str) -> PathBuf {
        self.root.join("entries").join(escaped(interface))
    }

    /// Returns all pinned links, including those of other layouts.
    pub fn all_links(&self) -> anyhow::Result<Vec<LinkPin>> {
        self.all("links")
    }

    /// Whether a pin is of the layout of this version.
    pub fn is_own(&self, pin: &LinkPin) -> bool {
        pin.path.starts_with(self.layout())
    }

    /// All pinned programs that others call, the same.
    pub fn all_programs(&self) -> anyhow::Result<Vec<LinkPin>> {
        self.all("programs")
    }

    fn all(&self, kind: &str) -> anyhow::Result<Vec<LinkPin>> {
        let mut links = Vec::new();
        for layout in layouts(&self.root)? {
            for path in directory(&layout.join(kind))? {
                let name = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .and_then(parse_link_name);
                let Some((slot, interface, entry_point)) = name else {
                    warn!(path = %path.display(), "a pin that is not ours, left alone");
                    continue;
                };
                links.push(LinkPin {
                    path,
                    slot,
                    interface,
                    entry_point,
                });
            }
        }
        Ok(links)
    }

    /// Removes pinned maps that do not match `object`, so that they are created again.
    ///
    /// aya opens a pinned map without checking it. The attached program keeps the old map until it
    /// is replaced.
    pub fn remove_mismatched(&self, object: &Object) -> anyhow::Result<()> {
        for (name, wanted) in pinnable(object) {
            let path = self.map(name);
            if !path.exists() {
                continue;
            }
            let found = MapInfo::from_pin(&path)
                .with_context(|| format!("reading the pinned map {}", path.display()))?;
            if let Some(difference) = difference(&found, wanted) {
                info!(
                    map = name,
                    difference, "a pinned map is incompatible; creating a new one"
                );
                private::remove(&path)?;
            }
        }
        Ok(())
    }

    /// Removes the pins of these maps, so that they are created again.
    pub fn remove_maps(&self, names: &[&str]) -> anyhow::Result<()> {
        let mut paths = names.iter().map(|name| self.map(name));
        paths.try_for_each(|path| private::remove(&path).map(drop))
    }

    /// Whether a map is pinned that is as `wanted` declares it.
    pub fn has(&self, name: &str, wanted: &aya_obj::Map) -> bool {
        MapInfo::from_pin(self.map(name)).is_ok_and(|found| difference(&found, wanted).is_none())
    }

    /// Removes every pin and directory of this layout.
    pub fn remove_all(&self) -> anyhow::Result<()> {
        let layout = self.layout();
        private::if_there(fs::remove_dir_all(&layout))
            .with_context(|| format!("removing {}", layout.display()))?;
        let _ = fs::remove_dir(self.root.join("entries"));
        // Another layout may still have its directory there, or the parent may belong to another
        // user.
        let _ = fs::remove_dir(&self.root);
        Ok(())
    }

    /// Removes pins of other layouts without a link, whose maps are unused.
    pub fn remove_unused_layouts(&self) -> anyhow::Result<()> {
        for layout in layouts(&self.root)? {
            let kinds = ["links", "programs"].map(|kind| directory(&layout.join(kind)));
            let [links, programs] = kinds;
            let is_used = !links?.is_empty() || !programs?.is_empty();
            if layout != self.layout() && !is_used {
                fs::remove_dir_all(&layout)
                    .with_context(|| format!("removing {}", layout.display()))?;
            }
        }
        Ok(())
    }

    fn layout(&self) -> PathBuf {
        self.root.join(format!("v{}", layout::VERSION))
    }

    fn maps(&self) -> PathBuf {
        self.layout().join("maps")
    }

    fn links(&self) -> PathBuf {
        self.layout().join("links")
    }

    fn programs(&self) -> PathBuf {
        self.layout().join("programs")
    }
}

/// The maps of an object that are pinned.
pub fn pinnable(object: &Object) -> impl Iterator<Item = (&str, &aya_obj::Map)> {
    let maps = object.maps.iter().map(|(name, map)| (name.as_str(), map));
    maps.filter(|(name, _)| is_shared(name))
}

/// Whether a map is shared by the programs of all interfaces, and outlives them: all but the
/// constants and the log of one.
pub fn is_shared(name: &str) -> bool {
    !name.starts_with('.') && name != "AYA_LOGS"
}

/// A descriptor of the map that is pinned at `path`.
pub fn open_map(path: &Path) -> anyhow::Result<OwnedFd> {
    let opening = || format!("opening {}", path.display());
    let map = MapData::from_pin(path).with_context(opening)?;
    let descriptor = map.fd().as_fd().try_clone_to_owned();
    descriptor.with_context(opening)
}

/// Describes how a map in the kernel differs from its declaration.
fn difference(found: &MapInfo, wanted: &aya_obj::Map) -> Option<String> {
    let pairs = [
        (
            "type",
            found.map_type().map_or(u32::MAX, |kind| kind as u32),
            wanted.map_type(),
        ),
        ("key size", found.key_size(), wanted.key_size()),
        ("value size", found.value_size(), wanted.value_size()),
        ("entries", found.max_entries(), wanted.max_entries()),
        ("flags", found.map_flags(), wanted.map_flags()),
    ];
    pairs
        .into_iter()
        .find(|(_, found, wanted)| found != wanted)
        .map(|(what, found, wanted)| format!("{what} is {found}, not {wanted}"))
}

/// Refuses objects of another user, who could change them at any time.
fn require_owner(path: &Path, own: u32) -> anyhow::Result<()> {
    let reading = || format!("looking at {}", path.display());
    let known = fs::symlink_metadata(path).with_context(reading)?;
    if known.uid() != own {
        bail!(
            "{path} belongs to uid {}, but the loader runs as uid {own}: check who created it, \
             then run `chown -R {own} {path}`, or `rm -r {path}` to end what it enforces",
            known.uid(),
            path = path.display(),
        );
    }
    if known.is_dir() {
        for entry in directory(path)? {
            require_owner(&entry, own)?;
        }
    }
    Ok(())
}

fn is_bpffs(path: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statfs(path)?.f_type == BPF_FS_MAGIC)
}

/// The entries of a directory; none when it does not exist.
fn directory(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", path.display());
    let entries = private::if_there(fs::read_dir(path)).with_context(reading)?;
    let entries = entries.into_iter().flatten();
    entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .with_context(reading)
}

/// Returns the directories of all layouts. The same directory contains the entries by interface.
fn layouts(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_layout = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let version = name.and_then(|name| name.strip_prefix('v'));
        version.is_some_and(|version| version.parse::<u32>().is_ok())
    };
    Ok(directory(root)?.into_iter().filter(is_layout).collect())
}

/// A bpffs refuses dots in names, which the names of VLAN interfaces have.
fn link_name(slot: u32, interface: &str, entry_point: EntryPoint) -> String {
    format!("{slot}{}-{}", entry_point.letter(), escaped(interface))
}

fn escaped(interface: &str) -> String {
    interface.replace('%', "%25").replace('.', "%2e")
}

fn parse_link_name(name: &str) -> Option<(u32, String, EntryPoint)> {
    let (slot, interface) = name.split_once('-')?;
    let digits = slot.trim_end_matches(char::is_alphabetic);
    let is_it = |it: &EntryPoint| slot.strip_prefix(digits) == Some(it.letter());
    let entry_point = EntryPoint::ALL.into_iter().find(is_it)?;
    let slot = digits.parse().ok().filter(|slot| *slot < INTERFACES_MAX)?;
    let interface = interface.replace("%2e", ".").replace("%25", "%");
    Some((slot, interface, entry_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_link_tells_its_slot_and_interface() {
        for (slot, interface, entry_point) in [
            (0, "eth0", EntryPoint::Xdp),
            (31, "eth0.100", EntryPoint::XdpFrags),
            (7, "a%2e-b", EntryPoint::Tcx),
        ] {
            let name = link_name(slot, interface, entry_point);
            assert!(!name.contains('.'), "{name}");
            let parsed = Some((slot, interface.to_owned(), entry_point));
            assert_eq!(parse_link_name(&name), parsed);
        }
        for name in ["eth0", "32-eth0", "x-eth0", "f-eth0", "1ft-eth0"] {
            assert_eq!(parse_link_name(name), None);
        }
    }

    #[test]
    fn the_entry_of_an_interface_is_no_layout_whatever_its_name_is() {
        let root = tempfile::tempdir().unwrap();
        let pins = Pins {
            root: root.path().to_owned(),
        };
        for directory in [pins.links(), pins.entry("links"), pins.entry("v7")] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(pins.link(3, "eth0", EntryPoint::Xdp), "").unwrap();
        fs::write(pins.entry("links").join("4-eth1"), "").unwrap();
        let found = pins.all_links().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        pins.remove_unused_layouts().unwrap();
        assert!(pins.entry("v7").exists());
    }

    #[test]
    fn foreign_pins_are_refused_and_told_whose_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("maps");
        fs::write(&path, "").unwrap();
        let own = fs::metadata(&path).unwrap().uid();
        require_owner(directory.path(), own).unwrap();
        let error = require_owner(directory.path(), own + 1).unwrap_err();
        assert!(error.to_string().contains("belongs to uid"), "{error}");
    }

    #[test]
    fn a_directory_that_is_no_bpffs_is_refused_with_the_command_that_mounts_one() {
        let directory = tempfile::tempdir().unwrap();
        let error = Pins::open(&directory.path().join("ratelimit"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("mount -t bpf bpf"), "{error}");
    }
}
