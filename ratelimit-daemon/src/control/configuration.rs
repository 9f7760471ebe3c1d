//! Configurations besides the one in force: candidates, differences, warnings, and the fallback.

pub mod candidate;
pub mod diff;
pub mod last_good;
pub mod syncookies;
pub mod trial_permission;
pub mod trial_record;
pub mod warnings;
