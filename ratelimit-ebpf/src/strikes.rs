//! How often a source was refused.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    BanRule, Instant, Strikes,
    strikes::pending::{self, Pending},
};

use crate::{
    atomic,
    maps::{EMPTY_STRIKES, FamilyMaps},
    state::MapWord,
};

/// Counts a refusal of `source` that leads to no ban among those that this CPU keeps back; `false` where that takes [`count`].
#[inline(always)]
pub fn keep_back<A: FamilyMaps>(source: &A, now: Instant) -> bool {
    slot(source).is_some_and(|slot| slot.count(source, now.as_nanos()))
}

/// Counts a refusal of `source`, exactly on any number of CPUs, and by `rule` if there is one. Answers whether it bans.
#[inline(always)]
pub fn count<A: FamilyMaps>(source: &A, rule: Option<&BanRule>, now: Instant) -> bool {
    let Some(rule) = rule else {
        begin(source, now);
        return false;
    };
    let Some(strikes) = find(source) else {
        return false;
    };
    add(strikes, 1, now.as_nanos());
    // SAFETY: the words of a map value are aligned, and live until the program ends.
    let word = unsafe { &raw mut (*strikes).word };
    rule.strike(&MapWord(word), now)
}

/// Adds what the slot of `source` keeps back, whosever it is, to the strikes, and keeps back this one in its place.
#[inline(always)]
fn begin<A: FamilyMaps>(source: &A, now: Instant) {
    let Some(slot) = slot(source) else {
        return;
    };
    if let Some(before) = slot.source::<A>() {
        let Some(strikes) = find(&before) else {
            return;
        };
        add(strikes, slot.packets(), slot.last_ns());
    }
    *slot = Pending::first(source, now.as_nanos());
}

#[inline(always)]
fn slot<A: FamilyMaps>(source: &A) -> Option<&'static mut Pending> {
    let slots = A::PENDING.get_ptr_mut(0)?.cast::<Pending>();
    // SAFETY: the index is below the number of slots, which belong to this CPU: XDP programs do not interrupt each other on one.
    Some(unsafe { &mut *slots.add(pending::slot_of(source)) })
}

/// The strikes of a source, which are made where it has none; `None` where there is no room.
#[inline(always)]
fn find<A: FamilyMaps>(source: &A) -> Option<*mut Strikes> {
    A::STRIKES.get_ptr_mut(source).or_else(|| {
        let empty = EMPTY_STRIKES.get(0)?;
        // Where another CPU inserted the source in between, that one is found.
        let _ = A::STRIKES.insert(source, empty, BPF_NOEXIST.into());
        A::STRIKES.get_ptr_mut(source)
    })
}

#[inline(always)]
fn add(strikes: *mut Strikes, packets: u64, at_ns: u64) {
    // SAFETY: the words of a map value are aligned, and live until the program ends.
    unsafe {
        atomic::add(&raw mut (*strikes).packets, packets);
        let last = &raw mut (*strikes).last_ns;
        if atomic::load(last) < at_ns {
            atomic::store(last, at_ns);
        }
    }
}
