//! What the kernel keeps of sources, scanned beside the controller.

pub mod evictions;
pub mod history;
pub mod read_only_ring;
pub mod scanner;
pub mod snapshot;
