//! Bans by policies: they are in maps of their own until user space adopts them.

use ratelimit_common::{
    Address, AtomicWords, Evidence, Instant, PolicyBan,
    ban_budget::{self, SLOTS, Slot},
    event::BanEvent,
    policy_ban::BanResult,
    source_filter::Filter,
};

use crate::{
    atomic,
    first::first,
    interruption,
    maps::{BAN_BUDGETS, BAN_RESULTS, BAN_RING, BanWords, EVENTS, FILTERS, FamilyMaps},
};

/// The ban of a source. The filter keeps all others from being looked for.
#[inline(always)]
pub fn find<A: FamilyMaps>(source: &A) -> Option<PolicyBan> {
    let filter = FILTERS.get(A::FAMILY as u32)?;
    if !filter.contains(source.filter_bit()) {
        return None;
    }
    // If user space removes the ban at the same time, its element may be reused for another source
    // before it is copied: then one packet is judged by that ban. SAFETY: the memory of an element
    // remains one of its map until the end of the RCU section, which outlasts the program, and its
    // words are valid for any bits.
    unsafe { A::POLICY_BANS.get(source) }.copied()
}

/// Whether user space marked the source. It sets no bit in the filter for that.
#[inline(always)]
pub fn is_exempt<A: FamilyMaps>(source: &A) -> bool {
    // SAFETY: as above.
    unsafe { A::POLICY_BANS.get(source) }.is_some_and(PolicyBan::is_exempt)
}

/// Bans a source, and notifies user space. `false` if there is no room.
#[inline(always)]
pub fn ban<A: FamilyMaps>(source: &A, ban: &PolicyBan, interface: u32) -> bool {
    if A::POLICY_BANS.insert(source, ban, 0).is_err() {
        return false;
    }
    // The ban comes before its bit: user space, which clears bits, looks for bans after it has done
    // so.
    if let Some(filter) = FILTERS.get_ptr_mut(A::FAMILY as u32) {
        set_bit(filter, source.filter_bit());
    }
    report(source, ban, interface);
    true
}

subprograms! {
    /// Takes one of the bans that there may be of such sources in a minute.
    pub fn take_ban(evidence: Evidence, now: Instant) -> bool {
        let Some(words) = BAN_RING.get_ptr_mut(evidence as u32) else {
            return false;
        };
        let ring = BanRing(words);
        let budget = BAN_BUDGETS.get().of(evidence);
        budget.take_with(&ring, now, |slot| bans_of_minute(ring, slot))
    }

    /// [`ban_budget::taken`].
    fn bans_of_minute(ring: BanRing, slot: Slot) -> u64 {
        ban_budget::taken(&ring, slot)
    }
}

/// The bans of a minute, in the element of their map.
#[derive(Clone, Copy)]
pub struct BanRing(pub *mut BanWords);

impl BanRing {
    #[inline(always)]
    fn word(&self, index: u32) -> *mut u64 {
        // SAFETY: the element is live until the program ends, and the mask keeps the index within
        // it.
        unsafe { self.0.cast::<u64>().add((index & (SLOTS - 1)) as usize) }
    }
}

impl AtomicWords for BanRing {
    #[inline(always)]
    fn load(&self, index: u32) -> u64 {
        // SAFETY: an aligned word of a live map value.
        unsafe { atomic::load(self.word(index)) }
    }

    #[inline(always)]
    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(self.word(index), current, new) }
    }
}

#[inline(always)]
pub fn count(result: BanResult) {
    if let Some(tally) = first(&BAN_RESULTS) {
        // SAFETY: an aligned word of a live map value, which has one for each result.
        unsafe {
            let counts = (&raw mut (*tally).results).cast::<u64>();
            interruption::add([(counts.add(result as usize), 1)]);
        }
    }
}

/// Sets a bit of a filter, a live map value.
#[inline(always)]
pub fn set_bit(filter: *mut Filter, bit: u32) {
    // SAFETY: the index is below the number of words, which are aligned, and live until the program
    // ends.
    unsafe {
        atomic::or(
            filter.cast::<u64>().add(<Filter>::index(bit)),
            <Filter>::mask(bit),
        )
    };
}

#[inline(always)]
fn report<A: Address>(source: &A, ban: &PolicyBan, interface: u32) {
    let Some(mut event) = EVENTS.reserve_untyped::<BanEvent>(0) else {
        if let Some(tally) = first(&BAN_RESULTS) {
            // SAFETY: as above.
            unsafe { interruption::add([(&raw mut (*tally).events_lost, 1)]) };
        }
        return;
    };
    let place = event.as_mut_ptr();
    // SAFETY: the place is as large as an event. Field by field, as a whole event would be made on
    // the stack first.
    unsafe {
        (*place).ban = *ban;
        (*place).source = source.octets();
        (*place).interface = interface;
        (*place).family = A::FAMILY as u8;
        (*place).reserved = [0; 3];
    }
    event.submit(0);
}
