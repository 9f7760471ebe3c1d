//! Counting a packet for what decided about it.

use ratelimit_common::list::Listed;

use crate::{maps::ENTRY_COUNTERS, tables::add};

/// Counts a packet in the slot of what decided about it, if that has one. The packet pays for a call: in place it would take
/// stack from all others.
#[inline(always)]
pub fn count_entry(listed: Listed, frame_bytes: u32) {
    if listed.slot() != 0 {
        count_in_slot(listed.to_bits(), frame_bytes.into());
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_in_slot(listed: u64, frame_bytes: u64) -> u64 {
    let slot = Listed::from_bits(listed).slot();
    if let Some(counter) = ENTRY_COUNTERS.get_ptr_mut(slot.into()) {
        add(counter, frame_bytes as u32);
    }
    0
}
