//! Memory that was used and is free.

/// Gives the memory back that loading took, most of it for the types of the kernel (BTF): glibc
/// would keep it.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers.
    unsafe {
        libc::malloc_trim(0);
    }
}
