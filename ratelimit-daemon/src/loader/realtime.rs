//! Whether the kernel is a real-time one, where programs on one CPU may interrupt each other.

use std::{ffi::CStr, io, mem::MaybeUninit};

use anyhow::Context;

/// Whether the kernel was built with `PREEMPT_RT`, as `uname -v` tells.
pub fn is_realtime() -> anyhow::Result<bool> {
    let mut names = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: the place is as large as the kernel writes.
    let result = unsafe { libc::uname(names.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error()).context("asking for the version of the kernel");
    }
    // SAFETY: the kernel has written all of it, and ends each name with a NUL.
    let version = unsafe { CStr::from_ptr(names.assume_init_ref().version.as_ptr()) };
    Ok(is_realtime_version(&version.to_string_lossy()))
}

fn is_realtime_version(version: &str) -> bool {
    version.split(' ').any(|word| word == "PREEMPT_RT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_time_kernel_says_so() {
        assert!(is_realtime_version(
            "#1 SMP PREEMPT_RT Debian 6.12.48-1 (2025-09-20)"
        ));
        for other in [
            "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1 (2025-09-20)",
            "#1 SMP PREEMPT Debian",
        ] {
            assert!(!is_realtime_version(other), "{other}");
        }
        assert_eq!(
            is_realtime().unwrap(),
            std::path::Path::new("/sys/kernel/realtime").exists()
        );
    }
}
