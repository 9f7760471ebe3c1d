//! The BPF objects that this binary was built with.

use std::{os::fd::RawFd, sync::LazyLock};

use anyhow::Context;
use miniz_oxide::inflate::decompress_to_vec;
use object::{Object as _, ObjectSection as _, SectionKind};
use ratelimit_common::{
    direct::{self, Direct},
    features::{self, Feature, Features},
};

use super::dead_calls;

/// An object as built and compressed by `build.rs`: an ELF file.
macro_rules! embedded {
    ($name:literal) => {
        LazyLock::new(|| {
            let compressed = include_bytes!(concat!(env!("OUT_DIR"), "/", $name));
            decompress_to_vec(compressed).expect("the build script has compressed it")
        })
    };
}

/// The object of `ratelimit-ebpf` with the code of all features.
pub static OBJECT: LazyLock<Vec<u8>> = embedded!("ratelimit");

/// An object with the same maps, and the code of `Features::LEAN`.
pub static LEAN_OBJECT: LazyLock<Vec<u8>> = embedded!("lean");

/// An object with the same maps, and the program for TCX.
pub static TCX_OBJECT: LazyLock<Vec<u8>> = embedded!("tcx");

/// The object that others load, or call where it is pinned: `entry.rs` of `ratelimit-ebpf`.
pub static ENTRY: LazyLock<Vec<u8>> = embedded!("entry");

/// The descriptors of the maps of [`Direct`], by their numbers.
pub type DirectDescriptors = [RawFd; Direct::NAMES.len()];

/// The object whose programs have the least code with these features, specialised for them and for
/// these maps.
///
/// # Errors
///
/// When the object cannot be read, which a test rules out.
pub fn specialised(features: Features, direct_maps: &DirectDescriptors) -> anyhow::Result<Vec<u8>> {
    let built = if features.has(Feature::Tcx) {
        &TCX_OBJECT
    } else if Features::LEAN.covers(features) {
        &LEAN_OBJECT
    } else {
        &OBJECT
    };
    let mut object = built.to_vec();
    let file = object::File::parse(built.as_slice()).context("reading the BPF object")?;
    for section in file.sections().filter(|it| it.kind() == SectionKind::Text) {
        let instructions = dead_calls::bytes_of(&mut object, &section)?;
        features::specialise(instructions, features);
        direct::complete(instructions, direct_maps);
    }
    dead_calls::remove(&mut object, &file)?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use aya::sys::BpfHelper;
    use ratelimit_common::features::Feature;
    use ratelimit_interface::helpers::HELPERS;

    use super::*;

    #[test]
    fn the_programs_call_the_helpers_that_the_kernel_is_asked_for() {
        /// `BPF_JMP | BPF_CALL`.
        const CALL: u8 = 0x85;
        let mut all = BTreeSet::new();
        for object in [&OBJECT, &LEAN_OBJECT, &TCX_OBJECT] {
            let file = object::File::parse(object.as_slice()).unwrap();
            let mut called = BTreeSet::new();
            for section in file.sections().filter(|it| it.kind() == SectionKind::Text) {
                for instruction in section.data().unwrap().chunks_exact(8) {
                    // The source register says whether it calls a function of the program.
                    if let [CALL, registers, _, _, number @ ..] = instruction
                        && registers >> 4 == 0
                    {
                        called.insert(u32::from_le_bytes(number.try_into().unwrap()));
                    }
                }
            }
            // It replaces a helper of XDP at TCX.
            called.remove(&(BpfHelper::BPF_FUNC_skb_load_bytes as u32));
            let known: BTreeSet<_> = HELPERS.iter().map(|(helper, _)| *helper as u32).collect();
            assert!(called.is_subset(&known), "{called:?}");
            all.extend(called);
            assert!(all == known, "{all:?}");
        }
    }

    #[test]
    fn the_lean_program_is_taken_where_it_has_all_features() {
        for (features, built) in [
            (Features::NONE, &LEAN_OBJECT),
            (Features::LEAN, &LEAN_OBJECT),
            (Features::LEAN.with(Feature::Node), &OBJECT),
            (Features::ALL, &OBJECT),
        ] {
            // Only branches, addresses, and calls are patched.
            let object = specialised(features, &[7; Direct::NAMES.len()]).unwrap();
            let differing = object
                .iter()
                .zip(built.iter())
                .filter(|(a, b)| a != b)
                .count();
            assert_eq!(object.len(), built.len(), "{features:?}");
            assert!(
                differing > 0 && differing < object.len() / 50,
                "{features:?}"
            );
        }
    }
}
