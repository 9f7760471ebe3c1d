//! Words of a BPF array in the memory of this process: a write is a store instead of a system call.
//!
//! Every mapped page counts as resident in this process, touched or not: the kernel enters all of
//! them at once (`remap_vmalloc_range`). So nothing large is mapped for longer than it is used.

use std::{
    io,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Release},
    },
};

const WORD: usize = size_of::<u64>();

/// Words of an array created with `BPF_F_MMAPABLE` (kernel 5.5, commit fc9702273e2e).
#[derive(Debug)]
pub struct Mapped {
    /// The first word of the first page.
    start: NonNull<AtomicU64>,
    /// The range of usable words in those pages.
    words: Range<usize>,
}

// SAFETY: the memory is shared with the kernel anyway, and words are read and written atomically.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `words` words of an array.
    ///
    /// # Errors
    ///
    /// Fails if it has fewer, was not created for mapping, or there is no address space.
    pub fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        Self::part(map, 0..words)
    }

    /// Maps some words of an array, with the pages that contain them.
    pub fn part(map: BorrowedFd<'_>, words: Range<usize>) -> io::Result<Self> {
        let first_page = words.start / words_of_a_page() * words_of_a_page();
        let words = words.start - first_page..words.end - first_page;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let offset = libc::off_t::try_from(first_page * WORD).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses the address, and checks the descriptor, the offset and the
        // size.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                words.end * WORD,
                access,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words })
    }

    /// Returns the words.
    pub const fn words(&self) -> &[AtomicU64] {
        let count = self.words.end - self.words.start;
        // SAFETY: that many words are mapped while this value exists, for reading and writing.
        unsafe { slice::from_raw_parts(self.start.add(self.words.start).as_ptr(), count) }
    }

    /// Returns the word at `index`.
    pub fn load(&self, index: u32) -> u64 {
        self.words()[index as usize].load(Acquire)
    }

    /// Replaces the word at `index` atomically. A CPU that follows this word sees everything stored
    /// before it: the program derives the index of the next level from the level's width, an
    /// address dependency.
    pub fn store(&self, index: u32, word: u64) {
        self.words()[index as usize].store(word, Release);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the words any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words.end * WORD) };
    }
}

fn words_of_a_page() -> usize {
    // SAFETY: takes no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("pages have a size") / WORD
}
