//! Usage that survives a reboot: snapshots of the words of long windows, on disk.
//!
//! A snapshot is taken beside the controller and replaces the one before whole. It is restored into
//! tables that are new, before a program uses them: pinned tables of a running host are newer than
//! any snapshot. Usage whose limits changed is treated as in pinned tables: it is kept under the
//! scope of its policy, and found if that still exists.

mod restore;
mod take;

use std::path::{Path, PathBuf};

pub use self::{
    restore::{Restored, restore},
    take::{Job, Snapshot},
};

/// The snapshot in a state directory.
pub fn file(directory: &Path) -> PathBuf {
    directory.join("usage.snapshot")
}
