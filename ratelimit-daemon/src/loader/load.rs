//! Loading the program: once for each interface, on the same maps, with the interface's slot and
//! its link layer as constants.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use anyhow::{Context, anyhow};
use aya::{
    Ebpf, EbpfLoader,
    programs::{Program, ProgramError, SchedClassifier, Xdp},
};
use aya_obj::{Object, generated::bpf_cmd};
use ratelimit_common::{
    Ipv4, Ipv6,
    direct::Direct,
    features::{Feature, Features},
    layout::first_counter,
    parse::LinkLayer,
    refused::sets_of_cpu,
};
use ratelimit_core::{config::Mode, ip_family::IpAddress};

use super::{
    Descriptors, InterfacePlan, MapPlan, OBJECT,
    compact::{self, Seeds},
    entry_point::EntryPoint,
    logs,
    map_names::{REFUSED_MAPS, SOURCE_MAPS, missing},
    object::{LEAN_OBJECT, specialised},
    pins::{self, LinkPin, Pins, open_map},
    program_log::ProgramLog,
    realtime, resized_maps,
};
use ratelimit_interface::{self as interface, InterfaceState};

use crate::{links::MTU_OF_ONE_BUFFER, loader::TABLES, syscall};

/// Maps whose elements are counted by the memory that the kernel reports.
pub const SAMPLED: [&str; 2] = ["LISTS_V4", "LISTS_V6"];

/// The constants and the entry point of a program.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Variant {
    slot: u32,
    /// The entry point.
    pub entry_point: EntryPoint,
    link_layer: LinkLayer,
    has_next: bool,
    /// The features of the configuration.
    features: Features,
}

impl Variant {
    /// Returns the variant of a plan on an interface.
    pub fn of(
        plan: &InterfacePlan,
        on: &InterfaceState,
        pin: Option<&LinkPin>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            slot: plan.slot,
            entry_point: entry_point(plan, on, pin),
            link_layer: interface::link_layer(on.index)?.unwrap_or_default(),
            has_next: plan.next.is_some(),
            features: plan.features(),
        })
    }

    /// Returns the variant of a plan for a missing interface: most are Ethernet with the usual MTU.
    pub fn expected(plan: &InterfacePlan) -> Self {
        let on = InterfaceState {
            mtu: MTU_OF_ONE_BUFFER,
            ..InterfaceState::default()
        };
        Self {
            slot: plan.slot,
            entry_point: entry_point(plan, &on, None),
            link_layer: LinkLayer::default(),
            has_next: plan.next.is_some(),
            features: plan.features(),
        }
    }
}

/// A program that can be put on an interface, as often as that comes and goes.
pub struct Loaded {
    ebpf: Ebpf,
    /// Constants and entry point of the program.
    pub variant: Variant,
    /// The log of the program.
    pub log: ProgramLog,
}

impl Loaded {
    /// The program, of the type of its hook.
    pub fn program<'a, P>(&'a mut self) -> anyhow::Result<&'a mut P>
    where
        &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
    {
        let name = self.variant.entry_point.name();
        let program = self.ebpf.program_mut(name);
        let program = program.ok_or_else(|| anyhow!("the BPF object has no program {name}"))?;
        program
            .try_into()
            .context("the program is one of another hook")
    }
}

/// The object, with maps as large as planned.
pub fn object(plan: &MapPlan) -> anyhow::Result<Object> {
    let mut object = Object::parse(&OBJECT).context("parsing the BPF object")?;
    resize(&mut object, plan)?;
    Ok(object)
}

/// Makes the maps of the object as large as planned.
pub fn resize(object: &mut Object, plan: &MapPlan) -> anyhow::Result<()> {
    for (name, entries) in entries(plan) {
        let map = object.maps.get_mut(name).ok_or_else(|| missing(name))?;
        map.set_max_entries(entries);
    }
    logs::resize(object, plan.sizes.logs)?;
    resized_maps::resize(object, plan.sizes.words)
}

/// The maps that outlive the daemon, each pinned; and the small ones that elements are counted by.
pub fn maps(
    object: &Object,
    pins: &Pins,
    plan: &MapPlan,
    seeds: Seeds,
) -> anyhow::Result<Descriptors> {
    let mut ebpf = load(object, &LEAN_OBJECT, pins, plan, seeds, Variant::default())?;
    compact::keep_seeds(&mut ebpf, seeds)?;
    compact::keep_challenge_key(&mut ebpf)?;
    let mut descriptors = Descriptors::new();
    for (name, _) in pins::pinnable(object) {
        descriptors.insert(name.to_owned(), open_map(&pins.map(name))?);
    }
    descriptors.extend(resized_maps::replaced(pins)?);
    for name in SAMPLED {
        let map = object.maps.get(name).ok_or_else(|| missing(name))?;
        for (sample, entries) in samples(name).into_iter().zip(1..) {
            let made = small(map, entries);
            descriptors.insert(sample, made.context("making a small map")?);
        }
    }
    Ok(descriptors)
}

/// The names of two small maps like this one, with room for one element and two.
pub fn samples(name: &str) -> [String; 2] {
    [1, 2].map(|entries| format!(".{name}.{entries}"))
}

/// Creates a map like this one with room for `entries` elements.
fn small(map: &aya_obj::Map, entries: u32) -> io::Result<OwnedFd> {
    let mut attributes = syscall::attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let wanted = unsafe { &mut attributes.__bindgen_anon_1 };
    wanted.map_type = map.map_type();
    wanted.key_size = map.key_size();
    wanted.value_size = map.value_size();
    wanted.max_entries = entries;
    wanted.map_flags = map.map_flags();
    // SAFETY: the attributes name no memory.
    let descriptor = unsafe { syscall::bpf(bpf_cmd::BPF_MAP_CREATE, &mut attributes) }?;
    // SAFETY: the kernel just returned it to this process, which owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The program for an interface, with the maps that are pinned.
pub fn program(
    object: &Object,
    variant: Variant,
    pins: &Pins,
    maps: &MapPlan,
    seeds: Seeds,
) -> anyhow::Result<Loaded> {
    let direct_maps: Vec<_> = Direct::NAMES
        .iter()
        .map(|name| open_map(&pins.map(name)))
        .collect::<anyhow::Result<_>>()?;
    let mut descriptors = [0; Direct::NAMES.len()];
    for (descriptor, map) in descriptors.iter_mut().zip(&direct_maps) {
        *descriptor = map.as_raw_fd();
    }
    let specialised = specialised(all_features(maps, variant), &descriptors)?;
    let mut ebpf = load(object, &specialised, pins, maps, seeds, variant)?;
    let log = ProgramLog::of(&mut ebpf);
    let mut loaded = Loaded { ebpf, variant, log };
    if variant.entry_point.is_tcx() {
        pass_verifier(loaded.program()?, SchedClassifier::load)
    } else {
        pass_verifier(loaded.program()?, Xdp::load)
    }
    .context("passing the verifier")?;
    Ok(loaded)
}

/// Loads a program. The verifier gives up with `EAGAIN` when the thread gets a signal; then it is
/// asked again, as libbpf does.
pub fn pass_verifier<P>(
    program: &mut P,
    load: fn(&mut P) -> Result<(), ProgramError>,
) -> Result<(), ProgramError> {
    const ATTEMPTS: usize = 5;
    let mut answer = load(program);
    for _ in 1..ATTEMPTS {
        match &answer {
            Err(ProgramError::LoadError { io_error, .. })
                if io_error.kind() == io::ErrorKind::WouldBlock =>
            {
                answer = load(program);
            }
            _ => break,
        }
    }
    answer
}

/// Returns the sizes of the maps in a plan. Those of the unused store have one entry.
fn entries(plan: &MapPlan) -> impl Iterator<Item = (&'static str, u32)> {
    let sources = match plan.sizes.sets {
        None => plan.capacity,
        Some(_) => 1,
    };
    let sets = plan.sizes.sets.unwrap_or(1);
    let refused = sets_of_cpu(plan.cpus).saturating_mul(plan.cpus);
    let of_lru = SOURCE_MAPS.map(|name| (name, sources));
    of_lru
        .into_iter()
        .chain(TABLES.map(|name| (name, sets)))
        .chain(REFUSED_MAPS.map(|name| (name, refused)))
}

/// The program of frames that may take several buffers costs a call more, and lets the MTU be
/// raised while it runs. It stays where it is: some drivers look at the MTU only when the first
/// program comes (`veth_xdp_set`).
fn entry_point(plan: &InterfacePlan, on: &InterfaceState, pin: Option<&LinkPin>) -> EntryPoint {
    if plan.mode == Mode::Tcx {
        return EntryPoint::Tcx;
    }
    let was_long = |pin: &LinkPin| pin.entry_point == EntryPoint::XdpFrags;
    if plan.jumbo || on.mtu > MTU_OF_ONE_BUFFER || pin.is_some_and(was_long) {
        EntryPoint::XdpFrags
    } else {
        EntryPoint::Xdp
    }
}

/// Makes the maps that are not pinned, and prepares the programs of an ELF file for the verifier.
fn load(
    object: &Object,
    elf: &[u8],
    pins: &Pins,
    plan: &MapPlan,
    seeds: Seeds,
    variant: Variant,
) -> anyhow::Result<Ebpf> {
    let link_layer = variant.link_layer.number();
    let first_counter = first_counter(variant.slot);
    let log_words = plan.sizes.logs.words();
    let refused_sets = sets_of_cpu(plan.cpus);
    let (mask_v4, mask_v6) = (Ipv4::mask(plan.ipv4_prefix), Ipv6::mask(plan.ipv6_prefix));
    let mut loader = EbpfLoader::new();
    loader
        .override_global("INTERFACE", &variant.slot, true)
        .override_global("FIRST_COUNTER", &first_counter, true)
        .override_global("LINK_LAYER", &link_layer, true)
        .override_global("LOG_WORDS", &log_words, true)
        .override_global("RECORD_WORDS", &plan.sizes.words, true)
        .override_global("REFUSED_SETS", &refused_sets, true)
        .override_global("COMPACT_SEED_0", &seeds[0], true)
        .override_global("COMPACT_SEED_1", &seeds[1], true)
        .override_global("SOURCE_MASK_V4", &mask_v4, true)
        .override_global("SOURCE_MASK_V6", &mask_v6, true);
    for (name, entries) in entries(plan) {
        loader.map_max_entries(name, entries);
    }
    for (name, _) in pins::pinnable(object) {
        loader.map_pin_path(name, pins.map(name));
    }
    loader.load(elf).context("making the maps")
}

/// The features of the configuration, and those that follow from the maps, the interface and the
/// kernel.
fn all_features(plan: &MapPlan, variant: Variant) -> Features {
    let is_realtime = realtime::is_realtime();
    let features = if is_realtime {
        // The coarse clock keeps its tick per CPU, where programs may interrupt each other.
        variant.features.without(Feature::CoarseClock)
    } else {
        variant.features
    };
    let features = features
        .with_if(is_realtime, Feature::Interruptible)
        .with_if(plan.sizes.sets.is_some(), Feature::Compact)
        .with_if(
            variant.link_layer != LinkLayer::Ethernet,
            Feature::NoEthernet,
        )
        .with_if(variant.has_next, Feature::Next);
    match variant.entry_point {
        EntryPoint::Xdp => features,
        EntryPoint::XdpFrags => features.with(Feature::Frags),
        EntryPoint::Tcx => features.at_tcx(),
    }
}
