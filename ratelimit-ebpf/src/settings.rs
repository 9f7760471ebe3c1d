//! What holds for all packets.

use ratelimit_common::Settings;

use crate::first::First as _;
use crate::maps::SETTINGS;

/// The settings; the default ones before the daemon has written any.
#[inline(always)]
pub fn settings() -> Settings {
    SETTINGS.first().copied().unwrap_or_default()
}
