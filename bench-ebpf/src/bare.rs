//! The shortest useful program of its kind: a count for each source in an LRU hash map.
//!
//! It has no limit, window, list or clock, reads only IPv4, and loses counts if two CPUs see the
//! same source.

use aya_ebpf::{
    bindings::BPF_NOEXIST, btf_maps::LruHashMap, macros::btf_map, programs::XdpContext,
};

use crate::source;

/// The bytes that the product keeps for a source.
type Record = [u64; 8];

/// Source → its packets. User space sets how many.
#[btf_map]
static BARE: LruHashMap<u64, Record, 1> = LruHashMap::new();

/// Counts the packet of a source.
#[inline(always)]
pub fn count(context: &XdpContext) -> Option<()> {
    let source = u64::from(source::read(context)?);
    match BARE.get_ptr_mut(source) {
        // SAFETY: a live map value, which other CPUs may write at the same time.
        Some(record) => unsafe { (*record)[0] += 1 },
        None => BARE
            .insert(source, [1, 0, 0, 0, 0, 0, 0, 0], BPF_NOEXIST.into())
            .ok()?,
    }
    Some(())
}
