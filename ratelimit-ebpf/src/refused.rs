//! Which sources were refused, in the part of an array that this CPU has.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use ratelimit_common::{
    Arrival, Instant, Policy,
    refused::{Refused, SETS, WAYS, may_refuse, set_of},
};

use crate::{
    constant::Constant, interruption, maps::FamilyMaps, state::MapWords, subprograms,
    tables::FamilyCode,
};

/// The sets of a CPU, a power of two: all, unless user space says otherwise.
#[unsafe(no_mangle)]
static REFUSED_SETS: Constant<u32> = Constant::new(SETS);

/// Counts a refusal of `source`.
#[inline(always)]
pub fn count<A: FamilyMaps>(source: &A, now: Instant) {
    if let Some(set) = set_of_this_cpu(source) {
        Refused::count(set, source, now);
    }
}

/// Whether the only limit of a policy that counts a packet goes on to refuse a source, by the word by which it did before.
#[inline(always)]
pub fn goes_on<A: FamilyMaps>(source: &A, policy: &Policy, arrival: &Arrival) -> bool {
    let Some(limit) = policy.only_limit() else {
        return false;
    };
    if interruption::is_possible() || !may_refuse(arrival.at) {
        return false;
    }
    let word = set_of_this_cpu(source)
        .and_then(|set| Refused::word(set, source, policy.scope(), arrival.at));
    let Some(word) = word else {
        return false;
    };
    let cost = limit.cost_of_counted(arrival);
    match limit.as_fixed_window() {
        Some(window) => window.step(*word, arrival.at, cost).is_err(),
        None => *word != 0 && subprograms::check_word(limit, word, arrival.at, cost).is_limited(),
    }
}

/// Keeps the word by which the only limit of a policy has refused a source.
#[inline(always)]
pub fn keep_word<A: FamilyCode>(policy: &Policy, words: &MapWords<A>) {
    let source = words.source();
    if policy.only_limit().is_some()
        && !interruption::is_possible()
        && let Some(set) = set_of_this_cpu(source)
    {
        Refused::keep_word(set, source, policy.scope(), words.load_first());
    }
}

#[inline(always)]
fn set_of_this_cpu<A: FamilyMaps>(source: &A) -> Option<&'static mut [Refused<A>; WAYS]> {
    // SAFETY: the helper has no conditions.
    let cpu = unsafe { bpf_get_smp_processor_id() } as u32;
    let set = A::REFUSED.get_ptr_mut(set_of(source, cpu, REFUSED_SETS.get()))?;
    // SAFETY: the set belongs to this CPU. Where programs interrupt each other, a count may be lost or told of another source; no
    // packet is judged by it there.
    Some(unsafe { &mut *set })
}
