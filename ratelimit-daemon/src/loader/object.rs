//! The BPF object that this binary was built with.

/// The object of `ratelimit-ebpf`, as `build.rs` built it: an ELF file, aligned as a parser of ELF wants it.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit"));
