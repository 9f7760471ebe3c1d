//! Which sources were refused, in the part of an array that this CPU has.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use ratelimit_common::{
    Instant,
    refused::{Refused, SETS, set_of},
};

use crate::{constant::Constant, maps::FamilyMaps};

/// The sets of a CPU, a power of two: all, unless user space says otherwise.
#[unsafe(no_mangle)]
static REFUSED_SETS: Constant<u32> = Constant::new(SETS);

/// Counts a refusal of `source`.
#[inline(always)]
pub fn count<A: FamilyMaps>(source: &A, now: Instant) {
    // SAFETY: the helper has no conditions.
    let cpu = unsafe { bpf_get_smp_processor_id() } as u32;
    if let Some(set) = A::REFUSED.get_ptr_mut(set_of(source, cpu, REFUSED_SETS.get())) {
        // SAFETY: the set belongs to this CPU: XDP programs do not interrupt each other on one.
        Refused::count(unsafe { &mut *set }, source, now);
    }
}
