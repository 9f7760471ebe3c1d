//! Counts refusals by policies that ban, and the resulting bans.

use core::ptr;

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    BanRule, Cursor, Instant, Policy, policy_ban,
    strikes::{Strike, until_counted},
};

use crate::{
    frame::Context,
    map_words::MapWord,
    maps::{self, FamilyMaps},
    subprogram::on_stack,
    tables::KernelTables,
};

subprograms! {
    /// [`policy_ban::strike`] of a strike at a time.
    pub fn count_strike[count_strike_v4, count_strike_v6]<A>(
        source: &A, policy: Option<&Policy>, at: Instant, strike: StrikeBits
    ) -> bool {
        let tables = KernelTables::without_settings(ptr::null_mut(), at);
        policy_ban::strike(&*on_stack(source), policy, &strike.at(at), &tables)
    }

    /// [`BanRule::confirm`] by the rule of `policy`.
    pub fn confirm_strike[confirm_strike_v4, confirm_strike_v6]<A>(
        source: &A, policy: &Policy, at: Instant, is_connected: bool
    ) -> bool {
        policy.ban().is_some_and(|rule| {
            let word = find(&*on_stack(source));
            word.is_some_and(|word| {
                until_counted(|| confirm_word(rule, MapWord(word), is_connected, at))
            })
        })
    }

    /// [`policy_ban::ban`] of a strike at a time.
    pub fn ban[ban_source_v4, ban_source_v6]<A>(
        context: *mut Context, source: &A, policy: Option<&Policy>, at: Instant, strike: StrikeBits
    ) {
        let tables = KernelTables::without_settings(context, at);
        policy_ban::ban(source, policy, &strike.at(at), &tables);
    }
}

/// A strike, all but its time, in one argument: the limit, and whether it may lead to a ban.
#[derive(Clone, Copy)]
pub struct StrikeBits(pub u64);

impl StrikeBits {
    #[inline(always)]
    pub fn of(strike: &Strike<'_>) -> Self {
        Self(u64::from(strike.may_ban) << 8 | u64::from(strike.limit))
    }

    #[inline(always)]
    fn at(self, at: Instant) -> Strike<'static> {
        Strike {
            at,
            // The frame is read from the context if needed.
            frame: Cursor::new(&[]),
            limit: self.0 as u8,
            may_ban: self.0 >> 8 & 1 != 0,
        }
    }
}

/// Counts a strike of `source` by `rule`, exactly on any number of CPUs. Answers whether a ban is
/// due.
#[inline(always)]
pub fn count<A: FamilyMaps>(source: &A, rule: &BanRule, now: Instant) -> bool {
    find(source).is_some_and(|word| until_counted(|| strike_word(rule, MapWord(word), now)))
}

subprograms! {
    /// [`BanRule::try_strike`], which the verifier follows once, whatever the family and attempt.
    fn strike_word(rule: &BanRule, word: MapWord, now: Instant) -> Option<bool> {
        rule.try_strike(&word, now)
    }

    /// [`BanRule::try_confirm`] likewise.
    fn confirm_word(
        rule: &BanRule, word: MapWord, is_connected: bool, now: Instant
    ) -> Option<bool> {
        rule.try_confirm(&word, is_connected, now)
    }
}

/// Returns the strikes of a source, and creates them if necessary. `None` if there is no room.
#[inline(always)]
fn find<A: FamilyMaps>(source: &A) -> Option<*mut u64> {
    A::STRIKES.get_ptr_mut(source).or_else(|| {
        let empty = maps::empty();
        // If another CPU inserted the source first, that one is found.
        let _ = A::STRIKES.insert(source, empty, BPF_NOEXIST.into());
        A::STRIKES.get_ptr_mut(source)
    })
}
