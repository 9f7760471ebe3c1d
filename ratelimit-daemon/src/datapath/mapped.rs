//! A BPF array of words in the memory of this process: a write is a store, and no system call.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The words of an array that was made with `BPF_F_MMAPABLE` (kernel 5.5, commit fc9702273e2e).
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory is shared with the kernel anyway, and words are read and written atomically.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the `words` words of an array.
    ///
    /// # Errors
    ///
    /// When it has fewer, was not made for it, or there is no address space.
    pub fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let bytes = words * size_of::<u64>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, and checks the descriptor and the size.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                access,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words })
    }

    /// The words.
    #[must_use]
    pub const fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped as long as this lives, for reading and writing.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The word at `index`.
    #[must_use]
    pub fn load(&self, index: u32) -> u64 {
        self.words()[index as usize].load(Relaxed)
    }

    /// Replaces the word at `index`, whole.
    pub fn store(&self, index: u32, word: u64) {
        self.words()[index as usize].store(word, Relaxed);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the words any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}
