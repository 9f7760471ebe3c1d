//! The refused sources, in this CPU's part of an array.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use ratelimit_common::{
    Instant, SourceKey,
    cpu_state::CpuState,
    refused::{self, Filter, Refused, SETS, WAYS, set_of},
};

use crate::{
    constant::Constant,
    first::first,
    interruption,
    map_words::MapWord,
    maps::{FamilyMaps, OF_CPU},
    subprogram::opaque,
    variable::Variable,
};

/// The sets of a CPU, a power of two: all, unless user space says otherwise.
#[unsafe(no_mangle)]
static REFUSED_SETS: Constant<u32> = Constant::new(SETS);

/// The time until which packets look up the words by which a limit refused a source, in nanoseconds
/// since boot.
#[unsafe(no_mangle)]
static ASKED_UNTIL_NS: Variable = Variable::new();

#[inline(always)]
pub fn count<A: FamilyMaps>(source: &A, now: Instant) {
    if let Some(set) = set_of_this_cpu(source) {
        Refused::count(set, source, now);
    }
}

/// Whether the word by which the only limit of the policy of this scope refused a source before
/// refuses it again, which is counted.
#[inline(always)]
pub fn is_refused_again<A: FamilyMaps>(
    source: &A,
    scope: u32,
    at: Instant,
    cpu_state: Option<*mut CpuState>,
    refuses: impl FnOnce(MapWord) -> bool,
) -> bool {
    // The usual answer first.
    let at_ns = at.as_nanos();
    if at_ns >= ASKED_UNTIL_NS.get() || interruption::is_possible_beside(at_ns) {
        return false;
    }
    if !refused::may_refuse(Instant::from_nanos(opaque(at.as_nanos()))) {
        return false;
    }
    let Some(filter) = filter::<A>(cpu_state) else {
        return false;
    };
    let set = || set_of_this_cpu(source);
    refused::is_refused_again(filter, set, source, scope, at, |word| {
        refuses(MapWord(word))
    })
}

/// Keeps the word by which the only limit of the policy of this scope has refused a source.
#[inline(always)]
pub fn keep_word<A: FamilyMaps>(
    key: &SourceKey<A>,
    word: u64,
    at: Instant,
    cpu_state: Option<*mut CpuState>,
) {
    if !interruption::is_possible()
        && let Some(filter) = filter::<A>(cpu_state)
        && let Some(set) = set_of_this_cpu(key.as_address())
    {
        refused::keep_word(filter, set, key.as_address(), key.scope(), word);
        if let Some(until_ns) = refused::noted(ASKED_UNTIL_NS.get(), at) {
            ASKED_UNTIL_NS.set(until_ns);
        }
    }
}

/// Returns the filter in the state of this CPU, which is looked up if necessary.
#[inline(always)]
fn filter<A: FamilyMaps>(cpu_state: Option<*mut CpuState>) -> Option<&'static mut Filter> {
    let cpu_state = cpu_state.or_else(|| first(&OF_CPU))?;
    // SAFETY: it belongs to this CPU: where programs interrupt each other, none comes here.
    Some(unsafe { &mut (*cpu_state).sources[A::FAMILY as usize].refused })
}

#[inline(always)]
fn set_of_this_cpu<A: FamilyMaps>(source: &A) -> Option<&'static mut [Refused<A>; WAYS]> {
    // SAFETY: the helper has no conditions.
    let cpu = unsafe { bpf_get_smp_processor_id() } as u32;
    let set = A::REFUSED.get_ptr_mut(set_of(source, cpu, REFUSED_SETS.get()))?;
    // SAFETY: the set belongs to this CPU. If programs can interrupt each other, a count may be
    // lost or reported for another source; no packet is judged by it there.
    Some(unsafe { &mut *set })
}
