//! Configurations beside the one in force: what was read, what is different, what to warn of, and what to fall back to.

pub mod candidate;
pub mod diff;
pub mod last_good;
pub mod syncookies;
pub mod trial_permission;
pub mod trial_record;
pub mod warnings;
