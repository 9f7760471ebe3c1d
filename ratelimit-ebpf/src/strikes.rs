//! How often a source was refused by a policy that bans.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{BanRule, Instant};

use crate::{
    map_words::MapWord,
    maps::{self, FamilyMaps},
};

/// Counts a strike of `source` by `rule`, exactly on any number of CPUs. Answers whether a ban is due.
#[inline(always)]
pub fn count<A: FamilyMaps>(source: &A, rule: &BanRule, now: Instant) -> bool {
    find(source).is_some_and(|word| rule.strike(&MapWord(word), now))
}

/// Counts a strike of `source` with which a ban by `rule` is due. Answers whether it bans.
#[inline(always)]
pub fn confirm<A: FamilyMaps>(
    source: &A,
    rule: &BanRule,
    is_connected: bool,
    now: Instant,
) -> bool {
    find(source).is_some_and(|word| rule.confirm(&MapWord(word), is_connected, now))
}

/// The strikes of a source, which are made where it has none; `None` where there is no room.
#[inline(always)]
fn find<A: FamilyMaps>(source: &A) -> Option<*mut u64> {
    A::STRIKES.get_ptr_mut(source).or_else(|| {
        let empty = maps::empty();
        // Where another CPU inserted the source in between, that one is found.
        let _ = A::STRIKES.insert(source, empty, BPF_NOEXIST.into());
        A::STRIKES.get_ptr_mut(source)
    })
}
