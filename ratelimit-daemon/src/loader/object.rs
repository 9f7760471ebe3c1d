//! The BPF objects that this binary was built with.

use anyhow::Context;
use object::{Object, ObjectSection, SectionKind};
use ratelimit_common::features::{self, Features};

/// The object of `ratelimit-ebpf`, as `build.rs` built it: an ELF file, aligned as a parser of ELF wants it.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit"));

/// The object that others load, or call where it is pinned: `entry.rs` of `ratelimit-ebpf`.
pub static ENTRY: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/entry"));

/// [`OBJECT`] with its programs specialised for these features.
///
/// # Errors
///
/// When the object cannot be read, which a test rules out.
pub fn specialised(features: Features) -> anyhow::Result<Vec<u8>> {
    let mut object = OBJECT.to_vec();
    let file = object::File::parse(OBJECT).context("reading the BPF object")?;
    for section in file.sections().filter(|it| it.kind() == SectionKind::Text) {
        if let Some((start, bytes)) = section.file_range() {
            let end = start.saturating_add(bytes);
            let range = usize::try_from(start)?..usize::try_from(end)?;
            let instructions = object.get_mut(range).context("a section ends too late")?;
            features::specialise(instructions, features);
        }
    }
    Ok(object)
}
