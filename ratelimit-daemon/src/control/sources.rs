//! State of sources in the kernel, scanned by another thread.

pub mod evictions;
pub mod read_only_ring;
pub mod scanner;
pub mod snapshot;
