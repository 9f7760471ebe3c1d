//! Errors of maps, with the map that they are of.

use std::io;

use super::{DatapathError, backend::Backend};

/// Adds the name of the map to an error of a read.
pub fn unreadable(map: &'static str) -> impl Fn(io::Error) -> DatapathError {
    failed("reading", map)
}

/// Adds the name of the map to an error of a write, and recognizes a full map.
pub fn unwritable(name: &'static str, map: &dyn Backend) -> impl Fn(io::Error) -> DatapathError {
    move |source| match source.raw_os_error() {
        Some(libc::E2BIG) => DatapathError::Full {
            map: name,
            capacity: map.size().capacity,
        },
        _ => failed("writing", name)(source),
    }
}

fn failed(action: &'static str, map: &'static str) -> impl Fn(io::Error) -> DatapathError {
    move |source| DatapathError::Failed {
        action,
        map,
        source: source.into(),
    }
}
