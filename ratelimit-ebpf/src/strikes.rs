//! How often a source was refused.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{BanRule, Instant};

use crate::{
    atomic,
    maps::{EMPTY_STRIKES, FamilyMaps},
    state::MapWord,
};

/// Counts a refusal of `source`, exactly on any number of CPUs, and by `rule` if there is one. Answers whether it bans.
#[inline(always)]
pub fn count<A: FamilyMaps>(source: &A, rule: Option<&BanRule>, now: Instant) -> bool {
    let known = A::STRIKES.get_ptr_mut(source).or_else(|| {
        let empty = EMPTY_STRIKES.get(0)?;
        // Where another CPU inserted the source in between, that one is found.
        let _ = A::STRIKES.insert(source, empty, BPF_NOEXIST.into());
        A::STRIKES.get_ptr_mut(source)
    });
    let Some(strikes) = known else {
        return false;
    };
    // SAFETY: the words of a map value are aligned, and live until the program ends.
    let word = unsafe {
        atomic::add(&raw mut (*strikes).packets, 1);
        atomic::store(&raw mut (*strikes).last_ns, now.as_nanos());
        &raw mut (*strikes).word
    };
    rule.is_some_and(|rule| rule.strike(&MapWord(word), now))
}
