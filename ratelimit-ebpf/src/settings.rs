//! The settings for all packets.

use ratelimit_common::Settings;

use crate::maps::SETTINGS;

/// The settings; the default ones before the daemon has written any.
#[inline(always)]
pub fn settings() -> Settings {
    // SAFETY: an aligned word of a live map value, which user space may write concurrently.
    unsafe { SETTINGS.as_ptr().read_volatile() }
}
