//! Whether the kernel is a real-time one, where programs on one CPU may interrupt each other.

/// Returns whether the kernel was built with `PREEMPT_RT`, according to `uname -v`.
pub fn is_realtime() -> bool {
    let names = rustix::system::uname();
    is_realtime_version(&names.version().to_string_lossy())
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
            is_realtime(),
            std::path::Path::new("/sys/kernel/realtime").exists()
        );
    }
}
