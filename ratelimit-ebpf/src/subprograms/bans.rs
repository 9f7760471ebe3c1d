//! The bans of a minute.

use ratelimit_common::{
    Instant, Standing,
    ban_budget::{self, Slot},
};

use super::unknown;
use crate::{
    detected::{self, BanRing},
    maps::BanWords,
};

/// [`detected::take_ban`].
#[inline(always)]
pub fn take_ban(standing: Standing, now: Instant) -> bool {
    unknown(take_ban_of_minute(now.as_nanos(), standing as u64)) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_ban_of_minute(now_ns: u64, standing: u64) -> u64 {
    let standing = if standing == Standing::Verified as u64 {
        Standing::Verified
    } else {
        Standing::Unverified
    };
    detected::take_ban(standing, Instant::from_nanos(now_ns)).into()
}

/// [`ban_budget::taken`].
#[inline(always)]
pub fn taken(ring: &BanRing, slot: Slot) -> u64 {
    unknown(bans_of_minute(ring.0, slot.0))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn bans_of_minute(words: *mut BanWords, slot: u64) -> u64 {
    // The verifier asks for it.
    if words.is_null() {
        return u64::MAX;
    }
    ban_budget::taken(&BanRing(words), Slot(slot))
}
