//! Loading the program: once for each interface, on the same maps, with the interface's slot and its link layer as constants.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, anyhow, bail};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Map, MapData, MapError},
    programs::Xdp,
};
use aya_obj::Object;
use ratelimit_common::{
    Ipv4, Ipv6,
    compact::SLOTS,
    layout::{INTERFACES_MAX, PROGRAM, PROGRAM_FRAGS, clock, store},
    refused::WAYS,
};

use super::{
    IpAddress, OBJECT, Pins, Sizes, compact, count, interface, link, logs,
    pins::{self, LinkPin},
    refused_map, room,
};
use crate::{
    api::MapStatus,
    config::{Config, Interface, StateStore},
};

/// The maps of the store `lru`.
pub const SOURCE_MAPS: [&str; 2] = ["SOURCES_V4", "SOURCES_V6"];

/// The longest packet that fits into one buffer with any driver.
const MTU_OF_ONE_BUFFER: u32 = 1_500;

/// A program that waits for its interface.
pub struct Loaded {
    /// The interface.
    pub interface: Interface,
    /// Its slot in the counters.
    pub slot: u32,
    /// The program, and its maps.
    pub ebpf: Ebpf,
    entry_point: &'static str,
}

impl Loaded {
    /// The program.
    ///
    /// # Errors
    ///
    /// When the object has none.
    pub fn xdp(&mut self) -> anyhow::Result<&mut Xdp> {
        xdp(&mut self.ebpf, self.entry_point)
    }
}

/// Loads a program for each interface of `config`, with maps of these sizes, on the pinned maps where they fit.
///
/// # Errors
///
/// When there are too many interfaces, or the kernel refuses.
pub fn programs(config: &Config, sizes: Sizes, pins: &Pins) -> anyhow::Result<Vec<Loaded>> {
    let links = pins.all_links()?;
    let mut object = Object::parse(OBJECT).context("parsing the BPF object")?;
    for (name, entries) in entries(config, sizes)? {
        let map = object.maps.get_mut(name).ok_or_else(|| missing(name))?;
        map.set_max_entries(entries);
    }
    logs::resize(&mut object, sizes.logs)?;
    logs::require_memory(&object, sizes.logs, pins)?;
    room::require(&object, &config.source, sizes, pins)?;
    compact::remove_mismatched(&object, pins)?;
    pins.remove_mismatched(&object)?;
    logs::make(&object, pins)?;
    let seeds = compact::seeds(pins)?;
    let mut loaded = Vec::new();
    for (interface, slot) in slots(&config.interfaces, &links)? {
        let load = || {
            let pin = links.iter().find(|pin| pin.interface == interface.name);
            let entry_point = entry_point(&interface, pin)?;
            let link_layer = interface::link_layer(&interface.name)?.unwrap_or_default();
            let mut ebpf = make_maps(
                &object,
                pins,
                config,
                sizes,
                seeds,
                (slot, link_layer.number()),
            )?;
            compact::keep_seeds(&mut ebpf, seeds)?;
            let program = xdp(&mut ebpf, entry_point)?;
            program.load().context("passing the verifier")?;
            Ok((entry_point, ebpf))
        };
        let loading: anyhow::Result<_> = load();
        let (entry_point, ebpf) =
            loading.with_context(|| format!("loading the program for {}", interface.name))?;
        loaded.push(Loaded {
            interface,
            slot,
            ebpf,
            entry_point,
        });
    }
    Ok(loaded)
}

/// The maps that are as large as the configuration needs them. Those of the store that is not used have one entry.
fn entries(
    config: &Config,
    sizes: Sizes,
) -> anyhow::Result<impl Iterator<Item = (&'static str, u32)>> {
    let sources = match config.source.store {
        StateStore::Lru => config.source.capacity,
        StateStore::Compact => 1,
    };
    let sets = sizes.sets.unwrap_or(1);
    let (_, refused) = refused_map::sets()?;
    let of_lru = SOURCE_MAPS.map(|name| (name, sources));
    Ok(of_lru
        .into_iter()
        .chain(compact::TABLES.map(|name| (name, sets)))
        .chain(refused_map::MAPS.map(|name| (name, refused))))
}

/// The maps of a loaded object, to be taken out by name and type.
pub struct Maps<'a>(pub &'a mut Ebpf);

impl Maps<'_> {
    /// A descriptor of a map beside the one that aya keeps to itself.
    pub fn descriptor(&self, name: &str) -> anyhow::Result<OwnedFd> {
        let map = self.0.map(name).ok_or_else(|| missing(name))?;
        let descriptor = data_of(map)?.fd().as_fd().try_clone_to_owned();
        descriptor.with_context(|| format!("duplicating the descriptor of the map {name}"))
    }

    /// A map, by a descriptor of its own: it has an owner besides.
    pub fn share<T: TryFrom<Map, Error = MapError>>(&self, name: &str) -> anyhow::Result<T> {
        let map = MapData::from_fd(self.descriptor(name)?).and_then(Map::from_map_data);
        map.and_then(T::try_from)
            .with_context(|| format!("opening the map {name}"))
    }

    /// A map, for its one owner.
    pub fn take<T: TryFrom<Map, Error = MapError>>(&mut self, name: &str) -> anyhow::Result<T> {
        let map = self.0.take_map(name).ok_or_else(|| missing(name))?;
        T::try_from(map).with_context(|| format!("opening the map {name}"))
    }
}

fn missing(name: &str) -> anyhow::Error {
    anyhow!("the BPF object has no map {name}")
}

/// The program of frames that may take several buffers costs a call more, and lets the MTU be raised while it runs. It stays
/// where it is: some drivers look at the MTU only when the first program comes (`veth_xdp_set`).
fn entry_point(interface: &Interface, pin: Option<&LinkPin>) -> anyhow::Result<&'static str> {
    let state = interface::query(&interface.name)?;
    let mtu = state.map_or(0, |state| state.mtu);
    let running = pin.map(link::running).transpose()?.flatten();
    let may_be_long = interface.jumbo
        || mtu > MTU_OF_ONE_BUFFER
        || running.is_some_and(|name| name == PROGRAM_FRAGS);
    Ok(if may_be_long { PROGRAM_FRAGS } else { PROGRAM })
}

fn make_maps(
    object: &Object,
    pins: &Pins,
    config: &Config,
    sizes: Sizes,
    seeds: [u64; 2],
    (slot, link_layer): (u32, u32),
) -> anyhow::Result<Ebpf> {
    let source = &config.source;
    let log_words = sizes.logs.words();
    let store = match source.store {
        StateStore::Lru => store::LRU,
        StateStore::Compact => store::COMPACT,
    };
    let (refused_sets, _) = refused_map::sets()?;
    let (mask_v4, mask_v6) = (Ipv4::source_mask(source), Ipv6::source_mask(source));
    let mut loader = EbpfLoader::new();
    loader
        .override_global("INTERFACE", &slot, true)
        .override_global("LINK_LAYER", &link_layer, true)
        .override_global("CLOCK", &clock::KERNEL, true)
        .override_global("LOG_WORDS", &log_words, true)
        .override_global("STORE", &store, true)
        .override_global("REFUSED_SETS", &refused_sets, true)
        .override_global("COMPACT_SEED_0", &seeds[0], true)
        .override_global("COMPACT_SEED_1", &seeds[1], true)
        .override_global("SOURCE_MASK_V4", &mask_v4, true)
        .override_global("SOURCE_MASK_V6", &mask_v6, true);
    for (name, entries) in entries(config, sizes)? {
        loader.map_max_entries(name, entries);
    }
    for (name, _) in pins::pinnable(object) {
        loader.map_pin_path(name, pins.map(name));
    }
    loader.load(OBJECT).context("making the maps")
}

fn xdp<'a>(ebpf: &'a mut Ebpf, entry_point: &str) -> anyhow::Result<&'a mut Xdp> {
    let program = ebpf
        .program_mut(entry_point)
        .ok_or_else(|| anyhow!("the BPF object has no program {entry_point}"))?;
    program.try_into().context("the program is not one of XDP")
}

/// The interfaces with their slots: that of their pinned link, else the lowest that no link has.
fn slots(interfaces: &[Interface], links: &[LinkPin]) -> anyhow::Result<Vec<(Interface, u32)>> {
    let mut taken: Vec<u32> = links.iter().map(|pin| pin.slot).collect();
    let mut assigned = Vec::new();
    for interface in interfaces {
        let kept = links
            .iter()
            .find(|pin| pin.interface == interface.name)
            .map(|pin| pin.slot);
        let Some(slot) = kept.or_else(|| (0..INTERFACES_MAX).find(|slot| !taken.contains(slot)))
        else {
            bail!(
                "{} is one interface too many: at most {INTERFACES_MAX} can be counted",
                interface.name
            );
        };
        taken.push(slot);
        assigned.push((interface.clone(), slot));
    }
    Ok(assigned)
}

/// The sizes of the maps. The kernel tells the memory of a map in the `fdinfo` of its descriptor.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn statuses(ebpf: &Ebpf) -> anyhow::Result<Vec<MapStatus>> {
    let mut statuses = Vec::new();
    for (name, map) in ebpf.maps().filter(|(name, _)| pins::is_shared(name)) {
        let data = data_of(map)?;
        let info = data
            .info()
            .with_context(|| format!("asking for the size of {name}"))?;
        let memory_bytes = count::memory_bytes(data.fd().as_fd()).unwrap_or_default();
        let of_element = if compact::TABLES.contains(&name) {
            SLOTS
        } else if refused_map::MAPS.contains(&name) {
            WAYS
        } else {
            1
        };
        let name = name.to_owned();
        statuses.push(MapStatus {
            name,
            entries: None,
            capacity: info.max_entries() * u32::try_from(of_element)?,
            memory_bytes,
        });
    }
    statuses.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(statuses)
}

fn data_of(map: &Map) -> anyhow::Result<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data) => Ok(data),
        _ => bail!("a map of a kind that this program does not have"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;

    #[test]
    fn an_interface_keeps_the_slot_of_its_pinned_link_and_others_get_the_lowest_that_is_free() {
        let pins = [pin(0, "gone"), pin(2, "eth1")];
        assert_eq!(assigned(&["eth0", "eth1", "eth2"], &pins), [1, 2, 3]);
    }

    #[test]
    fn one_interface_too_many_is_named() {
        let names: Vec<String> = (0..=INTERFACES_MAX)
            .map(|number| format!("eth{number}"))
            .collect();
        let interfaces: Vec<Interface> = names.iter().map(|name| interface(name)).collect();
        let error = slots(&interfaces, &[]).unwrap_err().to_string();
        assert!(
            error.starts_with("eth32 is one interface too many"),
            "{error}"
        );
    }

    fn assigned(names: &[&str], pins: &[LinkPin]) -> Vec<u32> {
        let interfaces: Vec<Interface> = names.iter().map(|name| interface(name)).collect();
        let slots = slots(&interfaces, pins).unwrap();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    fn interface(name: &str) -> Interface {
        Interface {
            name: name.to_owned(),
            mode: Mode::Auto,
            jumbo: false,
        }
    }

    fn pin(slot: u32, interface: &str) -> LinkPin {
        LinkPin {
            path: "".into(),
            slot,
            interface: interface.to_owned(),
        }
    }
}
