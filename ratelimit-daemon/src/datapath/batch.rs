//! Reading and writing many elements of a map in few system calls (kernel 5.6, commits cb4d03ab499d and aa2e93b8e58e), which
//! aya lacks.

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

/// Elements asked for at first; more where a bucket of a hash map holds more.
const ELEMENTS: usize = 4096;
/// So many elements at least are put into a map by one thread.
const ELEMENTS_OF_THREAD: usize = 1 << 16;
/// The most threads that do so.
const THREADS_MAX: usize = 4;

/// Where a scan of a map goes on: at the front by default.
#[derive(Clone, Debug, Default)]
pub struct Place(Option<Vec<u8>>);

impl Place {
    /// The kernel's place in the map: a bucket's number, or a key.
    pub(super) fn at(bytes: Vec<u8>) -> Self {
        Self(Some(bytes))
    }

    /// The place in an array from which a scan goes on with `index`: the kernel is given the one before.
    pub(super) fn before(index: u32) -> Self {
        let before = index.checked_sub(1);
        before.map_or_else(Self::default, |index| {
            Self::at(index.to_ne_bytes().to_vec())
        })
    }

    /// Whether the scan begins there: anew, when it was answered.
    pub fn is_front(&self) -> bool {
        self.0.is_none()
    }

    /// The same; `None` at the front.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Calls `visit` with every element. Elements that come or go meanwhile may be missed; none is seen torn but for LRU maps,
/// whose words are each whole.
pub fn for_each<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    mut visit: impl FnMut(K, V),
) -> io::Result<()> {
    to_the_end(|place| for_some(map, place, ELEMENTS, &mut visit))
}

/// Has `scan` look at all of a map: from the front on, and from each place that it answers, to the end.
pub fn to_the_end<E>(mut scan: impl FnMut(&Place) -> Result<Place, E>) -> Result<(), E> {
    let mut place = Place::default();
    loop {
        place = scan(&place)?;
        if place.is_front() {
            return Ok(());
        }
    }
}

/// Calls `visit` with up to `elements` from a place on, or as many more as a bucket has. It answers where to go on: at the
/// front after the last one.
pub fn for_some<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    place: &Place,
    elements: usize,
    mut visit: impl FnMut(K, V),
) -> io::Result<Place> {
    for_some_parts(map, place, elements, 1, |key, value: &[V]| {
        for value in value {
            visit(key, *value);
        }
    })
}

/// Calls `visit` with the elements of an array at some indices, as many of which there are.
pub fn for_range<V: Pod>(
    map: BorrowedFd<'_>,
    indices: Range<u32>,
    visit: impl FnMut(u32, V),
) -> io::Result<()> {
    for_some(map, &Place::before(indices.start), indices.len(), visit).map(drop)
}

/// The same as [`for_some`] where a value is so many `parts`, such as words.
pub fn for_some_parts<K: Pod, P: Pod>(
    map: BorrowedFd<'_>,
    place: &Place,
    mut elements: usize,
    parts: usize,
    mut visit: impl FnMut(K, &[P]),
) -> io::Result<Place> {
    loop {
        let mut keys = Vec::<K>::with_capacity(elements);
        let mut values = Vec::<P>::with_capacity(keys.capacity() * parts);
        let mut next = vec![0u8; size_of::<K>().max(size_of::<u32>())];
        let answer = lookup(map, place.bytes(), &mut next, &mut keys, &mut values);
        // SAFETY: there is room for a value of each key, and the kernel wrote as many, which are valid for any bytes.
        unsafe { values.set_len(keys.len() * parts) };
        for (key, value) in keys.into_iter().zip(values.chunks_exact(parts)) {
            visit(key, value);
        }
        match answer {
            Ok(()) => return Ok(Place::at(next)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(Place::default()),
            // The next bucket does not fit.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => elements *= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Puts elements into a hash map, or replaces them. Many are put there by several threads: each waits for memory most of the time.
///
/// # Errors
///
/// What the kernel answers. Some of the elements are there then, and some are not.
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

/// The same in one system call, where `values` has as many parts for each key as its value has.
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

/// Takes elements out of a hash map. Those that are not there are passed over.
///
/// # Errors
///
/// What the kernel answers. Some of the elements are gone then, and some are not.
pub fn delete<K: Pod>(map: BorrowedFd<'_>, mut keys: &[K]) -> io::Result<()> {
    while !keys.is_empty() {
        let (done, error) = call(bpf_cmd::BPF_MAP_DELETE_BATCH, map, |batch| {
            batch.keys = keys.as_ptr() as u64;
            batch.count = count(keys.len());
        });
        match error {
            None => return Ok(()),
            // The kernel stops at the first that is not there.
            Some(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                keys = keys.get(done + 1..).unwrap_or_default();
            }
            Some(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `keys` up to their capacity, and what `values` have room for with as many of them, without saying so to `values`. `ENOENT` is the
/// end of the map: what was read before it counts.
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
        // SAFETY: the kernel wrote the number of elements that it filled, which are valid for any bytes.
        unsafe { keys.set_len(filled.min(capacity)) };
    }
    error.map_or(Ok(()), Err)
}

/// Runs a command whose attributes `set` fills with buffers that outlive the call, and answers how many elements were done.
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
    // SAFETY: the callers hold to what is said above.
    let answer = unsafe { syscall::bpf(command, &mut attributes) };
    // SAFETY: as above; the kernel wrote the count.
    (unsafe { attributes.batch.count } as usize, answer.err())
}

fn count(elements: usize) -> u32 {
    u32::try_from(elements).unwrap_or(u32::MAX)
}
