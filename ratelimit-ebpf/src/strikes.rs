//! How often a source was refused.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{Instant, Strikes};

use crate::{atomic, maps::FamilyMaps};

/// Counts a refusal of `source`, exactly on any number of CPUs.
#[inline(always)]
pub fn strike<A: FamilyMaps>(source: A, now: Instant) {
    let first = Strikes {
        packets: 1,
        last_ns: now.as_nanos(),
    };
    let known = A::STRIKES.get_ptr_mut(source).or_else(|| {
        match A::STRIKES.insert(source, first, BPF_NOEXIST.into()) {
            Ok(()) => None,
            // Another CPU inserted the source in between.
            Err(_) => A::STRIKES.get_ptr_mut(source),
        }
    });
    if let Some(strikes) = known {
        // SAFETY: the words of a map value are aligned, and live until the program ends.
        unsafe {
            atomic::add(&raw mut (*strikes).packets, 1);
            atomic::store(&raw mut (*strikes).last_ns, now.as_nanos());
        }
    }
}
