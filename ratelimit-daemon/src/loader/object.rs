//! The BPF objects that this binary was built with.

/// The object of `ratelimit-ebpf`, as `build.rs` built it: an ELF file, aligned as a parser of ELF wants it.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit"));

/// The object that others load, or call where it is pinned: `entry.rs` of `ratelimit-ebpf`.
pub static ENTRY: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/entry"));
