//! The maps of one address family.

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use aya::{
    Pod,
    maps::{HashMap, MapData, MapError},
};
use ratelimit_common::{
    ListEntry, Record, SourceKey, Strikes, layout::LISTED_MAX, list::PrefixKey,
};

use super::{DatapathError, IpAddress, SourceRow, batch, load::Maps, mapped::Mapped};
use crate::prefix::Prefix;

/// The names of a family's maps.
pub(super) struct Names {
    guard: &'static str,
    lists: &'static str,
    sources: &'static str,
    strikes: &'static str,
}

/// The IPv4 maps.
pub(super) const V4: Names = Names {
    guard: "GUARD_V4",
    lists: "LISTS_V4",
    sources: "SOURCES_V4",
    strikes: "STRIKES_V4",
};

/// The IPv6 maps.
pub(super) const V6: Names = Names {
    guard: "GUARD_V6",
    lists: "LISTS_V6",
    sources: "SOURCES_V6",
    strikes: "STRIKES_V6",
};

/// The maps of the family of `A`.
pub(super) struct FamilyMaps<A>
where
    A: IpAddress,
    PrefixKey<A>: Pod,
    SourceKey<A>: Pod,
{
    names: &'static Names,
    guard: Mapped,
    lists: HashMap<MapData, PrefixKey<A>, ListEntry>,
    lists_fd: OwnedFd,
    sources: HashMap<MapData, SourceKey<A>, Record>,
    sources_fd: OwnedFd,
    strikes: HashMap<MapData, A, Strikes>,
    strikes_fd: OwnedFd,
}

impl<A> FamilyMaps<A>
where
    A: IpAddress,
    PrefixKey<A>: Pod,
    SourceKey<A>: Pod,
{
    pub fn new(maps: &mut Maps<'_>, names: &'static Names) -> anyhow::Result<Self> {
        Ok(Self {
            names,
            guard: maps.mapped(names.guard, A::LEVELS.words() as usize)?,
            lists_fd: maps.descriptor(names.lists)?,
            sources_fd: maps.descriptor(names.sources)?,
            strikes_fd: maps.descriptor(names.strikes)?,
            lists: maps.take(names.lists)?,
            sources: maps.take(names.sources)?,
            strikes: maps.take(names.strikes)?,
        })
    }

    pub const fn guard(&self) -> &Mapped {
        &self.guard
    }

    pub fn set_entry(&mut self, key: PrefixKey<A>, entry: ListEntry) -> Result<(), DatapathError> {
        let answer = self.lists.insert(key, entry, 0);
        answer.map_err(failed("writing", self.names.lists, LISTED_MAX))
    }

    pub fn remove_entry(&mut self, key: PrefixKey<A>) -> Result<(), DatapathError> {
        match self.lists.remove(&key) {
            Err(error) if !is_absent(&error) => {
                Err(failed("removing from", self.names.lists, 0)(error))
            }
            _ => Ok(()),
        }
    }

    pub fn for_each_entry(
        &self,
        mut visit: impl FnMut(Prefix, ListEntry),
    ) -> Result<(), DatapathError> {
        batch::for_each(self.lists_fd.as_fd(), |key: PrefixKey<A>, entry| {
            let prefix = key
                .length()
                .and_then(|length| Prefix::around(key.address().to_std(), length));
            if let Some(prefix) = prefix {
                visit(prefix, entry);
            }
        })
        .map_err(unreadable(self.names.lists))
    }

    pub fn record(&self, source: A, scope: u32) -> Result<Option<Record>, DatapathError> {
        let answer = self.sources.get(&SourceKey::new(source, scope), 0);
        present(answer).map_err(failed("reading", self.names.sources, 0))
    }

    pub fn for_each_source(&self, mut visit: impl FnMut(SourceRow)) -> Result<(), DatapathError> {
        batch::for_each(self.sources_fd.as_fd(), |key: SourceKey<A>, record| {
            visit(SourceRow {
                source: key.address().to_std(),
                scope: key.scope(),
                record,
            });
        })
        .map_err(unreadable(self.names.sources))
    }

    pub fn strikes(&self, source: A) -> Result<Option<Strikes>, DatapathError> {
        present(self.strikes.get(&source, 0)).map_err(failed("reading", self.names.strikes, 0))
    }

    pub fn for_each_struck(
        &self,
        mut visit: impl FnMut(IpAddr, Strikes),
    ) -> Result<(), DatapathError> {
        batch::for_each(self.strikes_fd.as_fd(), |address: A, strikes| {
            visit(address.to_std(), strikes);
        })
        .map_err(unreadable(self.names.strikes))
    }
}

/// Names the map in an error, and tells a full one.
pub(super) fn failed(
    action: &'static str,
    map: &'static str,
    capacity: u32,
) -> impl Fn(MapError) -> DatapathError {
    move |source| match errno(&source) {
        Some(libc::E2BIG) => DatapathError::Full { map, capacity },
        _ => DatapathError::Map {
            action,
            map,
            source,
        },
    }
}

pub(super) fn unreadable(map: &'static str) -> impl Fn(io::Error) -> DatapathError {
    move |source| DatapathError::Read { map, source }
}

pub(super) fn present<T>(answer: Result<T, MapError>) -> Result<Option<T>, MapError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn is_absent(error: &MapError) -> bool {
    matches!(error, MapError::KeyNotFound | MapError::ElementNotFound)
        || errno(error) == Some(libc::ENOENT)
}

fn errno(error: &MapError) -> Option<i32> {
    match error {
        MapError::SyscallError(error) => error.io_error.raw_os_error(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use aya::sys::SyscallError;

    use super::*;

    #[test]
    fn a_full_map_is_told_from_other_failures() {
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
