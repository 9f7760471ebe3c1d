//! Errors of maps, with the map that they are of.

use std::io;

use aya::maps::MapError;

use super::{DatapathError, Result};

/// Adds the name of the map to an error, and recognizes a full map.
pub fn failed(
    action: &'static str,
    map: &'static str,
    capacity: u32,
) -> impl Fn(MapError) -> DatapathError {
    move |source| match errno(&source) {
        Some(libc::E2BIG) => DatapathError::Full { map, capacity },
        _ => DatapathError::Failed {
            action,
            map,
            source: source.into(),
        },
    }
}

pub fn unreadable(map: &'static str) -> impl Fn(io::Error) -> DatapathError {
    io_failed("reading", map)
}

pub fn unwritable(map: &'static str) -> impl Fn(io::Error) -> DatapathError {
    io_failed("writing", map)
}

fn io_failed(action: &'static str, map: &'static str) -> impl Fn(io::Error) -> DatapathError {
    move |source| DatapathError::Failed {
        action,
        map,
        source: source.into(),
    }
}

pub fn present<T>(answer: Result<T, MapError>) -> Result<Option<T>, MapError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn is_absent(error: &MapError) -> bool {
    matches!(error, MapError::KeyNotFound | MapError::ElementNotFound)
        || errno(error) == Some(libc::ENOENT)
}

pub fn is_present(error: &MapError) -> bool {
    errno(error) == Some(libc::EEXIST)
}

fn errno(error: &MapError) -> Option<i32> {
    let MapError::SyscallError(error) = error else {
        return None;
    };
    error.io_error.raw_os_error()
}

#[cfg(test)]
mod tests {
    use aya::sys::SyscallError;

    use super::*;

    #[test]
    fn a_full_map_is_distinguished_from_other_failures() {
        check(libc::E2BIG, "the map LISTS_V4 is full: it holds 7 entries");
        check(libc::EPERM, "writing the map LISTS_V4");
    }

    fn check(errno: i32, expected: &str) {
        let io_error = io::Error::from_raw_os_error(errno);
        let error = MapError::SyscallError(SyscallError {
            call: "bpf_map_update_elem",
            io_error,
        });
        assert_eq!(
            failed("writing", "LISTS_V4", 7)(error).to_string(),
            expected
        );
    }
}
