//! Resources of the process: its standard metrics, from the kernel.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Resources of the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Process {
    /// Memory that is in RAM.
    pub resident_bytes: u64,
    /// Addresses that are in use.
    pub virtual_bytes: u64,
    /// File descriptors that are open.
    pub open_fds: u64,
    /// The limit of open descriptors.
    pub max_fds: u64,
}

impl Process {
    /// This process; `None` where there is no `/proc`.
    pub fn this() -> Option<Self> {
        let statm = fs::read_to_string("/proc/self/statm").ok()?;
        let mut pages = statm.split(' ').map(str::parse::<u64>);
        let (virtual_pages, resident_pages) = (pages.next()?.ok()?, pages.next()?.ok()?);
        // The directory is read by a descriptor of its own.
        let open_fds = fs::read_dir("/proc/self/fd").ok()?.count() as u64 - 1;
        Some(Self {
            resident_bytes: resident_pages * page_bytes(),
            virtual_bytes: virtual_pages * page_bytes(),
            open_fds,
            max_fds: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        })
    }
}

/// Raises the limit of open descriptors as far as permitted. The default of 1024 is for programs
/// that call `select`.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, "cannot raise the limit of open files");
    }
}

fn page_bytes() -> u64 {
    // SAFETY: takes no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn as_many_descriptors_as_permitted_may_be_open() {
        let limit = getrlimit(Resource::Nofile);
        let few = Rlimit {
            current: Some(1000),
            ..limit
        };
        setrlimit(Resource::Nofile, few).unwrap();
        raise_descriptor_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    }

    #[test]
    fn this_process_takes_memory_and_descriptors() {
        let before = Process::this().unwrap();
        let files: Vec<File> = (0..20).map(|_| File::open("/dev/null").unwrap()).collect();
        let after = Process::this().unwrap();
        drop(files);
        // Other tests of this process open and close files at the same time.
        assert!(
            after.open_fds >= before.open_fds.min(3) + 20,
            "{before:?}, {after:?}"
        );
        assert!(after.max_fds >= after.open_fds && after.resident_bytes > 1 << 20);
        assert!(after.virtual_bytes >= after.resident_bytes);
    }
}
