//! The memory of this machine.

use std::fs;

/// Returns how much memory is available without swapping, as `/proc/meminfo` estimates it.
pub fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_how_much_memory_is_available() {
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
