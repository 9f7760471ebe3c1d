//! Reads and writes many elements of a map in few system calls (kernel 5.6, commits cb4d03ab499d
//! and aa2e93b8e58e), which aya lacks.

use std::{
    io,
    num::NonZero,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd},
    thread,
};

use aya::Pod;
use aya_obj::generated::{bpf_attr__bindgen_ty_3, bpf_cmd};

use crate::syscall;

/// The elements requested at first. More if a bucket of a hash map holds more.
const ELEMENTS: usize = 4096;
/// The least number of elements for each thread that writes a map.
const ELEMENTS_OF_THREAD: usize = 1 << 16;
/// The most threads that write a map.
const THREADS_MAX: usize = 4;

/// The position of a scan of a map. The default is its beginning.
#[derive(Clone, Debug, Default)]
pub struct ScanPosition(Option<Vec<u8>>);

impl ScanPosition {
    /// Takes the position from the kernel: the number of a bucket, or a key.
    pub(super) fn at(bytes: Vec<u8>) -> Self {
        Self(Some(bytes))
    }

    /// Returns the position in an array from which a scan continues with `index`. The kernel
    /// expects the index before it.
    pub(super) fn before(index: u32) -> Self {
        let before = index.checked_sub(1);
        before.map_or_else(Self::default, |index| {
            Self::at(index.to_ne_bytes().to_vec())
        })
    }

    /// Returns whether this is the beginning. As the result of a read, it means that the scan is
    /// complete.
    pub fn is_front(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the kernel's position, or `None` at the beginning.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Calls `visit` with every element. Elements that are added or removed during the scan may be
/// missed. In LRU maps, an element may mix old and new words, but each word is consistent.
pub fn for_each<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    mut visit: impl FnMut(K, V),
) -> io::Result<()> {
    to_the_end(|place| for_some(map, place, ELEMENTS, &mut visit))
}

/// Repeats `scan` from the position that it returns, until the map is complete.
pub fn to_the_end<E>(
    mut scan: impl FnMut(&ScanPosition) -> Result<ScanPosition, E>,
) -> Result<(), E> {
    let mut place = ScanPosition::default();
    loop {
        place = scan(&place)?;
        if place.is_front() {
            return Ok(());
        }
    }
}

/// Calls `visit` with up to `elements` elements from a position, or as many more as a bucket holds.
/// Returns where to continue: the beginning after the last one.
pub fn for_some<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    place: &ScanPosition,
    elements: usize,
    mut visit: impl FnMut(K, V),
) -> io::Result<ScanPosition> {
    for_some_parts(map, place, elements, 1, |key, value: &[V]| {
        for value in value {
            visit(key, *value);
        }
    })
}

/// Calls `visit` with the elements of an array in a range of indices, and their number.
pub fn for_range<V: Pod>(
    map: BorrowedFd<'_>,
    indices: Range<u32>,
    visit: impl FnMut(u32, V),
) -> io::Result<()> {
    for_some(
        map,
        &ScanPosition::before(indices.start),
        indices.len(),
        visit,
    )
    .map(drop)
}

/// Like [`for_some`], for values that consist of a number of `parts`, such as words.
pub fn for_some_parts<K: Pod, P: Pod>(
    map: BorrowedFd<'_>,
    place: &ScanPosition,
    mut elements: usize,
    parts: usize,
    mut visit: impl FnMut(K, &[P]),
) -> io::Result<ScanPosition> {
    loop {
        let mut keys = Vec::<K>::with_capacity(elements);
        let mut values = Vec::<P>::with_capacity(keys.capacity() * parts);
        let mut next = vec![0u8; size_of::<K>().max(size_of::<u32>())];
        let answer = lookup(map, place.bytes(), &mut next, &mut keys, &mut values);
        // SAFETY: there is room for a value of each key, and the kernel wrote as many, which are
        // valid for any bytes.
        unsafe { values.set_len(keys.len() * parts) };
        for (key, value) in keys.into_iter().zip(values.chunks_exact(parts)) {
            visit(key, value);
        }
        match answer {
            Ok(()) => return Ok(ScanPosition::at(next)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                return Ok(ScanPosition::default());
            }
            // The next bucket does not fit.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => elements *= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Inserts or replaces elements of a hash map. For many elements, several threads do so, as each
/// mostly waits for memory.
///
/// # Errors
///
/// If the kernel fails, some of the elements were written.
pub fn update<K: Pod + Sync, V: Pod + Sync>(
    map: BorrowedFd<'_>,
    keys: &[K],
    values: &[V],
) -> io::Result<()> {
    assert_eq!(keys.len(), values.len(), "each key has a value");
    if keys.len() <= ELEMENTS_OF_THREAD {
        return update_part(map, keys, values);
    }
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = keys.len().div_ceil(ELEMENTS_OF_THREAD);
    let elements = keys.len().div_ceil(threads.min(cpus).min(THREADS_MAX));
    thread::scope(|scope| {
        let parts = keys.chunks(elements).zip(values.chunks(elements));
        let threads = parts.map(|(keys, values)| scope.spawn(|| update_part(map, keys, values)));
        let threads: Vec<_> = threads.collect();
        let answers = threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"));
        answers.fold(Ok(()), io::Result::and)
    })
}

/// Inserts or replaces elements in one system call. `values` has as many parts for each key as its
/// value has.
pub fn update_part<K: Pod, P: Pod>(
    map: BorrowedFd<'_>,
    keys: &[K],
    values: &[P],
) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let (_, error) = call(bpf_cmd::BPF_MAP_UPDATE_BATCH, map, |batch| {
        batch.keys = keys.as_ptr() as u64;
        batch.values = values.as_ptr() as u64;
        batch.count = count(keys.len());
    });
    error.map_or(Ok(()), Err)
}

/// Removes elements from a hash map. Missing ones are skipped.
///
/// # Errors
///
/// If the kernel fails, some of the elements were removed.
pub fn delete<K: Pod>(map: BorrowedFd<'_>, mut keys: &[K]) -> io::Result<()> {
    while !keys.is_empty() {
        let (done, error) = call(bpf_cmd::BPF_MAP_DELETE_BATCH, map, |batch| {
            batch.keys = keys.as_ptr() as u64;
            batch.count = count(keys.len());
        });
        match error {
            None => return Ok(()),
            // The kernel stops at the first missing key.
            Some(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                keys = keys.get(done + 1..).unwrap_or_default();
            }
            Some(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads keys and values up to the capacity of `keys`, without setting the length of `values`.
/// `ENOENT` marks the end of the map; the elements before it are valid.
fn lookup<K: Pod, P: Pod>(
    map: BorrowedFd<'_>,
    place: Option<&[u8]>,
    next: &mut [u8],
    keys: &mut Vec<K>,
    values: &mut Vec<P>,
) -> io::Result<()> {
    let capacity = keys.capacity();
    let (filled, error) = call(bpf_cmd::BPF_MAP_LOOKUP_BATCH, map, |batch| {
        batch.in_batch = place.map_or(0, |place| place.as_ptr() as u64);
        batch.out_batch = next.as_mut_ptr() as u64;
        batch.keys = keys.as_mut_ptr() as u64;
        batch.values = values.as_mut_ptr() as u64;
        batch.count = count(capacity);
    });
    let errno = error.as_ref().and_then(io::Error::raw_os_error);
    if matches!(errno, None | Some(libc::ENOENT)) {
        // SAFETY: the kernel wrote the number of elements that it filled, which are valid for any
        // bytes.
        unsafe { keys.set_len(filled.min(capacity)) };
    }
    error.map_or(Ok(()), Err)
}

/// Runs a command with attributes that `set` fills with buffers that outlive the call, and returns
/// the number of processed elements.
fn call(
    command: bpf_cmd,
    map: BorrowedFd<'_>,
    set: impl FnOnce(&mut bpf_attr__bindgen_ty_3),
) -> (usize, Option<io::Error>) {
    let mut attributes = syscall::attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let batch = unsafe { &mut attributes.batch };
    set(batch);
    batch.map_fd = map.as_raw_fd().cast_unsigned();
    // SAFETY: the callers meet the condition above.
    let answer = unsafe { syscall::bpf(command, &mut attributes) };
    // SAFETY: as above; the kernel wrote the count.
    (unsafe { attributes.batch.count } as usize, answer.err())
}

fn count(elements: usize) -> u32 {
    u32::try_from(elements).unwrap_or(u32::MAX)
}
